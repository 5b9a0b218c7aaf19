"""Capsules of the domain file, compiled; and the mistakes in them."""

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
from penstock.policy.capsules import capsule as policy
from penstock.policy.contracts.text_form import read_indicator
from penstock.policy.quality.criteria import LIBRARY, make_catalogue
from penstock.policy.quality.needs import Need, parse_constraints

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain

T = TypeVar("T")
Loc = tuple[str | int, ...]
Problems = list[tuple[Loc, str]]
_RESERVED = (policy.QUALITY, policy.START, policy.END, policy.INPUTS)


def catalogue_of(domain: Domain) -> Catalogue:
    """Return the indicators of a domain; those of the library if the domain's cannot be read, which is reported
    elsewhere."""
    if domain.quality is None:
        return LIBRARY
    try:
        return make_catalogue(read_indicator(id, settings) for id, settings in domain.quality.indicators.items())
    except PolicyError:
        return LIBRARY


def compiled(domain: Domain, name: str) -> policy.Capsule:
    """Compile a capsule of the domain; raise `PolicyError`."""
    problems: Problems = []
    capsule = _CapsuleCompiler(domain, name, problems).capsule()
    if problems or capsule is None:
        raise PolicyError("; ".join(f"capsules.{name}.{'.'.join(map(str, loc))}: {what}" for loc, what in problems))
    return capsule


def mistakes(domain: Domain, name: str) -> Iterator[tuple[Loc, str]]:
    """Yield the mistakes in a capsule, with their locations below it."""
    problems: Problems = []
    _CapsuleCompiler(domain, name, problems).capsule()
    return iter(problems)


