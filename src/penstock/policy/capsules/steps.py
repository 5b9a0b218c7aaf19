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
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import NO_QUALITY, Catalogue, MetricKey, MetricValue, Quality, moment
from penstock.model.values import Timestamp, Value
from penstock.policy.capsules import capsule as capsules
from penstock.policy.quality.carriage import CLAIMED, MEMBER, write_properties, write_quality
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.observation import ContextObservation, write_members, write_observation
from penstock.policy.quality.propagation import Operation, aged, fuse, precision_weights, propagate, quality_weights

DIGITS = 12
"""Significant digits of results: sums depend on their order by less than that."""
MAX_KEY = 256
"""Characters of a key of a group."""
_NANOSECONDS = 1_000
_ROOT = "result"
"""The root element of results in XML that are no observations."""


class TakenEvent(NamedTuple):
    """The part of an event that a capsule uses."""

    at: int
    """The time of the event, in microseconds."""
    group: tuple[str, ...]
    numbers: tuple[float | None, ...]
    """The number of each path of the reduction; None if it is of another input."""
    quality: Quality
    source: str = ""
    input: int = 0
    content: str = ""
    """The attributes that a `LatestReduction` keeps, as JSON."""


class ReducedGroup(NamedTuple):
    """The reduction of all events of a group in a window, or of the last event of each input."""

    start: int
    """The beginning of the window; without windows, when the last of the events came."""
    group: tuple[str, ...]
    inputs: int
    values: Mapping[str, Any]
    quality: Quality


class CapsuleResult(NamedTuple):
    """A result that is published."""

    topic: str
    payload: bytes
    quality: Quality
    properties: tuple[tuple[str, str], ...]
    content_type: str = "application/json"


# --- events


