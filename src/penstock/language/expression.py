"""An expression that has any value: for those outside this folder who need a number or a time of content."""

from dataclasses import dataclass, field
from functools import partial

from penstock.language.checker import check
from penstock.language.condition import find
from penstock.language.errors import Failure, Kind
from penstock.language.evaluators.closures import Evaluator, compile_value
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.types import ANYTHING, Record, Type
from penstock.model.content.content import Content, Unreadable
from penstock.model.values import Value


@dataclass(frozen=True)
class Expression:
    """An expression that was parsed and checked. Two are equal if their canonical texts are."""

    text: str
    type: Type = field(compare=False)
    """What is known of its value's type."""
    _run: Evaluator = field(compare=False, repr=False)

    def value(self, content: Content) -> Value | Failure:
        """What it comes to for this content, within the steps of one evaluation."""
        attributes = content.attributes
        if isinstance(attributes, Unreadable):
            return Failure(Kind.UNREADABLE_CONTENT, attributes.reason)
        return self._run(attributes, partial(find, content))


def make_expression(text: str, declared: Record = ANYTHING) -> Expression:
    """The expression that a text is, over content of the declared attributes; raises `ConditionError`."""
    tree = parse(text)
    found = check(tree, text, declared)
    return Expression(show(tree), found, compile_value(tree))
