"""Sentences of a folded text, cut as the run time cuts them, and what differs within a pair."""

import re

# A sentence ends at a line break, at a mark that closes it with a space behind, or at a CJK mark.
_END = re.compile(r"\n+|(?<=[.!?;…])\s+|(?<=[。！？；])")
# Shorter pieces say nothing alone.
MIN_CHARS = 12
MIN_WIDE = 5


def sentences(text: str) -> list[str]:
    """The sentences of `text`; empty where it is only one."""
    parts = [part.strip() for part in _END.split(text)]
    parts = [part for part in parts if len(part) >= (MIN_WIDE if _wide(part) else MIN_CHARS)]
    return parts if len(parts) > 1 else []


def differing(attack: str, twin: str) -> tuple[str, str] | None:
    """The one sentence in which an attack and its twin differ, if it is one on each side."""
    ours, theirs = sentences(attack), sentences(twin)
    only_ours = [one for one in ours if one not in theirs]
    only_theirs = [one for one in theirs if one not in ours]
    if len(only_ours) == 1 and len(only_theirs) == 1:
        return only_ours[0], only_theirs[0]
    return None


def _wide(text: str) -> bool:
    return any("\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7a3" for char in text)
