"""Logits of texts, whole and by sentence, in batches of similar length."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from .batches import padded
from .lines import Line
from .network import Network
from .sentences import sentences
from .vocabulary import END, START

# Tokens of a batch, padding included.
BATCH_TOKENS = 8192
# What the run time reads of a text.
MAX_TOKENS = 128
# Sentences of a block that are looked at; the run time has the same limit.
MAX_SENTENCES = 16

Model = Callable[[np.ndarray, np.ndarray], np.ndarray]


def of_network(network: Network, half: bool) -> Model:
    device = next(network.parameters()).device

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = network(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))
        return logits.float().cpu().numpy()

    network.eval()
    return run


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return [START, *tokenizer.encode(text, add_special_tokens=False).ids[: MAX_TOKENS - 2], END]


def logits(model: Model, tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """Two logits for each text, in the order of the texts."""
    rows = [ids_of(tokenizer, text) for text in texts]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    found = np.zeros((len(rows), 2), dtype=np.float32)
    at = 0
    while at < len(order):
        count = 1
        while at + count < len(order) and (count + 1) * len(rows[order[at + count]]) <= BATCH_TOKENS:
            count += 1
        part = order[at : at + count]
        ids, mask = padded([rows[index] for index in part])
        found[part] = model(ids.numpy(), mask.numpy())
        at += count
    return found


@dataclass(frozen=True)
class Reading:
    """Two logits a line, of the whole line and of its most suspicious sentence, an output each; those
    of the whole line where it is but one sentence."""

    whole: np.ndarray
    sentence: np.ndarray

    def highest(self) -> np.ndarray:
        return np.maximum(self.whole, self.sentence)


def read(model: Model, tokenizer: Tokenizer, lines: list[Line]) -> Reading:
    texts, owners = [line.text for line in lines], []
    for index, line in enumerate(lines):
        parts = sentences(line.text)[:MAX_SENTENCES]
        texts += parts
        owners += [index] * len(parts)
    found = logits(model, tokenizer, texts)
    whole, parts = found[: len(lines)], found[len(lines) :]
    highest = np.full_like(whole, -np.inf)
    np.maximum.at(highest, owners, parts)
    return Reading(whole, np.where(np.isinf(highest), whole, highest))
