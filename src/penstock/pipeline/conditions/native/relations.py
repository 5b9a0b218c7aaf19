"""Equality, order and `in`, by the types of both sides."""

import math
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import Duration, Timestamp, Uint, as_key
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native import parts
from penstock.pipeline.conditions.native.shapes import KEPT, alike, element, is_kept, shape_of

_NUMBERS = (int, Uint, float)
_ORDERED = (str, bytes, bool, Timestamp, Duration)
_MIRRORED = {">": "<", ">=": "<="}


def equality(left: parts.Part, right: parts.Part) -> parts.ColumnCell:
    """`left == right`"""
    if parts.is_never(left) or parts.is_never(right):
        return parts.never(*parts.errors_of(left, right))
    return parts.made(types.BOOL, _equal(left, right), (left, right), uses=_uses(left, right))


def _uses(left: parts.Part, right: parts.Part) -> int:
    if _may_be_null(left) or _may_be_null(right):
        return 3
    numbers = float not in (parts.kind_of(left), parts.kind_of(right)) or _is_finite(left) or _is_finite(right)
    return 1 if numbers else 3


def _is_finite(part: parts.Part) -> bool:
    """Return whether it is a number in any case, and so neither NaN nor infinite."""
    return isinstance(part, parts.Constant) and parts.kind_of(part) in _NUMBERS and math.isfinite(part.value)


def _equal(left: parts.Part, right: parts.Part) -> Column:
    """Return whether two parts are equal; NULL where one fails."""
    left, right = parts.opened(left), parts.opened(right)
    first, second = parts.kind_of(left), parts.kind_of(right)
    if first is list and second is list:
        return parts.unless_failed(_equal_lists(left, right), left, right)
    if first is dict and second is dict:
        raise NativeGap("equality of maps")
    if parts.is_null(left) or parts.is_null(right):
        return parts.unless_failed(_null(left) & _null(right), left, right)
    base = _equal_scalars(left, right) if _comparable(first, second) else F.lit(False)
    nulls = _null(left), _null(right)
    if _may_be_null(left) or _may_be_null(right):
        base = F.when(nulls[0] | nulls[1], nulls[0] & nulls[1]).otherwise(base)
    elif _comparable(first, second):
        return base
    return parts.unless_failed(base, left, right)


def _comparable(first: type, second: type) -> bool:
    return first is second or (first in _NUMBERS and second in _NUMBERS)


def _may_be_null(part: parts.Part) -> bool:
    return isinstance(part, parts.ColumnCell) and part.nullable


def _null(part: parts.Part) -> Column:
    if parts.is_null(part):
        return F.lit(True)
    return part.value.isNull() if isinstance(part, parts.ColumnCell) and part.nullable else F.lit(False)


def _equal_scalars(left: parts.Part, right: parts.Part) -> Column:
    first, second = _on_one_line(parts.cell(left), parts.cell(right))
    equal = first == second
    if float not in (parts.kind_of(left), parts.kind_of(right)) or _is_finite(left) or _is_finite(right):
        return equal
    # Spark has NaN equal to itself.
    return F.when(F.isnan(first) & F.isnan(second), F.lit(False)).otherwise(equal)


def _on_one_line(left: parts.ColumnCell, right: parts.ColumnCell) -> tuple[Column, Column]:
    """Return two numbers as one type: beside a double all are doubles, else they are exact."""
    if left.shape == right.shape:
        return left.value, right.value
    common = "double" if types.DOUBLE in (left.shape, right.shape) else parts.UINT
    return left.value.cast(common), right.value.cast(common)


def _all(columns: list[Column]) -> Column:
    return reduce(and_, columns, F.lit(True))


def _any(columns: list[Column]) -> Column:
    return reduce(or_, columns, F.lit(False))


def _equal_lists(left: parts.Part, right: parts.Part) -> Column:
    """Return whether two lists that did not fail are equal."""
    if isinstance(right, parts.Items):
        left, right = right, left
    match left, right:
        case parts.Items(first), parts.Items(second):
            same = len(first) == len(second)
            return _all([_equal(*pair) for pair in zip(first, second, strict=True)]) if same else F.lit(False)
        case parts.Items(items), parts.ColumnCell(ArrayType()) as array:
            pairs = [_equal(_at(array, place), item) for place, item in enumerate(items)]
            return F.when(F.array_size(array.value) == len(items), _all(pairs)).otherwise(F.lit(False))
        case (parts.ColumnCell(ArrayType() as one, first_value), parts.ColumnCell(ArrayType() as other, second_value)):
            if alike(one, other) and is_kept(one):
                return first_value == second_value

            def pair_equal(x: Column, y: Column) -> Column:
                cells = element(one.elementType, x, one.containsNull), element(other.elementType, y, other.containsNull)
                return _equal(*cells)

            pairs_equal = F.zip_with(first_value, second_value, pair_equal)
            same_size = F.array_size(first_value) == F.array_size(second_value)
            return F.when(same_size, F.forall(pairs_equal, lambda equal: equal)).otherwise(F.lit(False))
        case _:
            raise TypeError("not two lists")


def _at(array: parts.ColumnCell, place: int) -> parts.ColumnCell:
    assert isinstance(array.shape, ArrayType)
    return element(array.shape.elementType, F.get(array.value, F.lit(place)), array.shape.containsNull)


def order(symbol: str, left: parts.Part, right: parts.Part) -> parts.ColumnCell:
    """`left < right` and the other three"""
    if parts.is_never(left) or parts.is_never(right):
        return parts.never(*parts.errors_of(left, right))
    first, second = parts.kind_of(left), parts.kind_of(right)
    if not (first in _NUMBERS and second in _NUMBERS) and not (first is second and first in _ORDERED):
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, left, right)
    column = _in_order(symbol, left, right)
    return parts.made(types.BOOL, column, (left, right), before=parts.no_nulls(left, right), uses=_uses(left, right))


