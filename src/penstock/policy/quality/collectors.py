"""Collectors: they measure the quality of an event when it conforms (contracts §2.3).

A collector is a formula of the library with its arguments. An argument comes from the payload (an expression in our
language), from the clock (`now`, always), or is declared, for the collector or for the sensor:

    {indicator: precision, formula: precision, spread: hdop * 5.0}                  span: declared for the sensor
    {indicator: up-to-dateness, formula: up-to-dateness, measured: at, lifetime: 10m}
    {indicator: completeness, formula: completeness, weights: {lat: 2, lon: 2, altitude: 1}}
    {indicator: "10", formula: value, value: quality}
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.language.errors import ConditionError, EvaluationError, Failure
from penstock.language.evaluators.times import timestamp_from_string
from penstock.language.expression import Expression, make_expression
from penstock.model.content.content import Content, Unreadable
from penstock.model.durations import check_seconds
from penstock.model.errors import PolicyError
from penstock.model.quality import NO_QUALITY, Catalogue, MetricDefinition, MetricKey, MetricValue, Quality, moment
from penstock.model.values import Timestamp
from penstock.policy.quality.criteria import FORMULAS

Weights = tuple[tuple[str, float], ...]
Argument = float | Expression | Weights
"""Declared, from the payload, or the weights of attributes."""

_NOW, _MEASURED, _PRESENT, _WEIGHTS = "now", "measured", "present", "weights"
_OURS = frozenset({_NOW, _PRESENT})
"""Parameters of formulas that nobody writes: they come from the clock, and with the weights."""
_SPANS = frozenset({"lifetime", "skew"})
"""Those that are lengths of time."""
_SPAN = re.compile(r"[\d.]+[a-zµμ]+[\d.a-zµμ]*", re.ASCII)
"""One that is written with units, and not as an expression."""


class ArgumentSource(StrEnum):
    """Where a collector finds what it measures from."""

    PAYLOAD = "payload"
    CLOCK = "clock"
    DECLARED = "declared"


@dataclass(frozen=True, slots=True)
class QualityCollector:
    """One metric of the quality of some events, and how it is measured. Made by `make_collector`."""

    key: MetricKey
    formula: str
    arguments: tuple[tuple[str, Argument], ...]

    @property
    def sources(self) -> frozenset[ArgumentSource]:
        """All that it is measured from."""
        clock = {ArgumentSource.CLOCK} if _NOW in _parameters(self.formula) else set()
        return frozenset(clock | {_source(argument) for _, argument in self.arguments})


@dataclass(frozen=True, slots=True)
class CollectedQuality:
    """What collectors have measured of one event, and why the others have not."""

    quality: Quality
    missing: tuple[tuple[MetricKey, str], ...] = ()

    def beside(self, carried: Quality, catalogue: Catalogue) -> Quality:
        """With what the event says of itself on metrics that no collector is for, if these can have such values.

        Where there is a collector and it has failed, the producer's own word does not stand in for it.
        """
        failed = {key for key, _ in self.missing}
        wrong = {one.key for one in carried if not _admits(catalogue, one)}
        return carried.without(failed | wrong).with_(self.quality)


def _admits(catalogue: Catalogue, value: MetricValue) -> bool:
    definition = catalogue.find(value.key)
    return definition is None or definition.admits(value.value)


def make_collector(
    key: MetricKey,
    formula: str,
    arguments: Mapping[str, object],
    catalogue: Catalogue,
    sensor: Mapping[str, object] | None = None,
) -> QualityCollector:
    """Return the collector of a metric, with arguments as the domain file writes them; raises `PolicyError`.

    What it does not say itself is taken from what is declared of the sensor, by the same names.
    """
    catalogue.definition(key)
    if formula not in FORMULAS:
        raise PolicyError(f"there is no formula `{formula}` (known: {', '.join(f'`{name}`' for name in FORMULAS)})")
    parameters = _parameters(formula)
    for name in arguments:
        if name not in parameters or name in _OURS:
            known = ", ".join(f"`{one}`" for one in parameters if one not in _OURS)
            raise PolicyError(f"formula `{formula}` takes no `{name}` (it takes {known})")
    said = {**(sensor or {}), **arguments}
    taken = [(name, _argument(name, said[name])) for name in parameters if name in said and name not in _OURS]
    for name, parameter in parameters.items():
        if name not in said and name not in _OURS and parameter.default is inspect.Parameter.empty:
            raise PolicyError(f"formula `{formula}` needs `{name}`: give it, or declare it for the sensor")
    return QualityCollector(key, formula, tuple(taken))


def collect(
    collectors: Iterable[QualityCollector], catalogue: Catalogue, content: Content, now: float
) -> CollectedQuality:
    """Return the quality of an event of this content that conforms now, in seconds since the epoch."""
    time = moment(now)
    found: list[MetricValue] = []
    missing: list[tuple[MetricKey, str]] = []
    for one in collectors:
        try:
            found.append(MetricValue(one.key, _measured(one, catalogue.definition(one.key), content, time), time))
        except PolicyError as error:
            missing.append((one.key, str(error)))
    return CollectedQuality(NO_QUALITY.with_(found), tuple(missing))


def _measured(collector: QualityCollector, definition: MetricDefinition, content: Content, now: Timestamp) -> float:
    given: dict[str, object] = {name: _value(name, one, content) for name, one in collector.arguments}
    if _NOW in _parameters(collector.formula):
        given[_NOW] = now
    if _WEIGHTS in given:
        given[_PRESENT] = {name: _is_there(content, name) for name in given[_WEIGHTS]}  # type: ignore[attr-defined]
    measured = FORMULAS[collector.formula](**given)
    if not definition.admits(measured):
        raise PolicyError(f"`{measured:g}` is not within {definition.least:g} to {definition.most:g}")
    return definition.rounded(measured)


def _parameters(formula: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(FORMULAS[formula]).parameters


def _source(argument: Argument) -> ArgumentSource:
    return ArgumentSource.DECLARED if isinstance(argument, float) else ArgumentSource.PAYLOAD


def _argument(name: str, said: object) -> Argument:
    if name == _WEIGHTS:
        if not isinstance(said, Mapping) or not said:
            raise PolicyError(f"`{name}`: expected weights by attribute, found `{said!r:.80}`")
        return tuple((str(attribute), _number(str(attribute), weight)) for attribute, weight in said.items())
    if name in _SPANS and isinstance(said, str) and _SPAN.fullmatch(said):
        return check_seconds(said)
    if isinstance(said, str):
        try:
            return make_expression(said)
        except ConditionError as error:
            raise PolicyError(f"`{name}`: {error}") from None
    return _number(name, said)


def _number(name: str, said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise PolicyError(f"`{name}`: expected a number or an expression, found `{said!r:.80}`")
    return float(said)


def _value(name: str, argument: Argument, content: Content) -> object:
    if isinstance(argument, tuple):
        return dict(argument)
    if isinstance(argument, float):
        return _time(argument) if name == _MEASURED else argument
    value = argument.value(content)
    if isinstance(value, Failure):
        raise PolicyError(f"`{argument.text}` fails: {value}")
    return _time(value) if name == _MEASURED else value


def _time(value: object) -> Timestamp:
    """Return a time as payloads have it: a timestamp, a text as RFC 3339 writes it, or seconds since the epoch."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        try:
            return timestamp_from_string(value[:100])
        except EvaluationError as error:
            raise PolicyError(str(error)) from None
    return moment(_number(_MEASURED, value))


def _is_there(content: Content, path: str) -> bool:
    """Return whether there is an attribute, and not null. A name with dots leads into maps."""
    at = content.attributes
    if isinstance(at, Unreadable):
        raise PolicyError(at.reason)
    for name in path.split("."):
        if not isinstance(at, dict) or name not in at:
            return False
        at = at[name]
    return at is not None
