"""Aggregates: of many events, only the means of some attributes over a time, with the quality that means have.

Times are the same for all: they begin at whole multiples of their length since the epoch. What is released of one is
made when an event of a later one comes, or when somebody asks after its end. Nothing of a single event is in it.
"""

import math
from typing import Any, NamedTuple

import msgspec

from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError
from penstock.model.quality import Catalogue, Quality
from penstock.policy.contracts.degrade import MAX_INPUTS, Aggregate, number_at, path_of
from penstock.policy.quality.propagation import Operation, propagate


class MeanWindow(NamedTuple):
    """What has come in one time."""

    number: int
    """Which time it is, counted from the epoch."""
    inputs: tuple[tuple[tuple[float, ...], Quality], ...] = ()
    """Of each event, the numbers of the attributes, and its quality."""
    left_out: int = 0
    expires: float | None = None
    """When the first of them expires, in seconds since the epoch."""


class Mean(NamedTuple):
    """What is released of a time: a JSON object of the means, by their attributes."""

    payload: bytes
    quality: Quality
    of: int
    """How many events it is made of."""
    at: float
    """The end of the time, in seconds since the epoch: its quality is as of then, whenever somebody asks."""
    expires: float | None = None
    """When the first of the events expires that it is made of."""


class Absorbed(NamedTuple):
    window: MeanWindow
    released: Mean | None = None


def absorb(
    aggregate: Aggregate,
    window: MeanWindow | None,
    content: Content,
    quality: Quality,
    catalogue: Catalogue,
    now: float,
    expires: float | None = None,
) -> Absorbed:
    """Return the window with one more event, and what is released of the one before if it is over.

    Raises `ContentError` for content that is no JSON, or has no such numbers; then nothing has changed.
    """
    if content.format is not Format.JSON:
        raise ContentError(f"content that is {content.format} cannot be aggregated")
    numbers = tuple(number_at(content, path_of(name)) for name in aggregate.attributes)
    left, released = due(aggregate, window, catalogue, now)
    current = left or MeanWindow(_number(aggregate, now))
    if len(current.inputs) >= MAX_INPUTS:
        return Absorbed(current._replace(left_out=current.left_out + 1), released)
    first = min((at for at in (current.expires, expires) if at is not None), default=None)
    return Absorbed(current._replace(inputs=(*current.inputs, (numbers, quality)), expires=first), released)


def begin_of(aggregate: Aggregate, now: float) -> float:
    """When the time began that an event of now is in."""
    return _number(aggregate, now) * aggregate.seconds


def end_of(aggregate: Aggregate, now: float) -> float:
    """When the time is over that an event of now is in."""
    return (_number(aggregate, now) + 1) * aggregate.seconds


class Due(NamedTuple):
    window: MeanWindow | None
    """None: it is over."""
    released: Mean | None


def due(aggregate: Aggregate, window: MeanWindow | None, catalogue: Catalogue, now: float) -> Due:
    """What is released of a window by now."""
    if window is None or window.number >= _number(aggregate, now):
        return Due(window, None)
    if len(window.inputs) < aggregate.least:
        return Due(None, None)
    count = len(window.inputs)
    means: dict[str, Any] = {}
    for name, several in zip(aggregate.attributes, zip(*(one for one, _ in window.inputs), strict=True), strict=True):
        _put(means, name, math.fsum(several) / count)
    qualities = [quality for _, quality in window.inputs]
    end = (window.number + 1) * aggregate.seconds
    made = propagate(Operation.MEAN, qualities, catalogue, end, expected=count + window.left_out)
    return Due(None, Mean(msgspec.json.encode(means), made, count, end, window.expires))


def _number(aggregate: Aggregate, now: float) -> int:
    return math.floor(now / aggregate.seconds)


def _put(into: dict[str, Any], name: str, value: float) -> None:
    *around, last = path_of(name)
    for one in around:
        into = into.setdefault(one, {})
    into[last] = value
