"""The norm, transcribed: sections 7.6 to 7.18 and appendix C, interpreted. Small and slow, the oracle of tests.

It shares the functions' own code with the compiled evaluator; nothing of targets, rules, policies, algorithms,
variables and higher-order functions.
"""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.policy.xacml import names, status
from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.evaluation.decision import AssignedAttribute, Duty, XacmlDecision, XacmlOutcome
from penstock.policy.xacml.evaluation.repository import Repository
from penstock.policy.xacml.functions.cel import holds, named, split_arguments
from penstock.policy.xacml.functions.table import FUNCTIONS
from penstock.policy.xacml.functions.xpath import XPATH_FUNCTIONS
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.values.values import Bag, Value, read_value
from penstock.policy.xacml.xpath import text_of

P, D, NA = XacmlDecision.PERMIT, XacmlDecision.DENY, XacmlDecision.NOT_APPLICABLE
IP, ID, IDP = XacmlDecision.INDETERMINATE_P, XacmlDecision.INDETERMINATE_D, XacmlDecision.INDETERMINATE_DP

MATCH, NO_MATCH, FAILS = "Match", "No match", "Indeterminate"


class ReferenceEvaluator:
    """An evaluator of trees that the compiled evaluator has accepted, in one context."""

    def __init__(self, repository: Repository, context: Context) -> None:
        self._repository = repository
        self._context = context
        self._variables: dict[str, xacml.Expression] = {}

    # --- 7.3, 7.4, 7.8, 7.9: expressions

    def value(self, tree: xacml.Expression) -> Value:
        """Return the value of an expression; raises `Indeterminate`."""
        match tree:
            case xacml.LiteralValue():
                return tree.value
            case xacml.Designator():
                return self._designate(tree)
            case xacml.Selector():
                return self._select(tree)
            case xacml.VariableReference():
                return self.value(self._variables[tree.variable])
            case xacml.Apply():
                return self._apply(tree)
        raise AssertionError(tree)

    def _designate(self, tree: xacml.Designator) -> Bag:
        key = (tree.category, tree.id, tree.type)
        bag = self._context.bag(key) if tree.issuer is None else self._context.issued.get((*key, tree.issuer), ())
        if not bag and tree.must_be_present:
            raise status.lacking(status.MissingAttribute(*key, tree.issuer))
        return bag

    def _select(self, tree: xacml.Selector) -> Bag:
        nodes = self._context.select(tree.category, tree.path, tree.prefixes, tree.context_id)
        if not nodes and tree.must_be_present:
            raise status.lacking(status.MissingAttribute(tree.category, tree.path, tree.type))
        try:
            return tuple(read_value(tree.type, text) for text in text_of(nodes, tree.path))
        except status.XacmlError as error:
            raise status.malformed(str(error)) from None

    def _apply(self, tree: xacml.Apply) -> Value:
        name = tree.function.rpartition(":")[2]
        if tree.arguments and isinstance(tree.arguments[0], xacml.FunctionName):
            return self._higher(name, tree.arguments[0].id, tree.arguments[1:])
        if tree.function == names.CEL:
            condition, arguments = split_arguments(tree.arguments)
            attributes = [named(attribute, _type_of(bag), self._finder(bag)) for attribute, bag in arguments]
            return holds(condition, attributes, self._context)
        if name in ("and", "or", "n-of"):
            return self._logical(name, tree.arguments)
        arguments_found = [self.value(argument) for argument in tree.arguments]
        if tree.function in XPATH_FUNCTIONS:
            return XPATH_FUNCTIONS[tree.function].apply(self._context, *arguments_found)
        return FUNCTIONS[tree.function].apply(*arguments_found)

    def _finder(self, bag: xacml.Expression) -> Callable[[Context], Bag]:
        return lambda _: self.value(bag)

    def _logical(self, name: str, arguments: Sequence[xacml.Expression]) -> bool:
        needed = None
        if name == "n-of":
            needed = self.value(arguments[0])
            arguments = arguments[1:]
            if needed > len(arguments):
                raise status.unprocessable("more are wanted than there are")
        return three_valued(name, [self._tried(argument) for argument in arguments], needed)

    def _tried(self, tree: xacml.Expression) -> Any:
        try:
            return self.value(tree)
        except status.Indeterminate as error:
            return error

    def _higher(self, name: str, function: str, arguments: Sequence[xacml.Expression]) -> Value:
        values = [self.value(argument) for argument in arguments]
        apply = FUNCTIONS[function].apply

        def tried(*members: Value) -> Any:
            try:
                return apply(*members)
            except status.Indeterminate as error:
                return error

        if name in ("any-of-all", "all-of-any", "all-of-all"):
            first, second = values
            match name:
                case "all-of-any":
                    rows = [[tried(member, other) for other in second] for member in first]
                case "any-of-all":
                    rows = [[tried(member, other) for member in first] for other in second]
                case _:
                    rows = [[tried(member, other)] for member in first for other in second]
            return three_valued("and", [_tried_or(row) for row in rows])
        results = [tried(*members) for members in _expanded(values)]
        if name == "map":
            for result in results:
                if isinstance(result, status.Indeterminate):
                    raise result
            return tuple(results)
        return three_valued("and" if name == "all-of" else "or", results)

    # --- 7.6, 7.7: matches and targets

    def match(self, tree: xacml.TargetMatch) -> str:
        try:
            bag = self.value(tree.source)
        except status.Indeterminate:
            return FAILS
        results = []
        for member in bag:
            try:
                results.append(FUNCTIONS[tree.function].apply(tree.literal.value, member))
            except status.Indeterminate:
                results.append(None)
        if True in results:
            return MATCH
        return FAILS if None in results else NO_MATCH

    def all_of(self, tree: xacml.AllOf) -> str:
        return _joined([self.match(match) for match in tree], NO_MATCH, MATCH)  # table 4

    def any_of(self, tree: xacml.AnyOf) -> str:
        return _joined([self.all_of(all_of) for all_of in tree], MATCH, NO_MATCH)  # table 3

    def target(self, tree: xacml.Target) -> str:
        return _joined([self.any_of(any_of) for any_of in tree], NO_MATCH, MATCH)  # table 2

    # --- 7.11: rules

    def rule(self, tree: xacml.XacmlRule) -> XacmlOutcome:
        effect, failed = (P, IP) if tree.effect is xacml.XacmlEffect.PERMIT else (D, ID)
        target = self.target(tree.target)
        if target == NO_MATCH:
            return XacmlOutcome(NA)
        if target == FAILS:
            return XacmlOutcome(failed)
        try:
            if tree.condition is not None and not self.value(tree.condition):
                return XacmlOutcome(NA)
            obligations = self._duties(tree.obligations, effect)
            return XacmlOutcome(effect, obligations=obligations, advice=self._duties(tree.advice, effect))
        except status.Indeterminate:
            return XacmlOutcome(failed)

    # --- 7.18: obligations and advice

    def _duties(self, trees: Sequence[xacml.DutyExpression], decision: XacmlDecision) -> tuple[Duty, ...]:
        on = xacml.XacmlEffect.PERMIT if decision == P else xacml.XacmlEffect.DENY
        return tuple(self._duty(tree) for tree in trees if tree.on is on)

    def _duty(self, tree: xacml.DutyExpression) -> Duty:
        assigned = []
        for assignment in tree.assignments:
            value = self.value(assignment.expression)
            is_bag = isinstance(value, tuple) and not hasattr(value, "_fields")
            kind = _type_of(assignment.expression)
            for member in value if is_bag else (value,):
                assigned.append(AssignedAttribute(assignment.id, kind, member, assignment.category, assignment.issuer))
        return Duty(tree.id, tuple(assigned))

    # --- 7.12, 7.13, 7.14: policies and policy sets

    def policy(self, tree: xacml.Root | xacml.PolicyReference) -> XacmlOutcome:
        if isinstance(tree, xacml.PolicyReference):
            try:
                tree = self._repository.find(tree)
            except status.XacmlError:
                return XacmlOutcome(IDP)
        inner = ReferenceEvaluator(self._repository, self._context)
        inner._variables = dict(tree.variables) if isinstance(tree, xacml.XacmlPolicy) else {}
        return inner._evaluate(tree)

    def _evaluate(self, tree: xacml.Root) -> XacmlOutcome:
        target = self.target(tree.target)
        if target == NO_MATCH:
            return XacmlOutcome(NA)
        outcome = self._combine(tree)
        decision = outcome.decision
        if target == FAILS:
            return XacmlOutcome({P: IP, D: ID}.get(decision, decision))  # table 7
        if decision not in (P, D):
            return XacmlOutcome(decision)
        try:
            obligations = (*outcome.obligations, *self._duties(tree.obligations, decision))
            return XacmlOutcome(
                decision, obligations=obligations, advice=(*outcome.advice, *self._duties(tree.advice, decision))
            )
        except status.Indeterminate:
            return XacmlOutcome(IP if decision == P else ID)

    def _combine(self, tree: xacml.Root) -> XacmlOutcome:
        version, _, name = tree.algorithm.removeprefix("urn:oasis:names:tc:xacml:").partition(":")
        name = name.rpartition(":")[2].removeprefix("ordered-")
        if name == "only-one-applicable":
            assert isinstance(tree, xacml.XacmlPolicySet)
            return self._only_one(tree)
        evaluations: list[Callable[[], XacmlOutcome]]
        if isinstance(tree, xacml.XacmlPolicy):
            evaluations = [lambda rule=rule: self.rule(rule) for rule in tree.rules]  # type: ignore[misc]
        else:
            evaluations = [lambda child=child: self.policy(child) for child in tree.children]  # type: ignore[misc]
        if version == "3.0" or name == "first-applicable":
            return combined(name, evaluations)
        return combined(f"old-{'rule' if isinstance(tree, xacml.XacmlPolicy) else 'policy'}-{name}", evaluations)

    def _only_one(self, tree: xacml.XacmlPolicySet) -> XacmlOutcome:
        selected = None
        for child in tree.children:
            try:
                root = self._repository.find(child) if isinstance(child, xacml.PolicyReference) else child
            except status.XacmlError:
                return XacmlOutcome(IDP)
            applicable = self.target(root.target)
            if applicable == FAILS:
                return XacmlOutcome(IDP)
            if applicable == MATCH:
                if selected is not None:
                    return XacmlOutcome(IDP)
                selected = root
        return XacmlOutcome(NA) if selected is None else self.policy(selected)


