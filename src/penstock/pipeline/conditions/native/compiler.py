"""From tree to native column, or to the gap that stands in the way."""

import operator as op
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.language import tree as ast
from penstock.language import types
from penstock.language.errors import EvaluationError, FailureKind
from penstock.language.evaluators import functions
from penstock.language.evaluators.work import Work
from penstock.language.values import TypeName, Uint, Value, keys, make_map
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native import macros, parts
from penstock.pipeline.conditions.native.access import column, field, has, index, select
from penstock.pipeline.conditions.native.bill import Bill
from penstock.pipeline.conditions.native.calls import calculated, called, negated
from penstock.pipeline.conditions.native.relations import contains, equality, order, present
from penstock.pipeline.conditions.native.shapes import common, fitted, stored

_MAX_WRITTEN_OUT = 50


@dataclass(frozen=True, slots=True, eq=False)
class NativeOutcome:
    """What a condition comes to in each row: a bool, NULL where it fails, and the kind of the failure."""

    value: Column
    error: Column


def compile_native(
    tree: ast.Tree, schema: StructType, content: Column, given: "Scope" = MappingProxyType({})
) -> NativeOutcome:
    """Return a condition over content in a struct as Spark's own expressions; raises `NativeGap`."""
    compiler = _ColumnCompiler(parts.ColumnCell(schema, content))
    outcome = truth(compiler.part(tree, given))
    compiler.bill.check()
    error = F.coalesce(F.lit(None).cast("string"), *outcome.errors)
    if ast.reads(tree):
        unreadable = F.lit(FailureKind.UNREADABLE_CONTENT.value)
        return NativeOutcome(
            F.when(content.isNotNull(), outcome.value), F.when(content.isNull(), unreadable).otherwise(error)
        )
    return NativeOutcome(outcome.value, error)


def truth(part: parts.Part) -> parts.ColumnCell:
    """Return a part as true or false."""
    if parts.is_never(part):
        return parts.never(*parts.errors_of(part))
    if parts.kind_of(part) is not bool:
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, part)
    value = column(part)
    return parts.made(types.BOOL, value.value, (value,), before=parts.no_nulls(value)) if value.nullable else value


Scope = Mapping[str, parts.Part]


