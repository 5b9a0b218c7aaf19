"""Compilation of statements to policies: elements are looked up, arguments and conditions checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from penstock.language.checker import check_condition
from penstock.language.condition import Condition, condition_of
from penstock.language.errors import ConditionError, Outcome, StatementError
from penstock.language.printer import show
from penstock.language.statements import statement as syntax
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.printer import show_compact, show_use
from penstock.language.statements.table import check_place
from penstock.language.tree import Attribute, Call, Has, Literal, Select, Tree, XPath, rebuilt, walk
from penstock.language.types import DYN, STRING, RecordType, Type
from penstock.language.words import nearest
from penstock.model.content.content import Unreadable
from penstock.model.errors import PolicyError
from penstock.model.values import Value
from penstock.policy.statements.elements.element import Element, ElementError
from penstock.policy.statements.elements.table import elements

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement

_SLOT = "\0{}"
"""The attribute that stands for the value of an element; no condition can name it."""
_OF_FILTERS: dict[str, Type] = {"filter": STRING, "where": STRING}
"""The attributes for conditions on messages that are not publications: see `FilterCopy`."""


@dataclass(frozen=True, slots=True)
class Act:
    """An element with its arguments."""

    element: Element
    arguments: tuple[syntax.Argument, ...]
    text: str

    def call(self, judgement: "Judgement") -> Value | None:
        """Run the element; raises `ElementError` for any failure."""
        try:
            return self.element.run(judgement, *self.arguments)
        except ElementError as error:
            raise ElementError(f"`{self.text}`: {error}") from None
        except Exception as error:  # an element may come from any package
            raise ElementError(f"`{self.text}` fails: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Test:
    """A condition with elements in it."""

    condition: Condition
    acts: tuple[tuple[str, Act], ...]
    """The elements to evaluate first, by the attribute that stands for their value."""
    reads: bool
    """True if it also reads content."""

    def decide(self, judgement: "Judgement") -> Outcome:
        """Return whether it holds; an element that fails makes it fail if its value matters."""
        answers: dict[str, Value] = {}
        failure = ""
        for slot, act in self.acts:
            try:
                answers[slot] = act.call(judgement)
            except ElementError as error:
                failure = failure or str(error)
        attributes: Mapping[str, Value] | Unreadable = judgement.copy.attributes if self.reads else {}
        if isinstance(attributes, Unreadable):
            raise ElementError(f"the content cannot be read: {attributes.reason}")
        outcome = self.condition.of({**attributes, **answers}, judgement.copy.content)
        if failure and not isinstance(outcome, bool):
            raise ElementError(failure)
        return outcome


@dataclass(frozen=True, slots=True)
class CompiledClause:
    test: Test | None
    actions: tuple[Act, ...]


Chain = tuple[CompiledClause, ...]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    verb: syntax.Verb
    message: syntax.Message
    matching: syntax.Matching
    points: frozenset[syntax.Point]
    attach: syntax.Attach
    yields: bool
    chain: Chain
    on_exception: Chain
    alone: "Policy | None" = None
    """The policy that is attached to messages, if the rule attaches one."""

    @property
    def is_before_matching(self) -> bool:
        """True if it is applied to publications where it is set, before they are matched by content."""
        is_before = self.matching is syntax.Matching.BEFORE and self.message is syntax.Message.PUBLICATION
        return is_before and self.alone is None

    @property
    def is_blind(self) -> bool:
        """True if it does not depend on the content, so that it reveals nothing of it."""
        tests = [clause.test for clause in (*self.chain, *self.on_exception) if clause.test is not None]
        return not any(map(_reads, tests)) and all(act.element.is_blind for act in _acts(self))


@dataclass(frozen=True)
class Policy:
    """A statement that can be applied. Two policies are equal if their texts are."""

    text: str
    """Canonical, on one line."""
    rules: tuple[CompiledRule, ...] = field(compare=False, repr=False)
    statement: syntax.Statement = field(compare=False, repr=False)

    def concerns(self, message: syntax.Message) -> bool:
        """Return whether it has rules on such messages."""
        return any(rule.message is message for rule in self.rules)

    def acts(self) -> Iterator[Act]:
        """Yield all elements that it may call."""
        for rule in self.rules:
            yield from _acts(rule)

    def uses(self) -> frozenset[str]:
        """Return the names of all its elements."""
        return frozenset(act.element.name for act in self.acts())

    @cached_property
    def is_shared(self) -> bool:
        """True if its effect on a message is the same for all receivers, without side effects."""
        return all(act.element.is_shared for act in self.acts())

    @cached_property
    def needs_filter(self) -> bool:
        """True if its effect depends on the filter that it belongs to."""
        return any(act.element.needs_filter for act in self.acts())

    @cached_property
    def has_before(self) -> bool:
        """True if it has rules that come before matching."""
        return any(rule.matching is syntax.Matching.BEFORE for rule in self.rules)

    @cached_property
    def precedes_matching(self) -> bool:
        """True if it has rules on publications that are applied where it is, before these are matched by content."""
        return any(rule.is_before_matching for rule in self.rules)

    @cached_property
    def yields(self) -> bool:
        """True if it gives way to one that is attached `IfYield`."""
        return all(rule.yields for rule in self.rules)


class MisuseError(PolicyError):
    """An element or a condition that cannot be used at its place; `at` is its position in the text."""

    def __init__(self, what: str, at: int) -> None:
        self.at = at
        super().__init__(what)


def policy_on(policy: Policy, carrier: syntax.Message) -> Policy:
    """Return the policy if such a message may have it (statements Table 1); raises `PolicyError`, `StatementError`."""
    check_place(policy.statement, carrier)
    for rule in policy.rules:
        for act in _acts(rule):
            if act.element.needs_filter and carrier not in _WITH_FILTER:
                raise PolicyError(f"`{act.text}` is about a subscription or advertisement, and this is set on none")
            if act.element.needs_filter and (rule.attach is not syntax.Attach.NEVER or rule.message is carrier):
                raise PolicyError(f"`{act.text}` is about the filter that a message matches, and cannot be attached")
            is_copy = carrier is syntax.Message.SUBSCRIPTION and rule.message is syntax.Message.PUBLICATION
            if act.element.name == "FloodMessage" and is_copy and rule.attach is syntax.Attach.NEVER:
                reason = "a policy of a subscription is about the copy for its subscriber, which goes nowhere else"
                raise PolicyError(f"`{act.text}`: {reason}; set it on the publication or an advertisement")
    return policy


_WITH_FILTER = (syntax.Message.ADVERTISEMENT, syntax.Message.SUBSCRIPTION)


def make_policy(text: str) -> Policy:
    """Parse and compile a policy; raises `StatementError` or `PolicyError`."""
    return _compiled(text, id(elements()))


@lru_cache(maxsize=4096)
def _compiled(text: str, _known: int) -> Policy:
    try:
        return compile_statement(parse_statement(text))
    except MisuseError as error:
        raise StatementError.in_text(str(error), text, error.at) from None


def compile_statement(statement: syntax.Statement, known: Mapping[str, Element] | None = None) -> Policy:
    """Compile a statement; raises `PolicyError`."""
    available = elements() if known is None else known
    return Policy(show_compact(statement), tuple(_rule(rule, available) for rule in statement.rules), statement)


@lru_cache(maxsize=1024)
def blinded(policy: Policy, known: frozenset[Policy]) -> Policy:
    """Return the policy with rules that block in place of those that read content, except attached ones in `known`."""
    blocking = (syntax.StatementClause(None, (syntax.ElementUse("BlockMessage"),)),)
    rules = tuple(
        rule
        if compiled.message is not syntax.Message.PUBLICATION or compiled.is_blind or compiled.alone in known
        else replace(rule, clauses=blocking, on_exception=())
        for rule, compiled in zip(policy.statement.rules, policy.rules, strict=True)
    )
    return policy if rules == policy.statement.rules else compile_statement(syntax.Statement(rules))


@lru_cache(maxsize=1024)
def part_about(policy: Policy, messages: frozenset[syntax.Message]) -> Policy | None:
    """Return the policy with only its rules on these messages; None if it has none."""
    rules = tuple(rule for rule in policy.statement.rules if rule.message in messages)
    if len(rules) == len(policy.rules):
        return policy
    return compile_statement(syntax.Statement(rules)) if rules else None


def _rule(rule: syntax.StatementRule, known: Mapping[str, Element]) -> CompiledRule:
    alone = syntax.Statement((replace(rule, attach=syntax.Attach.NEVER),))
    return CompiledRule(
        rule.verb,
        rule.message,
        rule.matching,
        frozenset(rule.points),
        rule.attach,
        rule.yields,
        tuple(_clause(clause, rule, known) for clause in rule.clauses),
        tuple(_clause(clause, rule, known) for clause in rule.on_exception),
        None if rule.attach is syntax.Attach.NEVER else compile_statement(alone, known),
    )


def _clause(clause: syntax.StatementClause, rule: syntax.StatementRule, known: Mapping[str, Element]) -> CompiledClause:
    test = None if clause.condition is None else _test(clause.condition, rule, known)
    return CompiledClause(test, tuple(_act(use, rule, known, is_action=True) for use in clause.actions))


def _act(use: syntax.ElementUse, rule: syntax.StatementRule, known: Mapping[str, Element], is_action: bool) -> Act:
    try:
        return _checked(use, rule, known, is_action)
    except PolicyError as error:
        raise MisuseError(str(error), use.at) from None


def _checked(use: syntax.ElementUse, rule: syntax.StatementRule, known: Mapping[str, Element], is_action: bool) -> Act:
    element, text = known.get(use.name), show_use(use)
    if element is None:
        near = nearest(use.name, known)
        raise PolicyError(f"`{text}`: there is no element `{use.name}`" + (f"; is `{near}` meant?" if near else ""))
    if (element.gives is None) is not is_action:
        raise PolicyError(f"`{use.name}` is {'a condition' if is_action else 'an action'}: it cannot stand here")
    if rule.message not in element.messages:
        raise PolicyError(f"`{use.name}` cannot be applied to {_a(rule.message)}")
    if rule.verb not in element.verbs:
        raise PolicyError(f"`{use.name}` has no meaning where a message is {_PAST[rule.verb]}")
    if element.needs_receiver and (rule.matching is syntax.Matching.BEFORE or rule.verb is syntax.Verb.INSERT):
        raise PolicyError(f"`{use.name}`: there is no receiver {_NO_RECEIVER[rule.verb]}")
    element.check_arguments(use.arguments)
    return Act(element, use.arguments, text)


_PAST = {syntax.Verb.FORWARD: "forwarded", syntax.Verb.INSERT: "inserted"}
_NO_RECEIVER = {syntax.Verb.FORWARD: "before matching", syntax.Verb.INSERT: "where a message is inserted"}


def _a(message: syntax.Message) -> str:
    return f"{'an' if message[0] in 'AU' else 'a'} {message.lower()}"


def _test(tree: Tree, rule: syntax.StatementRule, known: Mapping[str, Element]) -> Test:
    acts: dict[str, Act] = {}

    def stand_in(node: Tree) -> Tree:
        if not isinstance(node, Call) or node.receiver is not None or not node.function[:1].isupper():
            return node
        use = syntax.ElementUse(node.function, tuple(map(_argument, node.arguments)), node.at)
        act = _act(use, rule, known, is_action=False)
        slot = next((slot for slot, other in acts.items() if other == act), _SLOT.format(len(acts)))
        acts[slot] = act
        return Attribute(slot, at=node.at)

    replaced = rebuilt(tree, stand_in)
    text = show(tree)
    declared = {slot: act.element.gives or DYN for slot, act in acts.items()}
    is_content = rule.message is syntax.Message.PUBLICATION
    try:
        check_condition(replaced, text, RecordType(declared, DYN) if is_content else RecordType(_OF_FILTERS | declared))
    except ConditionError as error:
        raise MisuseError(f"condition `{text}`: {error.what}", error.at) from None
    reads = any(isinstance(node, Attribute | Has) and _root(node) not in acts for node, _ in walk(replaced))
    return Test(condition_of(replaced), tuple(acts.items()), reads)


def _reads(test: Test) -> bool:
    return test.reads or any(isinstance(node, XPath) for node, _ in walk(test.condition.tree))


def _root(node: Attribute | Has) -> str:
    return node.name if isinstance(node, Attribute) or node.operand is None else ""


def _argument(node: Tree) -> syntax.Argument:
    match node:
        case Literal(_, str() | bool() | int() | float() as value):
            return value
        case Attribute(name):
            return name
        case Select(operand, name):
            return f"{_argument(operand)}.{name}"
    raise PolicyError(f"`{show(node)}` cannot be the argument of an element: expected a name, a text or a number")


def _acts(rule: CompiledRule) -> Iterator[Act]:
    for clause in (*rule.chain, *rule.on_exception):
        yield from clause.actions
        yield from (act for _, act in (clause.test.acts if clause.test is not None else ()))
