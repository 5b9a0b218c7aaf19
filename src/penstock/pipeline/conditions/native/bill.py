"""What a condition costs at most on any content that a node would read.

Spark's expressions cannot count steps (`language/evaluators/work.py`). So they are only used where no content within
the bounds of `model/content/bounds.py` can take more than is allowed: then no evaluator fails for its cost, and there
is nothing to count.
"""

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from penstock.language import tree as ast
from penstock.language.errors import EvaluationError
from penstock.language.evaluators.functions import Overload
from penstock.language.evaluators.patterns import match_cost
from penstock.language.evaluators.work import CHARACTERS, parts
from penstock.language.limits import MAX_MATCHED, MAX_SIZE, MAX_WORK
from penstock.language.values import Value
from penstock.model.content.bounds import MAX_NODES
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native.parts import Constant, Entries, Items, Part, kind_of

_TEXT = MAX_SIZE // CHARACTERS
"""Steps for all texts of a content together, and for each text that a condition can make."""

_LONG = (str, bytes, list, dict)


class _ChargedLoop(NamedTuple):
    macro: ast.Macro
    max_runs: int
    """How often its body is evaluated at most."""


class Bill:
    """Adds up the most that each part of one condition can cost; a part that is charged again is not added again."""

    def __init__(self) -> None:
        self._steps: dict[Hashable, float] = {}
        self._place: tuple[Hashable, ...] = ()
        self._loops: tuple[_ChargedLoop, ...] = ()

    @property
    def total(self) -> float:
        """Return the most steps that an evaluation takes."""
        return sum(self._steps.values())

    def check(self) -> None:
        """Raise `NativeGap` if that is more than it may take."""
        if self.total > MAX_WORK:
            raise NativeGap("work that has to be counted")

    @contextmanager
    def inside(self, macro: ast.Macro, max_runs: int, element: int = 0) -> Iterator[None]:
        """Charge what is charged within the context for the body of a macro, for so many elements."""
        before = self._place, self._loops
        self._place, self._loops = (*self._place, id(macro), element), (*self._loops, _ChargedLoop(macro, max_runs))
        yield
        self._place, self._loops = before

    def of_constants(self, node: ast.Tree, steps: int) -> None:
        """Charge what is calculated already."""
        self._add(node, steps * self._times())

    def macro(self, node: ast.Macro, range_: Part) -> int:
        """Going through a macro's elements; returns how many there are at most."""
        max_elements = self._elements(node.range, range_)
        self._add(node, max_elements * parts(node.guard, node.body) * self._times())
        return max_elements

    def binary(self, node: ast.Binary, overload: Overload | None, left: Part, right: Part) -> None:
        """Charge an operator."""
        if node.operator == "in":
            self._membership(node, left, right)
        elif node.operator == "+":
            if overload is not None and overload.cost is not None:
                longest = self._longest(node.left, left), self._longest(node.right, right)
                self._add(node, overload.cost(*longest) * self._times())
        else:
            # Comparisons look at no more than the shorter side has.
            sides = ((node.left, left), (node.right, right))
            self._add(node, min(self._depth(*side) * self._times(side[0]) for side in sides))

    def _membership(self, node: ast.Binary, left: Part, right: Part) -> None:
        if kind_of(right) is dict:
            return
        elements = self._elements(node.right, right)
        inside: float = 0
        if kind_of(left) in _LONG:
            each = self._depth(node.left, left) * elements * self._times()
            inside = min(each, self._depth(node.right, right) * self._times(node.right))
        self._add(node, (0 if isinstance(node.right, ast.ListOf) else elements) * self._times() + inside)

    def call(self, node: ast.Call, overload: Overload | None, given: tuple[Part, ...]) -> None:
        """Charge a function; patterns are constant."""
        if overload is None or overload.cost is None:
            return
        if overload.cost is match_cost:
            assert isinstance(given[-1], Constant)
            with suppress(EvaluationError):  # what is no pattern always fails
                self._add(node, match_cost(range(MAX_MATCHED), given[-1].value) * self._times())
            return
        operands = list(zip(node.operands, given, strict=True))
        steps = overload.cost(*[self._longest(*operand) for operand in operands])
        self._add(node, steps * max(self._times(tree) for tree, part in operands if not isinstance(part, Constant)))

    def _add(self, node: ast.Tree, steps: float) -> None:
        self._steps[id(node), self._place] = steps

    def _times(self, about: ast.Tree | None = None) -> int:
        """Return how often a part is evaluated at most.

        Where its cost is that of going through something that macros found in content, these do not count: all that
        they find together is no more than the content.
        """
        loops = self._found_by(about) if about is not None else []
        return math.prod(loop.max_runs for loop in self._loops if loop not in loops)

    def _found_by(self, tree: ast.Tree) -> list[_ChargedLoop]:
        """Return the macros that lead from content to a value, if it comes from content by macros."""
        passed: list[_ChargedLoop] = []
        loops = list(self._loops)
        while isinstance(root := _root(tree), ast.Variable):
            while loops and loops[-1].macro.variable != root.name:
                loops.pop()
            if not loops:  # it is given from outside
                return []
            passed.append(loops.pop())
            tree = passed[-1].macro.range
        return passed if isinstance(root, ast.Attribute) else []

    def _is_content(self, tree: ast.Tree) -> bool:
        return isinstance(_root(tree), ast.Attribute) or bool(self._found_by(tree))

    def _elements(self, tree: ast.Tree, part: Part | None = None) -> int:
        """Return the most elements that a list has."""
        match part:
            case Constant(value):
                return len(value)
            case Items(inside) | Entries(inside):
                return len(inside)
        match tree:
            case ast.ListOf(items):
                return len(items)
            case ast.Macro(_, range_):
                return self._elements(range_)
            case ast.Binary("+", left, right):
                return self._elements(left) + self._elements(right)
            case ast.Conditional(_, yes, no):
                return max(self._elements(yes), self._elements(no))
            case _:
                return MAX_NODES if self._is_content(tree) else MAX_SIZE

    def _depth(self, tree: ast.Tree, part: Part | None = None) -> float:
        """Return the most steps that going through a value takes, with all that is inside it."""
        if part is not None and kind_of(part) not in _LONG:
            return 0
        if isinstance(part, Constant):
            return _steps_through(part.value)
        match tree:
            case ast.Literal(_, value):
                return len(value) // CHARACTERS if isinstance(value, str | bytes) else 0
            case ast.ListOf(items):
                return len(items) + sum(map(self._depth, items))
            case ast.Macro("filter", range_):
                return self._depth(range_)
            case ast.Conditional(_, yes, no):
                return max(self._depth(yes), self._depth(no))
        if part is not None and kind_of(part) in (str, bytes):
            return _TEXT
        return MAX_NODES + _TEXT if self._is_content(tree) else math.inf

    def _longest(self, tree: ast.Tree, part: Part) -> object:
        """Return a value that is as long as the longest one of a part."""
        if isinstance(part, Constant):
            return part.value
        return range(self._elements(tree, part) if kind_of(part) is list else MAX_SIZE)


def _steps_through(value: Value) -> int:
    match value:
        case str() | bytes():
            return len(value) // CHARACTERS
        case list():
            return len(value) + sum(map(_steps_through, value))
        case dict():
            return len(value) + sum(map(_steps_through, value.values()))
        case _:
            return 0


def _root(tree: ast.Tree) -> ast.Tree:
    """Return what a value is a part of."""
    while True:
        match tree:
            case ast.Select(operand, _) | ast.IndexAccess(operand, _) | ast.Macro("filter", operand):
                tree = operand
            case _:
                return tree
