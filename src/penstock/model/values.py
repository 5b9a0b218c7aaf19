"""Values of content for which Python has no type of its own.

The others are plain: int, float, str, bytes, bool, None, list and dict.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

Value = Any
"""A value of content; mypy has no good name for the union, as bool is an int."""

MIN_INT, MAX_INT = -(1 << 63), (1 << 63) - 1
MAX_UINT = (1 << 64) - 1

SECOND = 1_000_000_000
FIRST_SECOND = (date(1, 1, 1) - date(1970, 1, 1)).days * 86_400
LAST_SECOND = (date(9999, 12, 31) - date(1970, 1, 1)).days * 86_400 + 86_399


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970 in UTC."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds; may be negative."""

    nanos: int


def unsigned(number: int) -> int:
    """Return a number from 0 to 2^64-1 as a value: an int if it is one, else a `Uint`."""
    return number if number <= MAX_INT else Uint(number)
