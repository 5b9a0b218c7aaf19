"""Sets of values of one attribute: numbers, strings, bools, null, anything else, or no value.

Integers and doubles are two lines, as an int beside a double is rounded to one: `x > 9007199254740993.0` is another set
of integers than of doubles. On each line a comparison is a span, so that everything here is exact.
"""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from penstock.language.ranges import spans
from penstock.language.ranges.spans import Spans
from penstock.language.values import MAX_UINT, MIN_INT, Uint, Value, as_double


class NoValue(Enum):
    """The reasons for no value: the attribute is missing, or its parent has no fields."""

    ABSENT = "absent"
    BROKEN = "broken"


def _double_place(number: float) -> int:
    """Return a double's place among all doubles: the least step up is one up; both zeros are one."""
    place: int = struct.unpack("<q", struct.pack("<d", abs(number)))[0]
    return -place if number < 0 else place


def double_at(place: int) -> float:
    """Return the double that has this place."""
    number: float = struct.unpack("<d", struct.pack("<q", abs(place)))[0]
    return -number if place < 0 else number


_TOP = (1, "")


def _string_place(text: str) -> tuple[int, str]:
    return (0, text)


_INTEGERS = spans.union((MIN_INT, MAX_UINT + 1))
_DOUBLES = spans.union((_double_place(-math.inf), _double_place(math.inf) + 1))
_STRINGS = spans.union((_string_place(""), _TOP))
_BOOLS = frozenset({False, True})


@dataclass(frozen=True, slots=True)
class Region:
    """A set of values, by kind; `other` is every list, map, bytes, timestamp, duration and type at once."""

    integers: Spans = spans.NOTHING
    doubles: Spans = spans.NOTHING
    not_a_number: bool = False
    strings: Spans = spans.NOTHING
    bools: frozenset[bool] = frozenset()
    null: bool = False
    other: bool = False
    absent: bool = False
    broken: bool = False

    def __bool__(self) -> bool:
        """Return whether there is anything in it."""
        return self != EMPTY

    def __and__(self, other: "Region") -> "Region":
        return self._joined(other, spans.intersect, lambda left, right: left & right)

    def __or__(self, other: "Region") -> "Region":
        return self._joined(other, lambda left, right: spans.union(*left, *right), lambda left, right: left | right)

    def __sub__(self, other: "Region") -> "Region":
        return self._joined(other, spans.without, _difference)

    def __le__(self, other: "Region") -> bool:
        """Return whether everything in it is in the other."""
        return (
            spans.are_inside(self.integers, other.integers)
            and spans.are_inside(self.doubles, other.doubles)
            and spans.are_inside(self.strings, other.strings)
            and self.bools <= other.bools
            and all(not mine or theirs for mine, theirs in zip(self._flags(), other._flags(), strict=True))
        )

    def meets(self, other: "Region") -> bool:
        """Return whether something is in both."""
        return (
            spans.meet(self.integers, other.integers)
            or spans.meet(self.doubles, other.doubles)
            or spans.meet(self.strings, other.strings)
            or bool(self.bools & other.bools)
            or any(mine and theirs for mine, theirs in zip(self._flags(), other._flags(), strict=True))
        )

    def hull(self) -> "tuple[Place, Place]":
        """Return the first and the last value in it, on one line of all values.

        Of two regions one inside the other, or that meet, the hulls are so too. There must be something in it.
        """
        ends: list[Place] = [(0, value) for value in self.bools]
        ends += [(NUMBER, end) for first, after in self.integers for end in (first, after - 1)]
        ends += [(NUMBER, double_at(end)) for first, after in self.doubles for end in (first, after - 1)]
        ends += [(2, end) for span in self.strings for end in span]
        ends += [(3 + at, 0) for at, is_in in enumerate(self._flags()) if is_in]
        return min(ends), max(ends)

    def __contains__(self, value: Value | NoValue) -> bool:
        match value:
            case NoValue.ABSENT:
                return self.absent
            case NoValue.BROKEN:
                return self.broken
            case None:
                return self.null
            case bool():
                return value in self.bools
            case int() | Uint():
                return spans.has_point(self.integers, int(value))
            case float():
                return self.not_a_number if math.isnan(value) else spans.has_point(self.doubles, _double_place(value))
            case str():
                return spans.has_point(self.strings, _string_place(value))
            case _:
                return self.other

    def _flags(self) -> tuple[bool, ...]:
        return self.not_a_number, self.null, self.other, self.absent, self.broken

    def _joined(self, other: "Region", lines: Any, rest: Any) -> "Region":
        return Region(
            lines(self.integers, other.integers),
            lines(self.doubles, other.doubles),
            rest(self.not_a_number, other.not_a_number),
            lines(self.strings, other.strings),
            rest(self.bools, other.bools),
            rest(self.null, other.null),
            rest(self.other, other.other),
            rest(self.absent, other.absent),
            rest(self.broken, other.broken),
        )


