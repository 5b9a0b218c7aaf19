"""Quality of context (QoCIM): indicators, criteria, metric definitions, and metric values with their times.

An *indicator* says what of the quality is meant, its *criterion* how that is understood, a *metric definition* how it
is measured: unit, range, which direction is better. A *metric value* is one measurement, with the time at which it was
made. (contracts §2.3 and §4.2; Marie et al., QoCIM: a Meta-model for Quality of Context, 2013.)
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.model.values import FIRST_SECOND, LAST_SECOND, SECOND, Timestamp

MAX_VALUES = 64
"""Metric values of one event. They come with events, so it is a defence."""

_KEY = attrgetter("key")
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,79}", re.ASCII)


class Direction(StrEnum):
    """The direction in which values become better."""

    HIGHER = "higher"
    LOWER = "lower"


class MetricKey(NamedTuple):
    """The ids that tell what a value measures: `10/10.1/10.1`."""

    indicator: str
    criterion: str
    definition: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A definition of how a criterion is measured."""

    id: str
    unit: str = "%"
    least: float = 0.0
    most: float = 100.0
    direction: Direction = Direction.HIGHER
    resolution: float | None = None
    """The smallest difference that the metric can tell; finer digits say nothing."""
    levels: tuple[tuple[str, float], ...] = ()
    """Names for bounds, the worst first: low 0, medium 50, high 80. A value has a level if it is at least as good."""

    def __post_init__(self) -> None:
        check_id(self.id)
        is_range = _is_number(self.least) and _is_number(self.most) and self.least <= self.most
        if not is_range or self.least == math.inf or self.most == -math.inf:
            raise PolicyError(f"metric `{self.id}`: `{self.least}` to `{self.most}` is not a range")
        if self.resolution is not None and not (_is_number(self.resolution) and 0 < self.resolution < math.inf):
            raise PolicyError(f"metric `{self.id}`: a resolution is above 0, not `{self.resolution}`")
        bounds = [bound for _, bound in self.levels]
        if not all(self.admits(bound) for bound in bounds):
            raise PolicyError(f"metric `{self.id}`: a level is not within `{self.least}` to `{self.most}`")
        if any(not self.is_better(better, worse) for worse, better in pairwise(bounds)):
            raise PolicyError(f"metric `{self.id}`: levels go from the worst to the best")
        _check_once(f"metric `{self.id}`", "level", [check_id(name) for name, _ in self.levels], least=0)

    def admits(self, value: float) -> bool:
        """Return whether a value is a number within the range."""
        return _is_number(value) and math.isfinite(value) and self.least <= value <= self.most

    def is_better(self, value: float, other: float) -> bool:
        """Return whether a value is better than another, and not as good only."""
        return value > other if self.direction is Direction.HIGHER else value < other

    def reaches(self, value: float, bound: float) -> bool:
        """Return whether a value is at least as good as a bound."""
        return value >= bound if self.direction is Direction.HIGHER else value <= bound

    def worst(self, values: Iterable[float]) -> float:
        """Return the worst of one or more values."""
        return min(values) if self.direction is Direction.HIGHER else max(values)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of one or more values."""
        return max(values) if self.direction is Direction.HIGHER else min(values)

    def clamped(self, value: float) -> float:
        """Return the value of the range that is nearest; raises `PolicyError` if it is not a number."""
        nearest = min(max(float(value), self.least), self.most) if _is_number(value) else math.nan
        if not math.isfinite(nearest):
            raise PolicyError(f"metric `{self.id}`: `{value}` is not a number")
        return nearest

    def rounded(self, value: float) -> float:
        """Return the value within the range, rounded to the resolution, and never better than it is."""
        if self.resolution is None:
            return self.clamped(value)
        steps = self.clamped(value) / self.resolution
        if not math.isclose(steps, round(steps), rel_tol=1e-12):  # else it is whole but for the last bit of a double
            steps = math.floor(steps) if self.direction is Direction.HIGHER else math.ceil(steps)
        return self.clamped(round(steps) * self.resolution)

    def level(self, name: str) -> float:
        """Return the bound that a level stands for; raises `PolicyError` if there is none of that name."""
        for level, bound in self.levels:
            if level == name:
                return bound
        known = ", ".join(f"`{level}`" for level, _ in self.levels) or "none"
        raise PolicyError(f"metric `{self.id}` has no level `{name}` (known: {known})")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of an indicator, with the ways of measuring it."""

    id: str
    definitions: tuple[MetricDefinition, ...]
    like: str = ""
    """The criterion of the library that it is equivalent to: quality is processed by that one's rules."""

    def __post_init__(self) -> None:
        check_id(self.id)
        if self.like:
            check_id(self.like)
        _check_once(f"criterion `{self.id}`", "definition", [definition.id for definition in self.definitions])


@dataclass(frozen=True, slots=True)
class Indicator:
    """An aspect of quality, with its criterion."""

    id: str
    criterion: Criterion

    def __post_init__(self) -> None:
        check_id(self.id)

    @property
    def keys(self) -> tuple[MetricKey, ...]:
        """The keys of its metrics, one for each definition."""
        return tuple(MetricKey(self.id, self.criterion.id, definition.id) for definition in self.criterion.definitions)


