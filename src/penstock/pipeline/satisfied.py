"""Conditions on the content of events, in Arrow batches, read as a policy's domain says."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from penstock.language.closures import Decider
from penstock.language.condition import Condition, condition_of
from penstock.language.parser import parse
from penstock.model.content import Attributes, Content, Format, Reader, Widen
from penstock.model.event import Event
from penstock.model.json_objects import read_objects
from penstock.pipeline.distinct import distinct
from penstock.pipeline.policies import Policies

SEPARATOR = "\n"
"""Between the texts of conditions: it is in none of them, as they are canonical."""
_KIND = ["policy", "topic", "properties"]
"""What says how a payload is read."""


def one_holds(policies: Policies, conditions: Column) -> Column:
    """Whether one of the conditions of a row, which are a text, is true of its event; NULL if it has none.

    A condition that fails is not true. The columns of the event, and `policy`, have their usual names.
    """

    def evaluate(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for batch in batches:
            yield outcomes(policies, pa.RecordBatch.from_arrays(list(batch), ["asked", *_KIND, "payload"]))

    asked = conditions.isNotNull()
    columns = (F.when(asked, F.col(name)) for name in (*_KIND, "payload"))
    function = arrow_udf(evaluate, "boolean").asNondeterministic()  # type: ignore[call-overload]
    return function(conditions, *columns)  # type: ignore[no-any-return]


def outcomes(policies: Policies, rows: pa.RecordBatch) -> pa.BooleanArray:
    """What `one_holds` is for each row, of which `asked` are the conditions."""
    is_asked = pc.is_valid(rows["asked"])
    if not is_asked.false_count:
        return pa.array(_outcomes(policies, rows), pa.bool_())
    found = pa.array(_outcomes(policies, rows.filter(is_asked)), pa.bool_())
    return pc.replace_with_mask(pa.nulls(rows.num_rows, pa.bool_()), is_asked, found)


def _outcomes(policies: Policies, rows: pa.RecordBatch) -> Iterator[bool]:
    firsts, at = distinct(rows.select(_KIND))
    kinds = [_Kind.of(policies, **values) for values in rows.select(_KIND).take(pa.array(firsts)).to_pylist()]
    # Of an event that several subjects may get there are as many rows, one after the other: it is read once.
    payloads = rows["payload"]
    is_new = np.ones(len(at), np.bool_)
    is_new[1:] = at[1:] != at[:-1]
    is_new[1:] |= pc.not_equal(payloads[1:], payloads[:-1]).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(is_new)
    read, kind_of = payloads.take(pa.array(starts)).to_pylist(), [kinds[kind] for kind in at[starts].tolist()]
    objects = read_objects([one for one, kind in zip(read, kind_of, strict=True) if kind.widen is not None])
    asked = _asked(rows["asked"])
    ends = [*starts[1:].tolist(), len(at)]
    start = 0
    for payload, kind, end in zip(read, kind_of, ends, strict=True):
        attributes = next(objects) if kind.widen is not None else None
        if attributes is not None and kind.widen is not None:
            attributes = kind.widen(attributes)
        content: Content | None = None
        for one in asked[start:end]:
            if attributes is not None and one.decide is not None:
                yield one.decide(attributes) is True
                continue
            content = content or kind.content(payload, attributes)
            yield any(condition.holds(content) is True for condition in one.conditions)
        start = end


class _Kind(NamedTuple):
    """Events that are read alike."""

    reader: Reader
    topic: str
    properties: bytes
    widen: Widen | None
    """What has to be done with a JSON object; None: it is not how they are read."""

    @classmethod
    def of(cls, policies: Policies, policy: str, topic: str, properties: bytes) -> "_Kind":
        reader = policies.by_digest[policy].compiled().ensemble.reader
        return cls(reader, topic, properties, reader.objects(Event(topic, b"", properties=properties)))

    def content(self, payload: bytes, attributes: Attributes | None) -> Content:
        """The content of such an event, of which the attributes may be known."""
        if attributes is None:
            return self.reader.read(Event(self.topic, payload, properties=self.properties))
        return Content.known(payload, Format.JSON, attributes)


class _Asked(NamedTuple):
    """Conditions of which one must hold."""

    conditions: tuple[Condition, ...]
    decide: Decider | None
    """If there is one, and all that it takes are attributes."""


def _asked(texts: pa.StringArray) -> list[_Asked]:
    codes = texts.dictionary_encode()
    every = [_conditions(text) for text in codes.dictionary.to_pylist()]
    return [every[code] for code in codes.indices.to_numpy().tolist()]


@lru_cache(maxsize=100_000)
def _conditions(texts: str) -> _Asked:
    conditions = tuple(condition_of(parse(text)) for text in texts.split(SEPARATOR))
    return _Asked(conditions, conditions[0].decide if len(conditions) == 1 and not conditions[0].is_metered else None)
