"""The evaluator that a node runs: a tree is compiled to Python closures once, and these are called for each event.

What does not depend on content is calculated when the closures are made; paths of attributes are one step; comparing an
attribute with a constant is one closure.
"""

import operator as op
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.language import tree as ast
from penstock.language.errors import EvaluationError, Failure, Outcome
from penstock.language.evaluators import codes, functions
from penstock.language.evaluators.functions import calculate, call, has_field, select
from penstock.language.evaluators.reference import FindXPath, as_outcome, no_xml
from penstock.language.evaluators.work import CHARACTERS, Work
from penstock.language.evaluators.work import parts as count_parts
from penstock.language.printer import show
from penstock.language.values import ORDERS, TypeName, Uint, Value, make_map

Evaluator = Callable[..., Value | Failure]
Decider = Callable[..., Outcome]
Metered = Callable[..., tuple[Outcome, int]]

_EXACT = 1 << 53
_COMPARISONS = {**ORDERS, "==": op.eq, "!=": op.ne}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SHORT = frozenset({"startsWith", "endsWith"})
"""Tests that look at no more characters than their argument has."""
_NO_FRAME: codes.Frame = []


@dataclass(frozen=True, slots=True)
class _Part:
    """The code of an expression, and its value if that is the same for all content (in a tuple of one)."""

    run: codes.Code
    constant: tuple[Value] | None = None


def compile_value(tree: ast.Tree) -> Evaluator:
    """Compile an expression to an evaluator, which is called with attributes, and a function that evaluates XPath."""
    compiler = _ClosureCompiler()
    return _evaluator(compiler.part(tree, {}).run, compiler.places)


def _evaluator(run: codes.Code, places: list[None]) -> Evaluator:
    def evaluator(attributes: Mapping[str, Value], xpath: FindXPath = no_xml) -> Value | Failure:
        try:
            return run(attributes, [0, xpath, *places])
        except EvaluationError as error:
            return error.failure

    return evaluator


def compile_metered(tree: ast.Tree) -> tuple[Decider, Metered | None]:
    """Compile a condition to an evaluator, and if it counts steps, to one that also returns their number; its third
    argument is a number of steps that count as taken before.
    """
    compiler = _ClosureCompiler()
    run = compiler.part(tree, {}).run
    if compiler.needs_frame:
        metered = _metered(run, compiler.places)
        return lambda attributes, xpath=no_xml: metered(attributes, xpath)[0], metered

    def decider(attributes: Mapping[str, Value], xpath: FindXPath = no_xml) -> Outcome:
        try:
            value = run(attributes, _NO_FRAME)
        except EvaluationError as error:
            return error.failure
        return value if value is True or value is False else as_outcome(value)

    return decider, None


def _metered(run: codes.Code, places: list[None]) -> Metered:
    def metered(attributes: Mapping[str, Value], xpath: FindXPath = no_xml, before: int = 0) -> tuple[Outcome, int]:
        frame: codes.Frame = [before, xpath, *places]
        try:
            return as_outcome(run(attributes, frame)), frame[0] - before
        except EvaluationError as error:
            return error.failure, frame[0] - before

    return metered


Scope = Mapping[str, int]
"""The place in the frame of each variable of the macros around."""


