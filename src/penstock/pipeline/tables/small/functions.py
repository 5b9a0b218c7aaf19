"""The functions of columns for small tables, called and meant as those of Spark."""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.tables.small.column import (
    Chosen,
    Column,
    Exploded,
    Name,
    Rows,
    as_python,
    asked,
    by_value,
    each,
    elements,
    lists_of,
    literal,
    named,
)
from penstock.pipeline.tables.small.grouped import DenseRank, RowNumber, SmallAggregate

_T = TypeVar("_T")
col, lit = named, literal


def when(condition: Column, value: object) -> Column:
    return Chosen([(condition, literal(value))])


def desc(name: str) -> Column:
    return named(name).desc()


def broadcast(table: _T) -> _T:
    return table


def raise_error(text: Column) -> Column:
    def of(rows: Rows) -> pa.Array:
        if rows.num_rows:
            raise PipelineError(text.of(rows)[0].as_py())
        return pa.nulls(0)

    return Column(of, "raise_error")


# --- values


def _all(columns: tuple[Name, ...], work: Callable[..., pa.Array]) -> Column:
    of = [asked(name) for name in columns]
    return Column(lambda rows: work(*(column.of(rows) for column in of)), "all")


def coalesce(*columns: Name) -> Column:
    return _all(columns, pc.coalesce)


def greatest(*columns: Name) -> Column:
    return _all(columns, pc.max_element_wise)


def least(*columns: Name) -> Column:
    return _all(columns, pc.min_element_wise)


def length(name: Name) -> Column:
    return each(pc.binary_length, asked(name))


def shiftleft(name: Name, bits: int) -> Column:
    return each(lambda mine: pc.shift_left(mine, bits), asked(name))


def shiftright(name: Name, bits: int) -> Column:
    return each(lambda mine: pc.shift_right(mine, bits), asked(name))


def floor(name: Name) -> Column:
    return each(lambda mine: pc.floor(mine).cast(pa.int64()), asked(name))


def xxhash64(name: Name) -> Column:
    """Return the same number for the same bytes, as it is with Spark; which number it is says nothing."""

    def number(data: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), signed=True)

    return each(lambda mine: by_value(mine, number, pa.int64()), asked(name))


# --- texts


def contains(name: Name, part: Column) -> Column:
    return _all((name, part), _is_member)


def _is_member(values: pa.Array, members: pa.Array) -> pa.Array:
    rows = zip(values.to_pylist(), members.to_pylist(), strict=True)
    known = (None if value is None or member is None else member in value for value, member in rows)
    return pa.array(known, pa.bool_(), size=len(values))


def concat(*columns: Name) -> Column:
    return _all(columns, lambda *arrays: pc.binary_join_element_wise(*arrays, "", null_handling="emit_null"))


def concat_ws(separator: str, *columns: Name) -> Column:
    def work(*arrays: pa.Array) -> pa.Array:
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        return pa.array([separator.join(_texts(row)) for row in rows], pa.string())

    return _all(columns, work)


def _texts(values: tuple[Any, ...]) -> Iterator[str]:
    for value in values:
        yield from (text for text in (value if isinstance(value, list) else [value]) if text is not None)


def split(name: Name, pattern: str) -> Column:
    return each(lambda mine: pc.split_pattern(mine, pattern), asked(name))


def regexp_replace(name: Name, pattern: str, replacement: str) -> Column:
    known = re.compile(as_python(pattern))
    return each(lambda mine: by_value(mine, lambda text: known.sub(replacement, text), pa.string()), asked(name))


def get_json_object(name: Name, path: str) -> Column:
    """Return the member of an object; paths are of the form `$.name`."""
    member = path.removeprefix("$.")

    def text(data: str) -> str | None:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get(member)
        text = None if raw is None else bytes(raw).decode()
        return None if text == "null" else text

    return each(lambda mine: by_value(mine, text, pa.string()), asked(name))


