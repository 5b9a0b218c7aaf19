"""Aggregates: of many events, only the means of some attributes over a period, with the quality of means.

Periods are the same for all: they begin at multiples of their length since the epoch. The mean of a period is made
when an event of a later one comes, or when it is asked for after its end. It contains nothing of a single event, and
needs several publishers: one that gets the mean and has published could subtract its own values, so it does not count.
"""

import math
from typing import Any, NamedTuple

import msgspec

from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError
from penstock.model.quality import Catalogue, Quality
from penstock.policy.contracts.degrade import MAX_INPUTS, Aggregate, number_at
from penstock.policy.quality.propagation import Operation, propagate
from penstock.policy.statements.redact import path_of


class MeanWindow(NamedTuple):
    """The events of one period."""

    number: int
    """The number of the period, counted from the epoch."""
    inputs: tuple[tuple[tuple[float, ...], Quality], ...] = ()
    """The numbers of the attributes of each event, and its quality."""
    left_out: int = 0
    expires: float | None = None
    """The time when the first of them expires, in seconds since the epoch."""
    publishers: frozenset[str] = frozenset()
    """Those who published them and count."""


class Mean(NamedTuple):
    """The release of a period: a JSON object of the means, by attribute."""

    payload: bytes
    quality: Quality
    of: int
    """The number of events that it is made of."""
    at: float
    """The end of the period, in seconds since the epoch: its quality is as of then."""
    expires: float | None = None
    """The time when the first of its events expires."""


def absorb(
    aggregate: Aggregate,
    window: MeanWindow | None,
    content: Content,
    quality: Quality,
    catalogue: Catalogue,
    now: float,
    expires: float | None = None,
    publisher: str = "",
) -> tuple[MeanWindow, Mean | None]:
    """Return the window with one more event, and the mean of the window before if it is over. `publisher`: who counts
    for the event; empty: nobody.

    Raises `ContentError` for content that is no JSON, or has no such numbers; then nothing has changed.
    """
    if content.format is not Format.JSON:
        raise ContentError(f"content that is {content.format} cannot be aggregated")
    numbers = tuple(number_at(content, path_of(name)) for name in aggregate.attributes)
    left, released = due(aggregate, window, catalogue, now)
    current = left or MeanWindow(_number(aggregate, now))
    if len(current.inputs) >= MAX_INPUTS:
        return current._replace(left_out=current.left_out + 1), released
    first = min((at for at in (current.expires, expires) if at is not None), default=None)
    publishers = current.publishers | {publisher} if publisher else current.publishers
    return MeanWindow(
        current.number, (*current.inputs, (numbers, quality)), current.left_out, first, publishers
    ), released


def begin_of(aggregate: Aggregate, now: float) -> float:
    """Return the beginning of the present period."""
    return _number(aggregate, now) * aggregate.seconds


def end_of(aggregate: Aggregate, now: float) -> float:
    """Return the end of the present period."""
    return (_number(aggregate, now) + 1) * aggregate.seconds


def due(
    aggregate: Aggregate, window: MeanWindow | None, catalogue: Catalogue, now: float
) -> tuple[MeanWindow | None, Mean | None]:
    """Return the window, None if it is over by now, and then its mean, if there were enough publishers and events."""
    if window is None or window.number >= _number(aggregate, now):
        return window, None
    if len(window.publishers) < aggregate.least or len(window.inputs) < aggregate.events:
        return None, None
    count = len(window.inputs)
    means: dict[str, Any] = {}
    columns = zip(*(numbers for numbers, _ in window.inputs), strict=True)
    for name, column in zip(aggregate.attributes, columns, strict=True):
        _put(means, name, math.fsum(column) / count)
    qualities = [quality for _, quality in window.inputs]
    end = (window.number + 1) * aggregate.seconds
    quality_of_mean = propagate(Operation.MEAN, qualities, catalogue, end, expected=count + window.left_out)
    return None, Mean(msgspec.json.encode(means), quality_of_mean, count, end, window.expires)


def _number(aggregate: Aggregate, now: float) -> int:
    return math.floor(now / aggregate.seconds)


def _put(into: dict[str, Any], name: str, value: float) -> None:
    *around, last = path_of(name)
    for step in around:
        into = into.setdefault(step, {})
    into[last] = value
