"""Names and patterns of names: `*` stands for anything, `?` for one character, a backslash removes such meaning."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from penstock.language.evaluators.patterns import matcher

_PARTS = re.compile(r"\\.|\*|\?|[^\\*?]+|\\", re.DOTALL)
_MEANING = {"*": "(?s:.*)", "?": "(?s:.)"}


class NamePatterns:
    """Names, some of them by pattern."""

    __slots__ = ("_exact", "_patterns")
    has_unknown = True
    """True if a metric of which nobody can say which one it is counts as one of these."""

    def __init__(self, written: Iterable[str]) -> None:
        names = dict.fromkeys(written)
        self._exact = frozenset(_literal(name) for name in names if not is_pattern(name))
        self._patterns = tuple(_matcher(name) for name in names if is_pattern(name))

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(pattern(name) for pattern in self._patterns)


def is_pattern(written: str) -> bool:
    """Return whether a text stands for more than one name."""
    return any(part in _MEANING for part in _PARTS.findall(written))


def _literal(written: str) -> str:
    return "".join(part[-1] if part[0] == "\\" else part for part in _PARTS.findall(written))


@lru_cache(maxsize=100_000)
def _matcher(written: str) -> Callable[[str], bool]:
    parts = _PARTS.findall(written)
    quoted = (_MEANING.get(part) or "".join(map(_quoted, _literal(part))) for part in parts)
    return matcher(f"\\A{''.join(quoted)}\\z")  # RE2: names come from clients, so its time must be bounded


def _quoted(character: str) -> str:
    return f"\\x{{{ord(character):x}}}" if not character.isalnum() else character
