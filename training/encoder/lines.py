"""Labelled lines: reading them, and which part of the work each is for."""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .settings import LEFT_OUT_AUTHORS, LEFT_OUT_REPOSITORIES, LEFT_OUT_SETS

TRAIN, HELD, DEV = "train", "held", "dev"


@dataclass(frozen=True)
class Line:
    """One block of text as it could stand in a memory file."""

    # Set and number of the line in its file, from 0: the same in every tool of `training/`.
    id: str
    text: str
    label: int
    set: str
    kind: str
    lang: str
    source: str
    # Names the pair that an attack and its harmless twin form; empty without one.
    pair: str
    part: str

    @property
    def written(self) -> bool:
        return self.set.startswith("written_")

    @property
    def injection(self) -> int | None:
        """What the injection output should say, or nothing where the question does not arise."""
        return None if self.label and self.written else self.label

    @property
    def poison(self) -> int | None:
        """The same for the memory poison output."""
        return self.label if self.written or not self.label else None


def read_file(path: Path) -> Iterator[dict]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for text in file:
            yield json.loads(text)


def name_of(path: Path) -> str:
    """The set that a file holds: `written/13.jsonl` is `written_13`."""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return f"written_{stem}" if path.parent.name == "written" else stem


def as_line(item: dict, name: str, index: int, part: str | None) -> Line:
    # The files of single authors do not say their set.
    name = item.get("set") or name
    pair = item.get("pair") or ""
    if isinstance(pair, int):
        pair = f"{name}-{pair}"
    source = item.get("source", "memfw")
    return Line(
        id=f"{name}:{index}",
        text=item["text"],
        label=int(item["label"]),
        set=name,
        kind=item.get("kind", ""),
        lang=item.get("lang", "en"),
        source=source,
        pair=pair,
        part=part or part_of(name, source),
    )


def part_of(name: str, source: str) -> str:
    """Whether a line of the training sets is trained on. By author and source, never at random."""
    repository = re.split(r"[@:]", source, maxsplit=1)[0]
    held = name in LEFT_OUT_AUTHORS or name in LEFT_OUT_SETS or repository in LEFT_OUT_REPOSITORIES
    return HELD if held else TRAIN


def read_all(train: Iterable[Path], dev: Iterable[Path]) -> list[Line]:
    """All lines, those that say the same only once; dev before the rest, so that dev keeps them."""
    folders = [(folder, DEV) for folder in dev] + [(folder, None) for folder in train]
    lines = (
        line for folder, part in folders for path in sorted(folder.glob("*.jsonl*")) for line in _lines(path, part)
    )
    return list(_distinct(lines))


def _lines(path: Path, part: str | None) -> Iterator[Line]:
    name = name_of(path)
    if name.startswith("derived_encoded") and part is None:
        # The encoder sees what the normaliser decoded, and never the encoded text itself: trained on it,
        # it would learn that what is encoded is an attack.
        return
    for index, item in enumerate(read_file(path)):
        yield as_line(item, name, index, part)


def _distinct(lines: Iterable[Line]) -> Iterator[Line]:
    seen: set[str] = set()
    for line in lines:
        key = " ".join(line.text.split())
        if key not in seen:
            seen.add(key)
            yield line
