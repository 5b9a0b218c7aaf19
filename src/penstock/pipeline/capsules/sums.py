"""Windows of a capsule, summed up by Spark's own aggregation, in parts that can be put together in any order.

Of an aggregate each part has sums, of a fusion the inputs themselves. When a window is over, the engine's functions
make a result of it, in Arrow batches.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.model.errors import PolicyError
from penstock.model.quality import Direction, MetricKey, MetricValue, Quality
from penstock.model.values import Timestamp
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.tables.view import UNTIL
from penstock.policy.capsules.capsule import MICROSECONDS, AggregateFunction, AggregateReduction, Capsule, FuseReduction
from penstock.policy.capsules.steps import CapsuleResult, ReducedGroup, TakenEvent, conclude, fused
from penstock.policy.quality.carriage import write_properties
from penstock.policy.quality.summaries import Statistic, Summary, propagate_summaries, statistic_of
from penstock.wire.properties import Properties, encode_properties

RESULTS = pa.schema(
    [
        ("capsule", pa.string()),
        ("subject", pa.string()),
        ("start", pa.timestamp("us", "UTC")),
        ("end", pa.timestamp("us", "UTC")),
        ("group", pa.string()),
        ("inputs", pa.int64()),
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("quality", pa.string()),
        ("content_type", pa.string()),
        ("properties", pa.binary()),
        ("expiry", pa.int64()),
        (UNTIL, pa.timestamp("us", "UTC")),
        ("problem", pa.string()),
    ]
)
"""What is made of a window and a group. Of one with a `problem` nothing goes out."""
_JSON = "application/json"
_NANOSECONDS = 1_000
_LETTERS = {Statistic.SUM: "t", Statistic.SQUARES: "r", Statistic.WORST: "w"}


class _Sum(NamedTuple):
    """A column of the sums: `how` it is made of rows, and of parts."""

    name: str
    how: str
    of: Column


def _keys(capsule: Capsule) -> list[str]:
    return ["start", *(f"k{at}" for at in range(len(capsule.reduction.by))), "problem", "event"]


def summed(rows: DataFrame, capsule: Capsule, closed: int | None) -> DataFrame:
    """Return the sums by window and group; without windows that were over when an event came."""
    window = capsule.window
    last = F.col("at") - F.pmod(F.col("at"), F.lit(window.slide))
    if window.length == window.slide:
        placed = rows.withColumn("start", last)
    else:
        inside = F.floor((F.lit(window.length - 1) - F.pmod(F.col("at"), F.lit(window.slide))) / F.lit(window.slide))
        starts = F.sequence(last - inside.cast("long") * F.lit(window.slide), last, F.lit(window.slide))
        placed = rows.withColumn("start", F.explode_outer(starts))
    now = F.col("arrival") if closed is None else F.greatest(F.col("arrival"), F.lit(closed))
    in_time = F.col("start").isNull() | (F.col("start") + F.lit(window.length + window.lateness) > now)
    return _aggregated(placed.filter(in_time), capsule, {total.name: total.of for total in _sums(capsule)})


def together(parts: DataFrame, capsule: Capsule) -> DataFrame:
    """Parts of the same windows and groups, put together."""
    return _aggregated(parts, capsule, {total.name: F.col(total.name) for total in _sums(capsule)}, are_parts=True)


def is_open(capsule: Capsule, closed: int) -> Column:
    """Return whether a window is not over yet."""
    return F.col("start") + F.lit(capsule.window.length + capsule.window.lateness) > F.lit(closed)


def _aggregated(rows: DataFrame, capsule: Capsule, of: Mapping[str, Column], are_parts: bool = False) -> DataFrame:
    made = []
    for total in _sums(capsule):
        if total.how == "list":
            column = F.flatten(F.collect_list(of[total.name])) if are_parts else F.collect_list(of[total.name])
        else:
            column = getattr(F, total.how)(of[total.name])
        made.append(column.alias(total.name))
    return rows.groupBy(*_keys(capsule)).agg(*made)


def _sums(capsule: Capsule) -> list[_Sum]:
    is_input = F.col("start").isNotNull()
    sums = [_Sum("seen", "max", F.col("arrival")), _Sum("inputs", "sum", is_input.cast("long"))]
    sums.append(_Sum(UNTIL, "min", F.col(UNTIL)))  # what is made of several is kept no longer than any of them
    if isinstance(capsule.reduction, FuseReduction):
        return [*sums, _Sum("items", "list", F.when(is_input, _item(capsule)))]
    return [*sums, *_of_values(capsule.reduction), *_of_quality(capsule, capsule.reduction)]


def _of_values(reduction: AggregateReduction) -> Iterator[_Sum]:
    for at, path in enumerate(reduction.paths):
        asked = {value.function for value in reduction.values if value.path == path}
        if asked & {AggregateFunction.MEAN, AggregateFunction.SUM}:
            yield _Sum(f"s{at}", "sum", F.col(f"n{at}"))
        if AggregateFunction.MIN in asked:
            yield _Sum(f"l{at}", "min", F.col(f"n{at}"))
        if AggregateFunction.MAX in asked:
            yield _Sum(f"h{at}", "max", F.col(f"n{at}"))


def _of_quality(capsule: Capsule, reduction: AggregateReduction) -> Iterator[_Sum]:
    for at, key in enumerate(capsule.metrics):
        value = _aged(capsule, at, key)
        yield _Sum(f"m{at}", "sum", F.col(f"q{at}").isNotNull().cast("long"))
        yield _Sum(f"f{at}", "min", F.col(f"c{at}"))
        for statistic in dict.fromkeys(
            statistic_of(operation, key, capsule.catalogue) for operation in reduction.operations
        ):
            name = f"{_LETTERS[statistic]}{at}"
            if statistic is Statistic.WORST:
                is_higher = capsule.catalogue.definition(key).direction is Direction.HIGHER
                yield _Sum(name, "min" if is_higher else "max", value)
            elif statistic is Statistic.SQUARES:
                spread = 1.0 - F.least(F.greatest(value, F.lit(0.0)), F.lit(100.0)) / 100.0
                yield _Sum(name, "sum", spread * spread)
            else:
                yield _Sum(name, "sum", value)


def _aged(capsule: Capsule, at: int, key: MetricKey) -> Column:
    """Return a metric at the end of the window: ages have grown by then, as `propagation.aged` has it."""
    value = F.col(f"q{at}")
    if capsule.catalogue.kind(key) != "freshness":
        return value
    definition = capsule.catalogue.definition(key)
    gone = (F.col("start") + F.lit(capsule.window.length) - F.col(f"a{at}")) / F.lit(float(MICROSECONDS))
    grown = F.greatest(F.least(value + gone, F.lit(definition.most)), F.lit(definition.least))
    return F.when(gone > 0, grown).otherwise(value)


def _item(capsule: Capsule) -> Column:
    """Return all that is known of an input."""
    metrics = range(len(capsule.metrics))
    return F.struct(
        *("arrival", "seq", "place", "part", "at", "source"),
        F.array(*(F.col(f"n{at}") for at in range(len(capsule.reduction.paths)))).alias("n"),
        *(F.array(*(F.col(f"{letter}{at}") for at in metrics)).alias(letter) for letter in "qca"),
    )


# --- results


def results(sums: DataFrame, reference: CapsuleReference) -> DataFrame:
    """Return the results of windows that are over, with the columns `RESULTS`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        capsule = reference.capsule()
        for batch in batches:
            made = [result for row in batch.to_pylist() if (result := _result(capsule, row)) is not None]
            yield pa.RecordBatch.from_pylist(made, schema=RESULTS)

    return sums.drop("problem", "event", "seen").mapInArrow(work, from_arrow_schema(RESULTS))