class Catalogue:
    """The indicators that a domain knows, by id."""

    __slots__ = ("_definitions", "_kinds", "indicators")

    def __init__(self, indicators: Iterable[Indicator] = ()) -> None:
        self.indicators = tuple(indicators)
        _check_once("the quality catalogue", "indicator", [indicator.id for indicator in self.indicators], least=0)
        self._definitions = {
            key: definition
            for indicator in self.indicators
            for key, definition in zip(indicator.keys, indicator.criterion.definitions, strict=True)
        }

        self._kinds = {
            key: indicator.criterion.like or indicator.criterion.id
            for indicator in self.indicators
            for key in indicator.keys
        }

    def __iter__(self) -> Iterator[MetricKey]:
        return iter(self._definitions)

    def kind(self, key: MetricKey) -> str:
        """Return the library's criterion that a metric belongs to, or its own; empty if the metric is not known."""
        return self._kinds.get(key, "")

    def with_(self, indicators: Iterable[Indicator]) -> "Catalogue":
        """Return a catalogue with these indicators too; they replace others of the same id."""
        by_id = {indicator.id: indicator for indicator in (*self.indicators, *indicators)}
        return Catalogue(by_id.values())

    def find(self, key: MetricKey) -> MetricDefinition | None:
        """Return the definition of a metric, None if it is not known."""
        return self._definitions.get(key)

    def definition(self, key: MetricKey) -> MetricDefinition:
        """Return the definition of a metric; raises `PolicyError` if it is not known."""
        definition = self._definitions.get(key)
        if definition is None:
            raise PolicyError(f"there is no quality metric `{key}`")
        return definition

    def keys_of(self, indicator: str) -> tuple[MetricKey, ...]:
        """Return the metrics of an indicator; none if it is not known."""
        return tuple(key for key in self._definitions if key.indicator == indicator)

    def key(self, indicator: str) -> MetricKey:
        """Return the one metric of an indicator; raises `PolicyError` if there is none, or a choice."""
        keys = self.keys_of(indicator)
        if len(keys) == 1:
            return keys[0]
        if not keys:
            known = ", ".join(f"`{other.id}`" for other in self.indicators) or "none"
            raise PolicyError(f"there is no quality indicator `{indicator}` (known: {known})")
        raise PolicyError(f"indicator `{indicator}` has {len(keys)} metrics: name one, as in `{keys[0]}`")


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One measurement of quality."""

    key: MetricKey
    value: float
    created: Timestamp
    """The time of the first measurement."""
    modified: Timestamp | None = None
    """The time of the last change, by propagation or degradation."""

    def __post_init__(self) -> None:
        _check_key(self.key)
        if not _is_number(self.value) or not math.isfinite(self.value):
            raise PolicyError(f"quality `{self.key}`: `{self.value}` is not a number")
        if type(self.value) is not float:
            object.__setattr__(self, "value", float(self.value))
        if not _is_time(self.created) or not (self.modified is None or _is_time(self.modified)):
            raise PolicyError(f"quality `{self.key}`: its time is not from the year 1 to the year 9999")

    @property
    def at(self) -> Timestamp:
        """The time for which the value holds."""
        return self.created if self.modified is None else self.modified

    def changed(self, value: float, now: Timestamp) -> "MetricValue":
        """Return the metric with another value from now on."""
        return replace(self, value=value, modified=now)


class Quality(tuple[MetricValue, ...]):
    """The metric values of one event, each metric once, in the order of their keys."""

    _by_key: dict[MetricKey, MetricValue]

    def __new__(cls, values: Iterable[MetricValue] = ()) -> "Quality":
        ordered = sorted(values, key=_KEY)
        if len(ordered) > MAX_VALUES:
            raise PolicyError(f"{len(ordered)} quality values are too many; the maximum is {MAX_VALUES}")
        for value, other in pairwise(ordered):
            if value.key == other.key:
                raise PolicyError(f"quality `{value.key}` is given twice")
        self = super().__new__(cls, ordered)
        self._by_key = {value.key: value for value in ordered}
        return self

    def get(self, key: MetricKey) -> MetricValue | None:
        """Return the value of a metric, None if there is none."""
        return self._by_key.get(key)

    def with_(self, values: Iterable[MetricValue]) -> "Quality":
        """Return the quality with these values in place of those of the same metrics."""
        return Quality({**self._by_key, **{value.key: value for value in values}}.values())

    def without(self, keys: Iterable[MetricKey]) -> "Quality":
        """Return the quality without the values of these metrics."""
        removed = frozenset(keys)
        return Quality(value for value in self if value.key not in removed)


NO_QUALITY = Quality()


def moment(seconds: float) -> Timestamp:
    """Return the time that a clock in seconds since 1970 shows; raises `PolicyError` beyond the years 1 to 9999."""
    if not math.isfinite(seconds) or not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise PolicyError(f"`{seconds}` is not a time from the year 1 to the year 9999")
    return Timestamp(round(seconds * SECOND))


def check_id(id: str) -> str:
    """Return the id, if it is one: up to 80 letters, digits and `_ . : -`; raises `PolicyError`.

    Ids stand in XPath expressions and in conditions, so there is nothing in them that could end a string.
    """
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise PolicyError(f"`{str(id)[:100]}` is not an id: up to 80 letters, digits and `_`, `.`, `:`, `-`")
    return id


def _check_key(key: MetricKey) -> None:
    try:
        _check_ids(key)
    except TypeError:  # what strangers give for an id may be a list
        raise PolicyError(f"`{str(key)[:100]}` are not ids") from None


@lru_cache(maxsize=1024)  # each value that is read has some, mostly the same few
def _check_ids(key: MetricKey) -> None:
    for id in key:
        check_id(id)


def _is_time(time: Timestamp) -> bool:
    return FIRST_SECOND * SECOND <= time.nanos < (LAST_SECOND + 1) * SECOND


def _check_once(of: str, what: str, ids: list[str], least: int = 1) -> None:
    if len(ids) < least:
        raise PolicyError(f"{of} has no {what}")
    for id in ids:
        if ids.count(id) > 1:
            raise PolicyError(f"{of} has two {what}s `{id}`")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
