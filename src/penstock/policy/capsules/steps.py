"""What a capsule does with one event, and with one result: pure, so that every executor does the same.

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
from penstock.model.quality import Catalogue, Key, MetricValue, Quality, moment
from penstock.model.values import Timestamp, Value
from penstock.policy.capsules.capsule import (
    END,
    INPUTS,
    MICROSECONDS,
    QUALITY,
    START,
    Capsule,
    Fuse,
    Infer,
    Keep,
    Place,
    Put,
    Remove,
    Step,
    Where,
)
from penstock.policy.quality.carriage import CLAIMED, write_properties, write_quality
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.propagation import Operation, aged, fuse, precision_weights, propagate, quality_weights

DIGITS = 12
"""Of results: sums depend on their order by less than that."""
MOST_KEY = 256
"""Characters of what makes a group."""
_NANOSECONDS = 1_000


class Taken(NamedTuple):
    """What a capsule takes of an event."""

    at: int
    """When it happened, in microseconds."""
    group: tuple[str, ...]
    numbers: tuple[float, ...]
    quality: Quality
    source: str = ""


class Reduced(NamedTuple):
    """What is made of all events of a group in a window."""

    start: int
    group: tuple[str, ...]
    inputs: int
    values: Mapping[str, float | int]
    quality: Quality


class Made(NamedTuple):
    """A result that goes out."""

    topic: str
    payload: bytes
    quality: Quality
    properties: tuple[tuple[str, str], ...]


# --- events


def take(capsule: Capsule, topic: str, content: Content, quality: Quality, arrival: int) -> Taken | None:
    """What is taken of an event that came at a time in microseconds; None if it is left out. Raises `PolicyError`."""
    if capsule.where is not None and capsule.where.holds(content) is not True:
        return None
    for step in capsule.before:
        left = _stepped(step, content, quality, capsule.catalogue, arrival / MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise PolicyError(attributes.reason)
    reduction = capsule.reduction
    at = arrival if capsule.window.time is None else _happened(capsule, capsule.window.time, content, arrival)
    source = reduction.source if isinstance(reduction, Fuse) else None
    return Taken(
        at,
        tuple([_key(name, place, topic, attributes) for name, place in reduction.by]),
        tuple([_number(attributes, path) for path in reduction.paths]),
        quality,
        "" if source is None else _key("source", source, topic, attributes),
    )


def _happened(capsule: Capsule, time: Expression, content: Content, arrival: int) -> int:
    value = time.value(content)
    if isinstance(value, str):
        try:
            value = timestamp_from_string(value[:100])
        except EvaluationError as error:
            raise PolicyError(f"`{time.text}` is no time: {error}") from None
    if isinstance(value, Timestamp):
        at = value.nanos // _NANOSECONDS
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        at = moment(value).nanos // _NANOSECONDS
    else:
        raise PolicyError(f"`{time.text}` is no time: {value if isinstance(value, Failure) else repr(value)[:80]}")
    if at > arrival + capsule.window.skew:
        raise PolicyError(f"it happened {(at - arrival) / MICROSECONDS:g} s after it came")
    return at


def _key(name: str, place: Place, topic: str, attributes: Mapping[str, Value]) -> str:
    if isinstance(place, int):
        levels = topic.split("/")
        if len(levels) < place:
            raise PolicyError(f"`{name}` is level {place} of the topic, which has {len(levels)}")
        found: Value = levels[place - 1]
    else:
        found = _at(attributes, place)
    if isinstance(found, bool):
        return str(found).lower()
    if not isinstance(found, str | int) or len(text := str(found)) > MOST_KEY:
        where = f"level {place}" if isinstance(place, int) else f"`{'.'.join(place)}`"
        raise PolicyError(f"`{name}`: {where} is no text, number or bool of at most {MOST_KEY} characters")
    return text


def _number(attributes: Mapping[str, Value], path: tuple[str, ...]) -> float:
    found = _at(attributes, path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise PolicyError(f"`{'.'.join(path)}` is no number")
    return float(found)


def _at(attributes: Mapping[str, Value], path: tuple[str, ...]) -> Value:
    at: Any = attributes
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    found: Value = at
    return found


# --- results


def fused(capsule: Capsule, start: int, group: tuple[str, ...], inputs: Sequence[Taken]) -> Reduced:
    """What several sources say together; the inputs are in the order in which they came. Raises `PolicyError`."""
    reduction, catalogue = capsule.reduction, capsule.catalogue
    assert isinstance(reduction, Fuse)
    if reduction.source is not None:
        inputs = list({one.source: one for one in inputs}.values())
    now = (start + capsule.window.length) / MICROSECONDS
    qualities = [aged(one.quality, catalogue, now) for one in inputs]
    if catalogue.kind(reduction.weight) == "precision":
        weights = precision_weights(qualities, reduction.weight)
    else:
        weights = quality_weights(qualities, reduction.weight, catalogue)
    numbers = zip(*(one.numbers for one in inputs), strict=True)
    values = {name: fuse(several, weights) for (name, _), several in zip(reduction.values, numbers, strict=True)}
    expected = capsule.window.expected
    quality = propagate(Operation.FUSE, qualities, catalogue, now, weights, expected)
    return Reduced(start, group, len(inputs), values, quality)


def conclude(capsule: Capsule, reduced: Reduced) -> Made | None:
    """What goes out of a result; None if a step leaves it out. Raises `PolicyError`."""
    end = reduced.start + capsule.window.length
    group = dict(zip((name for name, _ in capsule.reduction.by), reduced.group, strict=True))
    times = {START: _text(reduced.start), END: _text(end)}
    values = {name: _rounded(name, value) for name, value in reduced.values.items()}
    own: dict[str, Any] = {**group, **times, **values}
    quality, content = reduced.quality, _content({**own, INPUTS: reduced.inputs})
    for step in capsule.after:
        if isinstance(step, Infer):
            found = _inferred(step, content, quality)
            own |= found
            content = _content({**own, INPUTS: reduced.inputs})
            quality = propagate(Operation.INFER, [quality], capsule.catalogue, end / MICROSECONDS)
            continue
        left = _stepped(step, content, quality, capsule.catalogue, end / MICROSECONDS)
        if left is None:
            return None
        quality, content = left
    said = _payload(capsule, own, content, quality)
    payload = msgspec.json.encode(said)
    topic = capsule.output.filled(group)
    if capsule.output.in_content:
        return Made(topic, write_quality(Content(payload, Format.JSON), quality), quality, ())
    return Made(topic, payload, quality, write_properties(quality, CLAIMED))


def _payload(capsule: Capsule, own: dict[str, Any], content: Content, quality: Quality) -> dict[str, Any]:
    if not capsule.output.payload:
        return own
    made: dict[str, Any] = {}
    for name, expression in capsule.output.payload:
        value = expression.value(_with_quality(content, quality))
        if isinstance(value, Failure):
            raise PolicyError(f"`{name}`: `{expression.text}` fails: {value}")
        made[name] = timestamp_to_string(value) if isinstance(value, Timestamp) else value
    return made


def _inferred(step: Infer, content: Content, quality: Quality) -> dict[str, Any]:
    known = _with_quality(content, quality)
    for rule in step.rules:
        if rule.when is None or rule.when.holds(known) is True:
            return dict(rule.set)
    return {}


# --- steps


def _stepped(
    step: Step, content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> tuple[Quality, Content] | None:
    match step:
        case Keep(needs):
            return None if why_not(needs, aged(quality, catalogue, now), content) else (quality, content)
        case Where(condition):
            return (quality, content) if condition.holds(_with_quality(content, quality)) is True else None
        case Remove(keys):
            return quality.without(keys), content
        case Put(values):
            return _put(values, content, quality, catalogue, now), content
    raise AssertionError(step)


def _put(
    values: Sequence[tuple[Key, float | Expression]],
    content: Content,
    quality: Quality,
    catalogue: Catalogue,
    now: float,
) -> Quality:
    time, known = moment(now), None
    for key, said in values:
        value: Any = said
        if isinstance(said, Expression):
            known = known or _with_quality(content, quality)
            value = said.value(known)
        definition = catalogue.definition(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not definition.admits(float(value)):
            quality = quality.without((key,))
            continue
        before, rounded = quality.get(key), definition.rounded(float(value))
        made = MetricValue(key, rounded, time) if before is None else before.changed(rounded, time)
        quality = quality.with_((made,))
    return quality


def _with_quality(content: Content, quality: Quality) -> Content:
    """The content with the values of indicators as `quality`."""
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        return content
    known = {one.key.indicator: one.value for one in reversed(quality)}
    return Content.known(content.payload, content.format, {**attributes, QUALITY: known})


def _content(attributes: dict[str, Any]) -> Content:
    return Content.known(b"{}", Format.JSON, attributes)


def _rounded(name: str, value: float | int) -> float | int:
    if not math.isfinite(value):
        raise PolicyError(f"`{name}` is beyond all numbers")
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _text(micros: int) -> str:
    return timestamp_to_string(Timestamp(micros * _NANOSECONDS))