class _CapsuleCompiler:
    """Compiles the settings of a capsule, and collects the mistakes."""

    def __init__(self, domain: Domain, name: str, problems: Problems) -> None:
        self._name, self._problems = name, problems
        self._settings = domain.capsules[name]
        self._catalogue = catalogue_of(domain)
        declared = [domain.declared(filter) for filter in self._settings.input.topics]
        self._events = declared[0] if all(record == declared[0] for record in declared) else ANYTHING
        self._with_quality = RecordType({**self._events.fields, policy.QUALITY: ANYTHING}, self._events.others)

    def capsule(self) -> policy.Capsule | None:
        settings, where = self._settings, self._settings.input.where
        condition = None if where is None else self._try(("input", "where"), where.compiled, self._events)
        window = self._window()
        at = next(
            i
            for i, operation in enumerate(settings.operations)
            if operation.aggregate is not None or operation.fuse is not None
        )
        before = [self._step(i, operation, self._with_quality) for i, operation in enumerate(settings.operations[:at])]
        reduction = self._reduction(at, settings.operations[at])
        if reduction is None:
            return None
        after: list[policy.CapsuleStep | None] = []
        for index, operation in enumerate(settings.operations[at + 1 :], at + 1):
            earlier = tuple(step for step in after if step is not None)
            after.append(self._step(index, operation, policy.result_types(reduction, earlier), is_after=True))
        steps = tuple(step for step in after if step is not None)
        output = self._output(reduction, policy.result_types(reduction, steps))
        if self._problems or window is None or output is None:
            return None
        taken = tuple(step for step in before if step is not None)
        parts = (condition, window, taken, reduction, steps, output)
        return policy.Capsule(self._name, settings.client, settings.input.topics, *parts, self._catalogue)

    def _window(self) -> policy.WindowSchedule | None:
        settings = self._settings.window
        time = (
            None
            if settings.time is None
            else self._try(("window", "time"), make_expression, settings.time, self._events)
        )
        times = _micros(settings.length), _micros(settings.slide or settings.length), _micros(settings.lateness)
        more = policy.Late(settings.late), time, _micros(settings.skew), settings.expected or 0
        return self._try(("window",), policy.WindowSchedule, *times, *more)

    def _reduction(self, at: int, operation: CapsuleOperation) -> policy.Reduction | None:
        if operation.aggregate is not None:
            loc: Loc = ("operations", at, "aggregate")
            by = self._by(loc, operation.aggregate.by, operation.aggregate.values)
            values = tuple(_aggregated(name, text) for name, text in operation.aggregate.values.items())
            return policy.AggregateReduction(by, values)
        assert operation.fuse is not None
        loc = ("operations", at, "fuse")
        by = self._by(loc, operation.fuse.by, operation.fuse.values)
        weight = self._try((*loc, "weight"), self._weight, operation.fuse.weight)
        fused = tuple((name, tuple(path.split("."))) for name, path in operation.fuse.values.items())
        source = None if operation.fuse.source is None else _place(operation.fuse.source)
        return None if weight is None else policy.FuseReduction(by, fused, weight, source)

    def _by(
        self, loc: Loc, by: dict[str, int | str], values: dict[str, str]
    ) -> tuple[tuple[str, policy.KeyPlace], ...]:
        for name in (*by, *values):
            if name in _RESERVED:
                self._problems.append(((*loc, "by" if name in by else "values", name), f"every result has `{name}`"))
        for name in by:
            if name in values:
                self._problems.append(((*loc, "values", name), f"the group has a `{name}` already"))
        return tuple((name, _place(place)) for name, place in by.items())

    def _step(
        self, index: int, operation: CapsuleOperation, types: RecordType, is_after: bool = False
    ) -> policy.CapsuleStep | None:
        loc: Loc = ("operations", index)
        if operation.keep is not None:
            needs = self._try((*loc, "keep"), parse_constraints, operation.keep, self._catalogue)
            return None if needs is None else policy.KeepStep(needs)
        if operation.where is not None:
            condition: Condition | None = self._try((*loc, "where"), operation.where.compiled, types)
            return None if condition is None else policy.WhereStep(condition)
        if operation.set is not None:
            values = [
                (self._try((*loc, "set", name), self._key, name), self._value((*loc, "set", name), value, types))
                for name, value in operation.set.items()
            ]
            return policy.PutStep(tuple((key, value) for key, value in values if key is not None and value is not None))
        if operation.remove is not None:
            keys = [self._try((*loc, "remove", at), self._key, name) for at, name in enumerate(operation.remove)]
            return policy.RemoveStep(tuple(key for key in keys if key is not None))
        assert operation.infer is not None
        if not is_after:
            self._problems.append(
                ((*loc, "infer"), "it stands before `aggregate` or `fuse`, whose results it is about")
            )
            return None
        return policy.InferStep(
            tuple(self._rule((*loc, "infer", at), rule, types) for at, rule in enumerate(operation.infer))
        )

    def _rule(self, loc: Loc, rule: InferenceRule, types: RecordType) -> policy.SituationRule:
        for name in rule.set:
            if name in _RESERVED:
                self._problems.append(((*loc, "set", name), f"every result has `{name}`"))
        when = None if rule.when is None else self._try((*loc, "when"), rule.when.compiled, types)
        return policy.SituationRule(when, tuple(rule.set.items()))

    def _value(self, loc: Loc, value: float | str, types: RecordType) -> float | Expression | None:
        return self._try(loc, make_expression, value, types) if isinstance(value, str) else float(value)

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

    def _output(self, reduction: policy.Reduction, types: RecordType) -> policy.ResultTemplate | None:
        settings = self._settings.output
        pairs = [
            (n, self._try(("output", "payload", n), make_expression, e, types)) for n, e in settings.payload.items()
        ]
        output = policy.ResultTemplate(
            settings.topic, tuple((n, e) for n, e in pairs if e is not None), settings.quality == "content"
        )
        names = [name for name, _ in reduction.by]
        for hole in output.holes:
            if hole not in names:
                available = ", ".join(f"`{name}`" for name in names) or "nothing"
                self._problems.append((("output", "topic"), f"`{{{hole}}}` is not of the group, which has {available}"))
        if not self._problems:
            self._try(("output", "topic"), output.filled, dict.fromkeys(names, "x"))
        return output

    def _try(self, loc: Loc, make: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return make(*arguments)
        except (PolicyError, ConditionError) as error:
            self._problems.append((loc, str(error)))
            return None


def _micros(seconds: float) -> int:
    return round(seconds * policy.MICROSECONDS)


def _place(value: int | str) -> policy.KeyPlace:
    return value if isinstance(value, int) else tuple(value.split("."))


def _aggregated(name: str, text: str) -> policy.Aggregated:
    match = FUNCTION.fullmatch(text)
    assert match is not None
    function, path, count = match.groups()
    return policy.Aggregated(name, policy.AggregateFunction(count or function), tuple(path.split(".")) if path else ())
