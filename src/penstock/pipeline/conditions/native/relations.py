"""Equality, order and `in`, by the types of both sides."""

import math
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import Duration, Timestamp, Uint, as_key
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native.parts import (
    UINT,
    ColumnCell,
    Constant,
    Entries,
    Items,
    Part,
    cell,
    errors_of,
    fail,
    is_never,
    is_null,
    kind_of,
    literal,
    made,
    never,
    no_nulls,
    opened,
    solid,
    unless_failed,
)
from penstock.pipeline.conditions.native.shapes import KEPT, alike, element, is_kept, shape_of

_NUMBERS = (int, Uint, float)
_ORDERED = (str, bytes, bool, Timestamp, Duration)
_MIRRORED = {">": "<", ">=": "<="}


def equality(left: Part, right: Part) -> ColumnCell:
    """`left == right`"""
    if is_never(left) or is_never(right):
        return never(*errors_of(left, right))
    return made(types.BOOL, _equal(left, right), (left, right), uses=_uses(left, right))


def _uses(left: Part, right: Part) -> int:
    if _may_be_null(left) or _may_be_null(right):
        return 3
    numbers = float not in (kind_of(left), kind_of(right)) or _is_finite(left) or _is_finite(right)
    return 1 if numbers else 3


def _is_finite(part: Part) -> bool:
    """Return whether it is a number in any case, and so neither NaN nor infinite."""
    return isinstance(part, Constant) and kind_of(part) in _NUMBERS and math.isfinite(part.value)


def _equal(left: Part, right: Part) -> Column:
    """Return whether two parts are equal; NULL where one fails."""
    left, right = opened(left), opened(right)
    first, second = kind_of(left), kind_of(right)
    if first is list and second is list:
        return unless_failed(_equal_lists(left, right), left, right)
    if first is dict and second is dict:
        raise NativeGap("equality of maps")
    if is_null(left) or is_null(right):
        return unless_failed(_null(left) & _null(right), left, right)
    base = _equal_scalars(left, right) if _comparable(first, second) else F.lit(False)
    nulls = _null(left), _null(right)
    if _may_be_null(left) or _may_be_null(right):
        base = F.when(nulls[0] | nulls[1], nulls[0] & nulls[1]).otherwise(base)
    elif _comparable(first, second):
        return base
    return unless_failed(base, left, right)


def _comparable(first: type, second: type) -> bool:
    return first is second or (first in _NUMBERS and second in _NUMBERS)


def _may_be_null(part: Part) -> bool:
    return isinstance(part, ColumnCell) and part.nullable


def _null(part: Part) -> Column:
    if is_null(part):
        return F.lit(True)
    return part.value.isNull() if isinstance(part, ColumnCell) and part.nullable else F.lit(False)


def _equal_scalars(left: Part, right: Part) -> Column:
    first, second = _on_one_line(cell(left), cell(right))
    equal = first == second
    if float not in (kind_of(left), kind_of(right)) or _is_finite(left) or _is_finite(right):
        return equal
    # Spark has NaN equal to itself.
    return F.when(F.isnan(first) & F.isnan(second), F.lit(False)).otherwise(equal)


def _on_one_line(left: ColumnCell, right: ColumnCell) -> tuple[Column, Column]:
    """Return two numbers as one type: beside a double all are doubles, else they are exact."""
    if left.shape == right.shape:
        return left.value, right.value
    common = "double" if types.DOUBLE in (left.shape, right.shape) else UINT
    return left.value.cast(common), right.value.cast(common)


def _all(columns: list[Column]) -> Column:
    return reduce(lambda left, right: left & right, columns, F.lit(True))


def _any(columns: list[Column]) -> Column:
    return reduce(lambda left, right: left | right, columns, F.lit(False))


def _equal_lists(left: Part, right: Part) -> Column:
    """Return whether two lists that did not fail are equal."""
    match left, right:
        case Items(first), Items(second):
            same = len(first) == len(second)
            return _all([_equal(*pair) for pair in zip(first, second, strict=True)]) if same else F.lit(False)
        case (Items(items), ColumnCell(ArrayType()) as array) | (ColumnCell(ArrayType()) as array, Items(items)):
            pairs = [_equal(_at(array, place), item) for place, item in enumerate(items)]
            return F.when(F.array_size(array.value) == len(items), _all(pairs)).otherwise(F.lit(False))
        case (ColumnCell(ArrayType() as one, first_value), ColumnCell(ArrayType() as other, second_value)):
            if alike(one, other) and is_kept(one):
                return first_value == second_value
            pairs_equal = F.zip_with(
                first_value,
                second_value,
                lambda x, y: _equal(
                    element(one.elementType, x, one.containsNull), element(other.elementType, y, other.containsNull)
                ),
            )
            same_size = F.array_size(first_value) == F.array_size(second_value)
            return F.when(same_size, F.forall(pairs_equal, lambda equal: equal)).otherwise(F.lit(False))
        case _:
            raise TypeError("not two lists")


def _at(array: ColumnCell, place: int) -> ColumnCell:
    assert isinstance(array.shape, ArrayType)
    return element(array.shape.elementType, F.get(array.value, F.lit(place)), array.shape.containsNull)


