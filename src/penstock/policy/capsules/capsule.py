"""Capsules as data: context of a lower level in, of a higher level out (contracts §2.3).

A capsule is a consumer and a producer, with one input or several. Steps before the reduction leave events out and
change their quality. The reduction makes one result of the events of a group: of all in a window of time, or, without
windows, of the last event of each input. Steps after it work on that result. An input that falls silent makes a result
too. `steps.py` has the steps and `machine.py` runs them one event at a time, inside a node; on Spark it is
`pipeline/jobs/capsules.py`. See docs/capsules.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from penstock.language.condition import Condition
from penstock.language.expression import Expression
from penstock.language.types import ANYTHING, DOUBLE, DYN, INT, STRING, MapType, RecordType, Type
from penstock.model.content.content import Format
from penstock.model.errors import PolicyError, TopicError
from penstock.model.quality import Catalogue, MetricKey
from penstock.model.topic import check_topic, is_wild, matches
from penstock.policy.quality.needs import Constraint
from penstock.policy.quality.observation import ContextObservable
from penstock.policy.quality.propagation import Operation

MICROSECONDS = 1_000_000
MAX_WINDOWS = 1_000
"""Windows that contain one event."""
QUALITY, START, END, INPUTS, AT = "quality", "start", "end", "inputs", "at"
"""Attributes of results, beside those that the capsule names: without windows, `at` stands for `start` and `end`."""
SILENT, SINCE = "silent", "since"
"""Attributes of the result that a silent input makes: its name, and when its last event came."""
ONLY_INPUT = "input"
"""The name of the input of a capsule that has one."""

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


class InputPath(NamedTuple):
    """An attribute of the events of one input."""

    path: tuple[str, ...]
    input: int = 0
    """The place of the input among the capsule's."""


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One attribute of the result, and its function of an attribute of the inputs."""

    name: str
    function: AggregateFunction
    of: InputPath | None = None
    """The attribute of the inputs; None for a count."""


@dataclass(frozen=True)
class AggregateReduction:
    """A reduction of the events of a group to functions of their attributes."""

    by: tuple[tuple[str, KeyPlace], ...]
    values: tuple[Aggregated, ...]

    def operations(self, input: int = 0) -> tuple[Operation, ...]:
        """Return the operations on the quality of an input. A count alone is as good as the worst of the inputs."""
        functions = (value.function for value in self.values if value.of is not None and value.of.input == input)
        return tuple(dict.fromkeys(_OPERATIONS[function] for function in functions)) or (Operation.SELECT,)

    @cached_property
    def paths(self) -> tuple[InputPath, ...]:
        """The attributes that inputs must have, as numbers."""
        return tuple(dict.fromkeys(value.of for value in self.values if value.of is not None))


@dataclass(frozen=True)
class FuseReduction:
    """A reduction of the events of a group to means, weighted by the quality of their sources."""

    by: tuple[tuple[str, KeyPlace], ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    weight: MetricKey
    source: KeyPlace | None = None
    """The key of a source, of which only the last event counts. None: every event is a source."""

    @cached_property
    def paths(self) -> tuple[InputPath, ...]:
        return tuple(InputPath(path) for _, path in self.values)


@dataclass(frozen=True)
class LatestReduction:
    """A reduction, without windows, to the last event of each input: one result for each event."""

    by: tuple[tuple[str, KeyPlace], ...] = ()
    values: tuple[tuple[str, InputPath], ...] = ()
    """Attributes of the result, and of the events; empty: all attributes of the event, or by input all of its event."""
    within: int | None = None
    """The age, in microseconds, beyond which an event of another input does not count; None: any."""
    paths: tuple[InputPath, ...] = ()
    """None of the attributes need be a number."""


Reduction = AggregateReduction | FuseReduction | LatestReduction


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
    observable: ContextObservable | None = None
    """The observable that results are observations of; None: they are not."""
    format: Format = Format.JSON

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
class Silence:
    """The result of an input that has fallen silent."""

    after: int
    """The time since the last event of a group, in microseconds."""
    set: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CapsuleInput:
    """One kind of input events."""

    name: str
    topics: tuple[str, ...]
    where: Condition | None = None
    silence: Silence | None = None


@dataclass(frozen=True, slots=True)
class Capsule:
    """A capsule."""

    name: str
    client: str
    """The subject that the capsule acts as."""
    inputs: tuple[CapsuleInput, ...]
    window: WindowSchedule | None
    """Its windows; None: it has a `LatestReduction`."""
    before: tuple[CapsuleStep, ...]
    reduction: Reduction
    after: tuple[CapsuleStep, ...]
    output: ResultTemplate
    catalogue: Catalogue
    digest: str = ""
    """A digest of all that decides what is remembered of events."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic filters of all inputs."""
        return tuple(dict.fromkeys(filter for input in self.inputs for filter in input.topics))

    def inputs_of(self, topic: str) -> tuple[int, ...]:
        """Return the places of the inputs that take events on a topic."""
        if len(self.inputs) == 1:  # it was given the event, so it asks for it
            return (0,)
        return tuple(
            at for at, input in enumerate(self.inputs) if any(matches(filter, topic) for filter in input.topics)
        )

    @property
    def metrics(self) -> tuple[MetricKey, ...]:
        """The quality metrics that are propagated, in order."""
        return tuple(self.catalogue)


def result_types(reduction: Reduction, after: tuple[CapsuleStep, ...] = ()) -> RecordType:
    """Return the attributes of results with their types, for conditions on results."""
    types: dict[str, Type] = {name: STRING for name, _ in reduction.by}
    types |= {INPUTS: INT, QUALITY: MapType(STRING, DOUBLE)}
    others = None
    if isinstance(reduction, LatestReduction):
        types |= {AT: STRING, **{name: DYN for name, _ in reduction.values}}
        others = None if reduction.values else ANYTHING.others
    else:
        types |= {START: STRING, END: STRING}
    if isinstance(reduction, AggregateReduction):
        count = AggregateFunction.COUNT
        types |= {value.name: INT if value.function is count else DOUBLE for value in reduction.values}
    elif isinstance(reduction, FuseReduction):
        types |= {name: DOUBLE for name, _ in reduction.values}
    for step in after:
        if isinstance(step, InferStep):
            types |= {name: DYN for rule in step.rules for name, _ in rule.set}
    return RecordType(types, others)
