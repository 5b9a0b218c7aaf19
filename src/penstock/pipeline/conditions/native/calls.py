"""Functions and arithmetic, by the types of their arguments: natively if the tables have it, else a declared gap."""

from collections.abc import Mapping

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.language import types
from penstock.language.errors import EvaluationError, FailureKind
from penstock.language.evaluators.functions import Overloads
from penstock.language.evaluators.patterns import compiled
from penstock.language.evaluators.times import fixed_offset
from penstock.language.limits import MAX_MATCHED, MAX_SIZE
from penstock.language.values import Duration, Timestamp, TypeName, Uint, Value
from penstock.language.values import kind as name_of_type
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native import arithmetic, conversions, parts, times
from penstock.pipeline.conditions.native.access import as_array, column
from penstock.pipeline.conditions.native.patterns import native_pattern
from penstock.pipeline.conditions.native.relations import present
from penstock.pipeline.conditions.native.shapes import common, fitted, stored
from penstock.pipeline.conditions.native.tables import Native, NativeCall, Table

TABLE: Table = {
    **arithmetic.OPERATORS,
    **times.OPERATORS,
    **conversions.FUNCTIONS,
    **times.CONVERSIONS,
    **times.DURATIONS,
}
"""What is native for all values of these types."""

TABLE_OF_GAPS: Mapping[tuple[str, tuple[type, ...]], str] = {
    ("string", (float,)): "string of a double",
    ("string", (Timestamp,)): "string of a timestamp",
    ("string", (Duration,)): "string of a duration",
    ("duration", (str,)): "duration of a string",
}
"""What is a gap for all values of these types. Everything else has its own function below."""

_EXAMPLES: list[Value] = [None, False, 0, Uint(0), 0.0, "", b"", [], {}, Timestamp(0), Duration(0), TypeName("int")]
_TYPE_NAMES = {type(value): name_of_type(value) for value in _EXAMPLES}


def called(function: str, overloads: Overloads | None, arguments: tuple[parts.Part, ...]) -> parts.Part:
    """Return a function of arguments that are not all constant; none of them fails in any case."""
    kinds = tuple(map(parts.kind_of, arguments))
    if overloads is None or (kinds not in overloads and (object,) * len(arguments) not in overloads):
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, *arguments)
    match function, kinds:
        case "dyn", _:
            return arguments[0]
        case "type", _:
            return _type(arguments[0])
        case "matches", _:
            return _matches(*arguments)
        case "size", _ if kinds[0] in (list, dict):
            return _size(parts.opened(arguments[0]))
        case _ if kinds[0] is Timestamp and function.startswith("get"):
            return _on_calendar(function, *arguments)
    if (function, kinds) in TABLE_OF_GAPS:
        raise NativeGap(TABLE_OF_GAPS[function, kinds])
    return _run(TABLE[function, kinds], *arguments)


def calculated(symbol: str, overloads: Overloads, left: parts.Part, right: parts.Part) -> parts.Part:
    """`left + right` and other arithmetic."""
    kinds = parts.kind_of(left), parts.kind_of(right)
    if kinds not in overloads:
        return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, left, right)
    return (
        _joined(parts.opened(left), parts.opened(right))
        if kinds == (list, list)
        else _run(TABLE[symbol, kinds], left, right)
    )


def negated(part: parts.Part) -> parts.Part:
    """`-part`"""
    native = arithmetic.NEGATION.get(parts.kind_of(part))
    return parts.fail(FailureKind.NO_MATCHING_OVERLOAD, part) if native is None else _run(native, part)


def _run(native: Native, *arguments: parts.Part) -> parts.ColumnCell:
    return _cell(native(*[column(part).value for part in arguments]), *arguments)


def _cell(result: NativeCall, *arguments: parts.Part) -> parts.ColumnCell:
    before = parts.no_nulls(*arguments) + result.before
    return parts.made(result.shape, result.value, arguments, fails=result.fails, before=before, uses=result.uses)


def _type(part: parts.Part) -> parts.ColumnCell:
    name = F.lit(_TYPE_NAMES[parts.kind_of(part)])
    if isinstance(part, parts.ColumnCell) and part.nullable and not parts.is_null(part):
        name = F.when(part.value.isNull(), F.lit(_TYPE_NAMES[type(None)])).otherwise(name)
    return parts.made(types.TYPE, parts.unless_failed(name, part), (part,), uses=2)


def _size(part: parts.Part) -> parts.ColumnCell:
    match part:
        case parts.Items(arguments) | parts.Entries(arguments):
            size = parts.unless_failed(F.lit(len(arguments)), part)
        case parts.ColumnCell(ArrayType(), value):
            size = F.array_size(value)
        case parts.ColumnCell(MapType(), value):
            size = F.array_size(F.map_keys(value))
        case parts.ColumnCell(StructType() as shape, value):
            there = F.lit(0)
            for name in shape.names:
                there = there + present(part, name).cast("int")
            size = F.when(value.isNotNull(), there)
        case _:
            raise TypeError("not a list or a map")
    return parts.made(types.INT, size.cast("long"), (part,), before=parts.no_nulls(part))


def _joined(left: parts.Part, right: parts.Part) -> parts.Part:
    """`+` of lists."""
    if isinstance(left, parts.Items) and isinstance(right, parts.Items):
        return parts.Items(left.parts + right.parts)
    arrays = as_array(left), as_array(right)
    shape = common([array.shape for array in arrays if isinstance(array.shape, ArrayType)])
    assert isinstance(shape, ArrayType)
    first, second = (fitted(array.value, stored(array.shape), shape) for array in arrays)
    value = F.when(F.array_size(first) + F.array_size(second) <= MAX_SIZE, F.concat(first, second))
    return parts.made(shape, value, arrays, before=parts.no_nulls(*arrays), fails=FailureKind.TOO_COSTLY, uses=2)


def _matches(text: parts.Part, pattern: parts.Part) -> parts.ColumnCell:
    if not isinstance(pattern, parts.Constant):
        raise NativeGap("a pattern from content")
    try:
        compiled(pattern.value)
    except EvaluationError as error:
        return parts.never(*parts.errors_of(text), *parts.no_nulls(text), parts.kind(error.failure.kind))
    test = native_pattern(pattern.value)
    if test is None:
        raise NativeGap("matches")
    matched = F.when(F.length(column(text).value) <= MAX_MATCHED, test(column(text).value))
    return _cell(NativeCall(types.BOOL, matched, FailureKind.TOO_COSTLY, uses=2), text)


def _on_calendar(function: str, moment: parts.Part, zone: parts.Part | None = None) -> parts.ColumnCell:
    nanos = column(moment).value
    arguments = (moment,) if zone is None else (moment, zone)
    if function == "getMilliseconds":
        result = times.milliseconds(nanos)
        return _cell(NativeCall(result.shape, parts.unless_failed(result.value, *arguments), uses=2), *arguments)
    name = "UTC" if zone is None else zone.value if isinstance(zone, parts.Constant) else ""
    offset = fixed_offset("00:00" if name == "UTC" else name)
    if offset is None:
        raise NativeGap("a time zone by name")
    return _cell(times.on_calendar(function, nanos, int(offset.total_seconds())), *arguments)
