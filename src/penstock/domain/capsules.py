"""Capsules in the domain file: what context they take, what they make of it, and where that goes (docs/capsules.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from penstock.domain.base import Count, Name, OneOrMany, Settings, TopicFilter, matching
from penstock.domain.contents import ConditionText
from penstock.domain.units import Seconds, mistake
from penstock.language.condition import Condition
from penstock.language.errors import ConditionError
from penstock.language.expression import Expression, make_expression
from penstock.language.types import ANYTHING, Record
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, Key
from penstock.policy.capsule import (
    END,
    INPUTS,
    MICROSECONDS,
    QUALITY,
    START,
    Aggregate,
    Aggregated,
    Capsule,
    Function,
    Fuse,
    Infer,
    Keep,
    Late,
    Output,
    Place,
    Put,
    Reduction,
    Remove,
    Rule,
    Step,
    Where,
    Window,
    result_types,
)
from penstock.policy.quality import LIBRARY
from penstock.policy.quality_need import Need, parse_constraints

if TYPE_CHECKING:
    from penstock.domain.schema import Domain

T = TypeVar("T")
Loc = tuple[str | int, ...]
Problems = list[tuple[Loc, str]]

_WORD = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
Word = Annotated[str, matching(_WORD, "a name of at most 64 letters, digits and `_`, which begins with no digit")]
_PATH = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_FUNCTION = re.compile(rf"\s*(mean|min|max|sum)\(\s*({_PATH})\s*\)\s*|\s*(count)\(\s*\)\s*", re.ASCII)
FunctionText = Annotated[
    str, matching(_FUNCTION.pattern, "`mean(ATTRIBUTE)`, `min(…)`, `max(…)`, `sum(…)` or `count()`")
]
PathText = Annotated[str, matching(_PATH, "the name of an attribute, with dots between those that lead to it")]
Level = Annotated[Count, Field(ge=1, le=200)]
_RESERVED = (QUALITY, START, END, INPUTS)


class CapsuleInput(Settings):
    """What a capsule subscribes to."""

    topics: Annotated[tuple[TopicFilter, ...], OneOrMany("a topic filter or a list of topic filters")] = Field(
        description="topic filter, or list of these, of the events that it takes"
    )
    where: ConditionText | None = Field(
        default=None, description="condition that their content must satisfy; unset: any content"
    )


class CapsuleWindow(Settings):
    """The windows of time that events are put together in."""

    length: Seconds = Field(gt=0, le=30 * 86400, description="length of a window")
    slide: Seconds | None = Field(
        default=None, gt=0, description="time from the beginning of a window to that of the next; unset: as `length`"
    )
    time: str | None = Field(
        default=None,
        description="expression for when an event happened, as it says itself: seconds since the epoch, or a text like"
        " `2026-01-01T12:00:00Z`; unset: when it came to the node",
    )
    lateness: Seconds = Field(
        default=0.0,
        ge=0,
        le=30 * 86400,
        description="how long after its end a window is closed, for those that come late",
    )
    late: Literal["drop", "quarantine"] = Field(
        default="drop", description="what becomes of events whose window was closed when they came"
    )
    skew: Seconds = Field(
        default=1.0,
        ge=0,
        le=86400,
        description="how far ahead of the node's clock `time` may be; beyond, it is put aside",
    )
    expected: Count | None = Field(
        default=None, ge=1, description="events of a group that a window should have, for the result's completeness"
    )


class AggregateSettings(Settings):
    """One of all events of a group: functions of their attributes."""

    by: dict[Word, Level | PathText] = Field(
        default={}, description="what makes a group, by name: a level of the topic, from 1 on, or an attribute"
    )
    values: dict[Word, FunctionText] = Field(
        min_length=1,
        description="attributes of the result: `mean(ATTRIBUTE)`, `min(…)`, `max(…)`, `sum(…)` or `count()`",
    )


class FuseSettings(Settings):
    """One of all events of a group: what several sources say of the same, weighted by their quality."""

    by: dict[Word, Level | PathText] = Field(
        default={}, description="what makes a group, by name: a level of the topic, from 1 on, or an attribute"
    )
    values: dict[Word, PathText] = Field(
        min_length=1, description="attributes of the result, and the attributes of the events that are fused to them"
    )
    weight: str = Field(description="the indicator that sources are weighted by")
    source: Level | PathText | None = Field(
        default=None,
        description="what tells sources apart, a level of the topic or an attribute: of each, the last event counts;"
        " unset: every event counts",
    )


class InferenceRule(Settings):
    """What holds in a situation."""

    when: ConditionText | None = Field(default=None, description="condition on the result; unset: always")
    set: dict[Word, bool | int | float | str] = Field(min_length=1, description="attributes that the result then has")


_OPERATIONS = ("keep", "where", "set", "remove", "aggregate", "fuse", "infer")


class CapsuleOperation(Settings):
    """One operation; it has one of these keys."""

    keep: Annotated[tuple[Any, ...], OneOrMany("a quality constraint or a list")] | None = Field(
        default=None,
        description="leave out what does not have this quality: constraints such as `precision` (it is known) or"
        " `precision >= high`",
    )
    where: ConditionText | None = Field(default=None, description="leave out what does not satisfy this condition")
    set: dict[str, float | str] | None = Field(
        default=None, description="add or update indicators: by name, a number or an expression"
    )
    remove: Annotated[tuple[str, ...], OneOrMany("an indicator or a list")] | None = Field(
        default=None, description="indicators that are taken away"
    )
    aggregate: AggregateSettings | None = Field(default=None, description="make one of the events of each group")
    fuse: FuseSettings | None = Field(
        default=None, description="make one of the events of each group, weighted by quality"
    )
    infer: Annotated[tuple[InferenceRule, ...], OneOrMany("a rule or a list of rules")] | None = Field(
        default=None, description="rules for a situation, after `aggregate` or `fuse`; the first that holds counts"
    )

    @model_validator(mode="after")
    def _one(self) -> CapsuleOperation:
        found = [name for name in _OPERATIONS if getattr(self, name) is not None]
        if len(found) != 1:
            names = ", ".join(f"`{name}`" for name in _OPERATIONS)
            raise mistake(f"one of {names}", found[1] if found else "")
        return self


class CapsuleOutput(Settings):
    """Where results go."""

    topic: str = Field(description="topic of results; `{NAME}` is what the group has by this name")
    payload: dict[Word, str] = Field(
        default={},
        description="attributes of the payload, which is JSON, and expressions for them; unset: the group, `start` and"
        " `end` of the window, and what operations have made",
    )
    quality: Literal["properties", "content"] = Field(
        default="properties", description="what carries the result's quality: user properties, or the payload itself"
    )


class CapsuleSettings(Settings):
    """Context in, context of a higher level out: a consumer and a producer."""

    client: Name = Field(description="the client that it is: what it may read and publish is what this one may")
    input: CapsuleInput = Field(description="the events that it takes")
    window: CapsuleWindow = Field(description="the windows of time that they are put together in")
    operations: tuple[CapsuleOperation, ...] = Field(
        description="what is done with them, in this order; one of it is `aggregate` or `fuse`"
    )
    output: CapsuleOutput = Field(description="where results go")

    @model_validator(mode="after")
    def _one_reduction(self) -> CapsuleSettings:
        if sum(one.aggregate is not None or one.fuse is not None for one in self.operations) != 1:
            raise mistake("operations of which one is `aggregate` or `fuse`", "operations")
        return self


def catalogue_of(domain: Domain) -> Catalogue:
    """The indicators that a domain knows."""
    return LIBRARY


def compiled(domain: Domain, name: str) -> Capsule:
    """A capsule of the domain; raises `PolicyError`."""
    problems: Problems = []
    made = _Compiler(domain, name, problems).capsule()
    if problems or made is None:
        raise PolicyError("; ".join(f"capsules.{name}.{'.'.join(map(str, loc))}: {what}" for loc, what in problems))
    return made


def mistakes(domain: Domain, name: str) -> Iterator[tuple[Loc, str]]:
    """What is wrong with a capsule, by where it stands below it."""
    problems: Problems = []
    _Compiler(domain, name, problems).capsule()
    return iter(problems)


class _Compiler:
    """Makes a capsule of its settings, and notes what is wrong."""

    def __init__(self, domain: Domain, name: str, problems: Problems) -> None:
        self._name, self._problems = name, problems
        self._settings = domain.capsules[name]
        self._catalogue = catalogue_of(domain)
        declared = [domain.declared(filter) for filter in self._settings.input.topics]
        self._events = declared[0] if all(one == declared[0] for one in declared) else ANYTHING
        self._with_quality = Record({**self._events.fields, QUALITY: ANYTHING}, self._events.others)

    def capsule(self) -> Capsule | None:
        settings = self._settings
        at = next(i for i, one in enumerate(settings.operations) if one.aggregate is not None or one.fuse is not None)
        before = [self._step(i, one, self._with_quality) for i, one in enumerate(settings.operations[:at])]
        reduction = self._reduction(at, settings.operations[at])
        if reduction is None:
            return None
        after: list[Step | None] = []
        for index, one in enumerate(settings.operations[at + 1 :], at + 1):
            made = tuple(step for step in after if step is not None)
            after.append(self._step(index, one, result_types(reduction, made), is_after=True))
        steps = tuple(step for step in after if step is not None)
        where = settings.input.where
        parts = (
            None if where is None else self._try(("input", "where"), where.compiled, self._events),
            self._window(),
            tuple(step for step in before if step is not None),
            reduction,
            steps,
            self._output(reduction, result_types(reduction, steps)),
        )
        if self._problems:
            return None
        return Capsule(self._name, settings.client, settings.input.topics, *parts, self._catalogue)  # type: ignore[arg-type]

    def _window(self) -> Window | None:
        said = self._settings.window
        time = None if said.time is None else self._try(("window", "time"), make_expression, said.time, self._events)
        times = _micros(said.length), _micros(said.slide or said.length), _micros(said.lateness)
        more = Late(said.late), time, _micros(said.skew), said.expected or 0
        return self._try(("window",), Window, *times, *more)

    def _reduction(self, at: int, said: CapsuleOperation) -> Reduction | None:
        if said.aggregate is not None:
            loc: Loc = ("operations", at, "aggregate")
            by = self._by(loc, said.aggregate.by, said.aggregate.values)
            values = tuple(_aggregated(name, text) for name, text in said.aggregate.values.items())
            return Aggregate(by, values)
        assert said.fuse is not None
        loc = ("operations", at, "fuse")
        by = self._by(loc, said.fuse.by, said.fuse.values)
        weight = self._try((*loc, "weight"), self._weight, said.fuse.weight)
        fused = tuple((name, tuple(path.split("."))) for name, path in said.fuse.values.items())
        source = None if said.fuse.source is None else _place(said.fuse.source)
        return None if weight is None else Fuse(by, fused, weight, source)

    def _by(self, loc: Loc, by: dict[str, int | str], values: dict[str, str]) -> tuple[tuple[str, Place], ...]:
        for name in (*by, *values):
            if name in _RESERVED:
                self._problems.append(((*loc, "by" if name in by else "values", name), f"every result has a `{name}`"))
        for name in by:
            if name in values:
                self._problems.append(((*loc, "values", name), f"the group has a `{name}` already"))
        return tuple((name, _place(said)) for name, said in by.items())

    def _step(self, index: int, said: CapsuleOperation, types: Record, is_after: bool = False) -> Step | None:
        loc: Loc = ("operations", index)
        if said.keep is not None:
            needs = self._try((*loc, "keep"), parse_constraints, said.keep, self._catalogue)
            return None if needs is None else Keep(needs)
        if said.where is not None:
            condition: Condition | None = self._try((*loc, "where"), said.where.compiled, types)
            return None if condition is None else Where(condition)
        if said.set is not None:
            values = [
                (self._try((*loc, "set", name), self._key, name), self._value((*loc, "set", name), value, types))
                for name, value in said.set.items()
            ]
            return Put(tuple((key, value) for key, value in values if key is not None and value is not None))
        if said.remove is not None:
            keys = [self._try((*loc, "remove", at), self._key, name) for at, name in enumerate(said.remove)]
            return Remove(tuple(key for key in keys if key is not None))
        assert said.infer is not None
        if not is_after:
            self._problems.append(
                ((*loc, "infer"), "it stands before `aggregate` or `fuse`, whose results it is about")
            )
            return None
        return Infer(tuple(self._rule((*loc, "infer", at), rule, types) for at, rule in enumerate(said.infer)))

    def _rule(self, loc: Loc, rule: InferenceRule, types: Record) -> Rule:
        for name in rule.set:
            if name in _RESERVED:
                self._problems.append(((*loc, "set", name), f"every result has a `{name}`"))
        when = None if rule.when is None else self._try((*loc, "when"), rule.when.compiled, types)
        return Rule(when, tuple(rule.set.items()))

    def _value(self, loc: Loc, said: float | str, types: Record) -> float | Expression | None:
        return self._try(loc, make_expression, said, types) if isinstance(said, str) else float(said)

    def _key(self, name: str) -> Key:
        (need,) = parse_constraints(name, self._catalogue)
        if not isinstance(need, Need) or need.relation is not None or self._catalogue.find(need.key) is None:
            raise PolicyError(f"`{name}` is not an indicator such as `precision`")
        return need.key

    def _weight(self, name: str) -> Key:
        key = self._key(name)
        if self._catalogue.kind(key) != "precision":
            definition = self._catalogue.definition(key)
            if not definition.most - definition.least < float("inf"):
                raise PolicyError(f"metric `{key}` has no range to weigh by")
        return key

    def _output(self, reduction: Reduction, types: Record) -> Output | None:
        said = self._settings.output
        pairs = [(n, self._try(("output", "payload", n), make_expression, e, types)) for n, e in said.payload.items()]
        made = Output(said.topic, tuple((n, e) for n, e in pairs if e is not None), said.quality == "content")
        names = [name for name, _ in reduction.by]
        for hole in made.holes:
            if hole not in names:
                known = ", ".join(f"`{name}`" for name in names) or "nothing"
                self._problems.append((("output", "topic"), f"`{{{hole}}}` is not of the group, which has {known}"))
        if not self._problems:
            self._try(("output", "topic"), made.filled, dict.fromkeys(names, "x"))
        return made

    def _try(self, loc: Loc, make: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return make(*arguments)
        except (PolicyError, ConditionError) as error:
            self._problems.append((loc, str(error)))
            return None


def _micros(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def _place(said: int | str) -> Place:
    return said if isinstance(said, int) else tuple(said.split("."))


def _aggregated(name: str, text: str) -> Aggregated:
    match = _FUNCTION.fullmatch(text)
    assert match is not None
    function, path, count = match.groups()
    return Aggregated(name, Function(count or function), tuple(path.split(".")) if path else ())
