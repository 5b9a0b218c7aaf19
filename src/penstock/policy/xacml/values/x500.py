"""X.500 names as RFC 4514 writes them; equal by RFC 5280's rules: without case, white space as one space."""

import re
from typing import NamedTuple

_ALIASES = {
    "2.5.4.3": "cn", "2.5.4.4": "sn", "2.5.4.6": "c", "2.5.4.7": "l", "2.5.4.8": "st", "2.5.4.9": "street",
    "2.5.4.10": "o", "2.5.4.11": "ou", "0.9.2342.19200300.100.1.25": "dc", "0.9.2342.19200300.100.1.1": "uid",
    "1.2.840.113549.1.9.1": "emailaddress", "e": "emailaddress", "email": "emailaddress", "s": "st",
}  # fmt: skip
_TYPE = re.compile(r"\s*(?:[oO][iI][dD]\.)?([A-Za-z][A-Za-z\d-]*|\d+(?:\.\d+)*)\s*=\s*", re.ASCII)
_ESCAPED = re.compile(r"\\([\da-fA-F]{2}(?:\\[\da-fA-F]{2})*)|\\(.)", re.DOTALL)
_VALUE = re.compile(r'(?:"((?:[^"\\]|\\.)*)" *|((?:[^",+;\\]|\\.)*))([,+;]|$)', re.DOTALL)

Part = tuple[str, str]


class X500Name:
    """A name: its relative names in the order of the text, each a set of types and values. Equal if those are."""

    __slots__ = ("relative", "text")

    def __init__(self, relative: tuple[frozenset[Part], ...], text: str) -> None:
        self.relative = relative
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, X500Name) and self.relative == other.relative

    def __hash__(self) -> int:
        return hash(self.relative)

    def __repr__(self) -> str:
        return f"X500Name({self.text!r})"

    def ends_with(self, other: "X500Name") -> bool:
        """Return whether the last relative names are those of the other."""
        length = len(other.relative)
        return not length or self.relative[-length:] == other.relative


class _Found(NamedTuple):
    part: Part
    separator: str
    end: int


def read_x500(text: str) -> X500Name:
    """Read a name; raises ValueError."""
    relative: list[frozenset[Part]] = []
    parts: list[Part] = []
    at = 0
    while at < len(text):
        step = _next(text, at)
        parts.append(step.part)
        at = step.end
        if step.separator != "+":
            relative.append(frozenset(parts))
            parts = []
        if step.separator and at >= len(text):
            raise ValueError(text)
    return X500Name(tuple(relative), text)


def _next(text: str, at: int) -> _Found:
    kind = _TYPE.match(text, at)
    value = _VALUE.match(text, kind.end()) if kind is not None else None
    if kind is None or value is None:
        raise ValueError(text)
    raw = value[1] if value[1] is not None else value[2].rstrip()
    name = kind[1].lower()
    return _Found((_ALIASES.get(name, name), _normal(raw)), value[3], value.end())


def _normal(value: str) -> str:
    return " ".join(_ESCAPED.sub(_plain, value).casefold().split())


def _plain(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    return bytes.fromhex(match[1].replace("\\", "")).decode(errors="replace")


def show_x500(name: X500Name) -> str:
    return name.text