class _ColumnCompiler:
    def __init__(self, content: parts.ColumnCell) -> None:
        self._content = content
        self._written_out = 0
        self.bill = Bill()

    def part(self, node: ast.Tree, scope: Scope) -> parts.Part:
        try:
            return self._part(node, scope)
        except NativeGap as gap:
            raise gap if gap.at is not None else NativeGap(gap.construct, node.at) from None

    def _part(self, node: ast.Tree, scope: Scope) -> parts.Part:
        match node:
            case ast.Literal(kind, value):
                return parts.Constant(Uint(value) if kind == "uint" and isinstance(value, int) else value)
            case ast.TypeLiteral(name):
                return parts.Constant(TypeName(name))
            case ast.Attribute(name):
                return field(self._content, name)
            case ast.Variable(name):
                return scope[name]
            case ast.Select(operand, name):
                return _folded(
                    lambda value: functions.select(value, name, name),
                    lambda part: select(part, name),
                    self.part(operand, scope),
                )
            case ast.Has(None, name):
                return self._has_attribute(name)
            case ast.Has(operand, name) if operand is not None:
                return _folded(
                    lambda value: functions.has_field(value, name, name),
                    lambda part: has(part, name),
                    self.part(operand, scope),
                )
            case ast.IndexAccess(operand, key):
                return _folded(functions.index, index, *self._parts((operand, key), scope))
            case ast.Call():
                return self._call(node, scope)
            case ast.XPath():
                # Columns are not a document; `columns.py` asks the payload if there is one.
                return parts.fail(FailureKind.UNREADABLE_CONTENT)
            case ast.Unary("!", operand):
                return _folded(functions.invert, _inverted, self.part(operand, scope))
            case ast.Unary(_, operand):
                return _folded(functions.negate, negated, self.part(operand, scope))
            case ast.Binary():
                return self._binary(node, scope)
            case ast.And(operands):
                return _combined(False, self._parts(operands, scope))
            case ast.Or(operands):
                return _combined(True, self._parts(operands, scope))
            case ast.Conditional():
                return self._conditional(node, scope)
            case ast.ListOf(items):
                arguments = self._parts(items, scope)
                return _folded(lambda *values: list(values), lambda *given: parts.Items(given), *arguments)
            case ast.MapOf(entries):
                flat = self._parts(tuple(part for entry in entries for part in entry), scope)
                return _folded(_map_value, _map, *flat)
            case ast.Macro():
                return self._macro(node, scope)
            case _:
                raise TypeError(f"not a tree: {node!r}")

    def _parts(self, nodes: tuple[ast.Tree, ...], scope: Scope) -> list[parts.Part]:
        return [self.part(node, scope) for node in nodes]

    def _has_attribute(self, name: str) -> parts.Part:
        shape = self._content.shape
        assert isinstance(shape, StructType)
        return (
            parts.ColumnCell(types.BOOL, present(self._content, name)) if name in shape.names else parts.Constant(False)
        )

    def _call(self, node: ast.Call, scope: Scope) -> parts.Part:
        function = node.function
        overloads = (functions.FUNCTIONS if node.receiver is None else functions.METHODS).get(function)
        arguments = self._parts(node.operands, scope)
        work: Work = [0]

        def native(*given: parts.Part) -> parts.Part:
            part = called(function, overloads, given)
            self.bill.call(node, _overload(overloads, given), given)
            return part

        written = functions.is_written(node.operands)
        made_of = _folded(
            lambda *values: functions.call(function, overloads, values, work, written), native, *arguments
        )
        if work[0]:
            self.bill.of_constants(node, work[0])
        return made_of

    def _binary(self, node: ast.Binary, scope: Scope) -> parts.Part:
        symbol = node.operator
        overloads = functions.OPERATORS.get(symbol)
        work: Work = [0]

        def native(left: parts.Part, right: parts.Part) -> parts.Part:
            self.bill.binary(node, _overload(overloads, (left, right)), left, right)
            match symbol:
                case "==":
                    return equality(left, right)
                case "!=":
                    return _inverted(equality(left, right))
                case "in":
                    return contains(left, right)
                case "<" | "<=" | ">" | ">=":
                    return order(symbol, left, right)
                case _:
                    return calculated(symbol, functions.OPERATORS[symbol], left, right)

        left, right = self._parts((node.left, node.right), scope)
        written = isinstance(node.right, ast.ListOf)
        made_of = _folded(
            lambda first, second: functions.calculate(symbol, first, second, work, written), native, left, right
        )
        if work[0]:
            self.bill.of_constants(node, work[0])
        return made_of

    def _conditional(self, node: ast.Conditional, scope: Scope) -> parts.Part:
        condition = self.part(node.condition, scope)
        match condition:
            case parts.Constant(bool(is_true)):
                return self.part(node.yes if is_true else node.no, scope)
        test = truth(condition)
        if parts.is_never(test):
            return test
        return _either(test, *self._parts((node.yes, node.no), scope))

    def _macro(self, node: ast.Macro, scope: Scope) -> parts.Part:
        range_ = parts.opened(self.part(node.range, scope))
        if parts.is_never(range_):
            return range_
        if parts.kind_of(range_) not in (list, dict):
            return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, range_)
        if isinstance(range_, parts.Entries) and not parts.errors_of(range_):
            range_ = parts.Items(tuple(map(parts.Constant, keys(dict(range_.parts)))))
        max_elements = self.bill.macro(node, range_)
        if (
            isinstance(range_, parts.Items)
            and not parts.errors_of(range_)
            and node.name != "filter"
            and node.guard is None
        ):
            return self._spelled_out(node, range_, scope)
        return self._looped(node, range_, max_elements, scope)

    def _spelled_out(self, node: ast.Macro, items: parts.Items, scope: Scope) -> parts.Part:
        self._written_out += len(items.parts)
        if self._written_out > _MAX_WRITTEN_OUT:
            raise NativeGap("a macro over a long list")
        made_of: list[parts.Part] = []
        for place, item in enumerate(items.parts):
            with self.bill.inside(node, 1, place):
                made_of.append(self.part(node.body, {**scope, node.variable: item}))
        match node.name:
            case "all" | "exists":
                return _combined(node.name == "exists", made_of)
            case "exists_one":
                return _exactly_one(made_of)
            case _:
                return _folded(lambda *values: list(values), lambda *given: parts.Items(given), *made_of)

    def _looped(self, node: ast.Macro, range_: parts.Part, max_elements: int, scope: Scope) -> parts.Part:
        def of_each(tree: ast.Tree) -> Callable[[parts.Part], parts.Part]:
            def evaluated(x: parts.Part) -> parts.Part:
                with self.bill.inside(node, max_elements):
                    return self.part(tree, {**scope, node.variable: x})

            return evaluated

        array = macros.elements(range_)
        body = of_each(node.body)
        guard = None if node.guard is None else of_each(node.guard)
        match node.name:
            case "all" | "exists":
                return macros.quantified(array, node.name == "exists", lambda x: truth(body(x)))
            case "exists_one":
                return macros.exists_one(array, lambda x: truth(body(x)))
            case "filter":
                return macros.filtered(array, lambda x: truth(body(x)))
            case _:
                kept = None if guard is None else lambda x: truth(guard(x))
                return macros.mapped(array, lambda x: _one_column(body(x)), kept)


