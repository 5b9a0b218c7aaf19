"""An expression of any type, for modules outside this folder that need a number or a time of content."""

from dataclasses import dataclass, field
from functools import partial

from penstock.language.checker import check
from penstock.language.condition import find
from penstock.language.errors import Failure, FailureKind
from penstock.language.evaluators.closures import Evaluator, compile_value
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.types import ANYTHING, RecordType, Type
from penstock.model.content.content import Content, Unreadable
from penstock.model.values import Value


@dataclass(frozen=True)
class Expression:
    """An expression that was parsed and checked. Two are equal if their canonical texts are."""

    text: str
    type: Type = field(compare=False)
    """The type of its value, as far as it is known."""
    _run: Evaluator = field(compare=False, repr=False)

    def value(self, content: Content) -> Value | Failure:
        """Return its value for this content, within the steps of one evaluation."""
        attributes = content.attributes
        if isinstance(attributes, Unreadable):
            return Failure(FailureKind.UNREADABLE_CONTENT, attributes.reason)
        return self._run(attributes, partial(find, content))


def make_expression(text: str, declared: RecordType = ANYTHING) -> Expression:
    """Parse and check an expression over content of the declared attributes; raises `ConditionError`."""
    tree = parse(text)
    kind = check(tree, text, declared)
    return Expression(show(tree), kind, compile_value(tree))
