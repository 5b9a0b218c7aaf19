"""Conditions on the content of events, in Arrow batches, read as a policy's domain says."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column

from penstock.language.condition import Condition, condition_of
from penstock.language.evaluators.closures import Decider
from penstock.language.parser import parse
from penstock.model.content.content import Attributes, Content, ContentReader, Format, Widen
from penstock.model.content.json_objects import read_objects
from penstock.model.event import Event
from penstock.pipeline.spark.policies import Policies
from penstock.pipeline.tables.distinct import Numbers, distinct
from penstock.pipeline.tables.executor import F, arrow_udf

SEPARATOR = "\n"
"""Between the texts of conditions: it is in none of them, as they are canonical."""
_TELLS = ["topic", "properties"]
"""What says how a payload is read, under a policy."""


def one_holds(policies: Policies, conditions: Column) -> Column:
    """Return whether one of the conditions of a row, which are a text, is true of its event; NULL if it has none.

    A condition that fails is not true. The columns of the event, and `policy`, have their usual names.
    """

    names = [*_TELLS, "payload", *(["policy"] if policies.stands is None else [])]

    def evaluate(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for batch in batches:
            yield outcomes(policies, pa.RecordBatch.from_arrays(list(batch), ["asked", *names]))

    asked = conditions.isNotNull()
    columns = (F.when(asked, F.col(name)) for name in names)
    function = arrow_udf(evaluate, "boolean").asNondeterministic()  # type: ignore[call-overload]
    return function(conditions, *columns)  # type: ignore[no-any-return]


def outcomes(policies: Policies, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return what `one_holds` is for each row, of which `asked` are the conditions."""
    is_asked = pc.is_valid(rows["asked"])
    if not is_asked.false_count:
        return pa.array(_outcomes(policies, rows), pa.bool_())
    asked = pa.array(_outcomes(policies, rows.filter(is_asked)), pa.bool_())
    return pc.replace_with_mask(pa.nulls(rows.num_rows, pa.bool_()), is_asked, asked)


def _outcomes(policies: Policies, rows: pa.RecordBatch) -> list[bool]:
    kinds, kind_at = _kinds(policies, rows)
    # Of an event that several subjects may get there are as many rows, one after the other: it is read once.
    payloads = rows["payload"]
    is_new = np.ones(len(kind_at), np.bool_)
    is_new[1:] = kind_at[1:] != kind_at[:-1]
    is_new[1:] |= pc.not_equal(payloads[1:], payloads[:-1]).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(is_new)
    events = payloads.take(pa.array(starts)).to_pylist()
    kind_of = [kinds[kind] for kind in kind_at[starts].tolist()]
    is_simple = all(kind.is_json and kind.widen is None for kind in kinds)
    every = read_objects(events) if is_simple else _attributes(events, kind_of)
    if len(starts) < len(kind_at):
        every = chain.from_iterable(map(repeat, every, np.diff(starts, append=len(kind_at)).tolist()))
    asked = _asked(rows["asked"])
    contents = dict[int, Content]()

    def slowly(row: int, attributes: Attributes | None) -> bool:
        start = int(starts.searchsorted(row, "right")) - 1
        content = contents.get(start)
        if content is None:
            content = contents[start] = kind_of[start].content(events[start], attributes)
        return any(condition.holds(content) is True for condition in asked[row].conditions)

    return [
        slowly(row, attributes) if attributes is None or decide is None else decide(attributes) is True
        for row, (attributes, (_, decide)) in enumerate(zip(every, asked, strict=True))
    ]


def _attributes(payloads: list[bytes], kinds: "list[_Kind]") -> Iterator[Attributes | None]:
    """Return the attributes of each event, if it is a JSON object that can be read with others."""
    objects = read_objects([payload for payload, kind in zip(payloads, kinds, strict=True) if kind.is_json])
    return (_widened(next(objects), kind.widen) if kind.is_json else None for kind in kinds)


def _widened(attributes: Attributes | None, widen: Widen | None) -> Attributes | None:
    return attributes if attributes is None or widen is None else widen(attributes)


def _kinds(policies: Policies, rows: pa.RecordBatch) -> tuple[list["_Kind"], Numbers]:
    """Return how events are read, in as many ways as there are, and for each row which it is."""
    columns = rows.select([name for name in rows.schema.names if name in (*_TELLS, "policy")])
    firsts, at = distinct(columns)
    return [_Kind.of(policies, **values) for values in columns.take(pa.array(firsts)).to_pylist()], at


@dataclass(frozen=True, slots=True)
class _Kind:
    """Events that are read alike."""

    reader: ContentReader
    event: Event
    """One of them."""
    is_json: bool
    """Whether they are JSON if they are a JSON object."""
    widen: Widen | None
    """What is to be done with the members then, if anything."""

    @classmethod
    def of(cls, policies: Policies, topic: str, properties: bytes, policy: str = "") -> "_Kind":
        reader = policies.by_digest[policies.stands or policy].compiled().ensemble.reader
        event = Event(topic, b"", properties=properties)
        return cls(reader, event, *reader.takes_objects(event))

    def content(self, payload: bytes, attributes: Attributes | None) -> Content:
        """Return the content of such an event, of which the attributes may be known."""
        if attributes is None:
            return self.reader.read(self.event._replace(payload=payload))
        return Content.known(payload, Format.JSON, attributes)


class _AskedConditions(NamedTuple):
    """Conditions of which one must hold."""

    conditions: tuple[Condition, ...]
    decide: Decider | None
    """If there is one, and all that it takes are attributes."""


def _asked(texts: pa.StringArray) -> list[_AskedConditions]:
    codes = texts.dictionary_encode()
    every = [_conditions(text) for text in codes.dictionary.to_pylist()]
    return [every[code] for code in codes.indices.to_numpy().tolist()]


@lru_cache(maxsize=10_000)
def condition(text: str) -> Condition:
    """Return the condition that a text is."""
    return condition_of(parse(text))


@lru_cache(maxsize=100_000)
def _conditions(texts: str) -> _AskedConditions:
    conditions = tuple(condition_of(parse(text)) for text in texts.split(SEPARATOR))
    return _AskedConditions(
        conditions, conditions[0].decide if len(conditions) == 1 and not conditions[0].is_metered else None
    )
