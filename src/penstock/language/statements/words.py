"""The words of policy statements, and the error messages about unknown words. Every form of statements uses them."""

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

_MAX_SHOWN = 40
_LONG_SHOWN = re.compile(f"(`[^`]{{{_MAX_SHOWN}}})[^`]+`")


def one_of(kind: type[E], word: str, fail: Fail) -> E:
    """Return the member of an enumeration that a word is."""
    known = [str(member) for member in kind]
    if word not in known:
        raise fail(not_one_of(word, known))
    return kind(word)


def points_of(words: Sequence[str], fail: Fail) -> tuple[Point, ...]:
    """Return the points of the overlay, in their order."""
    if not words:
        raise fail("there is no point; without `@broker` a rule is for all of them")
    points: list[Point] = []
    for word in words:
        if (point := one_of(Point, word, fail)) in points:
            raise fail(twice(point))
        points.append(point)
    return in_order(points)


def in_order(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return points in the order of a rule."""
    return tuple(point for point in ANYWHERE if point in points)


def twice(point: Point) -> str:
    """Return the message about a point that is named twice."""
    return f"`{point}` is named twice"


def not_one_of(word: str, known: Sequence[str]) -> str:
    """Return the message that one of some words was expected; an empty word is the end."""
    near = hint(word, known) if len(word) <= _MAX_SHOWN else ""
    *others, last = (f"`{word}`" for word in known)
    return f"expected {', '.join(others)}{' or ' if others else ''}{last}, found {shown(word)}{near}"


def too_many(of: str, maximum: int, what: str) -> str:
    """Return the message that a bound is exceeded."""
    return f"{of} has at most {maximum} {what}"


def shown(word: str) -> str:
    """Return a word, or its beginning if it is long; an empty word is the end."""
    if not word:
        return "the end"
    return f"`{word}`" if len(word) <= _MAX_SHOWN else f"`{word[:_MAX_SHOWN]}…`"


def clipped(message: str) -> str:
    """Return a message with long texts in backticks cut."""
    return _LONG_SHOWN.sub(r"\1…`", message)
