"""The steps of a capsule on one event, and on one result: pure, so that every executor gets the same result.

What has no value raises `PolicyError`: the event, or the window, is then put aside with this reason. A condition that
cannot be evaluated is not true; an indicator whose new value cannot be found is taken away, as it is not known.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.language.errors import EvaluationError, Failure
from penstock.language.evaluators.times import timestamp_from_string, timestamp_to_string
from penstock.language.expression import Expression
from penstock.model.content.content import Content, Format, Unreadable
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, MetricKey, MetricValue, Quality, moment
from penstock.model.values import Timestamp, Value
from penstock.policy.capsules import capsule as capsules
from penstock.policy.quality.carriage import CLAIMED, write_properties, write_quality
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.propagation import Operation, aged, fuse, precision_weights, propagate, quality_weights

DIGITS = 12
"""Significant digits of results: sums depend on their order by less than that."""
MAX_KEY = 256
"""Characters of a key of a group."""
_NANOSECONDS = 1_000


class TakenEvent(NamedTuple):
    """The part of an event that a capsule uses."""

    at: int
    """The time of the event, in microseconds."""
    group: tuple[str, ...]
    numbers: tuple[float, ...]
    quality: Quality
    source: str = ""


class ReducedGroup(NamedTuple):
    """The reduction of all events of a group in a window."""

    start: int
    group: tuple[str, ...]
    inputs: int
    values: Mapping[str, float | int]
    quality: Quality


class CapsuleResult(NamedTuple):
    """A result that is published."""

    topic: str
    payload: bytes
    quality: Quality
    properties: tuple[tuple[str, str], ...]


# --- events


def take(capsule: capsules.Capsule, topic: str, content: Content, quality: Quality, arrival: int) -> TakenEvent | None:
    """Return what a capsule takes from an event of this arrival (µs), None if nothing; raises `PolicyError`."""
    if capsule.where is not None and capsule.where.holds(content) is not True:
        return None
    for step in capsule.before:
        left = _stepped(step, content, quality, capsule.catalogue, arrival / capsules.MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise PolicyError(attributes.reason)
    reduction = capsule.reduction
    at = arrival if capsule.window.time is None else _happened(capsule, capsule.window.time, content, arrival)
    source = reduction.source if isinstance(reduction, capsules.FuseReduction) else None
    return TakenEvent(
        at,
        tuple([_key(name, place, topic, attributes) for name, place in reduction.by]),
        tuple([_number(attributes, path) for path in reduction.paths]),
        quality,
        "" if source is None else _key("source", source, topic, attributes),
    )


def _happened(capsule: capsules.Capsule, time: Expression, content: Content, arrival: int) -> int:
    value = time.value(content)
    if isinstance(value, str):
        try:
            value = timestamp_from_string(value[:100])
        except EvaluationError as error:
            raise PolicyError(f"`{time.text}` is not a time: {error}") from None
    if isinstance(value, Timestamp):
        at = value.nanos // _NANOSECONDS
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        at = moment(value).nanos // _NANOSECONDS
    else:
        raise PolicyError(f"`{time.text}` is not a time: {value if isinstance(value, Failure) else repr(value)[:80]}")
    if at > arrival + capsule.window.skew:
        raise PolicyError(f"it happened {(at - arrival) / capsules.MICROSECONDS:g} s after it came")
    return at


def _key(name: str, place: capsules.KeyPlace, topic: str, attributes: Mapping[str, Value]) -> str:
    if isinstance(place, int):
        levels = topic.split("/")
        if len(levels) < place:
            raise PolicyError(f"`{name}` is level {place} of the topic, which has {len(levels)}")
        value: Value = levels[place - 1]
    else:
        value = _at(attributes, place)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int) or len(text := str(value)) > MAX_KEY:
        where = f"level {place}" if isinstance(place, int) else f"`{'.'.join(place)}`"
        raise PolicyError(f"`{name}`: {where} is not a text, number or bool of at most {MAX_KEY} characters")
    return text


def _number(attributes: Mapping[str, Value], path: tuple[str, ...]) -> float:
    value = _at(attributes, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PolicyError(f"`{'.'.join(path)}` is not a number")
    return float(value)


def _at(attributes: Mapping[str, Value], path: tuple[str, ...]) -> Value:
    value: Value = attributes
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# --- results


def fused(capsule: capsules.Capsule, start: int, group: tuple[str, ...], inputs: Sequence[TakenEvent]) -> ReducedGroup:
    """Fuse the inputs of several sources, given in the order of their arrival. Raises `PolicyError`."""
    reduction, catalogue = capsule.reduction, capsule.catalogue
    assert isinstance(reduction, capsules.FuseReduction)
    if reduction.source is not None:
        inputs = list({taken.source: taken for taken in inputs}.values())
    now = (start + capsule.window.length) / capsules.MICROSECONDS
    qualities = [aged(taken.quality, catalogue, now) for taken in inputs]
    if catalogue.kind(reduction.weight) == "precision":
        weights = precision_weights(qualities, reduction.weight)
    else:
        weights = quality_weights(qualities, reduction.weight, catalogue)
    numbers = zip(*(taken.numbers for taken in inputs), strict=True)
    values = {name: fuse(column, weights) for (name, _), column in zip(reduction.values, numbers, strict=True)}
    expected = capsule.window.expected
    quality = propagate(Operation.FUSE, qualities, catalogue, now, weights, expected)
    return ReducedGroup(start, group, len(inputs), values, quality)


def conclude(capsule: capsules.Capsule, reduced: ReducedGroup) -> CapsuleResult | None:
    """Return the result to publish for a group; None if a step drops it. Raises `PolicyError`."""
    end = reduced.start + capsule.window.length
    group = dict(zip((name for name, _ in capsule.reduction.by), reduced.group, strict=True))
    times = {capsules.START: _text(reduced.start), capsules.END: _text(end)}
    values = {name: _rounded(name, value) for name, value in reduced.values.items()}
    own: dict[str, Any] = {**group, **times, **values}
    quality, content = reduced.quality, _content({**own, capsules.INPUTS: reduced.inputs})
    for step in capsule.after:
        if isinstance(step, capsules.InferStep):
            own |= _inferred(step, content, quality)
            content = _content({**own, capsules.INPUTS: reduced.inputs})
            quality = propagate(Operation.INFER, [quality], capsule.catalogue, end / capsules.MICROSECONDS)
            continue
        left = _stepped(step, content, quality, capsule.catalogue, end / capsules.MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    payload = msgspec.json.encode(_payload(capsule, own, content, quality))
    topic = capsule.output.filled(group)
    if capsule.output.in_content:
        return CapsuleResult(topic, write_quality(Content(payload, Format.JSON), quality), quality, ())
    return CapsuleResult(topic, payload, quality, write_properties(quality, CLAIMED))


def _payload(capsule: capsules.Capsule, own: dict[str, Any], content: Content, quality: Quality) -> dict[str, Any]:
    if not capsule.output.payload:
        return own
    attributes: dict[str, Any] = {}
    for name, expression in capsule.output.payload:
        value = expression.value(_with_quality(content, quality))
        if isinstance(value, Failure):
            raise PolicyError(f"`{name}`: `{expression.text}` fails: {value}")
        attributes[name] = timestamp_to_string(value) if isinstance(value, Timestamp) else value
    return attributes


def _inferred(step: capsules.InferStep, content: Content, quality: Quality) -> dict[str, Any]:
    context = _with_quality(content, quality)
    for rule in step.rules:
        if rule.when is None or rule.when.holds(context) is True:
            return dict(rule.set)
    return {}


# --- steps


def _stepped(
    step: capsules.CapsuleStep, content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> tuple[Quality, Content] | None:
    match step:
        case capsules.KeepStep(needs):
            return None if why_not(needs, aged(quality, catalogue, now), content) else (quality, content)
        case capsules.WhereStep(condition):
            return (quality, content) if condition.holds(_with_quality(content, quality)) is True else None
        case capsules.RemoveStep(keys):
            return quality.without(keys), content
        case capsules.PutStep(values):
            return _put(values, content, quality, catalogue, now), content
    raise AssertionError(step)


def _put(
    values: Sequence[tuple[MetricKey, float | Expression]],
    content: Content,
    quality: Quality,
    catalogue: Catalogue,
    now: float,
) -> Quality:
    time, context = moment(now), None
    for key, setting in values:
        value: Any = setting
        if isinstance(setting, Expression):
            context = context or _with_quality(content, quality)
            value = setting.value(context)
        definition = catalogue.definition(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not definition.admits(float(value)):
            quality = quality.without((key,))
            continue
        before, rounded = quality.get(key), definition.rounded(float(value))
        metric = MetricValue(key, rounded, time) if before is None else before.changed(rounded, time)
        quality = quality.with_((metric,))
    return quality


def _with_quality(content: Content, quality: Quality) -> Content:
    """Return the content with the values of indicators as `quality`."""
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        return content
    values = {metric.key.indicator: metric.value for metric in reversed(quality)}
    return Content.known(content.payload, content.format, {**attributes, capsules.QUALITY: values})


def _content(attributes: dict[str, Any]) -> Content:
    return Content.known(b"{}", Format.JSON, attributes)


def _rounded(name: str, value: float | int) -> float | int:
    if not math.isfinite(value):
        raise PolicyError(f"`{name}` is beyond all numbers")
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _text(micros: int) -> str:
    return timestamp_to_string(Timestamp(micros * _NANOSECONDS))