class _ClosureCompiler:
    """A compiler with a method for each kind of node that needs more than a few lines."""

    def __init__(self) -> None:
        self.places: list[None] = []
        self.needs_frame = False
        """True if it counts steps, uses XPath or has variables; other expressions need no frame."""

    def part(self, node: ast.Tree, scope: Scope) -> _Part:
        match node:
            case ast.Literal(kind, value):
                return _constant(Uint(value) if kind == "uint" and isinstance(value, int) else value)
            case ast.TypeLiteral(name):
                return _constant(TypeName(name))
            case ast.Attribute(name):
                return _Part(codes.attribute(name, functions.missing(show(node)).failure))
            case ast.Variable(name):
                place = scope[name]
                return _Part(lambda attributes, frame: frame[place])
            case ast.Select():
                return self._select(node, scope)
            case ast.Has(operand, name):
                return self._has(operand, name, scope)
            case ast.IndexAccess(operand, key):
                return _applied(functions.index, self._parts((operand, key), scope))
            case ast.Call():
                return self._call(node, scope)
            case ast.XPath(expression):
                self.needs_frame = True
                return _Part(lambda attributes, frame: frame[codes.XPATH](expression, frame))
            case ast.Unary(operator, operand):
                return _applied(functions.invert if operator == "!" else functions.negate, [self.part(operand, scope)])
            case ast.Binary():
                return self._binary(node, scope)
            case ast.And(operands):
                return _Part(codes.logical("&&", False, self._codes(operands, scope)))
            case ast.Or(operands):
                return _Part(codes.logical("||", True, self._codes(operands, scope)))
            case ast.Conditional(condition, yes, no):
                return _Part(codes.conditional(*self._codes((condition, yes, no), scope)))
            case ast.ListOf(items):
                return _applied(lambda *values: list(values), self._parts(items, scope))
            case ast.MapOf(entries):
                flat = tuple(part for entry in entries for part in entry)
                return _applied(_map_of, self._parts(flat, scope))
            case ast.Macro():
                return _Part(self._macro(node, scope))

    def _parts(self, nodes: tuple[ast.Tree, ...], scope: Scope) -> list[_Part]:
        return [self.part(node, scope) for node in nodes]

    def _codes(self, nodes: tuple[ast.Tree, ...], scope: Scope) -> list[codes.Code]:
        return [part.run for part in self._parts(nodes, scope)]

    def _select(self, node: ast.Select, scope: Scope) -> _Part:
        shown = show(node)
        path = _path(node)
        general = _applied(lambda value: select(value, node.name, shown), [self.part(node.operand, scope)])
        return general if path is None else _Part(codes.path(path, general.run))

    def _has(self, operand: ast.Tree | None, name: str, scope: Scope) -> _Part:
        if operand is None:
            return _Part(lambda attributes, frame: name in attributes)
        shown = show(ast.Select(operand, name))
        return _applied(lambda value: has_field(value, name, shown), [self.part(operand, scope)])

    def _call(self, node: ast.Call, scope: Scope) -> _Part:
        function = node.function
        overloads = (functions.FUNCTIONS if node.receiver is None else functions.METHODS).get(function)
        parts = self._parts(node.operands, scope)
        match node.operands:
            case (_, ast.Literal("string", str(argument))) if parts[0].constant is None and overloads is not None:
                test = codes.string_test(function, argument)
                if test is not None and not (function in _SHORT and len(argument) >= CHARACTERS):
                    self.needs_frame |= function not in _SHORT
                    run, general = (
                        parts[0].run,
                        lambda value: call(function, overloads, (value, argument), [0]),
                    )
                    return _Part(codes.tested(run, function, argument, test, general))
        written = functions.is_written(node.operands)
        if overloads is None or all(
            overload.cost is None and overload.reading is None for overload in overloads.values()
        ):
            return _applied(lambda *values: call(function, overloads, values, [0]), parts)
        return self._paid(lambda frame, *values: call(function, overloads, values, frame, written), parts)

    def _binary(self, node: ast.Binary, scope: Scope) -> _Part:
        symbol = node.operator
        if isinstance(node.left, ast.XPath) and node.right == ast.ListOf(()) and symbol in ("==", "!="):
            self.needs_frame = True
            return _Part(codes.finds(node.left.expression, symbol == "!="))
        left, right = self.part(node.left, scope), self.part(node.right, scope)
        if left.constant is None and right.constant is not None:
            (constant,) = right.constant
            written = isinstance(node.right, ast.ListOf)
            if symbol == "in" and written and all(map(_is_short, constant)):
                return _Part(codes.in_strings(left.run, constant))
            if _is_simple(symbol, constant):
                test = _comparison(symbol, constant, lambda value: calculate(symbol, value, constant, [0]))
                return _Part(_compared(node.left, left.run, test))
        if right.constant is None and left.constant is not None and _is_simple(symbol, left.constant[0]):
            (constant,) = left.constant
            test = _comparison(_MIRRORED[symbol], constant, lambda value: calculate(symbol, constant, value, [0]))
            return _Part(_compared(node.right, right.run, test))
        return self._operator(symbol, node, left, right)

    def _operator(self, symbol: str, node: ast.Binary, left: _Part, right: _Part) -> _Part:
        overloads = functions.OPERATORS.get(symbol)
        if overloads is None:
            written = isinstance(node.right, ast.ListOf)
            return self._paid(
                lambda frame, value, other: calculate(symbol, value, other, frame, written), [left, right]
            )
        if symbol != "+" or _is_number(left) or _is_number(right):
            return _applied(codes.arithmetic(symbol, overloads), [left, right])
        return self._paid(codes.paid_arithmetic(symbol, overloads), [left, right])

    def _paid(self, function: Callable[..., Value], parts: list[_Part]) -> _Part:
        """Return a strict function that counts steps; with constant operands and no steps, its value is constant."""
        constants = [part.constant[0] for part in parts if part.constant is not None]
        if len(constants) == len(parts):
            work: Work = [0]
            folded = _folded(lambda *values: function(work, *values), constants)
            if not work[0]:
                return folded
        self.needs_frame = True
        runs = [part.run for part in parts]
        return _Part(lambda attributes, frame: function(frame, *[run(attributes, frame) for run in runs]))

    def _macro(self, node: ast.Macro, scope: Scope) -> codes.Code:
        place = codes.FIRST_VARIABLE + len(self.places)
        self.places.append(None)
        inner = {**scope, node.variable: place}
        self.needs_frame = True
        run = self.part(node.range, scope).run
        elements = codes.elements(node.name, run, count_parts(node.guard, node.body))
        body = self.part(node.body, inner).run
        match node.name:
            case "all" | "exists":
                return codes.quantified(node.name, elements, place, body)
            case "exists_one":
                return codes.exists_one(elements, place, body)
            case "filter":
                return codes.filtered(elements, place, body)
            case _:
                guard = None if node.guard is None else self.part(node.guard, inner).run
                return codes.mapped(elements, place, guard, body)


