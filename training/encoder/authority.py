"""The third output of the encoder, authority: whether an entry gives somebody outside power that the owner did
not give.

`python -m encoder.authority train`, then `export`, and `logits` when it is packed. It reads a pair: the kind of source and what was asked, then the entry. It
shares the token table and the lowest layers with what is shipped (`models/encoder.onnx.zst`), which stay as they
are, bit by bit, and has layers of its own above them, which begin as copies. So the other two outputs cannot get
worse, and nothing has to be replayed. What is made of it is `models/authority.onnx.zst`.
"""

import argparse
import json
import random
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as f

from . import scenarios, vocabulary
from .base import HIDDEN
from .batches import padded
from .graph import OPSET, Graph, array, layer_of, mask_bias
from .graph import pooled as pool_of
from .network import EPSILON, MASKED, Layer, pooled
from .scenarios import ITEM, OUTSIDE, WHOLE, Sample
from .score import MAX_SENTENCES, ids_of
from .sentences import sentences
from .settings import TRAINING
from .vocabulary import END, START

MODELS = TRAINING.parent / "models"
# What the run time reads: of kind and question together, and in all (src/detect/model/context.rs).
MAX_CONTEXT, MAX_TOKENS = 40, 128
# Authors that are never trained on: their entries calibrate and set the limits.
LEFT_OUT = ("f", "h", "k", "p")


@dataclass(frozen=True)
class Plan:
    """Every number that the run depends on."""

    seed: int = 20261123
    # Layers from below that are shared with the other two outputs.
    shared: int = 1
    epochs: int = 3
    # Stops after so many of them, 0 for all.
    stop: int = 0
    batch_tokens: int = 1536
    rate: float = 1.2e-4
    output_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.06
    dropout: float = 0.1
    keep_weight: float = 1.2
    pair_weight: float = 0.5
    pair_margin: float = 2.0
    label_smoothing: float = 0.02
    # Share of scenarios that are shown as if nothing had been asked, twins alike: authors left the question
    # out more often on one side.
    asked_dropped: float = 0.15
    # Share that is shown with another kind of outside source, or with none.
    kind_changed: float = 0.06
    # Share of the owner's own entries that an epoch shows: they are all to be kept and easily learned.
    owner_share: float = 0.3
    # Of the lines of a note, besides those that must go, so many of those that stay.
    items: int = 1
    threads: int = 1
    limit: int = 0


class Reader(nn.Module):
    """Own layers over the shared ones, and one logit."""

    def __init__(self, file: "File", plan: Plan) -> None:
        super().__init__()
        n_layers = file.n_layers()
        self.register_buffer("tokens", torch.from_numpy(file.tokens()), persistent=False)
        self.register_buffer("positions", torch.from_numpy(file.floats("positions")), persistent=False)
        self.embedded_norm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        file.norm(self.embedded_norm, "hidden.0")
        self.below = nn.ModuleList(file.layer(index, 0.0) for index in range(1, plan.shared + 1))
        self.layers = nn.ModuleList(file.layer(index, plan.dropout) for index in range(plan.shared + 1, n_layers + 1))
        for part in (self.embedded_norm, self.below):
            part.requires_grad_(False)
        # Begins as the poison output: what is poison in memory is what authority is often used for.
        self.output = nn.Linear(2 * HIDDEN, 1)
        self.output.weight.data = torch.from_numpy(file.floats("logits.weight")[:, 1:2].T.copy())
        self.output.bias.data = torch.from_numpy(file.floats("logits.bias")[1:2].copy())

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        bias = ((1.0 - mask.float()) * MASKED)[:, None, None, :]
        with torch.no_grad():
            states = self.embedded_norm(f.embedding(ids, self.tokens) + self.positions[: ids.shape[1]])
            for layer in self.below:
                states = layer(states, bias)
        for layer in self.layers:
            states = layer(states, bias)
        return self.output(pooled(states, mask))[:, 0]


def unpacked(path: Path) -> bytes:
    return subprocess.run(["zstd", "-dc", str(path)], stdout=subprocess.PIPE, check=True).stdout


