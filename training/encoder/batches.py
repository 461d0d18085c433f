"""What an epoch shows, and in which order.

A unit is one line, or an attack and its twin, which stay in one batch so that the loss can compare
them. Batches hold lines of similar length.
"""

import random
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from .lines import Line
from .scrub import varied
from .sentences import differing, sentences
from .settings import PER_EPOCH, Settings
from .vocabulary import END, PAD, START

# Targets where a question does not arise.
UNASKED = -1.0


@dataclass(frozen=True)
class Shown:
    """One text as it is shown, with what each output should say."""

    ids: list[int]
    targets: tuple[float, float]
    weight: float


@dataclass(frozen=True)
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    # Positions of attacks and of their twins.
    attacks: torch.Tensor
    twins: torch.Tensor


def units_of(lines: list[Line]) -> list[list[Line]]:
    """Pairs, the attack first, and single lines."""
    pairs: dict[str, list[Line]] = {}
    units = []
    for line in lines:
        if line.pair:
            pairs.setdefault(line.pair, []).append(line)
        else:
            units.append([line])
    for pair in pairs.values():
        pair.sort(key=lambda line: -line.label)
        whole = len(pair) == 2 and pair[0].label == 1 and pair[1].label == 0
        units += [pair] if whole else [[line] for line in pair]
    return units


def epoch_lines(lines: list[Line], mined: list[Line], random_: random.Random) -> list[Line]:
    """A sample of the large sets, all of the others, and the lines that were mined.

    Harmless lines in other languages than English are all shown: where a language has hardly any,
    the model takes the language itself for a sign of attack.
    """
    sets: dict[str, list[Line]] = {}
    chosen = []
    for line in lines:
        if line.label or line.lang == "en":
            sets.setdefault(line.set, []).append(line)
        else:
            chosen.append(line)
    for name, held in sorted(sets.items()):
        count = PER_EPOCH.get(name, len(held))
        chosen += held if count >= len(held) else random_.sample(held, count)
    names = {id(line) for line in chosen}
    return chosen + [line for line in mined if id(line) not in names]


class Epoch:
    """Makes the batches of one epoch."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer, random_: random.Random) -> None:
        self.settings, self.tokenizer, self.random = settings, tokenizer, random_

    def batches(self, lines: list[Line]) -> list[Batch]:
        units = [self._shown(unit) for unit in units_of(lines)]
        self.random.shuffle(units)
        # Neighbours in length, but not the same neighbours in each epoch.
        units.sort(key=lambda unit: max(len(one.ids) for one in unit) + self.random.uniform(0, 6))
        groups = list(self._groups(units))
        self.random.shuffle(groups)
        return [packed(group) for group in groups]

    def _groups(self, units: list[list[Shown]]) -> list[list[list[Shown]]]:
        groups, group, lines, longest = [], [], 0, 0
        for unit in units:
            size = max(len(one.ids) for one in unit)
            if group and (lines + len(unit)) * max(longest, size) > self.settings.batch_tokens:
                groups.append(group)
                group, lines, longest = [], 0, 0
            group.append(unit)
            lines, longest = lines + len(unit), max(longest, size)
        return [*groups, group] if group else groups

    def _shown(self, unit: list[Line]) -> list[Shown]:
        texts = self._texts(unit)
        # One seed for a pair, so that a name stays the same name in both.
        seed = self.random.random()
        texts = [varied(text, random.Random(seed)) for text in texts]
        return [self._one(line, text) for line, text in zip(unit, texts, strict=True)]

    def _texts(self, unit: list[Line]) -> list[str]:
        """The whole texts, or now and then a sentence of them, since the run time scores both."""
        whole = [line.text for line in unit]
        if self.random.random() >= self.settings.sentence_share:
            return whole
        if len(unit) == 2:
            return list(differing(*whole) or whole)
        # Which sentence of an unpaired attack is the attack is not known.
        parts = [] if unit[0].label else sentences(whole[0])
        return [self.random.choice(parts)] if parts else whole

    def _one(self, line: Line, text: str) -> Shown:
        smooth = self.settings.label_smoothing
        asked = [UNASKED if one is None else abs(one - smooth) for one in (line.injection, line.poison)]
        weight = 1.0 if line.label else self.settings.benign_weight
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return Shown(self._window(ids, line.label), (asked[0], asked[1]), weight)

    def _window(self, ids: list[int], label: int) -> list[int]:
        """What fits. Of a long benign line any part is benign; an attack is shown from its start."""
        most = self.settings.max_tokens - 2
        start = 0 if label or len(ids) <= most else self.random.randrange(len(ids) - most + 1)
        return [START, *ids[start : start + most], END]


def padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, as long as the longest row."""
    length = max(len(row) for row in rows)
    ids = np.full((len(rows), length), PAD, dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    table = torch.from_numpy(ids)
    # Only padding has this id.
    return table, (table != PAD).long()


def packed(group: list[list[Shown]]) -> Batch:
    rows, attacks, twins = [], [], []
    for unit in group:
        if len(unit) == 2:
            attacks.append(len(rows))
            twins.append(len(rows) + 1)
        rows += unit
    ids, mask = padded([row.ids for row in rows])
    return Batch(
        ids=ids,
        mask=mask,
        targets=torch.tensor([row.targets for row in rows]),
        weights=torch.tensor([row.weight for row in rows]),
        attacks=torch.tensor(attacks, dtype=torch.long),
        twins=torch.tensor(twins, dtype=torch.long),
    )