def _map_of(*parts: Value) -> Value:
    return make_map(zip(parts[::2], parts[1::2], strict=True))


def _applied(function: Callable[..., Value], parts: list[_Part]) -> _Part:
    """Return a strict function of operands; if these are constant, so is its value, or its failure."""
    constants = [part.constant[0] for part in parts if part.constant is not None]
    if len(constants) == len(parts):
        return _folded(function, constants)
    runs = [part.run for part in parts]
    if len(runs) == 1:
        (only,) = runs
        return _Part(lambda attributes, frame: function(only(attributes, frame)))
    if len(runs) == 2:
        first, second = runs
        return _Part(lambda attributes, frame: function(first(attributes, frame), second(attributes, frame)))
    return _Part(lambda attributes, frame: function(*[run(attributes, frame) for run in runs]))


def _constant(value: Value) -> _Part:
    return _Part(lambda attributes, frame: value, (value,))


def _folded(function: Callable[..., Value], constants: list[Value]) -> _Part:
    try:
        return _constant(function(*constants))
    except EvaluationError as error:
        failure = error.failure

    def fail(attributes: Mapping[str, Value], frame: codes.Frame) -> Value:
        raise EvaluationError(failure)

    return _Part(fail)


def _path(node: ast.Tree) -> tuple[str, ...] | None:
    """Return the names of a path from an attribute on: `a.b.c`."""
    names: list[str] = []
    while isinstance(node, ast.Select):
        names.append(node.name)
        node = node.operand
    return (node.name, *reversed(names)) if isinstance(node, ast.Attribute) else None


def _is_simple(symbol: str, constant: Value) -> bool:
    """Return whether it is a comparison that costs nothing: with a scalar, or a short string."""
    return symbol in _COMPARISONS and (_is_short(constant) or type(constant) in (int, float, bool))


def _is_short(constant: Value) -> bool:
    return type(constant) is str and len(constant) < CHARACTERS


def _is_number(part: _Part) -> bool:
    return part.constant is not None and type(part.constant[0]) in (int, Uint, float)


def _comparison(symbol: str, constant: Value, general: Callable[[Value], Value]) -> codes.ConstantComparison:
    kind = type(constant)
    # Beside a double, an int counts as a double; below 2^53 it is the same number, and Python compares the two as such.
    other = float if kind is int and -_EXACT <= constant <= _EXACT else kind
    return codes.ConstantComparison(_COMPARISONS[symbol], constant, kind, other, general)


def _compared(node: ast.Tree, run: codes.Code, test: codes.ConstantComparison) -> codes.Code:
    if isinstance(node, ast.Attribute):
        return codes.compared_attribute(node.name, functions.missing(show(node)).failure, test)
    return codes.compared(run, test)
