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
from penstock.policy.capsules.capsule import (
    MICROSECONDS,
    AggregateFunction,
    AggregateReduction,
    Capsule,
    FuseReduction,
    LatestReduction,
)
from penstock.policy.capsules.steps import CapsuleResult, ReducedGroup, TakenEvent, conclude, fused
from penstock.policy.capsules.windows import LETTERS, aggregated
from penstock.policy.quality.carriage import write_properties
from penstock.policy.quality.summaries import Statistic, statistic_of
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
        ("place", pa.string()),
    ]
)
"""What is made of a window and a group. Of one with a `problem` nothing goes out.
`place` tells results of one time and group apart, where there are no windows."""
_NANOSECONDS = 1_000


class _Sum(NamedTuple):
    """A column of the sums: `how` it is made of rows, and of parts."""

    name: str
    how: str
    of: Column


def _keys(capsule: Capsule) -> list[str]:
    return ["start", "input", *group_keys(capsule), "problem", "event"]


def group_keys(capsule: Capsule) -> list[str]:
    """Return the columns of a group's keys."""
    return [f"k{at}" for at in range(len(capsule.reduction.by))]


def summed(rows: DataFrame, capsule: Capsule, closed: int | None) -> DataFrame:
    """Return the sums by window and group; without windows that were over when an event came."""
    window = capsule.window
    if window is None:  # all that is left is what was put aside, and how far it is
        rest = rows.filter(F.col("at").isNull()).withColumn("start", F.lit(None).cast("long"))
        return _aggregated(rest, capsule, {total.name: total.of for total in _sums(capsule)})
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
    assert capsule.window is not None
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
    if isinstance(capsule.reduction, LatestReduction):
        return sums
    if isinstance(capsule.reduction, FuseReduction):
        return [*sums, _Sum("items", "list", F.when(is_input, _item(capsule)))]
    return [*sums, *_of_values(capsule.reduction), *_of_quality(capsule, capsule.reduction)]


def _of_values(reduction: AggregateReduction) -> Iterator[_Sum]:
    for at, path in enumerate(reduction.paths):
        asked = {value.function for value in reduction.values if value.of == path}
        if asked & {AggregateFunction.MEAN, AggregateFunction.SUM}:
            yield _Sum(f"s{at}", "sum", F.col(f"n{at}"))
        if AggregateFunction.MIN in asked:
            yield _Sum(f"l{at}", "min", F.col(f"n{at}"))
        if AggregateFunction.MAX in asked:
            yield _Sum(f"h{at}", "max", F.col(f"n{at}"))


def _of_quality(capsule: Capsule, reduction: AggregateReduction) -> Iterator[_Sum]:
    operations = {operation for input in range(len(capsule.inputs)) for operation in reduction.operations(input)}
    for at, key in enumerate(capsule.metrics):
        value = _aged(capsule, at, key)
        yield _Sum(f"m{at}", "sum", F.col(f"q{at}").isNotNull().cast("long"))
        yield _Sum(f"f{at}", "min", F.col(f"c{at}"))
        for statistic in dict.fromkeys(
            statistic_of(operation, key, capsule.catalogue) for operation in sorted(operations)
        ):
            name = f"{LETTERS[statistic]}{at}"
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
    assert capsule.window is not None
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
    single = len(reference.capsule().inputs) == 1

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        capsule = reference.capsule()
        for batch in batches:
            parts = ([row] if single else row["parts"] for row in batch.to_pylist())
            made = [result for some in parts if (result := _result(capsule, some)) is not None]
            yield pa.RecordBatch.from_pylist(made, schema=RESULTS)

    sums = sums.drop("problem", "event", "seen")
    if not single:  # a result is of all inputs
        together = F.collect_list(F.struct(*sums.columns)).alias("parts")
        sums = sums.groupBy("start", *group_keys(reference.capsule())).agg(together).select("parts")
    return sums.mapInArrow(work, from_arrow_schema(RESULTS))


def _result(capsule: Capsule, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    assert capsule.window is not None
    group, start = tuple(parts[0][key] for key in group_keys(capsule)), parts[0]["start"]
    until = min((part[UNTIL] for part in parts if part[UNTIL] is not None), default=None)
    known = about_result(capsule, start, start + capsule.window.length, group, until)
    try:
        reduced = _reduced(capsule, group, start, parts)
        made = None if reduced is None else conclude(capsule, reduced)
    except PolicyError as error:
        return {**known, "inputs": sum(part["inputs"] for part in parts), "problem": str(error)}
    return None if made is None or reduced is None else {**known, "inputs": reduced.inputs, **result_fields(made)}


def about_result(capsule: Capsule, start: int, end: int, group: tuple[str, ...], until: int | None) -> dict[str, Any]:
    """Return the columns of a result that say what it is about."""
    names = (name for name, _ in capsule.reduction.by)
    return {
        "capsule": capsule.name,
        "subject": capsule.client,
        "start": start,
        "end": end,
        "group": msgspec.json.encode(dict(zip(names, group, strict=True))).decode(),
        UNTIL: until,
    }


def result_fields(made: CapsuleResult) -> dict[str, Any]:
    """Return the columns of the message that a result is."""
    carried = Properties(content_type=made.content_type, user_properties=made.properties)
    return {
        "topic": made.topic,
        "payload": made.payload,
        "quality": "[" + ",".join(text for _, text in write_properties(made.quality)) + "]",
        "content_type": made.content_type,
        "properties": encode_properties(carried),
    }


def _reduced(capsule: Capsule, group: tuple[str, ...], start: int, parts: list[dict[str, Any]]) -> ReducedGroup | None:
    if not isinstance(capsule.reduction, FuseReduction):
        return aggregated(capsule, start, group, parts)
    every = [item for part in parts for item in part["items"]]
    items = sorted(every, key=lambda item: (item["arrival"], item["seq"], item["place"], item["part"]))
    return fused(capsule, start, group, [_input(capsule, group, item) for item in items])


def _input(capsule: Capsule, group: tuple[str, ...], item: dict[str, Any]) -> TakenEvent:
    values = [
        MetricValue(key, value, _time(created), None if created == changed else _time(changed))
        for key, value, created, changed in zip(capsule.metrics, item["q"], item["c"], item["a"], strict=True)
        if value is not None
    ]
    return TakenEvent(item["at"], group, tuple(item["n"]), Quality(values), item["source"])


def _time(micros: int) -> Timestamp:
    return Timestamp(micros * _NANOSECONDS)
