"""Conditions on the content of events, in Arrow batches, read as a policy's domain says."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from penstock.language.condition import Condition, condition_of
from penstock.language.parser import parse
from penstock.model.event import Event
from penstock.pipeline.policies import Policies


def one_holds(policies: Policies, conditions: Column) -> Column:
    """Whether one of the conditions of a row is true of its event; NULL if it has none.

    A condition that fails is not true. The columns of the event, and `policy`, have their usual names.
    """

    def evaluate(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        for batch in batches:
            yield pa.array(_outcomes(policies, *batch), pa.bool_())

    asked = conditions.isNotNull()
    columns = (F.when(asked, F.col(name)) for name in ("policy", "topic", "payload", "properties"))
    function = arrow_udf(evaluate, "boolean").asNondeterministic()  # type: ignore[call-overload]
    return function(*columns, conditions)  # type: ignore[no-any-return]


def _outcomes(
    policies: Policies,
    digests: pa.StringArray,
    topics: pa.StringArray,
    payloads: pa.BinaryArray,
    properties: pa.BinaryArray,
    conditions: pa.ListArray,
) -> Iterator[bool | None]:
    rows = (_repeated(digests), _repeated(topics), payloads.to_pylist(), _repeated(properties), _asked(conditions))
    event, known = Event("", b""), None
    for digest, topic, payload, carried, asked in zip(*rows, strict=True):
        if asked is None:
            yield None
            continue
        if digest != known:
            known, read = digest, policies.by_digest[digest].compiled().ensemble.reader.read
        if payload != event.payload or topic != event.topic or carried != event.properties:
            event = Event(topic, payload, properties=carried)  # of the same event as before, content is decoded already
        content = read(event)
        for condition in asked:
            if condition.holds(content) is True:
                yield True
                break
        else:
            yield False


def _repeated(array: pa.Array) -> list[Any]:
    """The values of an array in which there are few different ones."""
    found = array.dictionary_encode()
    values = [*found.dictionary.to_pylist(), None]
    return [values[at] for at in found.indices.fill_null(len(values) - 1).to_numpy().tolist()]


def _asked(conditions: pa.ListArray) -> Iterator[list[Condition] | None]:
    """For each row its conditions; None if it has none to ask."""
    every = [None if text is None else _condition(text) for text in _repeated(conditions.values)]
    offsets, valid = (
        conditions.offsets.to_numpy().tolist(),
        conditions.is_valid().to_numpy(zero_copy_only=False).tolist(),
    )
    for (start, end), is_there in zip(pairwise(offsets), valid, strict=True):
        yield every[start:end] if is_there else None  # type: ignore[misc]


@lru_cache(maxsize=100_000)
def _condition(text: str) -> Condition:
    return condition_of(parse(text))
