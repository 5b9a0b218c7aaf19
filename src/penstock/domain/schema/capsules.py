"""Capsules in the domain file: their input, operations and output (docs/capsules.md)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from penstock.domain.schema.base import Count, Name, OneOrMany, Settings, TopicFilter, matching
from penstock.domain.schema.contents import ConditionText
from penstock.domain.units import Seconds, mistake
from penstock.policy.capsules.capsule import ONLY_INPUT

_WORD = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
Word = Annotated[str, matching(_WORD, "a name of at most 64 letters, digits and `_`, which begins with no digit")]
_PATH = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
FUNCTION = re.compile(rf"\s*(mean|min|max|sum)\(\s*({_PATH})\s*\)\s*|\s*(count)\(\s*\)\s*", re.ASCII)
FunctionText = Annotated[
    str, matching(FUNCTION.pattern, "`mean(ATTRIBUTE)`, `min(…)`, `max(…)`, `sum(…)` or `count()`")
]
PathText = Annotated[str, matching(_PATH, "the name of an attribute, with dots between those that lead to it")]


def _check_place(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_LEVELS:
        return value
    if isinstance(value, str) and re.fullmatch(_PATH, value, re.ASCII):
        return value
    raise mistake("a level of the topic, from 1 on, or an attribute, with dots between those that lead to it")


_MAX_LEVELS = 200
PlaceText = Annotated[
    int | str,
    PlainValidator(_check_place),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_PATH}$"}]}),
]


class SilenceSettings(Settings):
    """The result of an input that has fallen silent."""

    after: Seconds = Field(
        gt=0, le=30 * 86400, description="time since the last event of a group after which the result is made"
    )
    set: dict[Word, bool | int | float | str] = Field(
        {}, description="attributes of the result, beside the group, `silent` (the input), `since` and `at`"
    )


class CapsuleInputSettings(Settings):
    """The subscription of a capsule."""

    topics: Annotated[tuple[TopicFilter, ...], OneOrMany("a topic filter or a list of topic filters")] = Field(
        description="topic filter, or a list, of the input events"
    )
    where: ConditionText | None = Field(
        None, description="condition that their content must satisfy; unset: any content"
    )
    observable: Name | None = Field(
        None, description="they must be observations of this observable of `context`; unset: any content"
    )
    silence: SilenceSettings | None = Field(
        None, description="result to make when no more events of a group come; unset: none"
    )


class CapsuleWindowSettings(Settings):
    """The time windows in which events are aggregated."""

    length: Seconds = Field(gt=0, le=30 * 86400, description="length of a window")
    slide: Seconds | None = Field(
        None, gt=0, description="time from the beginning of a window to that of the next; unset: as `length`"
    )
    time: str | None = Field(
        None,
        description="expression for the time of an event, from its content: seconds since the epoch, or a text like"
        " `2026-01-01T12:00:00Z`; unset: its arrival at the node",
    )
    lateness: Seconds = Field(
        0.0, ge=0, le=30 * 86400, description="time between the end of a window and its closing, for late events"
    )
    late: Literal["drop", "quarantine"] = Field(
        "drop", description="treatment of events that arrive after their window was closed"
    )
    skew: Seconds = Field(
        1.0,
        ge=0,
        le=86400,
        description="how far ahead of the node's clock `time` may be; events beyond it go to quarantine",
    )
    expected: Count | None = Field(
        None, ge=1, description="expected number of events of a group in a window, for the result's completeness"
    )


class AggregateSettings(Settings):
    """Combine all events of a group: functions of their attributes."""

    by: dict[Word, PlaceText] = Field(
        {}, description="keys of a group, by name: a level of the topic, from 1 on, or an attribute"
    )
    values: dict[Word, FunctionText] = Field(
        min_length=1,
        description="attributes of the result: `mean(ATTRIBUTE)`, `min(…)`, `max(…)`, `sum(…)` or `count()`",
    )


class FuseSettings(Settings):
    """Combine all events of a group: several sources of the same value, weighted by their quality."""

    by: dict[Word, PlaceText] = Field(
        {}, description="keys of a group, by name: a level of the topic, from 1 on, or an attribute"
    )
    values: dict[Word, PathText] = Field(
        min_length=1, description="attributes of the result, each with the attribute of the events that is fused"
    )
    weight: str = Field(description="the indicator that sources are weighted by")
    source: PlaceText | None = Field(
        None,
        description="what identifies a source, a level of the topic or an attribute: of each source, the last event"
        " counts; unset: every event counts",
    )


class LatestSettings(Settings):
    """Combine the last event of each input, whenever one comes. It needs no window."""

    by: dict[Word, PlaceText] = Field(
        {}, description="keys of a group, by name: a level of the topic, from 1 on, or an attribute"
    )
    values: dict[Word, PathText] = Field(
        {},
        description="attributes of the result, each with the attribute of the events; unset: all attributes of the"
        " event, or of several inputs by their names",
    )
    within: Seconds | None = Field(
        None,
        gt=0,
        le=30 * 86400,
        description="age beyond which the last event of another input does not count; unset: any age",
    )


class InferenceRule(Settings):
    """A rule that sets attributes if a condition holds."""

    when: ConditionText | None = Field(None, description="condition on the result; unset: always")
    set: dict[Word, bool | int | float | str] = Field(min_length=1, description="attributes that the result then has")


REDUCTIONS = ("aggregate", "fuse", "latest")
_OPERATIONS = ("keep", "where", "set", "remove", *REDUCTIONS, "infer")


class CapsuleOperation(Settings):
    """One operation; it has one of these keys."""

    keep: Annotated[tuple[Any, ...], OneOrMany("a quality constraint or a list")] | None = Field(
        None,
        description="keep only events with this quality: constraints such as `precision` (it is known) or"
        " `precision >= high`",
    )
    where: ConditionText | None = Field(None, description="keep only events that satisfy this condition")
    set: dict[str, float | str] | None = Field(
        None, description="add or update indicators: by name, a number or an expression"
    )
    remove: Annotated[tuple[str, ...], OneOrMany("an indicator or a list")] | None = Field(
        None, description="indicators that are removed"
    )
    aggregate: AggregateSettings | None = Field(None, description="combine the events of each group")
    fuse: FuseSettings | None = Field(None, description="combine the events of each group, weighted by quality")
    latest: LatestSettings | None = Field(None, description="combine the last event of each input, without windows")
    infer: Annotated[tuple[InferenceRule, ...], OneOrMany("a rule or a list of rules")] | None = Field(
        None, description="rules for a situation, about results; the first that holds counts"
    )

    @property
    def is_reduction(self) -> bool:
        """True if it makes results of events."""
        return any(getattr(self, name) is not None for name in REDUCTIONS)

    @model_validator(mode="after")
    def _one(self) -> CapsuleOperation:
        present = [name for name in _OPERATIONS if getattr(self, name) is not None]
        if len(present) != 1:
            names = ", ".join(f"`{name}`" for name in _OPERATIONS)
            raise mistake(f"one of {names}", present[1] if present else "")
        return self


class CapsuleOutputSettings(Settings):
    """The destination of results."""

    topic: str = Field(description="topic of results; `{NAME}` is the group's key of this name")
    payload: dict[Word, str] = Field(
        {},
        description="attributes of the payload, and expressions for them; unset: the group, `start` and"
        " `end` of the window, and the results of operations",
    )
    observation: Name | None = Field(
        None,
        description="results are observations of this observable of `context`, which has one entity: the payload is"
        " their value; unset: they are the payload",
    )
    format: Literal["json", "xml"] = Field("json", description="how the payload is written")
    quality: Literal["properties", "content"] = Field(
        "properties", description="where the result's quality is put: user properties, or the payload"
    )

    @property
    def filter(self) -> str:
        """A topic filter that covers the topics of all results."""
        return re.sub(r"[^/]*\{[^/]*", "+", self.topic)


class CapsuleSettings(Settings):
    """Context in, higher-level context out: a consumer and a producer."""

    client: Name = Field(description="the client it acts as: it has the rights of this client")
    runs: Literal["spark", "node"] = Field(
        "spark",
        description="where it runs: `penstock pipeline capsules` runs it on Spark; `node`: the node of its client does",
    )
    input: CapsuleInputSettings | None = Field(None, description="its input events; or `inputs`")
    inputs: dict[Word, CapsuleInputSettings] = Field(
        {}, description="its input events of several kinds, by name: they are joined; or `input`"
    )
    window: CapsuleWindowSettings | None = Field(
        None, description="the time windows in which `aggregate` or `fuse` combines events; unset: none"
    )
    operations: tuple[CapsuleOperation, ...] = Field(
        (),
        description="operations on the events, in this order; at most one of them is `aggregate`, `fuse` or `latest`."
        " With a window there is `aggregate` or `fuse`; without, `latest` comes first if it is not there",
    )
    output: CapsuleOutputSettings = Field(description="where results go")

    @model_validator(mode="after")
    def _combinations(self) -> CapsuleSettings:
        if (self.input is None) == (not self.inputs):
            raise mistake("either `input` or `inputs`", "inputs" if self.inputs else "")
        reductions = [operation for operation in self.operations if operation.is_reduction]
        if self.window is not None and (len(reductions) != 1 or reductions[0].latest is not None):
            raise mistake("operations of which one is `aggregate` or `fuse`", "operations")
        if self.window is None and any(operation.latest is None for operation in reductions):
            raise mistake("a `window` for `aggregate` and `fuse`", "operations")
        if len(reductions) > 1:
            raise mistake("operations of which at most one is `latest`", "operations")
        if len(self.inputs) > 1 and reductions and reductions[0].fuse is not None:
            raise mistake("one input for `fuse`: its sources say the same thing", "inputs")
        return self

    @property
    def named_inputs(self) -> dict[str, CapsuleInputSettings]:
        """The inputs by name."""
        return self.inputs if self.input is None else {ONLY_INPUT: self.input}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic filters of all inputs."""
        return tuple(filter for input in self.named_inputs.values() for filter in input.topics)