def take(
    capsule: capsules.Capsule, topic: str, content: Content, quality: Quality, arrival: int, input: int = 0
) -> TakenEvent | None:
    """Return what an input takes from an event of this arrival (µs), None if nothing; raises `PolicyError`."""
    where = capsule.inputs[input].where
    if where is not None and where.holds(content) is not True:
        return None
    for step in capsule.before:
        left = _stepped(step, content, quality, capsule.catalogue, arrival / capsules.MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise PolicyError(attributes.reason)
    reduction, window = capsule.reduction, capsule.window
    at = arrival if window is None or window.time is None else _happened(window, window.time, content, arrival)
    source = reduction.source if isinstance(reduction, capsules.FuseReduction) else None
    return TakenEvent(
        at,
        tuple([_key(name, place, topic, attributes) for name, place in reduction.by]),
        tuple([_number(attributes, path) if of == input else None for path, of in reduction.paths]),
        quality,
        "" if source is None else _key("source", source, topic, attributes),
        input,
        _kept(reduction, attributes, input) if isinstance(reduction, capsules.LatestReduction) else "",
    )


def _kept(reduction: capsules.LatestReduction, attributes: Mapping[str, Value], input: int) -> str:
    """Return the attributes that the last event of an input is remembered by, as JSON."""
    if reduction.values:
        kept: dict[str, Value] = {name: _at(attributes, of.path) for name, of in reduction.values if of.input == input}
    else:
        kept = {name: value for name, value in attributes.items() if name != MEMBER}
    try:
        return msgspec.json.encode(_plain(kept)).decode()
    except RecursionError:
        raise PolicyError("the content is nested too deeply") from None


def _plain(value: Value) -> Any:
    """Return a value as JSON has it; raise `PolicyError` for bytes and other values that JSON does not have."""
    match value:
        case dict():
            return {str(name): _plain(member) for name, member in value.items()}
        case list() | tuple():
            return [_plain(member) for member in value]
        case Timestamp():
            return timestamp_to_string(value)
        case float() if not math.isfinite(value):
            raise PolicyError(f"`{value}` is not a number")
        case None | bool() | int() | float() | str():
            return value
    raise PolicyError(f"a value is {type(value).__name__}, which JSON does not have")


def _happened(window: capsules.WindowSchedule, time: Expression, content: Content, arrival: int) -> int:
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
    if at > arrival + window.skew:
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
    assert capsule.window is not None
    if reduction.source is not None:
        inputs = list({taken.source: taken for taken in inputs}.values())
    now = (start + capsule.window.length) / capsules.MICROSECONDS
    qualities = [aged(taken.quality, catalogue, now) for taken in inputs]
    if catalogue.kind(reduction.weight) == "precision":
        weights = precision_weights(qualities, reduction.weight)
    else:
        weights = quality_weights(qualities, reduction.weight, catalogue)
    numbers = zip(*([number or 0.0 for number in taken.numbers] for taken in inputs), strict=True)
    values = {name: fuse(column, weights) for (name, _), column in zip(reduction.values, numbers, strict=True)}
    expected = capsule.window.expected
    quality = propagate(Operation.FUSE, qualities, catalogue, now, weights, expected)
    return ReducedGroup(start, group, len(inputs), values, quality)


def conclude(capsule: capsules.Capsule, reduced: ReducedGroup) -> CapsuleResult | None:
    """Return the result to publish for a group; None if a step drops it. Raises `PolicyError`."""
    group = _group(capsule, reduced.group)
    more: dict[str, Any] = {capsules.INPUTS: reduced.inputs}
    if capsule.window is None:
        end, own = reduced.start, {**group, **reduced.values, **group}
        more[capsules.AT] = text_of(end)
    else:
        end = reduced.start + capsule.window.length
        times = {capsules.START: text_of(reduced.start), capsules.END: text_of(end)}
        own = {**group, **times, **{name: _rounded(name, value) for name, value in reduced.values.items()}}
    quality, content = reduced.quality, _content({**more, **own})
    for step in capsule.after:
        if isinstance(step, capsules.InferStep):
            own |= _inferred(step, content, quality)
            content = _content({**more, **own})
            quality = propagate(Operation.INFER, [quality], capsule.catalogue, end / capsules.MICROSECONDS)
            continue
        left = _stepped(step, content, quality, capsule.catalogue, end / capsules.MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    return _result(capsule, group, _payload(capsule, own, content, quality), quality, end)


def conclude_silence(capsule: capsules.Capsule, input: int, group: tuple[str, ...], since: int) -> CapsuleResult:
    """Return the result of an input of which nothing has come since a time. Raises `PolicyError`."""
    silence = capsule.inputs[input].silence
    assert silence is not None
    keys = _group(capsule, group)
    times = {capsules.SINCE: text_of(since), capsules.AT: text_of(since + silence.after)}
    attributes = {**keys, capsules.SILENT: capsule.inputs[input].name, **times, **dict(silence.set)}
    return _result(capsule, keys, attributes, NO_QUALITY, since + silence.after)


def _group(capsule: capsules.Capsule, group: tuple[str, ...]) -> dict[str, str]:
    return dict(zip((name for name, _ in capsule.reduction.by), group, strict=True))


def _result(
    capsule: capsules.Capsule, group: dict[str, str], attributes: dict[str, Any], quality: Quality, end: int
) -> CapsuleResult:
    output, form = capsule.output, capsule.output.format
    topic, type = output.filled(group), f"application/{form}"
    try:
        if output.observable is not None:
            (entity,) = output.observable.entities
            date = Timestamp(end * _NANOSECONDS)
            payload = write_observation(ContextObservation(output.observable.uri, entity.uri, date, attributes), form)
        else:
            payload = write_members(attributes if form is Format.JSON else {_ROOT: attributes}, form)
        if output.in_content:
            return CapsuleResult(topic, write_quality(Content(payload, form), quality), quality, (), type)
    except ContentError as error:
        raise PolicyError(str(error)) from None
    return CapsuleResult(topic, payload, quality, write_properties(quality, CLAIMED), type)


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


def text_of(micros: int) -> str:
    """Return a time in microseconds as a text."""
    return timestamp_to_string(Timestamp(micros * _NANOSECONDS))
