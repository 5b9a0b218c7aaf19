"""What is no native column: conditions on whole Arrow batches, by the evaluator that a node runs.

It runs in Spark's Python workers, so the package has to be installed there. The function is marked as not
deterministic: otherwise a filter on its result would run it twice for each row.
"""

from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from penstock.language.condition import Condition
from penstock.language.errors import Failure, FailureKind, Outcome
from penstock.language.printer import show
from penstock.language.tree import Tree, reads
from penstock.language.values import Duration, Timestamp, Uint, Value, make_map
from penstock.model.content.content import Content, Format
from penstock.pipeline.conditions.payloads import condition

OUTCOME = "struct<value: boolean, error: string>"

_MISSING = object()
_MICROSECOND = 1_000


def over_struct(tree: Tree, content: Column) -> Column:
    """Return the outcome of a condition over content in a struct."""
    return _function(show(tree), _decide_records)(content)


def over_payload(tree: Tree, payload: Column, format: Format | None) -> Column:
    """Return the outcome of a condition over payloads, as bytes or text; `format` is else found for each payload."""
    return _function(show(tree), lambda condition, batch: _decide_payloads(condition, batch, format))(payload)


def _function(text: str, decide: Callable[[Condition, pa.Array], list[Outcome]]) -> Callable[[Column], Column]:
    def evaluate(batch: pa.Array) -> pa.Array:
        return _outcomes(decide(condition(text), batch))

    # A function of batches, not of iterators: of those, Spark would run each in a worker of its own.
    return arrow_udf(evaluate, OUTCOME).asNondeterministic()  # type: ignore[call-overload, no-any-return]


def _outcomes(outcomes: list[Outcome]) -> pa.Array:
    values = [None if isinstance(outcome, Failure) else outcome for outcome in outcomes]
    errors = [outcome.kind.value if isinstance(outcome, Failure) else None for outcome in outcomes]
    return pa.StructArray.from_arrays([pa.array(values, pa.bool_()), pa.array(errors, pa.string())], ["value", "error"])


_NO_CONTENT = Failure(FailureKind.UNREADABLE_CONTENT, "there is no content")


def _decide_records(condition: Condition, batch: pa.Array) -> list[Outcome]:
    if not reads(condition.tree):
        return [condition.decide({})] * len(batch)
    return [_NO_CONTENT if record is _MISSING else condition.decide(record) for record in _values(batch)]


def _decide_payloads(condition: Condition, batch: pa.Array, format: Format | None) -> list[Outcome]:
    payloads = [payload.encode() if isinstance(payload, str) else payload for payload in batch.to_pylist()]
    return [_NO_CONTENT if payload is None else condition.holds(Content(payload, format)) for payload in payloads]


def _values(array: pa.Array) -> list[Value]:
    """Return the elements of an array of content as values of the language; `_MISSING` where it is NULL."""
    values = _of_kind(array)
    if array.null_count and not pa.types.is_null(array.type):
        return [value if valid else _MISSING for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]
    return values


def _of_kind(array: pa.Array) -> list[Value]:
    """Return the elements of one type; where they are NULL, anything."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _records(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    if pa.types.is_decimal(kind):
        return [Uint(value or 0) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        return [Timestamp((value or 0) * _MICROSECOND) for value in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_duration(kind):
        return [Duration((value or 0) * _MICROSECOND) for value in array.cast(pa.int64()).to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _records(array: pa.StructArray) -> list[Value]:
    names = [field.name for field in array.type]
    columns = [_values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [{name: value for name, value in zip(names, row, strict=True) if value is not _MISSING} for row in rows]


def _lists(array: pa.ListArray) -> list[Value]:
    elements = _with_nulls(array.values)
    return [elements[start:end] for start, end in pairwise(array.offsets.to_pylist())]


def _maps(array: pa.MapArray) -> list[Value]:
    keys, values = _values(array.keys), _with_nulls(array.items)
    return [
        make_map(zip(keys[start:end], values[start:end], strict=True))
        for start, end in pairwise(array.offsets.to_pylist())
    ]


def _with_nulls(array: pa.Array) -> list[Value]:
    """Return a value in which NULL, in lists and in the values of maps, is null."""
    return [None if value is _MISSING else value for value in _values(array)]
