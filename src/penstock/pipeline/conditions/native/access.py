"""Attributes, fields and elements."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import Uint, as_key
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native.parts import (
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
    kind,
    kind_of,
    made,
    never,
    no_nulls,
    opened,
    solid,
    unless_failed,
    where,
)
from penstock.pipeline.conditions.native.relations import may_be_key, present
from penstock.pipeline.conditions.native.shapes import KEPT, common, fitted, read, shape_of, stored

_MISSING = FailureKind.NO_SUCH_ATTRIBUTE


def field(record: ColumnCell, name: str) -> Part:
    """Return a field of a record."""
    assert isinstance(record.shape, StructType)
    struct_field = next((each for each in record.shape.fields if each.name == name), None)
    if struct_field is None:
        return _missing(record)
    column = record.value.getField(name)
    if isinstance(struct_field.dataType, NullType):
        return made(types.NULL, F.lit(None), (record,), before=no_nulls(record), nullable=True)
    value = read(struct_field.dataType, column)
    shape = shape_of(struct_field.dataType)
    if not struct_field.nullable and not record.errors and not record.nullable:
        return ColumnCell(shape, value)
    missing = where(column.isNull(), _MISSING)
    if record.path or not (record.errors or record.nullable):
        # Where what it is a field of is missing, so is the field.
        return ColumnCell(shape, value, (missing,), path=True, weight=2, burden=2)
    return made(shape, value, (record,), before=(*no_nulls(record), missing))


def _missing(operand: Part, *keys: Part) -> ColumnCell:
    """Return the outcome for a key that no map has."""
    return never(*errors_of(operand, *keys), *no_nulls(operand), kind(_MISSING))


def select(operand: Part, name: str) -> Part:
    """`operand.name`"""
    if is_never(operand):
        return operand
    if kind_of(operand) is not dict:
        return fail(FailureKind.NO_MATCHING_OVERLOAD, operand)
    return _entry(operand, Constant(name))


def has(operand: Part, name: str) -> Part:
    """`has(operand.name)`"""
    match opened(operand):
        case Entries(entries):
            column = unless_failed(F.lit(any(key == name for key, _ in entries)), operand)
        case ColumnCell(StructType() as shape) as record:
            there = present(record, name) if name in shape.names else F.lit(False)
            column = unless_failed(there, solid(record))
        case ColumnCell(MapType() as shape, value):
            keyed = KEPT[types.STRING] == shape.keyType
            column = F.map_contains_key(value, F.lit(name)) if keyed else unless_failed(F.lit(False), operand)
        case _ if is_never(operand):
            return operand
        case _:
            return fail(FailureKind.NO_MATCHING_OVERLOAD, operand)
    return made(types.BOOL, column, (operand,), before=no_nulls(operand), uses=2)


def index(operand: Part, key: Part) -> Part:
    """`operand[key]`"""
    if is_never(operand) or is_never(key):
        return never(*errors_of(operand, key))
    if kind_of(operand) is list:
        return _element(opened(operand), key)
    if kind_of(operand) is dict:
        return _entry(operand, key)
    return fail(FailureKind.NO_MATCHING_OVERLOAD, operand, key)


def _entry(operand: Part, key: Part) -> Part:
    match opened(operand), key:
        case ColumnCell(StructType()) as record, Constant(str(name)):
            return field(record, name)
        case ColumnCell(StructType()) as record, _ if kind_of(key) is str:
            raise NativeGap("a key from content")
        case ColumnCell(MapType()) as map_, _:
            return _value(map_, key)
        case Entries(entries), Constant(value):
            known = dict(entries)
            if type(value) not in (list, dict) and as_key(value) in known:
                return _chosen(known[as_key(value)], operand, key)
        case Entries(), _ if kind_of(key) not in (list, dict):
            raise NativeGap("a key from content")
    return _missing(operand, key)


def _value(map_: ColumnCell, key: Part) -> Part:
    """Return the value for a key of a map."""
    assert isinstance(map_.shape, MapType)
    data = map_.shape.valueType
    if kind_of(key) in (list, dict) or is_null(key):
        return _missing(map_, key)
    if KEPT.get(cell(key).shape) != map_.shape.keyType or cell(key).nullable:
        if may_be_key(key, map_):
            raise NativeGap("a key from content")
        return _missing(map_, key)
    column = F.try_element_at(map_.value, cell(key).value)
    missing = where(~F.map_contains_key(map_.value, cell(key).value), _MISSING)
    nullable = map_.shape.valueContainsNull or isinstance(data, NullType)
    return made(
        shape_of(data), read(data, column), (map_, key), before=(*no_nulls(map_), missing), nullable=nullable, uses=4
    )


def _chosen(part: Part, *operands: Part) -> Part:
    """Return one of the parts of what is known; the others may have failed before."""
    errors = errors_of(*operands)
    if not errors:
        return part
    if is_never(part):
        return never(*errors)
    if kind_of(part) in (list, dict):
        if not isinstance(part, ColumnCell):
            raise NativeGap("values of different types")
        return made(part.shape, unless_failed(part.value, *operands), operands, nullable=part.nullable, uses=2)
    chosen = cell(part)
    return made(chosen.shape, unless_failed(chosen.value, *operands), operands, nullable=chosen.nullable, uses=2)


def _element(operand: Part, key: Part) -> Part:
    if kind_of(key) not in (int, Uint, float):
        return fail(FailureKind.NO_MATCHING_OVERLOAD, operand, key)
    match operand, key:
        case _, Constant(float(number)) if not number.is_integer():
            return never(*errors_of(operand), *no_nulls(operand), kind(FailureKind.INVALID_ARGUMENT))
        case Items(parts), Constant(number):
            there = 0 <= number < len(parts)
            return _chosen(parts[int(number)], operand) if there else fail(FailureKind.OUT_OF_RANGE, operand)
    array = as_array(operand)
    assert isinstance(array.shape, ArrayType)
    whole, place, uses = _place(cell(key))
    size = F.array_size(array.value)
    before = (
        *no_nulls(array, key),
        *((where(~whole, FailureKind.INVALID_ARGUMENT),) if whole is not None else ()),
        where(F.coalesce((place < 0) | (place >= size), F.lit(True)), FailureKind.OUT_OF_RANGE),
    )
    data = array.shape.elementType
    nullable = array.shape.containsNull or isinstance(data, NullType)
    value = F.get(array.value, place)
    return made(shape_of(data), read(data, value), (array, key), before=before, nullable=nullable, uses=uses)


def _place(key: ColumnCell) -> tuple[Column | None, Column, int]:
    """Return whether a key is a whole number, and as which int; NULL beyond what an array can have."""
    value = key.value
    if key.shape != types.DOUBLE:
        return None, value.try_cast("int"), 2
    finite = ~F.isnan(value) & (F.abs(value) != float("inf"))
    whole = finite & (F.rint(value) == value)
    return whole, F.when(whole & (F.abs(value) < float(1 << 31)), value).cast("int"), 4


def as_array(part: Part) -> ColumnCell:
    """Return a list as one column; raises `NativeGap` if its elements have several types."""
    part = opened(part)
    if isinstance(part, ColumnCell):
        return part
    assert isinstance(part, Items)
    cells = [column(each) for each in part.parts]
    data, nullable = in_list(cells)
    columns = [fitted(each.value, stored(each.shape), data) for each in cells]
    return made(ArrayType(data, nullable), unless_failed(F.array(*columns), part), part.parts, uses=2)


def column(part: Part) -> ColumnCell:
    """Return a part as one column; raises `NativeGap` if it would need several types."""
    if kind_of(part) is list:
        return as_array(part)
    if kind_of(part) is dict and not isinstance(part, ColumnCell):
        raise NativeGap("values of different types")
    return cell(part)


def in_list(cells: list[ColumnCell]) -> tuple[DataType, bool]:
    """Return the type of a list's elements as a column has it, and whether one may be null."""
    return common([stored(each.shape) for each in cells]), any(each.nullable for each in cells)
