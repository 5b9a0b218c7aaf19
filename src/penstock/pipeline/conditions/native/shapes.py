"""How content is in columns: which column type an attribute's type has, and how a column is read as a value.

| attribute | column |
| --- | --- |
| int, uint, double | bigint (or smaller), decimal(20,0), double (or float) |
| string, bytes, bool | string, binary, boolean |
| timestamp, duration | timestamp, day-time interval |
| list, map, record | array, map, struct |

In a struct, NULL is an attribute that is not there, and a field of type void is there and null. In an array and in the
values of a map, NULL is null.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.language import types
from penstock.language.types import ListType, RecordType, Type
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native.parts import NANOS, ColumnCell, Shape
from penstock.pipeline.errors import PipelineError

_COLUMNS: dict[Type, T.DataType] = {
    types.NULL: T.NullType(),
    types.BOOL: T.BooleanType(),
    types.INT: T.LongType(),
    types.UINT: T.DecimalType(20, 0),
    types.DOUBLE: T.DoubleType(),
    types.STRING: T.StringType(),
    types.BYTES: T.BinaryType(),
    types.TIMESTAMP: T.TimestampType(),
    types.DURATION: T.DayTimeIntervalType(),
}

KEPT: dict[Shape, T.DataType] = {
    shape: _COLUMNS[shape] for shape in (types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES)
}
"""Types whose values are in a column of content as they are in an expression."""


def column_type(type_: Type) -> T.DataType:
    """Return the type of a column with values of a declared type; raises `PipelineError` for `dyn` and `type`."""
    match type_:
        case ListType(element):
            return T.ArrayType(column_type(element))
        case types.MapType(key, value):
            return T.MapType(column_type(key), column_type(value))
        case RecordType():
            if type_.others is not None:
                raise PipelineError("a record with attributes that are not declared has no column type")
            return T.StructType([T.StructField(name, column_type(inner)) for name, inner in type_.fields.items()])
        case _ if type_ in _COLUMNS:
            return _COLUMNS[type_]
        case _:
            raise PipelineError(f"attributes of type `{type_}` have no column type")


def is_kept(data: T.DataType) -> bool:
    """Return whether values in a column of this type are as in an expression, and equal where Spark says so."""
    if isinstance(data, T.ArrayType):
        return is_kept(data.elementType)
    return data in KEPT.values() and not isinstance(data, T.DoubleType)


def stored(shape: Shape) -> T.DataType:
    """Return the type of a column with values as they are in an expression; raises `NativeGap` for what has none."""
    if isinstance(shape, T.DataType):
        return shape
    if shape in (types.TIMESTAMP, types.DURATION, types.TYPE):
        raise NativeGap("times in a list")
    return KEPT.get(shape, T.NullType())


def common(types_: list[T.DataType]) -> T.DataType:
    """Return the type of a column that has values of all these; raises `NativeGap` if there is none."""
    typed = [data for data in types_ if not isinstance(data, T.NullType)]
    if typed and all(isinstance(data, T.ArrayType) for data in typed):
        arrays = [data for data in typed if isinstance(data, T.ArrayType)]
        return T.ArrayType(common([array.elementType for array in arrays]))
    if any(data != typed[0] for data in typed):
        raise NativeGap("values of different types")
    return typed[0] if typed else T.NullType()


def fitted(column: Column, given: T.DataType, wanted: T.DataType) -> Column:
    """Return a column of one type as one of another that `common` found for it."""
    return column if alike(given, wanted) else column.cast(wanted)


def alike(left: T.DataType, right: T.DataType) -> bool:
    """Return whether two column types are one, whatever may be NULL in them."""
    if isinstance(left, T.ArrayType) and isinstance(right, T.ArrayType):
        return alike(left.elementType, right.elementType)
    return left == right


def shape_of(data: T.DataType) -> Shape:
    """Return the type of what is in a column of content."""
    match data:
        case T.ArrayType() | T.MapType() | T.StructType():
            return data
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return types.INT
        case T.DecimalType(precision=20, scale=0):
            return types.UINT
        case T.FloatType() | T.DoubleType():
            return types.DOUBLE
        case T.StringType():
            return types.STRING
        case T.BinaryType():
            return types.BYTES
        case T.BooleanType():
            return types.BOOL
        case T.NullType():
            return types.NULL
        case T.TimestampType():
            return types.TIMESTAMP
        case T.DayTimeIntervalType():
            raise NativeGap("duration in content")
        case _:
            raise PipelineError(f"a column of type `{data.simpleString()}` cannot be an attribute")


def read(data: T.DataType, column: Column) -> Column:
    """Return a column of content as an expression has it."""
    shape = shape_of(data)
    if shape == types.TIMESTAMP:
        return (F.unix_micros(column).cast("decimal(19,0)") * F.lit(1000)).cast(NANOS)
    return column if shape == data or data == KEPT.get(shape, T.NullType()) else column.cast(KEPT[shape])


def element(data: T.DataType, column: Column, may_be_null: bool) -> ColumnCell:
    """Return an element of an array or a value of a map, which is there."""
    shape = shape_of(data)
    return ColumnCell(shape, read(data, column), nullable=may_be_null or shape == types.NULL)


def names_collide(data: T.DataType) -> bool:
    """Return whether a struct in it has fields whose names Spark takes for one."""
    match data:
        case T.ArrayType(elementType=inner):
            return names_collide(inner)
        case T.MapType(valueType=inner):
            return names_collide(inner)
        case T.StructType(fields=fields):
            names = {field.name.lower() for field in fields}
            return len(names) < len(fields) or any(names_collide(field.dataType) for field in fields)
        case _:
            return False
