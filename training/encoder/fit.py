"""The training loop."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as f

from .batches import UNASKED, Batch, Epoch, epoch_lines
from .lines import Line
from .network import Network
from .score import logits, of_network
from .settings import Settings


@dataclass(frozen=True)
class Progress:
    """Where a run tells how far it is, and what it does to keep the network after each epoch."""

    say: Callable[[str], None]
    keep: Callable[[], None]


# Benign lines that are looked through for hard ones after an epoch.
LOOKED_THROUGH = 9000
# A line is said about the progress after so many batches.
EVERY = 100


def loss_of(network: Network, teachers: list[Network], batch: Batch, settings: Settings) -> Tensor:
    """Cross entropy of both outputs, an attack's lead over its twin, and what teachers say."""
    found = network(batch.ids, batch.mask)
    asked = batch.targets != UNASKED
    each = f.binary_cross_entropy_with_logits(found, batch.targets.clamp(min=0), reduction="none")
    weight = batch.weights[:, None] * asked
    loss = (each * weight).sum() / weight.sum()
    if len(batch.attacks):
        lead = found[batch.attacks, 1] - found[batch.twins, 1]
        share = 2 * len(batch.attacks) / len(batch.ids)
        loss = loss + settings.pair_weight * share * f.softplus(settings.pair_margin - lead).mean()
    if teachers:
        with torch.no_grad():
            taught = torch.stack([one(batch.ids, batch.mask) for one in teachers]).mean(0).sigmoid()
        loss = loss + settings.teacher_weight * f.binary_cross_entropy_with_logits(found, taught)
    return loss


def optimizer_of(network: Network, settings: Settings) -> torch.optim.Optimizer:
    new, kept, free = [], [], []
    for name, parameter in network.named_parameters():
        if name.startswith(("new_tokens", "outputs")):
            new.append(parameter)
        elif parameter.ndim > 1 and name.startswith("layers"):
            kept.append(parameter)
        else:
            free.append(parameter)
    groups = [
        {"params": new, "lr": settings.new_rate, "weight_decay": 0.0},
        {"params": kept, "lr": settings.rate, "weight_decay": settings.weight_decay},
        {"params": free, "lr": settings.rate, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6)


@dataclass(frozen=True)
class School:
    """The network that learns, and those that it learns from."""

    network: Network
    teachers: list[Network]


def fit(
    school: School, tokenizer: Tokenizer, lines: list[Line], settings: Settings, run: int, progress: Progress
) -> None:
    """The run of that number, from 0."""
    network, n_epochs = school.network, settings.epochs[run]
    random_ = random.Random(settings.seed + run)
    device = next(network.parameters()).device
    optimizer = optimizer_of(network, settings)
    epochs = Epoch(settings, tokenizer, random_)
    schedule, mined = None, []
    for epoch in range(n_epochs):
        batches = epochs.batches(epoch_lines(lines, mined, random_))
        if schedule is None:
            # Later epochs are longer by the mined lines only.
            schedule = schedule_of(optimizer, settings, int(len(batches) * n_epochs * 1.1))
        progress.say(f"epoch {epoch + 1}: {len(batches)} batches, {sum(len(one.ids) for one in batches)} lines")
        network.train()
        run_epoch(school, optimizer, schedule, [moved(one, device) for one in batches], settings, progress)
        progress.keep()
        if epoch + 1 < n_epochs:
            mined = hardest(network, tokenizer, lines, settings, random_)
            progress.say(f"mined {len(mined)} benign lines")


def schedule_of(optimizer: torch.optim.Optimizer, settings: Settings, steps: int):
    first = max(1, int(steps * settings.warmup))

    def factor(step: int) -> float:
        return min((step + 1) / first, max(0.02, (steps - step) / (steps - first)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def run_epoch(
    school: School, optimizer, schedule, batches: list[Batch], settings: Settings, progress: Progress
) -> None:
    started, total = time.monotonic(), 0.0
    for count, batch in enumerate(batches, 1):
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=settings.half):
            loss = loss_of(school.network, school.teachers, batch, settings)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(school.network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        total += loss.item()
        if count % EVERY == 0 or count == len(batches):
            said = count % EVERY or EVERY
            progress.say(f"  {count}/{len(batches)} loss {total / said:.4f} after {time.monotonic() - started:.0f} s")
            total = 0.0


def moved(batch: Batch, device: torch.device) -> Batch:
    return Batch(**{name: value.to(device) for name, value in vars(batch).items()})


def hardest(network: Network, tokenizer: Tokenizer, lines: list[Line], settings: Settings, random_) -> list[Line]:
    """The benign lines that look most like attacks to the network. Twins are shown anyway."""
    benign = [line for line in lines if not line.label and not line.pair]
    looked = random_.sample(benign, min(LOOKED_THROUGH, len(benign)))
    found = logits(of_network(network, settings.half), tokenizer, [line.text for line in looked])
    order = np.argsort(-found.max(axis=1), kind="stable")
    return [looked[index] for index in order[: min(settings.mined, len(looked) // 5)]]
