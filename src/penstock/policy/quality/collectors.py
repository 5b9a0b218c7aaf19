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
    """The source of an argument of a collector."""

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
        """The sources of all its arguments."""
        clock = {ArgumentSource.CLOCK} if _NOW in _parameters(self.formula) else set()
        declared, payload = ArgumentSource.DECLARED, ArgumentSource.PAYLOAD
        return frozenset(clock | {declared if isinstance(value, float) else payload for _, value in self.arguments})


@dataclass(frozen=True, slots=True)
class CollectedQuality:
    """The measurements of collectors on one event, and why others have failed."""

    quality: Quality
    missing: tuple[tuple[MetricKey, str], ...] = ()

    def beside(self, carried: Quality, catalogue: Catalogue) -> Quality:
        """Return the quality with the event's own values for metrics without a collector, if they are in range.

        Where a collector has failed, the producer's own value does not replace its result.
        """
        failed = {key for key, _ in self.missing}
        wrong = {value.key for value in carried if not _admits(catalogue, value)}
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
    """Make the collector of a metric, with arguments as the domain file writes them; raises `PolicyError`.

    What it does not say itself is taken from what is declared of the sensor, by the same names.
    """
    catalogue.definition(key)
    if formula not in FORMULAS:
        raise PolicyError(f"there is no formula `{formula}` (known: {', '.join(f'`{name}`' for name in FORMULAS)})")
    parameters = _parameters(formula)
    for name in arguments:
        if name not in parameters or name in _OURS:
            known = ", ".join(f"`{name_known}`" for name_known in parameters if name_known not in _OURS)
            raise PolicyError(f"formula `{formula}` takes no `{name}` (it takes {known})")
    declared = {**(sensor or {}), **arguments}
    used = [(name, _argument(name, declared[name])) for name in parameters if name in declared and name not in _OURS]
    for name, parameter in parameters.items():
        if name not in declared and name not in _OURS and parameter.default is inspect.Parameter.empty:
            raise PolicyError(f"formula `{formula}` needs `{name}`: give it, or declare it for the sensor")
    return QualityCollector(key, formula, tuple(used))


def collect(
    collectors: Iterable[QualityCollector], catalogue: Catalogue, content: Content, now: float
) -> CollectedQuality:
    """Measure the quality of an event of this content now, in seconds since the epoch."""
    time = moment(now)
    values: list[MetricValue] = []
    missing: list[tuple[MetricKey, str]] = []
    for collector in collectors:
        try:
            measured = _measured(collector, catalogue.definition(collector.key), content, time)
            values.append(MetricValue(collector.key, measured, time))
        except PolicyError as error:
            missing.append((collector.key, str(error)))
    return CollectedQuality(NO_QUALITY.with_(values), tuple(missing))


def _measured(collector: QualityCollector, definition: MetricDefinition, content: Content, now: Timestamp) -> float:
    arguments: dict[str, object] = {name: _value(name, argument, content) for name, argument in collector.arguments}
    if _NOW in _parameters(collector.formula):
        arguments[_NOW] = now
    if _WEIGHTS in arguments:
        arguments[_PRESENT] = {name: _is_there(content, name) for name in arguments[_WEIGHTS]}  # type: ignore[attr-defined]
    measured = FORMULAS[collector.formula](**arguments)
    if not definition.admits(measured):
        raise PolicyError(f"`{measured:g}` is not within {definition.least:g} to {definition.most:g}")
    return definition.rounded(measured)


def _parameters(formula: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(FORMULAS[formula]).parameters


def _argument(name: str, value: object) -> Argument:
    if name == _WEIGHTS:
        if not isinstance(value, Mapping) or not value:
            raise PolicyError(f"`{name}`: expected weights by attribute, found `{value!r:.80}`")
        return tuple((str(attribute), _number(str(attribute), weight)) for attribute, weight in value.items())
    if name in _SPANS and isinstance(value, str) and _SPAN.fullmatch(value):
        return check_seconds(value)
    if isinstance(value, str):
        try:
            return make_expression(value)
        except ConditionError as error:
            raise PolicyError(f"`{name}`: {error}") from None
    return _number(name, value)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"`{name}`: expected a number or an expression, found `{value!r:.80}`")
    return float(value)


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
    """Return a time from a payload: a timestamp, a text in RFC 3339, or seconds since the epoch."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        try:
            return timestamp_from_string(value[:100])
        except EvaluationError as error:
            raise PolicyError(str(error)) from None
    return moment(_number(_MEASURED, value))


def _is_there(content: Content, path: str) -> bool:
    """Return whether an attribute is present and not null. A name with dots leads into maps."""
    at = content.attributes
    if isinstance(at, Unreadable):
        raise PolicyError(at.reason)
    for name in path.split("."):
        if not isinstance(at, dict) or name not in at:
            return False
        at = at[name]
    return at is not None