def _in_order(symbol: str, left: parts.Part, right: parts.Part) -> Column:
    if symbol in _MIRRORED:
        return _in_order(_MIRRORED[symbol], right, left)
    first, second = _on_one_line(parts.cell(left), parts.cell(right))
    if float not in (parts.kind_of(left), parts.kind_of(right)):
        return first < second if symbol == "<" else first <= second
    # Spark has NaN above all numbers and equal to itself; here it has no order.
    if symbol == "<":
        return first < F.nanvl(second, F.lit(-math.inf))
    if _is_finite(right):
        return first <= second
    if _is_finite(left):
        return first <= F.nanvl(second, F.lit(-math.inf))
    unordered = F.isnan(first) | F.isnan(second)
    known = first.isNotNull() & second.isNotNull()
    return F.when(unordered, F.when(known, F.lit(False))).otherwise(first <= second)


def contains(left: parts.Part, right: parts.Part) -> parts.ColumnCell:
    """`left in right`"""
    if parts.is_never(left) or parts.is_never(right):
        return parts.never(*parts.errors_of(left, right))
    uses = 2
    match parts.opened(right):
        case parts.Items(items):
            column, uses = _among(left, items), 2 + len(items)
        case parts.Entries(entries):
            column = parts.unless_failed(_among_keys(left, [key for key, _ in entries]), left, right)
        case parts.ColumnCell(ArrayType()) as array:
            column = _in_array(left, parts.solid(array))
        case parts.ColumnCell(MapType()) as map_:
            column = _in_map(left, parts.solid(map_))
        case parts.ColumnCell(StructType()) as record:
            column = _in_record(left, parts.solid(record))
        case _:
            return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, left, right)
    return parts.made(types.BOOL, column, (left, right), before=parts.no_nulls(right), uses=uses)


def _among(left: parts.Part, items: tuple[parts.Part, ...]) -> Column:
    values = [item.value for item in items if isinstance(item, parts.Constant)]
    alike = len(values) == len(items) > 0 and all(type(value) is parts.kind_of(left) for value in values)
    if alike and parts.kind_of(left) in (str, int) and not _may_be_null(left):
        return parts.cell(left).value.isin([parts.literal(value).value for value in values])
    return parts.unless_failed(_any([_equal(left, item) for item in items]), left, *items)


def _among_keys(left: parts.Part, keys: list[object]) -> Column:
    if parts.kind_of(left) in (list, dict):
        return F.lit(False)
    if isinstance(left, parts.Constant):
        return F.lit(as_key(left.value) in keys)
    if parts.kind_of(left) is float or any(type(key) is float for key in keys):
        raise NativeGap("a key from content")  # as keys, an int and a double are compared without rounding
    return _any([_equal(left, parts.Constant(getattr(key, "value", key))) for key in keys])


def _in_array(left: parts.Part, array: parts.ColumnCell) -> Column:
    assert isinstance(array.shape, ArrayType)
    data, value = array.shape.elementType, array.value
    if is_kept(data) and _is_of(left, data):
        return F.array_position(value, parts.cell(left).value) > 0
    if isinstance(data, NullType) and not parts.is_null(left) and not _may_be_null(left):
        return parts.unless_failed(F.lit(False), left, array)
    may_be_null = array.shape.containsNull
    other = F.forall(value, lambda x: ~_equal(left, element(data, x, may_be_null)))
    return parts.unless_failed(~other, left, array)


def _is_of(part: parts.Part, data: DataType) -> bool:
    """Return whether a part has no parts, is not null, and is of the type of a column."""
    if parts.kind_of(part) in (list, dict, type(None)) or _may_be_null(part):
        return False
    return KEPT.get(parts.cell(part).shape) == data


def _in_map(left: parts.Part, map_: parts.ColumnCell) -> Column:
    assert isinstance(map_.shape, MapType)
    if parts.kind_of(left) in (list, dict) or parts.is_null(left):
        return parts.unless_failed(F.lit(False), left, map_)
    if _is_of(left, map_.shape.keyType):
        return F.map_contains_key(map_.value, parts.cell(left).value)
    if may_be_key(left, map_):
        raise NativeGap("a key from content")
    return parts.unless_failed(F.lit(False), left, map_)


def may_be_key(part: parts.Part, map_: parts.ColumnCell) -> bool:
    """Return whether a part that is not of the type of a map's keys may be one of them all the same."""
    assert isinstance(map_.shape, MapType)
    keys = parts.ColumnCell(shape_of(map_.shape.keyType), map_.value)
    return _may_be_null(part) or _comparable(parts.kind_of(part), parts.kind_of(keys))


def _in_record(left: parts.Part, record: parts.ColumnCell) -> Column:
    assert isinstance(record.shape, StructType)
    if parts.kind_of(left) is not str:
        return parts.unless_failed(F.lit(False), left, record)
    equal = [
        present(record, name) & _equal(left, parts.Constant(name))
        for name in record.shape.names
        if not isinstance(left, parts.Constant) or left.value == name
    ]
    return parts.unless_failed(_any(equal), left, record)


def present(record: parts.ColumnCell, name: str) -> Column:
    """Return whether a record has a field, which is in its type."""
    assert isinstance(record.shape, StructType)
    if isinstance(record.shape[name].dataType, NullType):
        return F.lit(True)
    return record.value.getField(name).isNotNull()