def _overload(overloads: functions.Overloads | None, arguments: tuple[parts.Part, ...]) -> functions.Overload | None:
    return None if overloads is None else overloads.get(tuple(map(parts.kind_of, arguments)))


def _one_column(part: parts.Part) -> parts.ColumnCell:
    return parts.never(*parts.errors_of(part)) if parts.is_never(part) else column(part)


def _folded(on_values: Callable[..., Value], on_parts: Callable[..., parts.Part], *arguments: parts.Part) -> parts.Part:
    """Return a strict function: of constants now, else of columns; what always fails makes it fail."""
    values = [part.value for part in arguments if isinstance(part, parts.Constant)]
    if len(values) == len(arguments):
        try:
            return parts.Constant(on_values(*values))
        except EvaluationError as error:
            return parts.fail(error.failure.kind)
    if any(map(parts.is_never, arguments)):
        return parts.never(*parts.errors_of(*arguments))
    return on_parts(*arguments)


def _inverted(part: parts.Part) -> parts.Part:
    value = truth(part)
    return parts.made(types.BOOL, ~value.value, (value,)) if not parts.is_never(value) else value


def _combined(deciding: bool, arguments: list[parts.Part]) -> parts.Part:
    """`&&` and `||`: SQL's logic of three values absorbs errors as CEL does."""
    if any(isinstance(part, parts.Constant) and part.value is deciding for part in arguments):
        return parts.Constant(deciding)
    cells = [
        truth(part) for part in arguments if not (isinstance(part, parts.Constant) and part.value is (not deciding))
    ]
    if not cells:
        return parts.Constant(not deciding)
    return parts.absorbed(reduce(op.or_ if deciding else op.and_, [cell.value for cell in cells]), cells)


def _exactly_one(arguments: list[parts.Part]) -> parts.Part:
    cells = [truth(part) for part in arguments]
    if any(map(parts.is_never, cells)):
        return parts.never(*parts.errors_of(*cells))
    count = reduce(op.add, [cell.value.cast("int") for cell in cells], F.lit(0))
    return parts.made(types.BOOL, count == 1, cells)


def _either(test: parts.ColumnCell, yes: parts.Part, no: parts.Part) -> parts.Part:
    """Return one of two values, of one type: what always fails is of any, and null goes with any."""
    cells = [_one_column(part) for part in (yes, no)]
    shapes = [cell.shape for cell in cells if cell.shape not in (parts.NEVER, types.NULL)]
    shape = shapes[0] if shapes else types.NULL
    if any(other != shape for other in shapes):
        shape = common([stored(other) for other in shapes])  # type: ignore[assignment]
    first, second = (replace(cell, value=_as(cell, shape)) for cell in cells)
    return parts.chosen(shape, test, first, second)


def _as(part: parts.ColumnCell, shape: parts.Shape) -> Column:
    if part.shape in (parts.NEVER, types.NULL):
        return F.lit(None)
    return part.value if part.shape == shape else fitted(part.value, stored(part.shape), stored(shape))


def _map_value(*flat: Value) -> Value:
    return make_map(zip(flat[::2], flat[1::2], strict=True))


def _map(*flat: parts.Part) -> parts.Part:
    names = [part.value for part in flat[::2] if isinstance(part, parts.Constant)]
    if len(names) < len(flat[::2]):
        raise NativeGap("a key from content")
    try:
        known = make_map(zip(names, flat[1::2], strict=True))
    except EvaluationError as error:
        return parts.fail(error.failure.kind, *flat)
    return parts.Entries(tuple(known.items()))