# --- times


def to_date(name: Name) -> Column:
    return each(lambda mine: mine.cast(pa.date32()), asked(name))


def datediff(end: Name, start: Column) -> Column:
    def work(ends: pa.Array, starts: pa.Array) -> pa.Array:
        return pc.subtract(ends.cast(pa.int32()), starts.cast(pa.date32()).cast(pa.int32()))

    return _all((end, start), work)


def unix_timestamp(name: Name) -> Column:
    """Towards the epoch, as Spark rounds."""
    return each(lambda mine: pc.divide(mine.cast(pa.int64()), 1_000_000), asked(name))


def timestamp_seconds(name: Name) -> Column:
    kind = pa.timestamp("us", "UTC")
    return each(lambda mine: pc.multiply(mine.cast(pa.int64()), 1_000_000).cast(kind), asked(name))


# --- lists


def size(name: Name) -> Column:
    return each(lambda mine: pc.list_value_length(mine).cast(pa.int32()), asked(name))


def explode(name: Name) -> Column:
    return Exploded(asked(name).of, "col")


def get(name: Name, at: Column) -> Column:
    """Return the element at a place, NULL if there is none."""

    def work(lists: pa.Array, places: pa.Array) -> pa.Array:
        starts, lengths = lists.offsets.to_pylist(), pc.list_value_length(lists).to_pylist()
        places = [
            start + place if length is not None and 0 <= place < length else None
            for start, length, place in zip(starts[:-1], lengths, places.to_pylist(), strict=True)
        ]
        return lists.values.take(pa.array(places, pa.int64()))

    return _all((name, at), work)


def filter(name: Name, keep: Callable[[Column], Column]) -> Column:
    def work(lists: pa.Array) -> pa.Array:
        values, parents = elements(lists)
        kept = pc.fill_null(keep(named("one")).of(pa.table({"one": values})), False)
        made = lists_of(parents.filter(kept).to_pylist(), values.filter(kept), len(lists), lists.type)
        return pc.if_else(lists.is_valid(), made, pa.nulls(len(lists), lists.type)) if lists.null_count else made

    return each(work, asked(name))


def array(*columns: Column) -> Column:
    def work(*arrays: pa.Array) -> pa.Array:
        kinds = [values.type for values in arrays if not pa.types.is_null(values.type)]
        rows = zip(*(values.to_pylist() for values in arrays), strict=True)
        return pa.array([list(row) for row in rows], pa.list_(kinds[0] if kinds else pa.null()))

    return _all(columns, work)


def array_compact(name: Name) -> Column:
    def compact(values: list[object]) -> list[object]:
        return [value for value in values if value is not None]

    return each(lambda mine: by_value(mine, compact, mine.type), asked(name))


def array_append(name: Name, value: Column) -> Column:
    def work(lists: pa.Array, values: pa.Array) -> pa.Array:
        rows = zip(lists.to_pylist(), values.to_pylist(), strict=True)
        return pa.array([None if some is None else [*some, value] for some, value in rows], lists.type)

    return _all((name, value), work)


def array_contains(name: Name, value: object) -> Column:
    return _all((name, literal(value)), _is_member)


# --- of several rows


def count(name: Name) -> SmallAggregate:
    return SmallAggregate(literal(1) if isinstance(name, str) and name == "*" else asked(name), "count")


def count_if(condition: Column) -> SmallAggregate:
    return SmallAggregate(each(lambda mine: pc.fill_null(mine, False).cast(pa.int64()), condition), "sum", "count_if")


def sum(name: Name) -> SmallAggregate:
    return SmallAggregate(asked(name), "sum")


def max(name: Name) -> SmallAggregate:
    return SmallAggregate(asked(name), "max")


def min(name: Name) -> SmallAggregate:
    return SmallAggregate(asked(name), "min")


row_number, dense_rank = RowNumber, DenseRank
