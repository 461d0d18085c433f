"""What a model finds and what it flags by mistake, at one operating point."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from .lines import DEV, HELD, Line

# Flagged share of real workspace blocks that the thresholds are set for; half of it for each output.
RATE = 0.005
Wanted = Callable[[Line], bool]
INJECTION_SETS = (
    # Dev.
    "deepset",
    "llm_guard_tests",
    "prompt_guard_tests",
    "piguard_pint",
    "embedded_dev",
    # Left out of training, or the lines of repositories that were.
    "embedded_train",
    "garak",
    "patt_taksec",
    "memory_poison_small",
    "inthewild_jailbreak",
)


@dataclass(frozen=True)
class Scored:
    lines: list[Line]
    # Two logits a line: injection, poison.
    logits: np.ndarray


@dataclass(frozen=True)
class Thresholds:
    injection: float
    poison: float

    def flags(self, logits: np.ndarray) -> np.ndarray:
        return (logits[:, 0] > self.injection) | (logits[:, 1] > self.poison)


def is_workspace(line: Line) -> bool:
    return line.set in ("ws_dev", "ws_train") and line.part in (DEV, HELD)


FALSE_ALARMS: dict[str, Wanted] = {
    "workspaces left out": is_workspace,
    "ws_dev": lambda line: line.set == "ws_dev",
    "security talk, sources left out": lambda line: line.set == "sec_talk" and line.part == HELD,
    "security talk, held out": lambda line: line.set == "security_talk_heldout",
    "business mail, held out": lambda line: line.set == "business_mail_heldout",
    "til_simonw": lambda line: line.set == "til_simonw",
    "questions (deepset, benign)": lambda line: line.set == "deepset" and not line.label,
}
AUTHORS: dict[str, Wanted] = {
    "dev, English": lambda line: line.written and line.part == DEV and line.lang == "en",
    "dev, other languages": lambda line: line.written and line.part == DEV and line.lang != "en",
    "left-out authors, English": lambda line: line.written and line.part == HELD and line.lang == "en",
    "left-out authors, other languages": lambda line: line.written and line.part == HELD and line.lang != "en",
}


def thresholds(scored: Scored, rate: float = RATE) -> Thresholds:
    """The lowest thresholds that flag at most `rate` of the workspace blocks left out."""
    real = scored.logits[[is_workspace(line) for line in scored.lines]]
    per_output = rate / 2
    while True:
        found = Thresholds(*(_above(real[:, index], per_output) for index in (0, 1)))
        # What both outputs flag was counted twice, so a little room is left.
        wider = Thresholds(*(_above(real[:, index], per_output * 1.05) for index in (0, 1)))
        if per_output > rate or wider.flags(real).mean() > rate:
            return found
        per_output *= 1.05


def poison_alone(scored: Scored, rate: float = RATE) -> Thresholds:
    """The whole rate for the poison output, none for the other."""
    real = scored.logits[[is_workspace(line) for line in scored.lines]]
    return Thresholds(float("inf"), _above(real[:, 1], rate))


def _above(values: np.ndarray, rate: float) -> float:
    ranked = np.sort(values)[::-1]
    return float(ranked[min(int(rate * len(ranked)), len(ranked) - 1)])


def wilson(hits: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    reach = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _shown(limit: float) -> float | None:
    """Nothing where an output is not asked: infinity is no JSON."""
    return round(limit, 3) if math.isfinite(limit) else None


def share(flags: np.ndarray) -> dict:
    hits, total = int(flags.sum()), len(flags)
    low, high = wilson(hits, total)
    found = {"share": hits / max(total, 1), "low": low, "high": high}
    return {"flagged": hits, "of": total, **{name: round(value, 4) for name, value in found.items()}}


def pairs_right(scored: Scored, wanted: Wanted) -> dict:
    """How often the poison output ranks an attack above its twin."""
    pairs: dict[str, dict[int, float]] = {}
    for line, logits in zip(scored.lines, scored.logits, strict=True):
        if line.pair and wanted(line):
            pairs.setdefault(line.pair, {})[line.label] = float(logits[1])
    leads = np.array([pair[1] > pair[0] for pair in pairs.values() if len(pair) == 2], dtype=bool)
    return share(leads)


def report(scored: Scored, limits: Thresholds) -> dict:
    flags = limits.flags(scored.logits)

    def rate(wanted: Wanted) -> dict:
        return share(flags[np.array([wanted(line) for line in scored.lines], dtype=bool)])

    return {
        "operating_point": {"rate": RATE, "injection": _shown(limits.injection), "poison": _shown(limits.poison)},
        "false_alarms": {name: rate(wanted) for name, wanted in FALSE_ALARMS.items()},
        "injection": {name: rate(partial(_is_attack_of, name)) for name in INJECTION_SETS},
        "poison": {name: _poison(scored, rate, wanted) for name, wanted in AUTHORS.items()},
        "poison_by_lang": _by("lang", scored.lines, rate),
        "poison_by_kind": _by("kind", scored.lines, rate),
    }


def _is_attack_of(name: str, line: Line) -> bool:
    return line.set == name and line.label == 1


def _poison(scored: Scored, rate: Callable[[Wanted], dict], inside: Wanted) -> dict:
    return {
        "found": rate(lambda line: inside(line) and line.label == 1),
        "twins": rate(lambda line: inside(line) and line.label == 0 and line.pair != ""),
        "hard benign": rate(lambda line: inside(line) and line.label == 0 and not line.pair),
        "pairs right": pairs_right(scored, inside),
    }


def _by(key: str, lines: list[Line], rate: Callable[[Wanted], dict]) -> dict:
    """Written attacks by language or by kind."""

    def value(line: Line) -> str:
        # Authors wrote `false_fact` and `false-fact`.
        return getattr(line, key).replace("_", "-")

    def of(name: str, line: Line) -> bool:
        return line.written and line.label == 1 and value(line) == name

    names = sorted({value(line) for line in lines if line.written and line.label})
    return {name: rate(partial(of, name)) for name in names}


def markdown(made: dict) -> str:
    """The figures as tables."""
    point = made["operating_point"]
    out = [
        f"Thresholds flag at most {point['rate']:.1%} of the workspace blocks left out: "
        f"logits above {point['injection']} (injection) or {point['poison']} (poison). Intervals are Wilson's, 95 %.\n",
        "| false alarms | flagged | of | share | interval |\n|---|---|---|---|---|",
        *(_row(name, one) for name, one in made["false_alarms"].items()),
        "\n| injection, attacks | found | of | share | interval |\n|---|---|---|---|---|",
        *(_row(name, one) for name, one in made["injection"].items()),
        "\n| memory poison | found | twins flagged | hard benign flagged | pairs ranked right |\n|---|---|---|---|---|",
    ]
    for name, one in made["poison"].items():
        cells = (one[key] for key in ("found", "twins", "hard benign", "pairs right"))
        out.append(f"| {name} | " + " | ".join(f"{cell['share']:.1%} of {cell['of']}" for cell in cells) + " |")
    for key in ("lang", "kind"):
        out.append(f"\n| poison by {key} | found | of | share | interval |\n|---|---|---|---|---|")
        out += [_row(name, one) for name, one in made[f"poison_by_{key}"].items()]
    return "\n".join(out) + "\n"


def _row(name: str, one: dict) -> str:
    return f"| {name} | {one['flagged']} | {one['of']} | {one['share']:.1%} | {one['low']:.1%} to {one['high']:.1%} |"
