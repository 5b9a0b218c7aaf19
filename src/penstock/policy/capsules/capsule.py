"""Capsules as data: context of a lower level in, of a higher level out (contracts §2.3).

A capsule is a consumer and a producer. Of what it is given, it takes events on its topics into windows of time; steps
before the window leave events out and change their quality; a reduction makes one of all events of a group; steps after
it do so with that one. It is run by `steps.py`, on Spark by `pipeline/jobs/capsules.py`; see docs/capsules.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from penstock.language.condition import Condition
from penstock.language.expression import Expression
from penstock.language.types import DOUBLE, DYN, INT, STRING, MapType, RecordType, Type
from penstock.model.errors import PolicyError, TopicError
from penstock.model.quality import Catalogue, MetricKey
from penstock.model.topic import check_topic, is_wild
from penstock.policy.quality.needs import Constraint
from penstock.policy.quality.propagation import Operation

MICROSECONDS = 1_000_000
MAX_WINDOWS = 1_000
"""Windows that contain one event."""
QUALITY, START, END, INPUTS = "quality", "start", "end", "inputs"
"""Attributes of every result, beside those that the capsule names."""

KeyPlace = int | tuple[str, ...]
"""The place of a key in an event: a level of its topic, from 1 on, or the path of an attribute."""


class Late(StrEnum):
    """The treatment of events that arrive after their window is closed."""

    DROP = "drop"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class WindowSchedule:
    """The windows of a capsule. Times are in microseconds; windows begin at multiples of `slide` since the epoch."""

    length: int
    slide: int
    lateness: int = 0
    """The time between the end of a window and its closing."""
    late: Late = Late.DROP
    time: Expression | None = None
    """The expression for the time of an event; None: its arrival time."""
    skew: int = MICROSECONDS
    """The time by which the clock of an event may be ahead."""
    expected: int = 0
    """Events that a window and a group should have."""

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.length:
            raise PolicyError("a window has a `length`, and a `slide` of at most that")
        if self.length > MAX_WINDOWS * self.slide:
            raise PolicyError(f"an event would be in more than {MAX_WINDOWS} windows: take a longer `slide`")

    def starts(self, at: int) -> Iterator[int]:
        """Return the beginnings of all windows that contain a time, in order."""
        last = at - at % self.slide
        first = last - (self.length - 1 - at % self.slide) // self.slide * self.slide
        return iter(range(first, last + 1, self.slide))


class AggregateFunction(StrEnum):
    """The function of an aggregated attribute."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"


_OPERATIONS: Mapping[AggregateFunction, Operation] = {
    AggregateFunction.MEAN: Operation.MEAN,
    AggregateFunction.MIN: Operation.SELECT,
    AggregateFunction.MAX: Operation.SELECT,
    AggregateFunction.SUM: Operation.SUM,
}


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One attribute of the result, and its function of an attribute of the inputs."""

    name: str
    function: AggregateFunction
    path: tuple[str, ...] = ()
    """The attribute of the inputs; empty for a count."""


@dataclass(frozen=True)
class AggregateReduction:
    """A reduction of the events of a group to functions of their attributes."""

    by: tuple[tuple[str, KeyPlace], ...]
    values: tuple[Aggregated, ...]

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The operations on quality. A count changes nothing; a count alone is as good as the worst input."""
        functions = (value.function for value in self.values)
        operations = dict.fromkeys(_OPERATIONS[function] for function in functions if function in _OPERATIONS)
        return tuple(operations) or (Operation.SELECT,)

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The attributes that inputs must have, as numbers."""
        return tuple(dict.fromkeys(value.path for value in self.values if value.path))


@dataclass(frozen=True)
class FuseReduction:
    """A reduction of the events of a group to means, weighted by the quality of their sources."""

    by: tuple[tuple[str, KeyPlace], ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    weight: MetricKey
    source: KeyPlace | None = None
    """The key of a source, of which only the last event counts. None: every event is a source."""

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        return tuple(path for _, path in self.values)


Reduction = AggregateReduction | FuseReduction


@dataclass(frozen=True, slots=True)
class KeepStep:
    """A step that drops events without this quality."""

    needs: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class WhereStep:
    """A step that drops events that do not satisfy the condition."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class PutStep:
    """A step that adds or updates quality indicators."""

    values: tuple[tuple[MetricKey, float | Expression], ...]


@dataclass(frozen=True, slots=True)
class RemoveStep:
    """A step that removes quality indicators."""

    keys: tuple[MetricKey, ...]


@dataclass(frozen=True, slots=True)
class SituationRule:
    """The attributes of a result in a situation."""

    when: Condition | None
    set: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class InferStep:
    """A step that sets attributes by rules; the first rule whose condition is true counts."""

    rules: tuple[SituationRule, ...]


CapsuleStep = KeepStep | WhereStep | PutStep | RemoveStep | InferStep

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResultTemplate:
    """The topic and payload of results."""

    topic: str
    """The topic, with `{NAME}` for a key of the group."""
    payload: tuple[tuple[str, Expression], ...] = ()
    """Attributes and their expressions; empty: all that the capsule names."""
    in_content: bool = False
    """True if quality goes into the payload; else it goes as user properties."""

    @property
    def holes(self) -> tuple[str, ...]:
        return tuple(_HOLE.findall(self.topic))

    @property
    def filter(self) -> str:
        """A topic filter that covers all its topics."""
        return "/".join("+" if _HOLE.search(level) else level for level in self.topic.split("/"))

    def filled(self, group: Mapping[str, str]) -> str:
        """Return the topic of a group; raises `PolicyError` if a value cannot stand in it."""
        for name in self.holes:
            if "/" in group[name] or is_wild(group[name]):
                raise PolicyError(f"`{name}` is `{group[name][:80]}`, which cannot stand in a topic")
        topic = _HOLE.sub(lambda hole: group[hole[1]], self.topic)
        try:
            check_topic(topic)
        except TopicError as error:
            raise PolicyError(str(error)) from None
        if topic.startswith("$"):
            raise PolicyError(f"`{topic[:80]}` is a `$` topic")
        return topic


@dataclass(frozen=True, slots=True)
class Capsule:
    """A capsule."""

    name: str
    client: str
    """The subject that the capsule acts as."""
    topics: tuple[str, ...]
    where: Condition | None
    window: WindowSchedule
    before: tuple[CapsuleStep, ...]
    reduction: Reduction
    after: tuple[CapsuleStep, ...]
    output: ResultTemplate
    catalogue: Catalogue

    @property
    def metrics(self) -> tuple[MetricKey, ...]:
        """The quality metrics that are propagated, in order."""
        return tuple(self.catalogue)


def result_types(reduction: Reduction, after: tuple[CapsuleStep, ...] = ()) -> RecordType:
    """Return the attributes of results with their types, for conditions on results."""
    types: dict[str, Type] = {name: STRING for name, _ in reduction.by}
    types |= {START: STRING, END: STRING, INPUTS: INT, QUALITY: MapType(STRING, DOUBLE)}
    if isinstance(reduction, AggregateReduction):
        count = AggregateFunction.COUNT
        types |= {value.name: INT if value.function is count else DOUBLE for value in reduction.values}
    else:
        types |= {name: DOUBLE for name, _ in reduction.values}
    for step in after:
        if isinstance(step, InferStep):
            types |= {name: DYN for rule in step.rules for name, _ in rule.set}
    return RecordType(types)
