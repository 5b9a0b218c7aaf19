"""Capsules as data: context of a lower level in, of a higher level out (contracts §2.3).

A capsule is a consumer and a producer. Of what it is given, it takes events on its topics into windows of time; steps
before the window leave events out and change their quality; a reduction makes one of all events of a group; steps after
it do so with that one. What runs it is `capsule_steps.py`, on Spark `pipeline/jobs/capsules.py`; docs/capsules.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from penstock.language.condition import Condition
from penstock.language.expression import Expression
from penstock.language.types import DOUBLE, DYN, INT, STRING, MapType, Record, Type
from penstock.model.errors import PolicyError, TopicError
from penstock.model.quality import Catalogue, Key
from penstock.model.topic import check_topic, is_wild
from penstock.policy.quality.needs import Constraint
from penstock.policy.quality.propagation import Operation

MICROSECONDS = 1_000_000
MOST_WINDOWS = 1_000
"""That one event may be in."""
QUALITY, START, END, INPUTS = "quality", "start", "end", "inputs"
"""What is known of every result, beside what the capsule names."""

Place = int | tuple[str, ...]
"""Where something stands in an event: a level of its topic, from 1 on, or the way to an attribute."""


class Late(StrEnum):
    """What becomes of events that come when their window is closed."""

    DROP = "drop"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Window:
    """Times in microseconds. Windows begin at whole multiples of `slide` since the epoch."""

    length: int
    slide: int
    lateness: int = 0
    """How long after its end a window is closed."""
    late: Late = Late.DROP
    time: Expression | None = None
    """When an event happened, as it says itself; None: when it came."""
    skew: int = MICROSECONDS
    """How far its clock may be ahead."""
    expected: int = 0
    """Events of a window and a group that there should be."""

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.length:
            raise PolicyError("a window has a `length`, and a `slide` of at most that")
        if self.length > MOST_WINDOWS * self.slide:
            raise PolicyError(f"an event would be in more than {MOST_WINDOWS} windows: take a longer `slide`")

    def starts(self, at: int) -> Iterator[int]:
        """The beginnings of all windows that a time is in, the first one first."""
        last = at - at % self.slide
        first = last - (self.length - 1 - at % self.slide) // self.slide * self.slide
        return iter(range(first, last + 1, self.slide))


class Function(StrEnum):
    """What an aggregate is."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"


_OPERATIONS: Mapping[Function, Operation] = {
    Function.MEAN: Operation.MEAN,
    Function.MIN: Operation.SELECT,
    Function.MAX: Operation.SELECT,
    Function.SUM: Operation.SUM,
}


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One attribute of the result, and what of the inputs it is."""

    name: str
    function: Function
    path: tuple[str, ...] = ()
    """The attribute of the inputs; nothing for a count."""


@dataclass(frozen=True)
class Aggregate:
    """One of all events of a group: functions of their attributes."""

    by: tuple[tuple[str, Place], ...]
    values: tuple[Aggregated, ...]

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """What is done to quality. To count changes nothing; a count alone is as good as the worst that was counted."""
        found = dict.fromkeys(_OPERATIONS[one.function] for one in self.values if one.function in _OPERATIONS)
        return tuple(found) or (Operation.SELECT,)

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The attributes that inputs must have, as numbers."""
        return tuple(dict.fromkeys(one.path for one in self.values if one.path))


@dataclass(frozen=True)
class Fuse:
    """One of all events of a group: what several sources say of the same, weighted by their quality."""

    by: tuple[tuple[str, Place], ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    weight: Key
    source: Place | None = None
    """What tells sources apart: only the last event of each counts. None: every event is a source."""

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        return tuple(path for _, path in self.values)


Reduction = Aggregate | Fuse


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave out what does not have this quality."""

    needs: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class Where:
    """Leave out what does not satisfy the condition."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Put:
    """Add or update indicators."""

    values: tuple[tuple[Key, float | Expression], ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Take indicators away."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds in a situation."""

    when: Condition | None
    set: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Infer:
    """Attributes by rules; the first counts whose condition is true."""

    rules: tuple[Rule, ...]


Step = Keep | Where | Put | Remove | Infer

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go, and what is in them."""

    topic: str
    """With `{NAME}` for what a group has by this name."""
    payload: tuple[tuple[str, Expression], ...] = ()
    """Attributes, and what they are; nothing: all that the capsule names."""
    in_content: bool = False
    """Whether quality goes into the payload; else it goes as user properties."""

    @property
    def holes(self) -> tuple[str, ...]:
        return tuple(_HOLE.findall(self.topic))

    @property
    def filter(self) -> str:
        """A topic filter of all that it may make."""
        return "/".join("+" if _HOLE.search(level) else level for level in self.topic.split("/"))

    def filled(self, group: Mapping[str, str]) -> str:
        """The topic of a group; raises `PolicyError` if a value cannot stand in it."""
        for name in self.holes:
            if "/" in group[name] or is_wild(group[name]):
                raise PolicyError(f"`{name}` is `{group[name][:80]}`, which cannot stand in a topic")
        made = _HOLE.sub(lambda hole: group[hole[1]], self.topic)
        try:
            check_topic(made)
        except TopicError as error:
            raise PolicyError(str(error)) from None
        if made.startswith("$"):
            raise PolicyError(f"`{made[:80]}` is a `$` topic")
        return made


@dataclass(frozen=True, slots=True)
class Capsule:
    """All that a capsule does."""

    name: str
    client: str
    """The subject that it is."""
    topics: tuple[str, ...]
    where: Condition | None
    window: Window
    before: tuple[Step, ...]
    reduction: Reduction
    after: tuple[Step, ...]
    output: Output
    catalogue: Catalogue

    @property
    def metrics(self) -> tuple[Key, ...]:
        """The metrics of quality that are propagated, in order."""
        return tuple(self.catalogue)


def result_types(reduction: Reduction, after: tuple[Step, ...] = ()) -> Record:
    """The attributes that conditions on results may ask for, with their types."""
    types: dict[str, Type] = {name: STRING for name, _ in reduction.by}
    types |= {START: STRING, END: STRING, INPUTS: INT, QUALITY: MapType(STRING, DOUBLE)}
    if isinstance(reduction, Aggregate):
        types |= {one.name: INT if one.function is Function.COUNT else DOUBLE for one in reduction.values}
    else:
        types |= {name: DOUBLE for name, _ in reduction.values}
    for step in after:
        if isinstance(step, Infer):
            types |= {name: DYN for rule in step.rules for name, _ in rule.set}
    return Record(types)
