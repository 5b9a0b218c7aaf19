"""Metrics as a tidy table: one row for each metric that a subject may see.

It is made of views alone, so there is nothing in it that the subject may not have. Names behind aliases come from the
births in the same view; types that reports leave out do so too.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.language.evaluators.times import timestamp_to_string
from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.metric import Record, read_metric
from penstock.model.sparkplug.topic import STATE, message_topic
from penstock.model.values import Timestamp, Uint, Value
from penstock.pipeline.state.edge_nodes import edge, is_sparkplug
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.view import UNTIL
from penstock.policy.sparkplug.edge_nodes import Plant

_SAME = ("subject", "node", "seq", "place", "part", "time", "topic", UNTIL)
_ARROW = pa.schema(
    [
        ("subject", pa.string()),
        ("node", pa.string()),
        ("seq", pa.int64()),
        ("place", pa.int32()),
        ("part", pa.int32()),
        ("time", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        (UNTIL, pa.timestamp("us", "UTC")),
        ("type", pa.string()),
        ("group", pa.string()),
        ("edge", pa.string()),
        ("device", pa.string()),
        ("metric", pa.string()),
        ("alias", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("datatype", pa.string()),
        ("number", pa.float64()),
        ("integer", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("json", pa.string()),
        ("historical", pa.bool_()),
        ("transient", pa.bool_()),
    ]
)
METRICS = from_arrow_schema(_ARROW)
"""`number` has every value that is a number, `integer` those of 64 bits; `json` has any value, NULL if it is null."""


class MetricChange(NamedTuple):
    """What other policies change for a subject of one Sparkplug metric: numbers of its values."""

    subject: str
    topic: str
    metric: str
    then: int
    draft: int
    gained: int
    lost: int


def metric_changes(then: DataFrame, draft: DataFrame, max_rows: int) -> tuple[MetricChange, ...]:
    """Return the metrics that subjects gain or lose, by what they are given: `subject`, `node`, `origin`, `topic`,
    `payload`.

    A value that is given back later than by the other policies is lost with one message and gained with another.
    """
    both = _ordered(then).withColumn("draft", F.lit(0)).unionByName(_ordered(draft).withColumn("draft", F.lit(1)))
    alike = both.groupBy("subject", "topic", F.coalesce("metric", F.lit("")).alias("metric"), "seq")
    counted = alike.agg(F.count_if(F.col("draft") == 0).alias("was"), F.count_if(F.col("draft") == 1).alias("is"))
    more, less = F.greatest(F.lit(0), F.col("is") - F.col("was")), F.greatest(F.lit(0), F.col("was") - F.col("is"))
    totals = counted.groupBy("subject", "topic", "metric").agg(F.sum("was"), F.sum("is"), F.sum(more), F.sum(less))
    named = totals.toDF("subject", "topic", "metric", "then", "draft", "gained", "lost")
    weight = F.col("gained") + F.col("lost")
    rows = named.filter(weight > 0).orderBy(weight.desc(), "subject", "topic", "metric").limit(max_rows).collect()
    return tuple(MetricChange(*row) for row in rows)


def _ordered(given: DataFrame) -> DataFrame:
    """Return the metrics that subjects are given, in the order of their events' origins."""
    nothing, never = F.lit(0), F.lit(None).cast("timestamp")
    placed = (F.col("origin").alias("seq"), nothing.alias("place"), nothing.alias("part"))
    return metrics(
        given.select("subject", "node", *placed, *(never.alias(n) for n in ("time", UNTIL)), "topic", "payload")
    )


def metrics(view: DataFrame) -> DataFrame:
    """Return the metrics of views, one row each, with the columns `METRICS`."""
    rows = view.filter(is_sparkplug()).select(*_SAME, "payload").withColumn("of", edge())
    ordered = rows.repartition("subject", "node", "of").sortWithinPartitions(
        "subject", "node", "of", "seq", "place", "part"
    )
    return ordered.mapInArrow(_tidy, METRICS)


def _tidy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    at: tuple[str, str, str] | None = None
    plant = Plant()
    for batch in batches:
        made: list[dict[str, Any]] = []
        for row in batch.to_pylist():
            if (row["subject"], row["node"], row["of"]) != at:
                at, plant = (row["subject"], row["node"], row["of"]), Plant()
            made += _rows(plant, row)
        yield pa.RecordBatch.from_pylist(made, schema=_ARROW)


def _rows(plant: Plant, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        topic = message_topic(row["topic"])
        if topic.type == STATE or topic.source is None:
            return
        message = parse(row["payload"])
        plant.take(topic, message)
    except ContentError:  # it was delivered before there were policies
        return
    known, source = plant.known(topic.source), topic.source
    same = {name: row[name] for name in _SAME}
    same |= {"type": topic.type, "group": source.group, "edge": source.edge, "device": source.device or None}
    for metric in message.metrics:
        name = known.name(metric)
        birth = known.birth(name) if name is not None else None
        try:
            record = read_metric(message.payload, metric.body, metric.stop, birth)
        except ContentError:
            continue
        yield {**same, "metric": name, "alias": _within(metric.alias), **_said(record)}


def _said(record: Record) -> dict[str, Any]:
    value: Value = record.get("value")
    moment = record.get("timestamp")
    is_number = isinstance(value, int | float | Uint) and not isinstance(value, bool)
    return {
        "timestamp": moment.nanos // 1000 if isinstance(moment, Timestamp) else None,
        "datatype": record["type"],
        "number": float(value) if is_number else None,
        "integer": _within(value) if is_number and not isinstance(value, float) else None,
        "text": value if isinstance(value, str) else None,
        "flag": value if isinstance(value, bool) else None,
        "json": None if value is None else msgspec.json.encode(_plain(value)).decode(),
        "historical": record["historical"],
        "transient": record["transient"],
    }


def _within(number: Value) -> int | None:
    """Return a number if it has 64 bits with sign; others are in `number` and `json`."""
    return int(number) if number is not None and int(number) < 1 << 63 else None


def _plain(value: Value) -> Any:
    """Return a value as JSON has it: times as texts."""
    match value:
        case Timestamp():
            return timestamp_to_string(value)
        case dict():
            return {str(name): _plain(member) for name, member in value.items()}
        case list():
            return [_plain(element) for element in value]
        case Uint():
            return int(value)
    return value
