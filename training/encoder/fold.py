"""Texts as the run time gives them to the encoder: the folded view, made by memfw's own normaliser."""

import json
import subprocess
from dataclasses import replace

from .lines import Line


def folded(lines: list[Line], command: list[str]) -> list[Line]:
    """The lines with the folded view of their texts.

    `command` reads one JSON string a line and writes one JSON string a line.
    """
    if not command:
        return lines
    told = "".join(json.dumps(line.text) + "\n" for line in lines)
    done = subprocess.run(command, input=told, stdout=subprocess.PIPE, text=True, check=True, encoding="utf-8")
    # Not splitlines: a folded text may hold separators that Python takes for line ends.
    texts = [json.loads(one) for one in done.stdout.split("\n") if one]
    if len(texts) != len(lines):
        raise SystemExit(f"error: `{' '.join(command)}` answered {len(texts)} lines, expected {len(lines)}")
    kept = zip(lines, texts, strict=True)
    return [replace(line, text=text.strip()) for line, text in kept if text.strip()]
