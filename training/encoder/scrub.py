"""Scrubbed names and addresses, made various.

Public workspaces were scrubbed before they were collected: `user@example.com`, `192.0.2.10`, `Alex`.
These occur almost only in benign lines, and left alone they would be what a model learns. They are
replaced by others on both sides, differently in each epoch.
"""

import random
import re

_FIRST = (
    "Alex Maria Jonas Priya Chen Olga Fatima Lukas Sofia Mateo Yuki Omar Ines Tom Hanna Kofi Ravi Elena Piotr Nadia "
    "Marco Leila Sven Aylin Daniel Rosa Viktor Mei Paul Amara Jan Lucia Ahmed Freya Ben Camila Ivan Noor Erik Zoe"
).split()
_PLACES = (
    "harbor orchard lantern maple ridge copper willow summit cobalt meadow quarry falcon juniper atlas beacon "
    "cedar delta ember fjord grove hazel iris kestrel lagoon marble nimbus opal pine quartz raven"
).split()
_ENDINGS = ("example", "example.com", "example.org", "test", "invalid", "example.net")
_MAILBOXES = ("info", "office", "hello", "team", "desk", "post", "accounts", "me")

_MAIL = re.compile(r"\b(?:user|alexdev)\d*@example\.(?:com|org|net)\b", re.IGNORECASE)
_HOST = re.compile(r"(?<![@\w.])example\.(?:com|org|net)\b")
_ADDRESS = re.compile(r"\b(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b")
_NUMBER = re.compile(r"\b1000000\d{3}\b")
_HANDLE = re.compile(r"@user\d+\b|\balexdev\b")
_NAME = re.compile(r"\bAlex\b")


def varied(text: str, random_: random.Random) -> str:
    """`text` with its scrub tokens replaced. One token stays one name throughout the text."""
    for pattern, make in _MADE:
        chosen: dict[str, str] = {}
        text = pattern.sub(lambda found: chosen.setdefault(found.group(), make(random_)), text)  # noqa: B023
    return text


def _host(random_: random.Random) -> str:
    one, two = random_.sample(_PLACES, 2)
    return f"{one}{random_.choice(('', '-', '.'))}{two}.{random_.choice(_ENDINGS)}"


def _mail(random_: random.Random) -> str:
    box = random_.choice(_MAILBOXES) if random_.random() < 0.4 else random_.choice(_FIRST).lower()
    return f"{box}@{_host(random_)}"


def _address(random_: random.Random) -> str:
    return ".".join(str(random_.randint(1, 254)) for _ in range(4))


def _number(random_: random.Random) -> str:
    return str(random_.randint(10**8, 10**10))


def _handle(random_: random.Random) -> str:
    return f"@{random_.choice(_FIRST).lower()}{random_.choice(('', '_', '.'))}{random_.choice(_PLACES)}"


def _name(random_: random.Random) -> str:
    return random_.choice(_FIRST)


_MADE = (
    (_MAIL, _mail),
    (_HOST, _host),
    (_ADDRESS, _address),
    (_NUMBER, _number),
    (_HANDLE, _handle),
    (_NAME, _name),
)
