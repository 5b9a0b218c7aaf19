"""Capsules of the domain file, compiled; and the mistakes in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.domain.schema.capsules import (
    FUNCTION,
    CapsuleInputSettings,
    CapsuleOperation,
    InferenceRule,
    LatestSettings,
)
from penstock.language.condition import Condition, all_of, make_condition
from penstock.language.errors import ConditionError
from penstock.language.expression import Expression, make_expression
from penstock.language.types import ANYTHING, RecordType
from penstock.model.content.content import Format
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, MetricKey
from penstock.policy.capsules import capsule as policy
from penstock.policy.contracts.text_form import read_indicator
from penstock.policy.quality.criteria import LIBRARY, make_catalogue
from penstock.policy.quality.needs import Need, parse_constraints
from penstock.policy.quality.observation import ContextObservable

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain

T = TypeVar("T")
Loc = tuple[str | int, ...]
Problems = list[tuple[Loc, str]]
_RESERVED = (policy.QUALITY, policy.START, policy.END, policy.INPUTS)
_SILENCE = (policy.SILENT, policy.SINCE, policy.AT)


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


def of_node(domain: Domain, node: str) -> Iterator[policy.Capsule]:
    """Yield the capsules that a node runs; raise `PolicyError`."""
    for name, settings in domain.capsules.items():
        client = domain.clients.get(settings.client)
        if settings.runs == "node" and client is not None and node in client.node:
            yield compiled(domain, name)


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
        self._catalogue, self._context = catalogue_of(domain), domain.context
        self._inputs = self._settings.named_inputs
        declared = {name: _same([domain.declared(filter) for filter in of.topics]) for name, of in self._inputs.items()}
        self._declared, self._events = declared, _same(list(declared.values()))
        self._with_quality = RecordType({**self._events.fields, policy.QUALITY: ANYTHING}, self._events.others)

    def capsule(self) -> policy.Capsule | None:
        settings = self._settings
        inputs = tuple(self._input(*item) for item in self._inputs.items())
        window = None if settings.window is None else self._window()
        operations = settings.operations
        at = next((i for i, operation in enumerate(operations) if operation.is_reduction), None)
        before = [self._step(i, operation, self._with_quality) for i, operation in enumerate(operations[: at or 0])]
        if at is None:
            reduction: policy.Reduction | None = self._latest(("operations",), LatestSettings())
        else:
            reduction = self._reduction(at, operations[at])
        if reduction is None:
            return None
        first = 0 if at is None else at + 1
        after: list[policy.CapsuleStep | None] = []
        for index, operation in enumerate(operations[first:], first):
            earlier = tuple(step for step in after if step is not None)
            after.append(self._step(index, operation, policy.result_types(reduction, earlier), is_after=True))
        steps = tuple(step for step in after if step is not None)
        output = self._output(reduction, policy.result_types(reduction, steps))
        if self._problems or output is None or (window is None) is not (settings.window is None):
            return None
        taken = tuple(step for step in before if step is not None)
        parts = (inputs, window, taken, reduction, steps, output)
        about = settings.model_dump_json(include={"client", "input", "inputs", "window", "operations"})
        digest = sha256(f"{about} {self._catalogue.indicators!r}".encode()).hexdigest()
        return policy.Capsule(self._name, settings.client, *parts, self._catalogue, digest)

    def _input(self, name: str, settings: CapsuleInputSettings) -> policy.CapsuleInput:
        loc: Loc = ("input",) if self._settings.input is not None else ("inputs", name)
        where = settings.where
        condition = None if where is None else self._try((*loc, "where"), where.compiled, self._declared[name])
        silence = None
        if settings.silence is not None:
            for attribute in settings.silence.set:
                if attribute in _SILENCE:
                    self._problems.append(((*loc, "silence", "set", attribute), f"every such result has `{attribute}`"))
            silence = policy.Silence(_micros(settings.silence.after), tuple(settings.silence.set.items()))
        observed = self._observable((*loc, "observable"), settings.observable)
        if observed is not None:
            asked = self._try((*loc, "observable"), make_condition, observed.condition, self._declared[name])
            condition = all_of([one for one in (condition, asked) if one is not None]) if asked else condition
        return policy.CapsuleInput(name, settings.topics, condition, silence)

    def _observable(self, loc: Loc, name: str | None) -> ContextObservable | None:
        """Return an observable that is named, if there is one of that name; of wrong ones `context` tells."""
        if name is None:
            return None
        context = self._context
        if name not in context.observables:
            self._problems.append((loc, f"`{name}` is not an observable of `context`"))
            return None
        if any(entity not in context.entities for entity in context.observables[name].entities):
            return None
        return context.observable(name)

    def _window(self) -> policy.WindowSchedule | None:
        settings = self._settings.window
        assert settings is not None
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
            of = {name: FUNCTION.fullmatch(text) for name, text in operation.aggregate.values.items()}
            values = [
                policy.Aggregated(
                    name,
                    policy.AggregateFunction(match[3] or match[1]),
                    self._path((*loc, "values", name), match[2]) if match[2] else None,
                )
                for name, match in of.items()
                if match is not None
            ]
            return policy.AggregateReduction(by, tuple(values))
        if operation.latest is not None:
            return self._latest(("operations", at, "latest"), operation.latest)
        assert operation.fuse is not None
        loc = ("operations", at, "fuse")
        by = self._by(loc, operation.fuse.by, operation.fuse.values)
        weight = self._try((*loc, "weight"), self._weight, operation.fuse.weight)
        fused = tuple((name, tuple(path.split("."))) for name, path in operation.fuse.values.items())
        source = None if operation.fuse.source is None else _place(operation.fuse.source)
        return None if weight is None else policy.FuseReduction(by, fused, weight, source)

    def _latest(self, loc: Loc, settings: LatestSettings) -> policy.LatestReduction:
        by = self._by(loc, settings.by, settings.values)
        values = ((name, self._path((*loc, "values", name), path)) for name, path in settings.values.items())
        return policy.LatestReduction(by, tuple(values), None if settings.within is None else _micros(settings.within))

    def _path(self, loc: Loc, text: str) -> policy.InputPath:
        """Return an attribute of the input; where these have names, the text begins with one."""
        first, *rest = text.split(".")
        if self._settings.input is not None:
            return policy.InputPath((first, *rest))
        names = list(self._inputs)
        if first not in names or not rest:
            known = " or ".join(f"`{name}.ATTRIBUTE`" for name in names)
            self._problems.append((loc, f"`{text}` does not say of which input it is: {known}"))
            return policy.InputPath((first, *rest))
        return policy.InputPath(tuple(rest), names.index(first))

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
                ((*loc, "infer"), "it stands before `aggregate`, `fuse` or `latest`, whose results it is about")
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
        observed = self._observable(("output", "observation"), settings.observation)
        if observed is not None and len(observed.entities) != 1:
            self._problems.append((("output", "observation"), f"`{observed.name}` is of several entities"))
        output = policy.ResultTemplate(
            settings.topic,
            tuple((n, e) for n, e in pairs if e is not None),
            settings.quality == "content",
            observed,
            Format(settings.format),
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


def _same(records: list[RecordType]) -> RecordType:
    """Return the attributes that are declared of all these alike; else any."""
    return records[0] if all(record == records[0] for record in records) else ANYTHING
