"""Scenarios: entries of memory with their source and what the owner had asked in that turn.

Each line of a file is one scenario by one author (training/data/README.md). An entry of several lines is read
whole and line by line, as at run time; `out` names the lines that must go.
"""

import gzip
import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .settings import TRAINING

# Shared with the product.
KINDS = TRAINING.parent / "src/detect/model/kinds.txt"
# Kinds of sources from outside: what is read for its authority.
OUTSIDE = ("person", "web page", "mail", "webhook", "file", "output")
WHOLE, ITEM = "whole", "item"


@dataclass(frozen=True)
class Sample:
    """One text that is read: an entry, or one line of it."""

    # Author, number of the scenario in its file from 0, and line of the entry; the last is -1 for all of it.
    id: str
    author: str
    kind: str
    asked: str
    text: str
    # 1 where it must go, 0 where it stays.
    label: int
    part: str
    # Names a scenario and its twin; empty without one.
    pair: str
    scenario: str
    lang: str
    klass: str


def kinds() -> dict[str, str]:
    lines = KINDS.read_text(encoding="utf-8").split("\n")
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def kind_of(source: str, table: dict[str, str]) -> str:
    """The word for a source: of the longest beginning that the table has."""
    parts = source.split(":")
    for count in range(len(parts), 0, -1):
        if (word := table.get(":".join(parts[:count]))) is not None:
            return word
    return "unknown"


def read(folder: Path, fold: str = "", only: tuple[str, ...] = ()) -> list[Sample]:
    """All samples of all authors in a folder, or of some, by name of the file."""
    table, found = kinds(), []
    for path in sorted(folder.glob("train_*.jsonl*")):
        author = path.name.split(".")[0].removeprefix("train_")
        if only and author not in only:
            continue
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            for index, line in enumerate(file):
                found += samples(json.loads(line), author, index, table)
    return folded(found, fold)


def samples(line: dict, author: str, index: int, table: dict[str, str]) -> list[Sample]:
    """The entry and, where it has several lines and it is known which of them go, each of those."""
    label = int(line["label"] == "take")
    lines = line["memory"].split("\n")
    out = line.get("out")
    scenario = f"{author}:{index}"
    pair = f"{author}-{line['pair']}" if line.get("pair") else ""

    def one(text: str, label: int, part: str, at: int) -> Sample:
        kind, asked = kind_of(line["source"], table), line["asked"].strip()
        name = f"{scenario}:{at}"
        klass = line.get("class", "")
        return Sample(name, author, kind, asked, text.strip(), label, part, pair, scenario, line["lang"], klass)

    made = [one(line["memory"], label, WHOLE, -1)]
    spoken = [at for at, text in enumerate(lines) if text.strip()]
    if len(spoken) > 1 and (out is not None or not label):
        made += [one(lines[at], int(at in (out or [])), ITEM, at) for at in spoken]
    return made


def folded(found: list[Sample], command: str) -> list[Sample]:
    """Texts and questions as the run time gives them to the encoder."""
    if not command:
        return found
    texts = [text for one in found for text in (one.text, one.asked)]
    told = "".join(json.dumps(text) + "\n" for text in texts)
    run = subprocess.run(shlex.split(command), input=told, stdout=subprocess.PIPE, text=True, check=True)
    back = [json.loads(one).strip() for one in run.stdout.split("\n") if one]
    if len(back) != len(texts):
        raise SystemExit(f"error: `{command}` answered {len(back)} lines, expected {len(texts)}")
    pairs = zip(found, back[::2], back[1::2], strict=True)
    return [Sample(**{**vars(one), "text": text, "asked": asked}) for one, text, asked in pairs if text]
