"""Macros over a list in a column."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from penstock.language import types
from penstock.language.values import keys
from penstock.pipeline.conditions.native import parts
from penstock.pipeline.conditions.native.access import as_array, in_list
from penstock.pipeline.conditions.native.relations import present
from penstock.pipeline.conditions.native.shapes import element, fitted, stored

Body = Callable[[parts.Part], parts.ColumnCell]
"""What a macro does with an element."""


def elements(part: parts.Part) -> parts.ColumnCell:
    """Return the elements of a list, or the keys of a map, as an array."""
    match part:
        case parts.ColumnCell(MapType() as shape, value):
            return parts.made(ArrayType(shape.keyType, False), F.map_keys(value), (part,), before=parts.no_nulls(part))
        case parts.ColumnCell(StructType() as shape, value):
            names = [F.when(present(part, name), F.lit(name)) for name in shape.names]
            there = F.filter(F.array(*names).cast("array<string>"), lambda name: name.isNotNull())
            there = parts.unless_failed(F.when(value.isNotNull(), there), part)
            return parts.made(ArrayType(StringType(), False), there, (part,), before=parts.no_nulls(part))
        case parts.Entries(entries):
            array = as_array(parts.Items(tuple(map(parts.Constant, keys(dict(entries))))))
            return parts.made(array.shape, parts.unless_failed(array.value, part), (part,), uses=2)
        case _:
            array = as_array(part)
            return parts.made(array.shape, array.value, (array,), before=parts.no_nulls(array))


def quantified(array: parts.ColumnCell, deciding: bool, body: Body) -> parts.ColumnCell:
    """`all` and `exists`: an element that decides does so whatever the others are."""
    loop = _Loop(array)
    # `forall` has logic of three values in every mode of Spark, `exists` has not.
    if deciding:
        value = ~F.forall(array.value, lambda x: ~body(loop.at(x)).value)
    else:
        value = F.forall(array.value, lambda x: body(loop.at(x)).value)
    error = F.when(value.isNull(), loop.first_error(body, None))
    return parts.made(types.BOOL, value, (array, loop.sample(body)), before=(error,), uses=2)


def exists_one(array: parts.ColumnCell, body: Body) -> parts.ColumnCell:
    """`exists_one`"""
    loop = _Loop(array)
    count = F.array_size(F.filter(array.value, lambda x: body(loop.at(x)).value))
    return loop.strict(types.BOOL, count == 1, body)


def filtered(array: parts.ColumnCell, body: Body) -> parts.ColumnCell:
    """`filter`"""
    loop = _Loop(array)
    return loop.strict(array.shape, F.filter(array.value, lambda x: body(loop.at(x)).value), body)


def mapped(array: parts.ColumnCell, body: Body, guard: Body | None) -> parts.ColumnCell:
    """`map`"""
    loop = _Loop(array)
    kept = array.value if guard is None else F.filter(array.value, lambda x: guard(loop.at(x)).value)
    data, nullable = in_list([loop.sample(body)])
    value = F.transform(kept, lambda x: _fitted(body(loop.at(x)), data))
    return loop.strict(ArrayType(data, nullable), value, body, guard)


def _fitted(part: parts.ColumnCell, data: DataType) -> Column:
    return fitted(part.value, stored(part.shape), data)


class _Loop:
    """An array that is gone through."""

    def __init__(self, array: parts.ColumnCell) -> None:
        assert isinstance(array.shape, ArrayType)
        self._array = array
        self._data: DataType = array.shape.elementType
        self._may_be_null = array.shape.containsNull

    def at(self, x: Column) -> parts.ColumnCell:
        return element(self._data, x, self._may_be_null)

    def sample(self, body: Body) -> parts.ColumnCell:
        """Return what a body makes of an element, for its type and weight."""
        made_of = body(self.at(F.lit(None)))
        return parts.ColumnCell(
            made_of.shape, made_of.value, (), made_of.nullable, weight=made_of.weight, burden=made_of.burden
        )

    def first_error(self, body: Body, guard: Body | None) -> Column:
        def error(x: Column) -> Column:
            element = self.at(x)
            inside = F.coalesce(F.lit(None).cast("string"), *body(element).errors)
            if guard is None:
                return inside
            return F.coalesce(*guard(element).errors, F.when(guard(element).value, inside))

        return F.get(F.filter(F.transform(self._array.value, error), lambda kind: kind.isNotNull()), F.lit(0))

    def strict(self, shape: parts.Shape, value: Column, body: Body, guard: Body | None = None) -> parts.ColumnCell:
        """Return what needs every element: the first error is the error of all."""
        error = self.first_error(body, guard)
        inside = [self.sample(work) for work in (body, guard) if work is not None]
        return parts.made(shape, F.when(error.isNull(), value), (self._array, *inside), before=(error,), uses=3)
