"""Capsules of the domain file, compiled to what runs; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.domain.schema.capsules import FUNCTION, CapsuleOperation, InferenceRule
from penstock.language.condition import Condition
from penstock.language.errors import ConditionError
from penstock.language.expression import Expression, make_expression
from penstock.language.types import ANYTHING, RecordType
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, MetricKey
from penstock.policy.capsules.capsule import (
    END,
    INPUTS,
    MICROSECONDS,
    QUALITY,
    START,
    Aggregated,
    AggregateFunction,
    AggregateReduction,
    Capsule,
    CapsuleOutput,
    CapsuleStep,
    CapsuleWindow,
    FuseReduction,
    InferStep,
    KeepStep,
    KeyPlace,
    Late,
    PutStep,
    Reduction,
    RemoveStep,
    SituationRule,
    WhereStep,
    result_types,
)
from penstock.policy.contracts.text_form import read_indicator
from penstock.policy.quality.criteria import LIBRARY, make_catalogue
from penstock.policy.quality.needs import Need, parse_constraints

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain

T = TypeVar("T")
Loc = tuple[str | int, ...]
Problems = list[tuple[Loc, str]]
_RESERVED = (QUALITY, START, END, INPUTS)


def catalogue_of(domain: Domain) -> Catalogue:
    """The indicators that a domain knows; if these cannot be read, which is told elsewhere, those of the library."""
    if domain.quality is None:
        return LIBRARY
    try:
        return make_catalogue(read_indicator(id, said) for id, said in domain.quality.indicators.items())
    except PolicyError:
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
        self._with_quality = RecordType({**self._events.fields, QUALITY: ANYTHING}, self._events.others)

    def capsule(self) -> Capsule | None:
        settings, where = self._settings, self._settings.input.where
        condition = None if where is None else self._try(("input", "where"), where.compiled, self._events)
        window = self._window()
        at = next(i for i, one in enumerate(settings.operations) if one.aggregate is not None or one.fuse is not None)
        before = [self._step(i, one, self._with_quality) for i, one in enumerate(settings.operations[:at])]
        reduction = self._reduction(at, settings.operations[at])
        if reduction is None:
            return None
        after: list[CapsuleStep | None] = []
        for index, one in enumerate(settings.operations[at + 1 :], at + 1):
            made = tuple(step for step in after if step is not None)
            after.append(self._step(index, one, result_types(reduction, made), is_after=True))
        steps = tuple(step for step in after if step is not None)
        output = self._output(reduction, result_types(reduction, steps))
        if self._problems or window is None or output is None:
            return None
        taken = tuple(step for step in before if step is not None)
        parts = (condition, window, taken, reduction, steps, output)
        return Capsule(self._name, settings.client, settings.input.topics, *parts, self._catalogue)

    def _window(self) -> CapsuleWindow | None:
        said = self._settings.window
        time = None if said.time is None else self._try(("window", "time"), make_expression, said.time, self._events)
        times = _micros(said.length), _micros(said.slide or said.length), _micros(said.lateness)
        more = Late(said.late), time, _micros(said.skew), said.expected or 0
        return self._try(("window",), CapsuleWindow, *times, *more)

    def _reduction(self, at: int, said: CapsuleOperation) -> Reduction | None:
        if said.aggregate is not None:
            loc: Loc = ("operations", at, "aggregate")
            by = self._by(loc, said.aggregate.by, said.aggregate.values)
            values = tuple(_aggregated(name, text) for name, text in said.aggregate.values.items())
            return AggregateReduction(by, values)
        assert said.fuse is not None
        loc = ("operations", at, "fuse")
        by = self._by(loc, said.fuse.by, said.fuse.values)
        weight = self._try((*loc, "weight"), self._weight, said.fuse.weight)
        fused = tuple((name, tuple(path.split("."))) for name, path in said.fuse.values.items())
        source = None if said.fuse.source is None else _place(said.fuse.source)
        return None if weight is None else FuseReduction(by, fused, weight, source)

    def _by(self, loc: Loc, by: dict[str, int | str], values: dict[str, str]) -> tuple[tuple[str, KeyPlace], ...]:
        for name in (*by, *values):
            if name in _RESERVED:
                self._problems.append(((*loc, "by" if name in by else "values", name), f"every result has `{name}`"))
        for name in by:
            if name in values:
                self._problems.append(((*loc, "values", name), f"the group has a `{name}` already"))
        return tuple((name, _place(said)) for name, said in by.items())

    def _step(
        self, index: int, said: CapsuleOperation, types: RecordType, is_after: bool = False
    ) -> CapsuleStep | None:
        loc: Loc = ("operations", index)
        if said.keep is not None:
            needs = self._try((*loc, "keep"), parse_constraints, said.keep, self._catalogue)
            return None if needs is None else KeepStep(needs)
        if said.where is not None:
            condition: Condition | None = self._try((*loc, "where"), said.where.compiled, types)
            return None if condition is None else WhereStep(condition)
        if said.set is not None:
            values = [
                (self._try((*loc, "set", name), self._key, name), self._value((*loc, "set", name), value, types))
                for name, value in said.set.items()
            ]
            return PutStep(tuple((key, value) for key, value in values if key is not None and value is not None))
        if said.remove is not None:
            keys = [self._try((*loc, "remove", at), self._key, name) for at, name in enumerate(said.remove)]
            return RemoveStep(tuple(key for key in keys if key is not None))
        assert said.infer is not None
        if not is_after:
            self._problems.append(
                ((*loc, "infer"), "it stands before `aggregate` or `fuse`, whose results it is about")
            )
            return None
        return InferStep(tuple(self._rule((*loc, "infer", at), rule, types) for at, rule in enumerate(said.infer)))

    def _rule(self, loc: Loc, rule: InferenceRule, types: RecordType) -> SituationRule:
        for name in rule.set:
            if name in _RESERVED:
                self._problems.append(((*loc, "set", name), f"every result has `{name}`"))
        when = None if rule.when is None else self._try((*loc, "when"), rule.when.compiled, types)
        return SituationRule(when, tuple(rule.set.items()))

    def _value(self, loc: Loc, said: float | str, types: RecordType) -> float | Expression | None:
        return self._try(loc, make_expression, said, types) if isinstance(said, str) else float(said)

    def _key(self, name: str) -> MetricKey:
        (need,) = parse_constraints(name, self._catalogue)
        if not isinstance(need, Need) or need.relation is not None or self._catalogue.find(need.key) is None:
            raise PolicyError(f"`{name}` is not an indicator such as `precision`")
        return need.key

    def _weight(self, name: str) -> MetricKey:
        key = self._key(name)
        if self._catalogue.kind(key) != "precision":
            definition = self._catalogue.definition(key)
            if not definition.most - definition.least < float("inf"):
                raise PolicyError(f"metric `{key}` has no range to weigh by")
        return key

    def _output(self, reduction: Reduction, types: RecordType) -> CapsuleOutput | None:
        said = self._settings.output
        pairs = [(n, self._try(("output", "payload", n), make_expression, e, types)) for n, e in said.payload.items()]
        made = CapsuleOutput(said.topic, tuple((n, e) for n, e in pairs if e is not None), said.quality == "content")
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


def _place(said: int | str) -> KeyPlace:
    return said if isinstance(said, int) else tuple(said.split("."))


def _aggregated(name: str, text: str) -> Aggregated:
    match = FUNCTION.fullmatch(text)
    assert match is not None
    function, path, count = match.groups()
    return Aggregated(name, AggregateFunction(count or function), tuple(path.split(".")) if path else ())