def _result(capsule: Capsule, row: dict[str, Any]) -> dict[str, Any] | None:
    names = [name for name, _ in capsule.reduction.by]
    group = tuple(row[f"k{at}"] for at in range(len(names)))
    known = {
        "capsule": capsule.name,
        "subject": capsule.client,
        "start": row["start"],
        "end": row["start"] + capsule.window.length,
        "group": msgspec.json.encode(dict(zip(names, group, strict=True))).decode(),
        "inputs": row["inputs"],
        UNTIL: row[UNTIL],
    }
    try:
        reduced = _reduced(capsule, group, row)
        made = conclude(capsule, reduced)
    except PolicyError as error:
        return {**known, "problem": str(error)}
    return None if made is None else {**known, "inputs": reduced.inputs, **_result_fields(made)}


def _result_fields(made: CapsuleResult) -> dict[str, Any]:
    carried = Properties(content_type=_JSON, user_properties=made.properties)
    return {
        "topic": made.topic,
        "payload": made.payload,
        "quality": "[" + ",".join(text for _, text in write_properties(made.quality)) + "]",
        "content_type": _JSON,
        "properties": encode_properties(carried),
    }


def _reduced(capsule: Capsule, group: tuple[str, ...], row: dict[str, Any]) -> ReducedGroup:
    start, reduction = row["start"], capsule.reduction
    if isinstance(reduction, FuseReduction):
        items = sorted(row["items"], key=lambda item: (item["arrival"], item["seq"], item["place"], item["part"]))
        return fused(capsule, start, group, [_input(capsule, group, item) for item in items])
    inputs, values = row["inputs"], dict[str, float | int]()
    for value in reduction.values:
        at = reduction.paths.index(value.path) if value.path else 0
        match value.function:
            case AggregateFunction.COUNT:
                values[value.name] = inputs
            case AggregateFunction.MEAN:
                values[value.name] = row[f"s{at}"] / inputs
            case AggregateFunction.SUM:
                values[value.name] = row[f"s{at}"]
            case AggregateFunction.MIN:
                values[value.name] = row[f"l{at}"]
            case AggregateFunction.MAX:
                values[value.name] = row[f"h{at}"]
    return ReducedGroup(start, group, inputs, values, _quality(capsule, reduction, row))


def _quality(capsule: Capsule, reduction: AggregateReduction, row: dict[str, Any]) -> Quality:
    summaries = {
        key: Summary(
            row[f"m{at}"],
            _time(row[f"f{at}"]),
            {statistic: row[name] for statistic, letter in _LETTERS.items() if (name := f"{letter}{at}") in row},
        )
        for at, key in enumerate(capsule.metrics)
        if row[f"m{at}"]
    }
    now = (row["start"] + capsule.window.length) / MICROSECONDS
    expected = capsule.window.expected
    return propagate_summaries(reduction.operations, row["inputs"], summaries, capsule.catalogue, now, expected)


def _input(capsule: Capsule, group: tuple[str, ...], item: dict[str, Any]) -> TakenEvent:
    values = [
        MetricValue(key, value, _time(created), None if created == changed else _time(changed))
        for key, value, created, changed in zip(capsule.metrics, item["q"], item["c"], item["a"], strict=True)
        if value is not None
    ]
    return TakenEvent(item["at"], group, tuple(item["n"]), Quality(values), item["source"])


def _time(micros: int) -> Timestamp:
    return Timestamp(micros * _NANOSECONDS)
