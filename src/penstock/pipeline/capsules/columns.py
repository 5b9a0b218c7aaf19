"""What a capsule takes of many events at once: what `steps.take` makes of each, in a fraction of the time.

It is for events that are all of one kind. Where one is not, nothing is said, and each is looked at alone: only there it
is told what is wrong with it.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.values import Value
from penstock.policy.capsules.capsule import Capsule, FuseReduction, KeyPlace
from penstock.policy.capsules.steps import MAX_KEY

Objects = Sequence[Mapping[str, Value]]


def columns_of(capsule: Capsule, topics: Sequence[str], objects: Objects) -> dict[str, Any] | None:
    """Return by name the columns for the groups, the numbers and the sources of events; None if one has none."""
    reduction = capsule.reduction
    source = reduction.source if isinstance(reduction, FuseReduction) else None
    made: dict[str, Any] = {"source": [""] * len(topics) if source is None else _keys(source, topics, objects)}
    made |= {f"k{at}": _keys(place, topics, objects) for at, (_, place) in enumerate(reduction.by)}
    made |= {f"n{at}": _numbers(of.path, objects) for at, of in enumerate(reduction.paths)}
    return None if any(column is None for column in made.values()) else made


def _keys(place: KeyPlace, topics: Sequence[str], objects: Objects) -> list[str] | None:
    if isinstance(place, int):
        levels = [_level(topic, place) for topic in topics]
        return None if None in levels else [level for level in levels if level is not None]
    values = _values(place, objects)
    kinds = set(map(type, values))
    if kinds == {int}:
        values = [*map(str, values)]
    elif kinds != {str}:
        return None
    return values if max(map(len, values)) <= MAX_KEY else None


@lru_cache(maxsize=10_000)
def _level(topic: str, place: int) -> str | None:
    levels = topic.split("/")
    return levels[place - 1] if len(levels) >= place and len(levels[place - 1]) <= MAX_KEY else None


def _numbers(path: tuple[str, ...], objects: Objects) -> pa.Array | None:
    values = _values(path, objects)
    if not set(map(type, values)) <= {int, float}:
        return None
    try:
        made = pa.array(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):  # an integer that no double has
        return None
    return made if pc.all(pc.is_finite(made)).as_py() else None


def _values(path: tuple[str, ...], objects: Objects) -> list[Any]:
    """Return the values of each column; None if it has none."""
    values: list[Any] = [*objects]
    for name in path:
        values = [value.get(name) if type(value) is dict else None for value in values]
    return values
