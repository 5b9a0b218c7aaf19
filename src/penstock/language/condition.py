"""A condition, ready to use: the way in for everything outside this folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from penstock.language.checker import check_condition
from penstock.language.errors import ConditionError, Failure, FailureKind, Outcome, failed
from penstock.language.evaluators.closures import Decider, Metered, compile_metered
from penstock.language.evaluators.reference import no_xml
from penstock.language.evaluators.work import Work, charge
from penstock.language.limits import MAX_EVENT_WORK, MAX_TEXT, MAX_WORK
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.ranges.ranges import Ranges, ranges
from penstock.language.tree import And, Tree, XPath, flat, reads, walk
from penstock.language.types import ANYTHING, RecordType
from penstock.model.content.content import Content, ContentError, Unreadable
from penstock.model.values import Value


@dataclass(frozen=True)
class Condition:
    """A condition that was parsed and checked. Two are equal if their canonical texts are.

    `decide(attributes)` is true, false or a `Failure`; for XML content, `decide(attributes, xpath)`.
    """

    text: str
    tree: Tree = field(compare=False, repr=False)
    decide: Decider = field(compare=False, repr=False)
    _metered: Metered | None = field(compare=False, repr=False)
    """The same evaluator with a count of its steps, if it counts any."""
    _finds: bool = field(compare=False, repr=False)
    """True if it uses XPath."""
    _reads: bool = field(compare=False, repr=False)
    """True if it reads attributes."""

    @cached_property
    def ranges(self) -> Ranges | None:
        """Its normal form, None if it has none. It is computed when it is first asked for, as that takes long."""
        return ranges(self.tree)

    @property
    def is_metered(self) -> bool:
        """True if it counts steps; else it is all that `decide` says of attributes."""
        return self._metered is not None

    def holds(self, content: Content) -> Outcome:
        """Return whether it is true for this content; content that cannot be read makes it fail."""
        attributes = content.attributes if self._reads else _NOTHING
        if isinstance(attributes, Unreadable):
            return Failure(FailureKind.UNREADABLE_CONTENT, attributes.reason)
        return self.decide(attributes) if self._metered is None else self.of(attributes, content)

    def of(self, attributes: Mapping[str, Value], content: Content) -> Outcome:
        """Return whether it is true for these attributes; steps are counted, and XPath evaluated, on the content."""
        if self._metered is None:
            return self.decide(attributes)
        work, event_work = MAX_WORK, MAX_EVENT_WORK
        if content.max_steps is not None:
            work, event_work = min(work, content.max_steps), min(event_work, content.max_steps)
        if content.spent > event_work:
            return Failure(FailureKind.TOO_COSTLY, f"what is asked of this event takes more than {event_work} steps")
        xpath = partial(find, content) if self._finds else no_xml
        outcome, steps = self._metered(attributes, xpath, MAX_WORK - work)
        content.spent += min(steps, work)
        if work < steps and isinstance(outcome, Failure) and outcome.kind is FailureKind.TOO_COSTLY:
            return Failure(outcome.kind, f"on this content the condition would take more than {work} steps")
        return outcome


_NOTHING: dict[str, Value] = {}


XPATH_STEPS = 3
"""Steps of XPath (`model/content/xpath.py`) that take as long as one of ours."""


def find(content: Content, expression: str, work: Work) -> Value:
    """Evaluate XPath on XML content, paid for in steps; raises `EvaluationError`."""
    try:
        return content.xpath(expression, lambda steps: charge(work, steps // XPATH_STEPS))
    except ContentError as error:
        raise failed(FailureKind.UNREADABLE_CONTENT, str(error)) from None


def make_condition(text: str, declared: RecordType = ANYTHING) -> Condition:
    """Parse and check a condition over content of the declared attributes; raises `ConditionError`."""
    tree = parse(text)
    check_condition(tree, text, declared)
    condition = condition_of(tree)
    if len(condition.text) > MAX_TEXT:  # the canonical text is stored and sent, so it must be a valid condition too
        length = f"this has {len(condition.text)} in canonical form"
        raise ConditionError(f"a condition has at most {MAX_TEXT} characters, {length}", text, 0)
    return condition


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Return the condition that is true where all of these are; there must be at least one."""
    if len(conditions) == 1:
        return conditions[0]
    return condition_of(And(flat(And, (condition.tree for condition in conditions))))


def condition_of(tree: Tree) -> Condition:
    """Return the condition of a tree that has been checked."""
    return Condition(
        show(tree), tree, *compile_metered(tree), any(isinstance(node, XPath) for node, _ in walk(tree)), reads(tree)
    )