def _joined(results: Sequence[str], deciding: str, otherwise: str) -> str:
    return deciding if deciding in results else FAILS if FAILS in results else otherwise


def three_valued(name: str, values: Sequence[Any], needed_count: int | None = None) -> bool:
    """Return `and`, `or` or `n-of` of values, some of them errors; raises the first error if they do not decide."""
    needed = {"or": 1, "and": len(values)}.get(name, needed_count)
    assert needed is not None
    true = sum(value is True for value in values)
    errors = [value for value in values if isinstance(value, status.Indeterminate)]
    if true >= needed:
        return True
    if true + len(errors) < needed:
        return False
    raise errors[0]


def _tried_or(values: Sequence[Any]) -> Any:
    try:
        return three_valued("or", values)
    except status.Indeterminate as error:
        return error


def _expanded(values: Sequence[Value]) -> list[tuple[Value, ...]]:
    """Return all combinations of single values, and of members of bags."""
    combinations: list[tuple[Value, ...]] = [()]
    for value in values:
        is_bag = type(value) is tuple
        combinations = [(*before, member) for before in combinations for member in (value if is_bag else (value,))]
    return combinations


def _type_of(tree: xacml.Expression) -> str:
    match tree:
        case xacml.LiteralValue() | xacml.Designator() | xacml.Selector():
            return tree.type
        case xacml.Apply() if tree.function in FUNCTIONS:
            return FUNCTIONS[tree.function].result.data
    return names.BOOLEAN


