"""The words of policy statements, and what is said of those that are none. Every form of statements reads them here."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from penstock.language.errors import StatementError
from penstock.language.statements.statement import ANYWHERE, Point
from penstock.language.words import hint

Fail = Callable[[str], StatementError]
"""Makes the error that says what is wrong at the place that is being read."""

E = TypeVar("E", bound=StrEnum)

_LONGEST_SHOWN = 40
_LONG_SHOWN = re.compile(f"(`[^`]{{{_LONGEST_SHOWN}}})[^`]+`")


def one_of(kind: type[E], word: str, fail: Fail) -> E:
    """The member of an enumeration that a word is."""
    known = [str(each) for each in kind]
    if word not in known:
        raise fail(not_one_of(word, known))
    return kind(word)


def points_of(words: Sequence[str], fail: Fail) -> tuple[Point, ...]:
    """Points of the overlay, in their order."""
    if not words:
        raise fail("there is no point; without `@broker` a rule is for all of them")
    found: list[Point] = []
    for word in words:
        if (point := one_of(Point, word, fail)) in found:
            raise fail(twice(point))
        found.append(point)
    return in_order(found)


def in_order(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points as a rule has them."""
    return tuple(point for point in ANYWHERE if point in points)


def twice(point: Point) -> str:
    """What to say of a point that has been named before."""
    return f"`{point}` is named twice"


def not_one_of(found: str, known: Sequence[str]) -> str:
    """What to say where one of some words was expected; no word is the end."""
    near = hint(found, known) if len(found) <= _LONGEST_SHOWN else ""
    *others, last = (f"`{each}`" for each in known)
    return f"expected {', '.join(others)}{' or ' if others else ''}{last}, found {shown(found)}{near}"


def too_many(of: str, most: int, what: str) -> str:
    """What to say where a bound is passed."""
    return f"{of} has at most {most} {what}"


def shown(word: str) -> str:
    """A word, or its beginning if it is long; no word is the end."""
    if not word:
        return "the end"
    return f"`{word}`" if len(word) <= _LONGEST_SHOWN else f"`{word[:_LONGEST_SHOWN]}…`"


def clipped(message: str) -> str:
    """A message with what it shows in backticks cut where that is long."""
    return _LONG_SHOWN.sub(r"\1…`", message)