class File:
    """The shipped encoder, its bytes made floats again."""

    def __init__(self, path: Path) -> None:
        self.model = onnx.load_model_from_string(unpacked(path))
        self.tensors = {one.name: numpy_helper.to_array(one) for one in self.model.graph.initializer}

    def n_layers(self) -> int:
        return len({name.split(".")[1] for name in self.tensors if name.startswith("layer.")})

    def floats(self, name: str) -> np.ndarray:
        return self.tensors[name].astype(np.float32)

    def tokens(self) -> np.ndarray:
        zero = self.floats("tokens_zero_point")
        return (self.floats("tokens_quantized") - zero) * self.floats("tokens_scale")

    def matrix(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        weight = self.floats(f"{name}.weight_quantized") * self.floats(f"{name}.weight_scale")[None, :]
        return weight.T, self.floats(f"{name}.bias")

    def layer(self, index: int, dropout: float) -> Layer:
        made, name = Layer(dropout), f"layer.{index}"
        # The file has the query divided already.
        factors = ((HIDDEN / 12) ** 0.5, 1.0, 1.0)
        three = [self.matrix(f"{name}.{part}") for part in ("query", "key", "value")]
        weights = [weight * factor for (weight, _), factor in zip(three, factors, strict=True)]
        biases = [bias * factor for (_, bias), factor in zip(three, factors, strict=True)]
        fill(made.query_key_value, np.concatenate(weights), np.concatenate(biases))
        for part in ("attended", "widened", "narrowed"):
            fill(getattr(made, part), *self.matrix(f"{name}.{part}"))
        self.norm(made.attended_norm, f"{name}.attended.norm")
        self.norm(made.narrowed_norm, f"hidden.{index}")
        return made

    def norm(self, module: nn.LayerNorm, name: str) -> None:
        fill(module, self.floats(f"{name}.weight"), self.floats(f"{name}.bias"))


def fill(module: nn.Module, weight: np.ndarray, bias: np.ndarray) -> None:
    module.weight.data = torch.from_numpy(np.ascontiguousarray(weight, dtype=np.float32))
    module.bias.data = torch.from_numpy(np.ascontiguousarray(bias, dtype=np.float32))


def pair_ids(tokenizer: Tokenizer, kind: str, asked: str, text: str) -> list[int]:
    """Start, context, end, entry, end: the context cut to `MAX_CONTEXT`, the entry to what is left."""
    context = tokenizer.encode(f"{kind}. asked: {asked}", add_special_tokens=False).ids[: MAX_CONTEXT - 2]
    entry = tokenizer.encode(text, add_special_tokens=False).ids[: MAX_TOKENS - len(context) - 3]
    return [START, *context, END, *entry, END]


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    mask: Tensor
    targets: Tensor
    weights: Tensor
    above: Tensor
    below: Tensor


class Lessons:
    """What an epoch shows: scenarios with their twins, and the lines of notes beside each other."""

    def __init__(self, samples: list[Sample], tokenizer: Tokenizer, plan: Plan, random_: random.Random) -> None:
        self.tokenizer, self.plan, self.random = tokenizer, plan, random_
        groups: dict[str, dict[str, list[Sample]]] = {}
        for one in samples:
            groups.setdefault(one.pair or one.scenario, {}).setdefault(one.scenario, []).append(one)
        self.groups = list(groups.values())

    def batches(self) -> list[Batch]:
        units = [unit for group in self.groups if (unit := self.unit(group))]
        self.random.shuffle(units)
        units.sort(key=lambda unit: max(len(ids) for ids, _, _ in unit) + self.random.uniform(0, 8))
        made, held, longest = [], [], 0
        for unit in units:
            size = max(len(ids) for ids, _, _ in unit)
            rows = sum(len(one) for one in held) + len(unit)
            if held and rows * max(longest, size) > self.plan.batch_tokens:
                made.append(self.packed(held))
                held, longest = [], 0
            held.append(unit)
            longest = max(longest, size)
        if held:
            made.append(self.packed(held))
        self.random.shuffle(made)
        return made

    def unit(self, group: dict[str, list[Sample]]) -> list[tuple[list[int], int, float]]:
        no_question = self.random.random() < self.plan.asked_dropped
        change = self.random.random() < self.plan.kind_changed
        rows = []
        for held in group.values():
            if held[0].kind == "owner" and not held[0].pair and self.random.random() >= self.plan.owner_share:
                continue
            for one in self.chosen(held):
                kind = one.kind
                if change and kind in OUTSIDE:
                    kind = self.random.choice((*OUTSIDE, "unknown"))
                ids = pair_ids(self.tokenizer, kind, "" if no_question else one.asked, one.text)
                rows.append((ids, one.label, 1.0 if one.label else self.plan.keep_weight))
        return rows

    def chosen(self, held: list[Sample]) -> list[Sample]:
        whole = [one for one in held if one.part == WHOLE]
        items = [one for one in held if one.part == ITEM]
        if not items:
            return whole
        out = [one for one in items if one.label]
        stay = [one for one in items if not one.label]
        kept = self.random.sample(stay, min(self.plan.items, len(stay)))
        return (whole if self.random.random() < 0.5 else []) + out + kept

    def packed(self, units: list[list[tuple[list[int], int, float]]]) -> Batch:
        rows, above, below = [], [], []
        for unit in units:
            at = len(rows)
            rows += unit
            labels = [label for _, label, _ in unit]
            for high, one in enumerate(labels):
                for low, other in enumerate(labels):
                    if one > other:
                        above.append(at + high)
                        below.append(at + low)
        ids, mask = padded([ids for ids, _, _ in rows])
        smooth = self.plan.label_smoothing
        return Batch(
            ids,
            mask,
            torch.tensor([abs(label - smooth) for _, label, _ in rows]),
            torch.tensor([weight for _, _, weight in rows]),
            torch.tensor(above, dtype=torch.long),
            torch.tensor(below, dtype=torch.long),
        )


def loss_of(network: Reader, batch: Batch, plan: Plan) -> Tensor:
    found = network(batch.ids, batch.mask)
    each = f.binary_cross_entropy_with_logits(found, batch.targets, reduction="none")
    loss = (each * batch.weights).sum() / batch.weights.sum()
    if len(batch.above):
        lead = found[batch.above] - found[batch.below]
        share = min(1.0, 2 * len(batch.above) / len(batch.ids))
        loss = loss + plan.pair_weight * share * f.softplus(plan.pair_margin - lead).mean()
    return loss


def scored(network: Reader, tokenizer: Tokenizer, samples: list[Sample]) -> np.ndarray:
    network.eval()
    rows = [pair_ids(tokenizer, one.kind, one.asked, one.text) for one in samples]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    found = np.zeros(len(rows), dtype=np.float32)
    with torch.inference_mode():
        for at in range(0, len(order), 48):
            part = order[at : at + 48]
            ids, mask = padded([rows[index] for index in part])
            found[part] = network(ids, mask).numpy()
    return found


def figures(samples: list[Sample], found: np.ndarray) -> str:
    """How much of what must go is found at some shares of what stays, outside sources alone."""
    said = []
    for part in (WHOLE, ITEM):
        chosen = [n for n, one in enumerate(samples) if one.part == part and one.kind in OUTSIDE]
        labels = np.array([samples[n].label for n in chosen], dtype=bool)
        logits = found[chosen]
        if labels.all() or not labels.any():
            continue
        keep = np.sort(logits[~labels])[::-1]
        shares = [float((logits[labels] > keep[int(len(keep) * rate)]).mean()) for rate in (0.02, 0.035, 0.05, 0.1)]
        better = (logits[labels][:, None] > keep[None, :]).mean()
        said.append(f"{part} {labels.sum()}/{(~labels).sum()} auc {better:.3f} " + " ".join(f"{x:.2f}" for x in shares))
    owner = [n for n, one in enumerate(samples) if one.kind == "owner"]
    if owner:
        said.append(f"owner median {np.median(found[owner]):.1f} highest {found[owner].max():.1f}")
    return "; ".join(said)


class Work:
    def __init__(self, args: argparse.Namespace, plan: Plan) -> None:
        self.args, self.plan = args, plan
        self.folder: Path = args.made
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = vocabulary.tokenizer(vocabulary.read(MODELS / "vocabulary.txt"))
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self.started:6.0f}s] {text}"
        print(line, flush=True)
        with (self.folder / "authority.log").open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    def samples(self, only: tuple[str, ...] = ()) -> list[Sample]:
        found = [one for folder in self.args.data for one in scenarios.read(folder, self.args.fold, only)]
        return found[: self.plan.limit or None]

    def train(self) -> None:
        plan = self.plan
        self.say(json.dumps(asdict(plan)))
        samples = self.samples()
        held = [one for one in samples if one.author in LEFT_OUT]
        own = [one for one in samples if one.author not in LEFT_OUT]
        if self.args.authors:
            own = [one for one in own if one.author in self.args.authors]
        authors = sorted({one.author for one in own})
        self.say(f"{len(own)} samples by {len(authors)} authors ({' '.join(authors)}), {len(held)} left out")
        torch.manual_seed(plan.seed)
        network = Reader(File(MODELS / "encoder.onnx.zst"), plan)
        if self.args.begin:
            network.load_state_dict(torch.load(self.args.begin, weights_only=True))
        random_ = random.Random(plan.seed)
        lessons = Lessons(own, self.tokenizer, plan, random_)
        groups = [
            {"params": network.output.parameters(), "lr": plan.output_rate, "weight_decay": 0.0},
            {"params": network.layers.parameters(), "lr": plan.rate, "weight_decay": plan.weight_decay},
        ]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6)
        batches = lessons.batches()
        steps = len(batches) * plan.epochs
        first = max(1, int(steps * plan.warmup))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / first, max(0.02, (steps - step) / (steps - first)))
        )
        for epoch in range(plan.stop or plan.epochs):
            batches = batches if epoch == 0 else lessons.batches()
            self.say(f"epoch {epoch + 1}: {len(batches)} batches, {sum(len(one.ids) for one in batches)} texts")
            self.epoch(network, optimizer, schedule, batches)
            torch.save(network.state_dict(), self.folder / "authority.pt")
            self.say(figures(held, scored(network, self.tokenizer, held)))

    def network(self) -> Reader:
        network = Reader(File(MODELS / "encoder.onnx.zst"), self.plan)
        network.load_state_dict(torch.load(self.folder / "authority.pt", weights_only=True))
        return network.eval()

    def export(self) -> None:
        """Writes `authority.onnx` and what another run time has to reproduce."""
        network, path = self.network(), self.args.models / "authority.onnx"
        with tempfile.TemporaryDirectory() as place:
            plain = Path(place) / "plain.onnx"
            onnx.save(exported(network), plain)
            quantize_dynamic(
                plain,
                path,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=["authority.product", "pool.first"],
            )
        self.say(f"{path.name}: {path.stat().st_size} bytes")
        held = self.samples(LEFT_OUT)
        chosen = random.Random(self.plan.seed).sample(held, min(40, len(held)))
        self.reference(path, chosen)

    def logits(self) -> None:
        """What the shipped files say of the entries that were left out, for the fusion: one JSON object a line, each
        logit for all of a text and for its most suspicious sentence."""
        shipped = File(MODELS / "encoder.onnx.zst").model
        below = f"hidden.{self.plan.shared}"
        shipped.graph.output.append(onnx.ValueInfoProto(name=below))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.plan.threads
        lower, upper = (
            onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            for model in (shipped.SerializeToString(), unpacked(self.args.models / "authority.onnx.zst"))
        )

        def alone(text: str) -> list[float]:
            ids, mask = padded([ids_of(self.tokenizer, text)])
            return lower.run(["logits"], {"ids": ids.numpy(), "mask": mask.numpy()})[0][0].tolist()

        def behind(one: Sample, text: str) -> float:
            ids, mask = padded([pair_ids(self.tokenizer, one.kind, one.asked, text)])
            states = lower.run([below], {"ids": ids.numpy(), "mask": mask.numpy()})[0]
            return float(upper.run(["authority"], {"states": states, "mask": mask.numpy()})[0][0, 0])

        held = [one for one in self.samples(LEFT_OUT) if one.kind in OUTSIDE]
        # A note is judged line by line.
        notes = {one.scenario for one in held if one.part == ITEM}
        held = [one for one in held if one.part == ITEM or one.scenario not in notes]
        with (self.folder / "authority-logits.jsonl").open("w", encoding="utf-8") as file:
            for one in held:
                parts = sentences(one.text)[:MAX_SENTENCES] or [one.text]
                said = {
                    "id": one.id,
                    "authority": [behind(one, one.text), max(behind(one, part) for part in parts)],
                    "whole": alone(one.text),
                    "sentence": np.max([alone(part) for part in parts], axis=0).tolist(),
                }
                file.write(json.dumps(said) + "\n")
        self.say(f"{len(held)} entries scored")

    def reference(self, path: Path, samples: list[Sample]) -> None:
        """Kind, question, text, ids and the logit that onnxruntime gives, one JSON object a line.

        The states below come from the encoder as it is shipped, quantised products included.
        """
        shipped = File(MODELS / "encoder.onnx.zst").model
        below = f"hidden.{self.plan.shared}"
        shipped.graph.output.append(onnx.ValueInfoProto(name=below))
        lower = onnxruntime.InferenceSession(shipped.SerializeToString(), providers=["CPUExecutionProvider"])
        upper = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        with self.args.reference.open("w", encoding="utf-8") as file:
            for one in samples:
                ids, mask = padded([pair_ids(self.tokenizer, one.kind, one.asked, one.text)])
                states = lower.run([below], {"ids": ids.numpy(), "mask": mask.numpy()})[0]
                found = upper.run(["authority"], {"states": states, "mask": mask.numpy()})[0][0, 0]
                line = {"kind": one.kind, "asked": one.asked, "text": one.text, "ids": ids[0].tolist()}
                line["authority"] = round(float(found), 5)
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def epoch(self, network: Reader, optimizer, schedule, batches: list[Batch]) -> None:
        network.train()
        began, total = time.monotonic(), 0.0
        for count, batch in enumerate(batches, 1):
            loss = loss_of(network, batch, self.plan)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            total += loss.item()
            if count % 25 == 0 or count == len(batches):
                self.say(f"  {count}/{len(batches)} loss {total / (count % 25 or 25):.4f} after {time.monotonic() - began:.0f} s")
                total = 0.0