def combined(name: str, evaluations: Sequence[Callable[[], XacmlOutcome]]) -> XacmlOutcome:
    """Combine by an algorithm as appendix C writes it."""
    outcomes: list[XacmlOutcome] = []
    for evaluate in evaluations:
        outcomes.append(evaluate())
        if _stops(name, outcomes[-1].decision):
            break
    decision = _decision(name, [outcome.decision for outcome in outcomes])
    if decision not in (P, D):
        return XacmlOutcome(decision, status.Status())
    agreeing = [outcome for outcome in outcomes if outcome.decision == decision]
    return XacmlOutcome(
        decision,
        obligations=tuple(duty for outcome in agreeing for duty in outcome.obligations),
        advice=tuple(duty for outcome in agreeing for duty in outcome.advice),
    )


def _stops(name: str, decision: XacmlDecision) -> bool:
    match name:
        case "deny-overrides" | "permit-unless-deny" | "old-rule-deny-overrides":
            return decision == D
        case "permit-overrides" | "deny-unless-permit" | "old-rule-permit-overrides" | "old-policy-permit-overrides":
            return decision == P
        case "old-policy-deny-overrides":
            return decision in (D, IP, ID, IDP)
        case "first-applicable":
            return decision != NA
    raise AssertionError(name)


def _decision(name: str, decisions: Sequence[XacmlDecision]) -> XacmlDecision:
    failed = any(decision in (IP, ID, IDP) for decision in decisions)
    match name:
        case "deny-overrides":  # C.2
            if D in decisions:
                return D
            if IDP in decisions:
                return IDP
            if ID in decisions and (IP in decisions or P in decisions):
                return IDP
            return ID if ID in decisions else P if P in decisions else IP if IP in decisions else NA
        case "permit-overrides":  # C.4
            if P in decisions:
                return P
            if IDP in decisions:
                return IDP
            if IP in decisions and (ID in decisions or D in decisions):
                return IDP
            return IP if IP in decisions else D if D in decisions else ID if ID in decisions else NA
        case "deny-unless-permit":  # C.6
            return P if P in decisions else D
        case "permit-unless-deny":  # C.7
            return D if D in decisions else P
        case "first-applicable":  # C.8
            return next((decision for decision in decisions if decision != NA), NA)
        case "old-rule-deny-overrides":  # C.10
            if D in decisions:
                return D
            if ID in decisions:
                return IDP
            return P if P in decisions else IDP if failed else NA
        case "old-policy-deny-overrides":  # C.11
            return D if D in decisions or failed else P if P in decisions else NA
        case "old-rule-permit-overrides":  # C.12
            if P in decisions:
                return P
            if IP in decisions:
                return IDP
            return D if D in decisions else IDP if failed else NA
        case "old-policy-permit-overrides":  # C.13
            return P if P in decisions else D if D in decisions else IDP if failed else NA
    raise AssertionError(name)