def order(symbol: str, left: Part, right: Part) -> ColumnCell:
    """`left < right` and the other three"""
    if is_never(left) or is_never(right):
        return never(*errors_of(left, right))
    first, second = kind_of(left), kind_of(right)
    if not (first in _NUMBERS and second in _NUMBERS) and not (first is second and first in _ORDERED):
        return fail(FailureKind.NO_MATCHING_OVERLOAD, left, right)
    column = _in_order(symbol, left, right)
    return made(types.BOOL, column, (left, right), before=no_nulls(left, right), uses=_uses(left, right))


def _in_order(symbol: str, left: Part, right: Part) -> Column:
    if symbol in _MIRRORED:
        return _in_order(_MIRRORED[symbol], right, left)
    first, second = _on_one_line(cell(left), cell(right))
    if float not in (kind_of(left), kind_of(right)):
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


def contains(left: Part, right: Part) -> ColumnCell:
    """`left in right`"""
    if is_never(left) or is_never(right):
        return never(*errors_of(left, right))
    uses = 2
    match opened(right):
        case Items(items):
            column, uses = _among(left, items), 2 + len(items)
        case Entries(entries):
            column = unless_failed(_among_keys(left, [key for key, _ in entries]), left, right)
        case ColumnCell(ArrayType()) as array:
            column = _in_array(left, solid(array))
        case ColumnCell(MapType()) as map_:
            column = _in_map(left, solid(map_))
        case ColumnCell(StructType()) as record:
            column = _in_record(left, solid(record))
        case _:
            return fail(FailureKind.NO_MATCHING_OVERLOAD, left, right)
    return made(types.BOOL, column, (left, right), before=no_nulls(right), uses=uses)


def _among(left: Part, items: tuple[Part, ...]) -> Column:
    values = [item.value for item in items if isinstance(item, Constant)]
    alike = len(values) == len(items) > 0 and all(type(value) is kind_of(left) for value in values)
    if alike and kind_of(left) in (str, int) and not _may_be_null(left):
        return cell(left).value.isin([literal(value).value for value in values])
    return unless_failed(_any([_equal(left, item) for item in items]), left, *items)


def _among_keys(left: Part, keys: list[object]) -> Column:
    if kind_of(left) in (list, dict):
        return F.lit(False)
    if isinstance(left, Constant):
        return F.lit(as_key(left.value) in keys)
    if kind_of(left) is float or any(type(key) is float for key in keys):
        raise NativeGap("a key from content")  # as keys, an int and a double are compared without rounding
    return _any([_equal(left, Constant(_as_value(key))) for key in keys])


def _as_value(key: object) -> object:
    return getattr(key, "value", key)


def _in_array(left: Part, array: ColumnCell) -> Column:
    assert isinstance(array.shape, ArrayType)
    data, value = array.shape.elementType, array.value
    if is_kept(data) and _is_of(left, data):
        return F.array_position(value, cell(left).value) > 0
    if isinstance(data, NullType) and not is_null(left) and not _may_be_null(left):
        return unless_failed(F.lit(False), left, array)
    may_be_null = array.shape.containsNull
    other = F.forall(value, lambda x: ~_equal(left, element(data, x, may_be_null)))
    return unless_failed(~other, left, array)


def _is_of(part: Part, data: DataType) -> bool:
    """Return whether a part has no parts, is not null, and is of the type of a column."""
    if kind_of(part) in (list, dict, type(None)) or _may_be_null(part):
        return False
    return KEPT.get(cell(part).shape) == data


def _in_map(left: Part, map_: ColumnCell) -> Column:
    assert isinstance(map_.shape, MapType)
    if kind_of(left) in (list, dict) or is_null(left):
        return unless_failed(F.lit(False), left, map_)
    if _is_of(left, map_.shape.keyType):
        return F.map_contains_key(map_.value, cell(left).value)
    if may_be_key(left, map_):
        raise NativeGap("a key from content")
    return unless_failed(F.lit(False), left, map_)


def may_be_key(part: Part, map_: ColumnCell) -> bool:
    """Return whether a part that is not of the type of a map's keys may be one of them all the same."""
    assert isinstance(map_.shape, MapType)
    keys = ColumnCell(shape_of(map_.shape.keyType), map_.value)
    return _may_be_null(part) or _comparable(kind_of(part), kind_of(keys))


def _in_record(left: Part, record: ColumnCell) -> Column:
    assert isinstance(record.shape, StructType)
    if kind_of(left) is not str:
        return unless_failed(F.lit(False), left, record)
    equal = [
        present(record, each.name) & _equal(left, Constant(each.name))
        for each in record.shape.fields
        if not isinstance(left, Constant) or left.value == each.name
    ]
    return unless_failed(_any(equal), left, record)


def present(record: ColumnCell, name: str) -> Column:
    """Return whether a record has a field, which is in its type."""
    assert isinstance(record.shape, StructType)
    if isinstance(record.shape[name].dataType, NullType):
        return F.lit(True)
    return record.value.getField(name).isNotNull()
