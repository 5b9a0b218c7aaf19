"""X.500 names as RFC 4514 writes them; equal by RFC 5280's rules: without case, white space as one space."""

import re

_ALIASES = {
    "2.5.4.3": "cn", "2.5.4.4": "sn", "2.5.4.6": "c", "2.5.4.7": "l", "2.5.4.8": "st", "2.5.4.9": "street",
    "2.5.4.10": "o", "2.5.4.11": "ou", "0.9.2342.19200300.100.1.25": "dc", "0.9.2342.19200300.100.1.1": "uid",
    "1.2.840.113549.1.9.1": "emailaddress", "e": "emailaddress", "email": "emailaddress", "s": "st",
}  # fmt: skip
_TYPE = re.compile(r"\s*(?:[oO][iI][dD]\.)?([A-Za-z][A-Za-z\d-]*|\d+(?:\.\d+)*)\s*=\s*", re.ASCII)
_ESCAPED = re.compile(r"\\([\da-fA-F]{2}(?:\\[\da-fA-F]{2})*)|\\(.)", re.DOTALL)
_VALUE = re.compile(r'(?:"((?:[^"\\]|\\.)*)" *|((?:[^",+;\\]|\\.)*))([,+;]|$)', re.DOTALL)

Part = tuple[str, str]


def read_x500(text: str) -> tuple[frozenset[Part], ...]:
    """Return the relative names in the order of the text, each a set of types and values; raises ValueError."""
    relative: list[frozenset[Part]] = []
    parts: list[Part] = []
    at = 0
    while at < len(text):
        part, separator, at = _next(text, at)
        parts.append(part)
        if separator != "+":
            relative.append(frozenset(parts))
            parts = []
        if separator and at >= len(text):
            raise ValueError(text)
    return tuple(relative)


def _next(text: str, at: int) -> tuple[Part, str, int]:
    """Return the next type and value, the separator after it, and where that ends."""
    kind = _TYPE.match(text, at)
    value = _VALUE.match(text, kind.end()) if kind is not None else None
    if kind is None or value is None:
        raise ValueError(text)
    raw = value[1] if value[1] is not None else value[2].rstrip()
    name = kind[1].lower()
    plain = " ".join(_ESCAPED.sub(_plain, raw).casefold().split())
    return (_ALIASES.get(name, name), plain), value[3], value.end()


def _plain(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    return bytes.fromhex(match[1].replace("\\", "")).decode(errors="replace")
