"""What expressions become: columns that are NULL where the expression fails, beside columns that say how.

That a value is NULL exactly where it fails is what makes `&&` and `||` simple: SQL's logic of three values absorbs as
CEL's does. So each column that is built of others has to be NULL where one of them is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.types import ScalarType
from penstock.language.values import Duration, Timestamp, TypeName, Uint, Value
from penstock.pipeline.conditions.gaps import NativeGap

Shape = ScalarType | ArrayType | MapType | StructType
"""The type of a column's values: a type of the language, or what has parts as Spark has it."""

NEVER = ScalarType("never")
"""The type of what always fails."""

UINT, NANOS = "decimal(20,0)", "decimal(22,0)"
"""Spark has no unsigned integers, and nanoseconds from the year 1 on take more than 64 bits."""

_MAX_WEIGHT = 2_000
"""Parts of an expression. Spark takes seconds to plan and compile one that is much larger."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCell:
    """A value in a column.

    `errors` are tried in order: each is the kind of a failure, or NULL. A `nullable` cell that is NULL without an error
    is the language's null. A `path` is an attribute or a field, which is missing where it is NULL.
    """

    shape: Shape
    value: Column
    errors: tuple[Column, ...] = ()
    nullable: bool = False
    path: bool = False
    weight: int = 1
    burden: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A value that does not depend on content."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A list that is known element by element."""

    parts: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """A map with keys that are known."""

    parts: "tuple[tuple[Value, Part], ...]"


Part = ColumnCell | Constant | Items | Entries

_PYTHON: dict[Shape, type] = {
    types.NULL: type(None),
    types.BOOL: bool,
    types.INT: int,
    types.UINT: Uint,
    types.DOUBLE: float,
    types.STRING: str,
    types.BYTES: bytes,
    types.TIMESTAMP: Timestamp,
    types.DURATION: Duration,
    types.TYPE: TypeName,
}


def kind_of(part: Part) -> type:
    """Return the Python type of the values that a part has."""
    match part:
        case Constant(value):
            return type(value)
        case Items() | ColumnCell(ArrayType()):
            return list
        case Entries() | ColumnCell(MapType() | StructType()):
            return dict
        case ColumnCell(shape):
            return _PYTHON[shape]


def is_never(part: Part) -> bool:
    """Return whether it always fails."""
    return isinstance(part, ColumnCell) and part.shape == NEVER


def inside(part: Part) -> tuple[Part, ...]:
    """Return what a list or a map that is known consists of."""
    match part:
        case Items(parts):
            return parts
        case Entries(entries):
            return tuple(value for _, value in entries)
        case _:
            return ()


def errors_of(*parts: Part) -> tuple[Column, ...]:
    """Return the errors of parts that are evaluated one after the other."""
    errors: list[Column] = []
    for part in parts:
        errors += part.errors if isinstance(part, ColumnCell) else errors_of(*inside(part))
    return tuple(errors)


def _weight(part: Part) -> int:
    return part.weight if isinstance(part, ColumnCell) else 1 + sum(map(_weight, inside(part)))


def _burden(part: Part) -> int:
    return part.burden if isinstance(part, ColumnCell) else sum(map(_burden, inside(part)))


def kind(failure: FailureKind) -> Column:
    """Return the kind of a failure, as a column."""
    return F.lit(failure.value)


def where(condition: Column, failure: FailureKind) -> Column:
    """Return the error of rows for which a column is true."""
    return F.when(condition, kind(failure))


def made(
    shape: Shape,
    value: Column,
    operands: Iterable[Part],
    *,
    fails: FailureKind | None = None,
    before: tuple[Column, ...] = (),
    nullable: bool = False,
    uses: int = 1,
) -> ColumnCell:
    """Return a value made of operands, each of which stands in it `uses` times.

    It fails if an operand does, if a column of `before` says so, and as `fails` says where it is NULL all the same.
    """
    operands = tuple(operands)
    own = (where(value.isNull(), fails),) if fails else ()
    weight = 1 + uses * sum(map(_weight, operands))
    burden = sum(map(_burden, operands)) + weight * (len(before) + len(own))
    return _weighed(
        ColumnCell(shape, value, errors_of(*operands) + before + own, nullable, weight=weight, burden=burden)
    )


def _weighed(part: ColumnCell) -> ColumnCell:
    if part.weight + part.burden > _MAX_WEIGHT:
        raise NativeGap("a large condition")
    return part


