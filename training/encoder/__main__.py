"""One command from labelled lines to the shipped encoder: `python -m encoder all`, in `training/`.

Steps: `prepare` reads and folds, `train` fits, `export` quantises, `evaluate` measures what is shipped,
`logits` writes what the calibration needs. `all` is all of them.
"""

import argparse
import json
import random
import shlex
import time
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import torch

from . import base, export, figures, vocabulary
from .fit import Progress, School, fit
from .fold import folded
from .lines import DEV, HELD, TRAIN, Line, read_all
from .network import Network, averaged, starting_from
from .score import logits, of_network, read
from .settings import TRAINING, Settings

STEPS = ("prepare", "train", "export", "evaluate", "logits")


class Work:
    """Where a run keeps what it makes, and its log."""

    def __init__(self, args: argparse.Namespace, settings: Settings) -> None:
        self.args, self.settings = args, settings
        self.folder: Path = args.made
        self.folder.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self.started:7.0f}s] {text}"
        print(line, flush=True)
        with (self.folder / "train.log").open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    def lines(self, *parts: str) -> list[Line]:
        with (self.folder / "lines.jsonl").open(encoding="utf-8") as file:
            lines = [Line(**json.loads(one)) for one in file]
        return [line for line in lines if line.part in parts]

    def prepare(self) -> None:
        data = TRAINING / "data"
        dev = [data / "heldout", *([self.args.dev] if self.args.dev else [])]
        lines = folded(read_all([data, data / "written"], dev), shlex.split(self.args.fold))
        if self.settings.limit:
            lines = limited(lines, self.settings)
        with (self.folder / "lines.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in lines)
        for part in (TRAIN, HELD, DEV):
            held = [line for line in lines if line.part == part]
            self.say(f"{part}: {len(held)} lines, {sum(line.label for line in held)} attacks")

    def train(self) -> None:
        self.say(json.dumps(self.settings.as_dict()))
        lines = self.lines(TRAIN)
        words = base.tokens()
        others = [line.text for line in lines if line.lang != "en"]
        kept, added = self.settings.base_tokens, self.settings.added_tokens
        tokens = vocabulary.build(words, [line.text for line in lines], others, kept, added)
        weights = base.weights()
        rows, known = vocabulary.embeddings(tokens, words, weights["embeddings.word_embeddings.weight"])
        self.say(f"vocabulary: {len(tokens)} tokens, {known} of the base model")
        vocabulary.write(self.folder / "vocabulary.txt", tokens)
        teachers = [self.teacher(Path(one), tokens) for one in self.settings.teachers]
        runs: list[Network] = []
        for run, _ in enumerate(self.settings.epochs):
            torch.manual_seed(self.settings.seed + run)
            network = starting_from(weights, rows, known, self.settings.layers).to(self.device())
            runs.append(network)

            def keep() -> None:
                # What a run cut short leaves behind is the mean of what there is.
                torch.save({"known": known, "weights": averaged(runs)}, self.folder / "network.pt")

            school, progress = School(network, teachers), Progress(self.say, keep)
            fit(school, vocabulary.tokenizer(tokens), lines, self.settings, run, progress)

    def device(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def teacher(self, folder: Path, tokens: list[str]) -> Network:
        if vocabulary.read(folder / "vocabulary.txt") != tokens:
            raise SystemExit(f"error: `{folder}` has another vocabulary\nhint: train it from the same lines")
        return load(folder).to(self.device())

    def export(self) -> None:
        network, tokens = load(self.folder), vocabulary.read(self.folder / "vocabulary.txt")
        path = export.write(network, tokens, self.args.models)
        self.say(f"{path.name}: {path.stat().st_size} bytes")
        written = [line.text for line in self.lines(HELD) if line.written]
        chosen = random.Random(self.settings.seed).sample(written, min(48, len(written)))
        export.write_reference(self.args.reference, path, vocabulary.tokenizer(tokens), [*export.ODD, *chosen])

    def evaluate(self) -> None:
        """Measures the file that is shipped, and what quantising took from the network."""
        lines = self.lines(DEV, HELD)
        tokenizer = vocabulary.tokenizer(vocabulary.read(self.args.models / "vocabulary.txt"))
        reading = read(export.of_file(self.args.models / "encoder.onnx"), tokenizer, lines)
        np.savez(self.folder / "logits.npz", whole=reading.whole, sentence=reading.sentence)
        network = of_network(load(self.folder).to(self.device()), half=False)
        before = logits(network, tokenizer, [line.text for line in lines])
        highest = figures.Scored(lines, reading.highest())
        made = {
            "shipped": figures.report(highest, figures.thresholds(highest)),
            "poison output alone": figures.report(highest, figures.poison_alone(highest)),
        }
        for name, found in (("whole texts", reading.whole), ("whole texts, before quantising", before)):
            scored = figures.Scored(lines, found)
            made[name] = figures.report(scored, figures.thresholds(scored))
        (self.folder / "figures.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        parts = (f"## {name.capitalize()}\n\n{figures.markdown(one)}" for name, one in made.items())
        (self.folder / "figures.md").write_text("\n".join(parts), encoding="utf-8")
        self.say(figures.markdown(made["shipped"]))

    def logits(self) -> None:
        """Logits of lines that were not trained on, for the calibration: one JSON object a line."""
        lines = self.lines(DEV, HELD)
        found = np.load(self.folder / "logits.npz")
        whole, sentence = (found[name].astype(float).round(4).tolist() for name in ("whole", "sentence"))
        with (self.folder / "logits.jsonl").open("w", encoding="utf-8") as file:
            for index, line in enumerate(lines):
                kept = {name: getattr(line, name) for name in ("id", "label", "set", "kind", "lang", "part", "pair")}
                kept["encoder"] = {"whole": whole[index], "sentence": sentence[index]}
                file.write(json.dumps(kept, ensure_ascii=False) + "\n")


def load(folder: Path) -> Network:
    """A network that a run left behind, with as many layers as it has."""
    saved = torch.load(folder / "network.pt", map_location="cpu", weights_only=True)
    weights = saved["weights"]
    layers = sum(name.endswith(".narrowed_norm.weight") for name in weights)
    network = Network(saved["known"] + len(weights["new_tokens"]), saved["known"], layers)
    network.load_state_dict(weights)
    return network.eval()


def limited(lines: list[Line], settings: Settings) -> list[Line]:
    """Some lines of each set, whole pairs among them, to try the way from end to end."""
    sets: dict[str, list[Line]] = {}
    for line in lines:
        sets.setdefault(line.set, []).append(line)
    most = max(2, settings.limit // len(sets))
    return [line for held in sets.values() for line in held[: most + most % 2]]


def settings_from(args: argparse.Namespace) -> Settings:
    """The settings, with those of the command line; a tuple is written with commas."""
    types = {one.name: one.type for one in fields(Settings)}
    changed = {}
    for one in args.set:
        name, _, value = one.partition("=")
        if name not in types:
            raise SystemExit(f"error: there is no setting `{name}`")
        default = getattr(Settings, name)
        if isinstance(default, tuple):
            parts = filter(None, value.split(","))
            changed[name] = tuple(int(part) if part.isdecimal() else part for part in parts)
        else:
            changed[name] = value == "true" if isinstance(default, bool) else type(default)(value)
    return replace(Settings(), **changed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="encoder", description=__doc__)
    parser.add_argument("step", choices=(*STEPS, "all"))
    parser.add_argument("--made", type=Path, default=TRAINING / "made", help="what a run leaves behind")
    parser.add_argument("--models", type=Path, default=TRAINING.parent / "models", help="what is shipped")
    parser.add_argument("--reference", type=Path, default=TRAINING.parent / "fixtures/encoder/reference.jsonl")
    parser.add_argument("--dev", type=Path, help="folder of the lines that only measure")
    parser.add_argument("--fold", default="", help="command that folds texts, JSON strings in and out")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="changes a setting")
    args = parser.parse_args()
    settings = settings_from(args)
    torch.set_num_threads(settings.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    work = Work(args, settings)
    for step in STEPS if args.step == "all" else (args.step,):
        getattr(work, step)()


if __name__ == "__main__":
    main()
