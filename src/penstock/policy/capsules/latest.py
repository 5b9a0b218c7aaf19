"""Capsules without windows: of the last event of each input, one result for each event."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.model.quality import moment
from penstock.policy.capsules.capsule import MICROSECONDS, Capsule, LatestReduction
from penstock.policy.capsules.steps import ReducedGroup
from penstock.policy.quality.carriage import ATTACHED, read_properties
from penstock.policy.quality.propagation import Operation, propagate


class Last(NamedTuple):
    """The last event of an input and a group."""

    arrival: int
    content: str
    """The attributes that are kept of it, as JSON."""
    quality: str
    until: int | None = None
    """The time by which it is to be deleted."""


def reduced_latest(
    capsule: Capsule, group: tuple[str, ...], known: Mapping[int, Last], now: int
) -> ReducedGroup | None:
    """Return what is made of the last events, by input; None if one is not known, or was too long ago."""
    reduction = capsule.reduction
    assert isinstance(reduction, LatestReduction)
    if len(known) < len(capsule.inputs):
        return None
    if reduction.within is not None and any(now - last.arrival > reduction.within for last in known.values()):
        return None
    contents: dict[int, dict[str, Any]] = {at: msgspec.json.decode(last.content) for at, last in sorted(known.items())}
    values: dict[str, Any]
    if reduction.values:
        values = {name: contents[of.input][name] for name, of in reduction.values}
    elif len(contents) == 1:
        values = contents[0]
    else:
        values = {capsule.inputs[at].name: content for at, content in contents.items()}
    texts = [known[at].quality for at in contents]
    qualities = [read_properties([(ATTACHED, text)] if text else [], moment(0), ATTACHED) for text in texts]
    if len(qualities) == 1:
        return ReducedGroup(now, group, 1, values, qualities[0])
    quality = propagate(Operation.JOIN, qualities, capsule.catalogue, now / MICROSECONDS)
    return ReducedGroup(now, group, len(known), values, quality)