def absorbed(value: Column, operands: list[ColumnCell]) -> ColumnCell:
    """Return what `&&` or `||` makes of operands: their errors count only where it does not come to true or false."""
    errors = errors_of(*operands)
    error = (F.when(value.isNull(), F.coalesce(*errors)),) if errors else ()
    weight = 1 + sum(map(_weight, operands))
    return _weighed(ColumnCell(types.BOOL, value, error, weight=weight, burden=weight + sum(map(_burden, operands))))


def chosen(shape: Shape, test: ColumnCell, yes: ColumnCell, no: ColumnCell) -> ColumnCell:
    """Return one of two cells of the same type."""
    value = F.when(test.value, yes.value).when(~test.value, no.value)
    errors = test.errors
    if yes.errors or no.errors:
        errors += (F.when(test.value, _first_of(yes.errors)).otherwise(_first_of(no.errors)),)
    weight = 1 + 2 * test.weight + yes.weight + no.weight
    burden = test.burden + test.weight + yes.burden + no.burden
    return _weighed(ColumnCell(shape, value, errors, yes.nullable or no.nullable, weight=weight, burden=burden))


def _first_of(errors: tuple[Column, ...]) -> Column:
    return F.coalesce(*errors) if errors else F.lit(None).cast("string")


def fail(failure: FailureKind, *operands: Part) -> ColumnCell:
    """Return a part that fails in any case, after its operands."""
    return never(*errors_of(*operands), kind(failure))


def never(*errors: Column) -> ColumnCell:
    """Return a part that always has one of these errors."""
    return ColumnCell(NEVER, F.lit(None).cast("boolean"), errors)


def unless_failed(column: Column, *parts: Part) -> Column:
    """Return a column that is NULL where one of the parts fails."""
    passed = [_passed(part) for part in _cells(parts) if part.errors]
    return F.when(reduce(and_, passed), column) if passed else column


def _cells(parts: Iterable[Part]) -> list[ColumnCell]:
    return [cell for part in parts for cell in ([part] if isinstance(part, ColumnCell) else _cells(inside(part)))]


def _passed(cell: ColumnCell) -> Column:
    return F.coalesce(*cell.errors).isNull() if cell.nullable else cell.value.isNotNull()


def no_nulls(*parts: Part) -> tuple[Column, ...]:
    """Return the errors of functions that do not take null."""
    return tuple(
        where(part.value.isNull(), FailureKind.NO_MATCHING_OVERLOAD)
        for part in parts
        if isinstance(part, ColumnCell) and part.nullable
    )


def solid(part: ColumnCell) -> ColumnCell:
    """Return a cell for which null is a failure."""
    return replace(part, errors=part.errors + no_nulls(part), nullable=False) if part.nullable else part


def is_null(part: Part) -> bool:
    """Return whether it is null in any case."""
    return kind_of(part) is type(None)


def literal(value: Value) -> ColumnCell:
    """Return a value that has no parts as a cell."""
    match value:
        case None:
            return ColumnCell(types.NULL, F.lit(None), nullable=True)
        case bool():
            return ColumnCell(types.BOOL, F.lit(value))
        case Uint():
            return ColumnCell(types.UINT, F.lit(Decimal(int(value))).cast(UINT))
        case int():
            return ColumnCell(types.INT, F.lit(value).cast("long"))
        case float():
            return ColumnCell(types.DOUBLE, F.lit(value))
        case str():
            return ColumnCell(types.STRING, F.lit(value))
        case bytes():
            return ColumnCell(types.BYTES, F.lit(value))
        case Timestamp(nanos):
            return ColumnCell(types.TIMESTAMP, F.lit(Decimal(nanos)).cast(NANOS))
        case Duration(nanos):
            return ColumnCell(types.DURATION, F.lit(nanos).cast("long"))
        case TypeName(name):
            return ColumnCell(types.TYPE, F.lit(name))
        case _:
            raise TypeError(f"not a value without parts: {value!r}")


def opened(part: Part) -> Part:
    """Return a constant list or map as one that is known part by part."""
    match part:
        case Constant(list() as values):
            return Items(tuple(map(Constant, values)))
        case Constant(dict() as entries):
            return Entries(tuple((key, Constant(value)) for key, value in entries.items()))
        case _:
            return part


def cell(part: Part) -> ColumnCell:
    """Return a part without parts of its own as a cell."""
    if isinstance(part, Constant):
        return literal(part.value)
    assert isinstance(part, ColumnCell)
    return part