Place = tuple[int, Any]
"""The position of a value on one line of all values: kinds one after the other, numbers of both kinds together."""
NUMBER = 1


def _difference(left: Any, right: Any) -> Any:
    return left - right if isinstance(left, frozenset) else left and not right


EMPTY = Region()
NUMBERS = Region(integers=_INTEGERS, doubles=_DOUBLES, not_a_number=True)
ALL_STRINGS = Region(strings=_STRINGS)
ALL_BOOLS = Region(bools=_BOOLS)
PRESENT = NUMBERS | ALL_STRINGS | ALL_BOOLS | Region(null=True, other=True)
ABSENT = Region(absent=True)
BROKEN = Region(broken=True)
OTHER = Region(other=True)


def below(constant: Value) -> Region:
    """Return the values below a constant that is a number, a string or a bool."""
    return _cut(constant, lambda whole, at_least, above: (whole[0][0], at_least))


def above(constant: Value) -> Region:
    """Return the values above a constant."""
    return _cut(constant, lambda whole, at_least, above: (above, whole[0][1]))


def equal_to(constant: Value) -> Region:
    """Return the values equal to a constant, which may be null."""
    if constant is None:
        return Region(null=True)
    return _cut(constant, lambda whole, at_least, above: (at_least, above))


def like(constant: Value) -> Region:
    """Return the values that have an order with a constant."""
    return ALL_STRINGS if isinstance(constant, str) else ALL_BOOLS if isinstance(constant, bool) else NUMBERS


def starting_with(prefix: str) -> Region:
    """Return the strings with a prefix: from the prefix up to the first string after all that have it."""
    kept = prefix.rstrip("\U0010ffff")
    end = _string_place(kept[:-1] + chr(ord(kept[-1]) + 1)) if kept else _TOP
    return Region(strings=spans.union((_string_place(prefix), end)))


def union(regions: Iterable[Region]) -> Region:
    """Return the union of all at once: one after the other would take quadratic time."""
    parts = tuple(regions)
    return Region(
        integers=spans.union(*(span for region in parts for span in region.integers)),
        doubles=spans.union(*(span for region in parts for span in region.doubles)),
        not_a_number=any(region.not_a_number for region in parts),
        strings=spans.union(*(span for region in parts for span in region.strings)),
        bools=frozenset(value for region in parts for value in region.bools),
        null=any(region.null for region in parts),
        other=any(region.other for region in parts),
        absent=any(region.absent for region in parts),
        broken=any(region.broken for region in parts),
    )


def _cut(constant: Value, part: Any) -> Region:
    """Return the `part` of each line, called with the line, the first place at the constant and the first above it."""
    if isinstance(constant, bool):
        start, end = part(((0, 2),), int(constant), int(constant) + 1)
        return Region(bools=frozenset(value for value in _BOOLS if start <= value < end))
    if isinstance(constant, str):
        place = _string_place(constant)
        return Region(strings=spans.union(part(_STRINGS, place, _string_place(constant + "\0"))))
    place_of_double = _double_place(as_double(constant))
    doubles = spans.union(part(_DOUBLES, place_of_double, place_of_double + 1))
    if isinstance(constant, float):
        at_least, higher = _first_integer(constant), _first_integer(math.nextafter(constant, math.inf))
    else:
        at_least, higher = int(constant), int(constant) + 1
    return Region(integers=spans.union(part(_INTEGERS, at_least, higher)), doubles=doubles)


def _first_integer(number: float) -> int:
    """Return the first integer that is at least this number when rounded to a double; one after the last if none is."""
    low, high = MIN_INT, MAX_UINT + 1
    while low < high:
        middle = (low + high) // 2
        if float(middle) >= number:
            high = middle
        else:
            low = middle + 1
    return low


def everything(top: bool) -> Region:
    """Return the possible values of an attribute without constraints; only a field can be broken."""
    return replace(PRESENT, absent=True, broken=not top)