def exported(network: Reader) -> onnx.ModelProto:
    """The own layers as a graph (see `graph`): from the states that the shared layers leave to one logit."""
    made = Graph()
    bias = mask_bias(made)
    states = "states"
    for index, layer in enumerate(network.layers, len(network.below) + 1):
        states = layer_of(made, layer, states, bias, index)
    made.linear(pool_of(made, states), array(network.output.weight), array(network.output.bias), "authority")
    inputs = [
        helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "length", HIDDEN]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "length"]),
    ]
    outputs = [helper.make_tensor_value_info("authority", TensorProto.FLOAT, ["batch", 1])]
    graph = helper.make_graph(made.nodes, "memfw-authority", inputs, outputs, made.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="memfw")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def plan_from(args: argparse.Namespace) -> Plan:
    types = {one.name: one.type for one in fields(Plan)}
    changed = {}
    for one in args.set:
        name, _, value = one.partition("=")
        if name not in types:
            raise SystemExit(f"error: there is no setting `{name}`")
        changed[name] = type(getattr(Plan, name))(value)
    return replace(Plan(), **changed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="encoder.authority", description=__doc__)
    parser.add_argument("step", choices=("train", "export", "logits"))
    parser.add_argument("--data", type=Path, nargs="+", default=[TRAINING / "data/scenarios"])
    parser.add_argument("--made", type=Path, default=TRAINING / "made")
    parser.add_argument("--models", type=Path, default=MODELS, help="where the file goes")
    parser.add_argument("--reference", type=Path, default=TRAINING.parent / "fixtures/encoder/authority.jsonl")
    parser.add_argument("--fold", default="", help="command that folds texts, JSON strings in and out")
    parser.add_argument("--authors", nargs="+", help="train on these alone")
    parser.add_argument("--begin", type=Path, help="weights of an earlier run to go on from")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    plan = plan_from(args)
    torch.set_num_threads(plan.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    work = Work(args, plan)
    getattr(work, args.step)()


if __name__ == "__main__":
    main()
