"""A condition, ready to use: the way in for everything outside this folder."""

from dataclasses import dataclass, field

from penstock.language.checker import check_condition
from penstock.language.closures import Decider, compile_decision
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.tree import Tree
from penstock.language.types import ANYTHING, Record


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was parsed and checked. Two are equal if their canonical texts are.

    `decide(attributes)` is true, false or a `Failure`; for XML content, `decide(attributes, xpath)`.
    """

    text: str
    tree: Tree = field(compare=False, repr=False)
    decide: Decider = field(compare=False, repr=False)


def make_condition(text: str, declared: Record = ANYTHING) -> Condition:
    """The condition that a text is, over content of the declared attributes; raises `ConditionError`."""
    tree = parse(text)
    check_condition(tree, text, declared)
    return Condition(show(tree), tree, compile_decision(tree))
