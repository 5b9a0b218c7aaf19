"""The compiler of policies to closures: rules, policies and sets, each with an index of its children (7.11 to 7.14)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.evaluation.algorithms import FAILURES, IDP, Algorithm, algorithm_of
from penstock.policy.xacml.evaluation.decision import (
    NOT_APPLICABLE,
    AssignedAttribute,
    Duty,
    PolicyName,
    XacmlDecision,
    XacmlOutcome,
)
from penstock.policy.xacml.evaluation.expressions import Compiler, check_arguments, designate, once, select
from penstock.policy.xacml.evaluation.index import TargetIndex
from penstock.policy.xacml.evaluation.repository import Repository
from penstock.policy.xacml.functions.function import BOOLEAN
from penstock.policy.xacml.functions.table import function_named
from penstock.policy.xacml.limits import MAX_DUTIES
from penstock.policy.xacml.names import PROCESSING_ERROR
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.status import Indeterminate, Status, XacmlError, located
from penstock.policy.xacml.values.values import Type

Matched = bool | Status
"""True if a target matches; a status if that is not known."""
Matching = Callable[[Context], Matched]


class Unit(NamedTuple):
    """A unit that can be combined: a rule, a policy or a set."""

    matches: Matching
    evaluate: Callable[[Context], XacmlOutcome]
    target: xacml.Target


_EFFECTS = {xacml.XacmlEffect.PERMIT: XacmlDecision.PERMIT, xacml.XacmlEffect.DENY: XacmlDecision.DENY}
_FAILED = {XacmlDecision.PERMIT: XacmlDecision.INDETERMINATE_P, XacmlDecision.DENY: XacmlDecision.INDETERMINATE_D}


# --- targets (7.6, 7.7)


def compile_target(target: xacml.Target) -> Matching:
    """Compile a target; raises `XacmlError`."""
    if not target:
        return lambda _: True
    parts = [
        _joined([_joined([_match(match) for match in all_of], deciding=False) for all_of in any_of], deciding=True)
        for any_of in target
    ]
    return _joined(parts, deciding=False)


def _joined(parts: Sequence[Matching], deciding: bool) -> Matching:
    """Join parts: a part that is `deciding` decides, before one that fails (False: tables 2 and 4; True: table 3)."""
    if len(parts) == 1:
        return parts[0]

    def matches(context: Context) -> Matched:
        failure: Status | None = None
        for part in parts:
            matched = part(context)
            if matched is deciding:
                return deciding
            if not isinstance(matched, bool):
                failure = failure or matched
        return failure or not deciding

    return matches


def _match(match: xacml.TargetMatch) -> Matching:
    function = function_named(match.function)
    check_arguments(function, [Type(match.literal.type), Type(match.source.type)])
    if function.result != BOOLEAN:
        raise XacmlError(f"`{match.function}` gives {function.result}, and cannot match")
    find = designate(match.source) if isinstance(match.source, xacml.Designator) else select(match.source)
    apply, cost, value = function.apply, function.cost, match.literal.value

    def matches(context: Context) -> Matched:
        try:
            bag = find(context)
        except Indeterminate as error:
            return error.status
        failure: Status | None = None
        for member in bag:
            try:
                if cost is not None:
                    context.charge(1 + cost(value, member))
                if apply(value, member):
                    return True
            except Indeterminate as error:
                failure = failure or error.status
        return failure or False

    return matches


# --- obligations and advice (7.18)

Duties = Callable[[Context, XacmlDecision], tuple[tuple[Duty, ...], tuple[Duty, ...]]]


def _no_duties(_: Context, __: XacmlDecision) -> tuple[tuple[Duty, ...], tuple[Duty, ...]]:
    return (), ()


def _duties(
    obligations: Sequence[xacml.DutyExpression], advice: Sequence[xacml.DutyExpression], compiler: Compiler
) -> Duties:
    if not obligations and not advice:
        return _no_duties
    of = [
        {
            decision: [_duty(duty, compiler) for duty in duties if _EFFECTS[duty.on] == decision]
            for decision in _EFFECTS.values()
        }
        for duties in (obligations, advice)
    ]

    def evaluate(context: Context, decision: XacmlDecision) -> tuple[tuple[Duty, ...], tuple[Duty, ...]]:
        first, second = (tuple(duty(context) for duty in duties[decision]) for duties in of)
        return first, second

    return evaluate


def _duty(tree: xacml.DutyExpression, compiler: Compiler) -> Callable[[Context], Duty]:
    assignments = [_assignment(assignment, compiler) for assignment in tree.assignments]
    return lambda context: Duty(tree.id, tuple(attribute for assign in assignments for attribute in assign(context)))


def _assignment(tree: xacml.Assignment, compiler: Compiler) -> Callable[[Context], list[AssignedAttribute]]:
    compiled = compiler.expression(tree.expression)

    def assign(context: Context) -> list[AssignedAttribute]:
        value = compiled.run(context)
        values = value if compiled.type.is_bag else (value,)
        context.charge(len(values))
        return [AssignedAttribute(tree.id, compiled.type.data, member, tree.category, tree.issuer) for member in values]

    return assign


# --- rules (7.11)


def _rule(rule: xacml.XacmlRule, compiler: Compiler) -> Unit:
    with located(f"rule `{rule.id}`"):
        matches = compile_target(rule.target)
        condition = compiler.condition(rule.condition) if rule.condition is not None else None
        duties = _duties(rule.obligations, rule.advice, compiler)
    effect = _EFFECTS[rule.effect]
    failed = _FAILED[effect]
    plain = XacmlOutcome(effect)

    def evaluate(context: Context) -> XacmlOutcome:
        matched = matches(context)
        if matched is False:
            return NOT_APPLICABLE
        if matched is not True:
            return XacmlOutcome(failed, matched)
        try:
            if condition is not None and not condition(context):
                return NOT_APPLICABLE
            if duties is _no_duties:
                return plain
            return XacmlOutcome(effect, plain.status, *duties(context, effect))
        except Indeterminate as error:
            return XacmlOutcome(failed, error.status)

    return Unit(matches, evaluate, rule.target)


# --- combining


def _combined(units: Sequence[Unit], algorithm: Algorithm) -> Callable[[Context], XacmlOutcome]:
    index = TargetIndex([unit.target for unit in units])
    if algorithm.is_only_one:
        return lambda context: _only_one([units[at] for at in index.candidates(context)], context)
    evaluations = [unit.evaluate for unit in units]
    stops, of = algorithm.stops, algorithm.of

    def evaluate(context: Context) -> XacmlOutcome:
        seen = XacmlDecision.NOT_APPLICABLE
        outcomes: list[XacmlOutcome] = []
        places = range(len(evaluations)) if index.is_plain else index.candidates(context)
        for at in places:
            outcome = evaluations[at](context)
            decision = outcome.decision
            if decision:
                seen |= decision
                outcomes.append(outcome)
                if decision & stops:
                    break
        return _united(of(seen), outcomes)

    return evaluate


def _united(decision: XacmlDecision, outcomes: Sequence[XacmlOutcome]) -> XacmlOutcome:
    """Return the combined outcome: the duties of those that decide the same, or the status of the first that failed."""
    policies = tuple(name for outcome in outcomes for name in outcome.policies)
    if decision & FAILURES:
        status = next(outcome.status for outcome in outcomes if outcome.decision & FAILURES)
        return XacmlOutcome(decision, status, policies=policies)
    if not decision:
        return NOT_APPLICABLE
    agreeing = [outcome for outcome in outcomes if outcome.decision == decision]
    obligations = tuple(duty for outcome in agreeing for duty in outcome.obligations)
    advice = tuple(duty for outcome in agreeing for duty in outcome.advice)
    if len(obligations) + len(advice) > MAX_DUTIES:
        status = Status(PROCESSING_ERROR, f"more than {MAX_DUTIES} obligations and advice")
        return XacmlOutcome(_FAILED[decision], status)
    return XacmlOutcome(decision, obligations=obligations, advice=advice, policies=policies)


def _only_one(units: Sequence[Unit], context: Context) -> XacmlOutcome:
    """Combine by C.9: only one of the policies may be applicable."""
    selected: Unit | None = None
    for unit in units:
        matched = unit.matches(context)
        if matched is not True and matched is not False:
            return XacmlOutcome(IDP, matched)
        if matched and selected is not None:
            return XacmlOutcome(IDP, Status(PROCESSING_ERROR, "more than one policy is applicable"))
        if matched:
            selected = unit
    return NOT_APPLICABLE if selected is None else selected.evaluate(context)


# --- policies and sets (7.12, 7.13)


class PolicyCompiler:
    """Compiles policies with those that they refer to, each once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._referenced: dict[int, Unit] = {}

    def unit(self, tree: xacml.Root) -> Unit:
        """Compile a policy or a policy set; raises `XacmlError`."""
        what = "policy" if isinstance(tree, xacml.XacmlPolicy) else "policy set"
        with located(f"{what} `{tree.id}`", unless=("policy",)):
            return self._policy(tree) if isinstance(tree, xacml.XacmlPolicy) else self._policy_set(tree)

    def _policy(self, tree: xacml.XacmlPolicy) -> Unit:
        compiler = Compiler(tree.variables)
        units = [_rule(rule, compiler) for rule in tree.rules]
        return self._whole(tree, _combined(units, algorithm_of(tree.algorithm, "rule")), compiler)

    def _policy_set(self, tree: xacml.XacmlPolicySet) -> Unit:
        units = [self._child(child) for child in tree.children]
        return self._whole(tree, _combined(units, algorithm_of(tree.algorithm, "policy")), Compiler())

    def _child(self, child: xacml.XacmlPolicy | xacml.XacmlPolicySet | xacml.PolicyReference) -> Unit:
        if not isinstance(child, xacml.PolicyReference):
            return self.unit(child)
        try:
            tree = self._repository.find(child)
        except XacmlError as error:
            status = Status(PROCESSING_ERROR, str(error))
            return Unit(lambda _: status, lambda _: XacmlOutcome(IDP, status), ())
        if id(tree) not in self._referenced:
            unit = self.unit(tree)
            self._referenced[id(tree)] = Unit(unit.matches, once(unit.evaluate), unit.target)
        return self._referenced[id(tree)]

    def _whole(self, tree: xacml.Root, combine: Callable[[Context], XacmlOutcome], compiler: Compiler) -> Unit:
        matches = compile_target(tree.target)
        duties = _duties(tree.obligations, tree.advice, compiler)
        name = PolicyName(tree.id, tree.version, isinstance(tree, xacml.XacmlPolicySet))

        def evaluate(context: Context) -> XacmlOutcome:
            matched = matches(context)
            if matched is False:
                return NOT_APPLICABLE
            outcome = combine(context)
            decision = outcome.decision
            if not decision:
                return NOT_APPLICABLE
            policies = (name, *outcome.policies)
            if matched is not True:
                return XacmlOutcome(_FAILED.get(decision, decision), matched, policies=policies)  # table 7
            if decision & FAILURES:
                return outcome._replace(policies=policies)
            try:
                obligations, advice = duties(context, decision)
            except Indeterminate as error:
                return XacmlOutcome(_FAILED[decision], error.status, policies=policies)
            return XacmlOutcome(
                decision, outcome.status, (*outcome.obligations, *obligations), (*outcome.advice, *advice), policies
            )

        return Unit(matches, evaluate, tree.target)
