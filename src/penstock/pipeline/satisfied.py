"""Conditions on the content of events, in Arrow batches, read as a policy's domain says."""

from collections.abc import Iterator
from functools import lru_cache

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
            yield pa.array(_outcomes(policies, *(column.to_pylist() for column in batch)), pa.bool_())

    asked = conditions.isNotNull()
    columns = (F.when(asked, F.col(name)) for name in ("policy", "topic", "payload", "properties"))
    function = arrow_udf(evaluate, "boolean").asNondeterministic()  # type: ignore[call-overload]
    return function(*columns, conditions)  # type: ignore[no-any-return]


def _outcomes(
    policies: Policies,
    digests: list[str],
    topics: list[str],
    payloads: list[bytes],
    properties: list[bytes],
    conditions: list[list[str] | None],
) -> Iterator[bool | None]:
    event = Event("", b"")
    for digest, topic, payload, carried, texts in zip(digests, topics, payloads, properties, conditions, strict=True):
        if texts is None:
            yield None
            continue
        if (topic, payload, carried) != (event.topic, event.payload, event.properties):
            event = Event(topic, payload, properties=carried)  # of the same event as before, content is decoded already
        content = policies.by_digest[digest].compiled().ensemble.reader.read(event)
        yield any(_condition(text).holds(content) is True for text in texts)


@lru_cache(maxsize=100_000)
def _condition(text: str) -> Condition:
    return condition_of(parse(text))
