"""Attributes, fields and elements."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import Uint, as_key
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native import parts
from penstock.pipeline.conditions.native.relations import may_be_key, present
from penstock.pipeline.conditions.native.shapes import KEPT, common, fitted, read, shape_of, stored

_MISSING = FailureKind.NO_SUCH_ATTRIBUTE


def field(record: parts.ColumnCell, name: str) -> parts.Part:
    """Return a field of a record."""
    assert isinstance(record.shape, StructType)
    struct_field = next((field_ for field_ in record.shape.fields if field_.name == name), None)
    if struct_field is None:
        return _missing(record)
    column = record.value.getField(name)
    if isinstance(struct_field.dataType, NullType):
        return parts.made(types.NULL, F.lit(None), (record,), before=parts.no_nulls(record), nullable=True)
    value = read(struct_field.dataType, column)
    shape = shape_of(struct_field.dataType)
    if not struct_field.nullable and not record.errors and not record.nullable:
        return parts.ColumnCell(shape, value)
    missing = parts.where(column.isNull(), _MISSING)
    if record.path or not (record.errors or record.nullable):
        # Where what it is a field of is missing, so is the field.
        return parts.ColumnCell(shape, value, (missing,), path=True, weight=2, burden=2)
    return parts.made(shape, value, (record,), before=(*parts.no_nulls(record), missing))


def _missing(operand: parts.Part, *keys: parts.Part) -> parts.ColumnCell:
    """Return the outcome for a key that no map has."""
    return parts.never(*parts.errors_of(operand, *keys), *parts.no_nulls(operand), parts.kind(_MISSING))


def select(operand: parts.Part, name: str) -> parts.Part:
    """`operand.name`"""
    if parts.is_never(operand):
        return operand
    if parts.kind_of(operand) is not dict:
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, operand)
    return _entry(operand, parts.Constant(name))


def has(operand: parts.Part, name: str) -> parts.Part:
    """`has(operand.name)`"""
    match parts.opened(operand):
        case parts.Entries(entries):
            column = parts.unless_failed(F.lit(any(key == name for key, _ in entries)), operand)
        case parts.ColumnCell(StructType() as shape) as record:
            there = present(record, name) if name in shape.names else F.lit(False)
            column = parts.unless_failed(there, parts.solid(record))
        case parts.ColumnCell(MapType() as shape, value):
            keyed = KEPT[types.STRING] == shape.keyType
            column = F.map_contains_key(value, F.lit(name)) if keyed else parts.unless_failed(F.lit(False), operand)
        case _ if parts.is_never(operand):
            return operand
        case _:
            return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, operand)
    return parts.made(types.BOOL, column, (operand,), before=parts.no_nulls(operand), uses=2)


def index(operand: parts.Part, key: parts.Part) -> parts.Part:
    """`operand[key]`"""
    if parts.is_never(operand) or parts.is_never(key):
        return parts.never(*parts.errors_of(operand, key))
    if parts.kind_of(operand) is list:
        return _element(parts.opened(operand), key)
    if parts.kind_of(operand) is dict:
        return _entry(operand, key)
    return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, operand, key)


def _entry(operand: parts.Part, key: parts.Part) -> parts.Part:
    match parts.opened(operand), key:
        case parts.ColumnCell(StructType()) as record, parts.Constant(str(name)):
            return field(record, name)
        case parts.ColumnCell(StructType()) as record, _ if parts.kind_of(key) is str:
            raise NativeGap("a key from content")
        case parts.ColumnCell(MapType()) as map_, _:
            return _value(map_, key)
        case parts.Entries(entries), parts.Constant(value):
            known = dict(entries)
            if type(value) not in (list, dict) and as_key(value) in known:
                return _chosen(known[as_key(value)], operand, key)
        case parts.Entries(), _ if parts.kind_of(key) not in (list, dict):
            raise NativeGap("a key from content")
    return _missing(operand, key)


def _value(map_: parts.ColumnCell, key: parts.Part) -> parts.Part:
    """Return the value for a key of a map."""
    assert isinstance(map_.shape, MapType)
    data = map_.shape.valueType
    if parts.kind_of(key) in (list, dict) or parts.is_null(key):
        return _missing(map_, key)
    if KEPT.get(parts.cell(key).shape) != map_.shape.keyType or parts.cell(key).nullable:
        if may_be_key(key, map_):
            raise NativeGap("a key from content")
        return _missing(map_, key)
    column = F.try_element_at(map_.value, parts.cell(key).value)
    missing = parts.where(~F.map_contains_key(map_.value, parts.cell(key).value), _MISSING)
    nullable = map_.shape.valueContainsNull or isinstance(data, NullType)
    before = (*parts.no_nulls(map_), missing)
    return parts.made(shape_of(data), read(data, column), (map_, key), before=before, nullable=nullable, uses=4)


def _chosen(part: parts.Part, *operands: parts.Part) -> parts.Part:
    """Return one of the parts of what is known; the others may have failed before."""
    errors = parts.errors_of(*operands)
    if not errors:
        return part
    if parts.is_never(part):
        return parts.never(*errors)
    if parts.kind_of(part) in (list, dict):
        if not isinstance(part, parts.ColumnCell):
            raise NativeGap("values of different types")
        return parts.made(
            part.shape, parts.unless_failed(part.value, *operands), operands, nullable=part.nullable, uses=2
        )
    chosen = parts.cell(part)
    return parts.made(
        chosen.shape, parts.unless_failed(chosen.value, *operands), operands, nullable=chosen.nullable, uses=2
    )


def _element(operand: parts.Part, key: parts.Part) -> parts.Part:
    if parts.kind_of(key) not in (int, Uint, float):
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, operand, key)
    match operand, key:
        case _, parts.Constant(float(number)) if not number.is_integer():
            return parts.never(
                *parts.errors_of(operand), *parts.no_nulls(operand), parts.kind(FailureKind.INVALID_ARGUMENT)
            )
        case parts.Items(inside), parts.Constant(number):
            there = 0 <= number < len(inside)
            return _chosen(inside[int(number)], operand) if there else parts.fail(FailureKind.OUT_OF_RANGE, operand)
    array = as_array(operand)
    assert isinstance(array.shape, ArrayType)
    whole, place, uses = _place(parts.cell(key))
    size = F.array_size(array.value)
    before = (
        *parts.no_nulls(array, key),
        *((parts.where(~whole, FailureKind.INVALID_ARGUMENT),) if whole is not None else ()),
        parts.where(F.coalesce((place < 0) | (place >= size), F.lit(True)), FailureKind.OUT_OF_RANGE),
    )
    data = array.shape.elementType
    nullable = array.shape.containsNull or isinstance(data, NullType)
    value = F.get(array.value, place)
    return parts.made(shape_of(data), read(data, value), (array, key), before=before, nullable=nullable, uses=uses)


def _place(key: parts.ColumnCell) -> tuple[Column | None, Column, int]:
    """Return whether a key is a whole number, and as which int; NULL beyond what an array can have."""
    value = key.value
    if key.shape != types.DOUBLE:
        return None, value.try_cast("int"), 2
    finite = ~F.isnan(value) & (F.abs(value) != float("inf"))
    whole = finite & (F.rint(value) == value)
    return whole, F.when(whole & (F.abs(value) < float(1 << 31)), value).cast("int"), 4


def as_array(part: parts.Part) -> parts.ColumnCell:
    """Return a list as one column; raises `NativeGap` if its elements have several types."""
    part = parts.opened(part)
    if isinstance(part, parts.ColumnCell):
        return part
    assert isinstance(part, parts.Items)
    cells = [column(item) for item in part.parts]
    data, nullable = in_list(cells)
    columns = [fitted(cell.value, stored(cell.shape), data) for cell in cells]
    return parts.made(ArrayType(data, nullable), parts.unless_failed(F.array(*columns), part), part.parts, uses=2)


def column(part: parts.Part) -> parts.ColumnCell:
    """Return a part as one column; raises `NativeGap` if it would need several types."""
    if parts.kind_of(part) is list:
        return as_array(part)
    if parts.kind_of(part) is dict and not isinstance(part, parts.ColumnCell):
        raise NativeGap("values of different types")
    return parts.cell(part)


def in_list(cells: list[parts.ColumnCell]) -> tuple[DataType, bool]:
    """Return the type of a list's elements as a column has it, and whether one may be null."""
    return common([stored(cell.shape) for cell in cells]), any(cell.nullable for cell in cells)
