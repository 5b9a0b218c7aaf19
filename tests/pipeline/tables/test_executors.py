"""Spark and the tables of few rows: of the same questions about the same rows they say the same."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession

from penstock.model.errors import PenstockError
from penstock.pipeline.tables.executor import F, Window, arrow_udf, small_table, small_tables
from penstock.pipeline.tables.filters import is_on

MEMBER = pa.struct([("who", pa.string()), ("may", pa.bool_())])
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("text", pa.string()),
        ("other", pa.string()),
        ("number", pa.int64()),
        ("small", pa.int32()),
        ("is_on", pa.bool_()),
        ("data", pa.binary()),
        ("time", pa.timestamp("us", "UTC")),
        ("path", pa.list_(pa.string())),
        ("members", pa.list_(MEMBER)),
        ("json", pa.string()),
    ]
)
_NONE: list[dict[str, object]] = []
ROWS = [
    (
        1,
        "a/b",
        "a/b",
        3,
        1,
        True,
        b"one",
        datetime(2026, 1, 31, 23, 59, 59, 999999, UTC),
        ["n", "m"],
        _NONE,
        '{"s":[1]}',
    ),
    (
        2,
        "$SYS/x",
        None,
        -3,
        0,
        False,
        b"",
        datetime(1969, 12, 31, 23, 0, 0, 1, UTC),
        [],
        [{"who": "p", "may": True}],
        "{}",
    ),
    (3, None, "c", None, None, None, None, None, None, None, None),
    (4, "a", "b", 3, 2, None, b"\x00one", datetime(2026, 2, 1, tzinfo=UTC), ["n"], [{"who": "q", "may": None}], None),
    (5, "a/b", None, 1 << 40, 7, True, b"two", None, ["é", "z"], [{"who": "q", "may": False}] * 2, '{"s":null,"t":1}'),
    (6, "é", "z", 0, -5, False, b"one", datetime(2026, 2, 1, 12, tzinfo=UTC), ["m", "n"], _NONE, '{"s":{"a":"b"}}'),
]


def _texts_backwards(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    for texts, _ in batches:
        yield pa.array([None if one is None else one[::-1] for one in texts.to_pylist()], pa.string())


def _backwards() -> Callable[..., Column]:
    return arrow_udf(_texts_backwards, "string").asNondeterministic()  # type: ignore[call-overload, no-any-return]


COLUMNS: dict[str, Callable[[], Column]] = {
    "equal": lambda: F.col("text") == F.col("other"),
    "not equal": lambda: F.col("text") != "a/b",
    "equal or both nothing": lambda: F.col("text").eqNullSafe(F.col("other")),
    "equal to nothing": lambda: F.col("other").eqNullSafe(F.lit(None)),
    "and": lambda: F.col("is_on") & (F.col("number") > 0),
    "or": lambda: F.col("is_on") | (F.col("number") > 0),
    "not": lambda: ~F.col("is_on"),
    "less": lambda: F.col("number") < F.col("small"),
    "at most": lambda: F.col("small") <= 1,
    "at least a time": lambda: F.col("time") >= F.lit(datetime(2026, 2, 1, tzinfo=UTC)),
    "plus": lambda: F.col("number") + F.col("small"),
    "minus": lambda: F.col("number") - F.col("small"),
    "is nothing": lambda: F.col("text").isNull(),
    "is something": lambda: F.col("text").isNotNull(),
    "is one of": lambda: F.col("text").isin("a/b", "é"),
    "is one of numbers": lambda: F.col("number").isin(3, 0),
    "is none of": lambda: ~F.col("text").isin("a/b", "é"),
    "is one of none": lambda: F.col("text").isin(),
    "begins with": lambda: F.col("text").startswith("a/"),
    "is on a filter": lambda: is_on("+/b", F.col("text")),
    "is on all but what begins with $": lambda: is_on("#", F.col("text")),
    "has a part": lambda: F.contains(F.col("data"), F.lit(b"one")),
    "when": lambda: F.when(F.col("is_on"), F.col("text")),
    "when, else when, else": lambda: F.when(F.col("is_on"), 1).when(F.col("number") > 0, 2).otherwise(3),
    "when a branch is nobody's": lambda: F.when(F.col("id") > 9, F.raise_error(F.lit("no")).cast("string")),
    "else another": lambda: F.when(F.col("is_on"), F.col("text")).otherwise(F.col("other")),
    "the first that is there": lambda: F.coalesce("text", F.col("other"), F.lit("none")),
    "the greatest": lambda: F.greatest(F.lit(0), F.col("number") - F.col("small")),
    "the least": lambda: F.least("number", "small"),
    "bytes": lambda: F.length("data"),
    "a number as text": lambda: F.col("number").cast("string"),
    "nothing as a time": lambda: F.lit(None).cast("timestamp"),
    "shifted": lambda: F.shiftright(F.shiftleft(F.col("number").cast("bigint"), 3), 5),
    "a day": lambda: F.to_date("time"),
    "days since": lambda: F.datediff(F.to_date("time"), F.lit("2020-01-01")).cast("bigint"),
    "seconds": lambda: F.unix_timestamp("time"),
    "a part of time": lambda: F.timestamp_seconds(F.floor(F.unix_timestamp("time") / 7) * 7),
    "joined": lambda: F.concat(F.lit("<"), F.col("text"), F.lit(">")),
    "joined with": lambda: F.concat_ws("@", "text", "other"),
    "a list joined with": lambda: F.concat_ws("\n", "path"),
    "levels": lambda: F.split("text", "/"),
    "a level": lambda: F.get(F.split("text", "/"), F.lit(1)),
    "without a beginning": lambda: F.regexp_replace("text", "^\\Q$SYS/\\E", ""),
    "a member of JSON": lambda: F.get_json_object("json", "$.s"),
    "how many": lambda: F.size("path"),
    "the first": lambda: F.get("path", F.lit(0)),
    "the first with members": lambda: F.get("members", F.lit(0)),
    "some of them": lambda: F.filter("members", lambda one: one["who"].isin("q")),
    "those that may": lambda: F.filter("members", lambda one: one["may"]),
    "one more": lambda: F.array_append("path", F.col("text")),
    "is among them": lambda: F.array_contains("path", "n"),
    "is another's among them": lambda: F.array_contains("path", F.col("other")),
    "a list of what is there": lambda: F.array_compact(
        F.array(F.when(F.col("is_on"), F.lit(0)), F.when(F.col("number") > 0, F.lit(1)))
    ),
    "a function over batches": lambda: _backwards()(F.col("text"), F.col("id")),
    "place": lambda: F.row_number().over(Window.partitionBy("text").orderBy(F.size("path"), "id")),
    "place, the largest first": lambda: F.row_number().over(
        Window.partitionBy("is_on").orderBy(F.desc("number"), "id")
    ),
    "place that several share": lambda: F.dense_rank().over(Window.partitionBy(F.to_date("time")).orderBy("number")),
    "the least of all that are alike": lambda: F.min("id").over(Window.partitionBy("text", "is_on")),
    "how many are alike": lambda: F.count("*").over(Window.partitionBy("other")),
}

TABLES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a filter leaves out what is not known": lambda t: t.filter(F.col("is_on")).select("id"),
    "a filter by name": lambda t: t.filter("is_on").select("id"),
    "a filter for what is not there": lambda t: t.filter("other IS NULL").select("id"),
    "a row for each element": lambda t: t.withColumn("one", F.explode("members")).select("id", "one.*"),
    "members of elements": lambda t: t.select(F.explode("members").alias("one")).select("one.who", "one.may"),
    "distinct": lambda t: t.select("text", "is_on").distinct(),
    "limit": lambda t: t.orderBy("id").limit(2).select("id"),
    "order": lambda t: t.select("number", "id").orderBy("number", F.col("id").desc()),
    "joined by equal columns": lambda t: t.select("id", "text").join(_renamed(t), F.col("text") == F.col("key")),
    "joined by columns that may be nothing": lambda t: t.select("id", "other").join(
        _renamed(t), [F.col("other").eqNullSafe(F.col("key"))]
    ),
    "joined, or left alone": lambda t: t.select("id", "other").join(
        _renamed(t), (F.col("other") == F.col("key")) & (F.col("id") == F.col("its")), "left"
    ),
    "joined by name": lambda t: t.select("id", "text").join(t.select("text", "number"), "text"),
    "joined by names, or left alone": lambda t: t.select("id", "text", "is_on").join(
        t.select("text", "is_on", "small"), ["text", "is_on"], "left"
    ),
    "sums of groups": lambda t: t.groupBy("text").agg(
        F.sum("number").alias("all"), F.count("*").alias("rows"), F.count_if(F.col("number") > 0).alias("some")
    ),
    "greatest and least of groups": lambda t: t.groupBy(F.coalesce("other", F.lit("")).alias("key")).agg(
        F.max("path").alias("path"), F.min("time").alias("first"), F.max("is_on").alias("one")
    ),
    "all rows as one group": lambda t: t.agg(
        F.count("*").alias("n"), F.min("time").alias("a"), F.max("time").alias("b")
    ),
    "of no rows": lambda t: t.filter("id IS NULL").agg(F.count("*").alias("n"), F.max("number").alias("most")),
    "groups of no rows": lambda t: t.filter("id IS NULL").groupBy("text").agg(F.sum("number").alias("n")),
    "groups counted": lambda t: t.groupBy("text").count(),
    "by the same bytes": lambda t: t.groupBy(F.xxhash64("data").alias("key")).agg(F.count("*").alias("n")).select("n"),
    "two as one": lambda t: t.select("id", "text").unionByName(t.select("text", "id")),
    "two as one, each with what it has": lambda t: t.select("id", "text").unionByName(
        t.select("id", "path").withColumn("is_new", F.lit(True)), allowMissingColumns=True
    ),
    "a column in the place of another": lambda t: t.select("id", "text").withColumns(
        {"id": F.lit(0), "z": F.col("id")}
    ),
    "other names": lambda t: t.select("id", "text").toDF("a", "b").drop("b"),
    "a function over all rows": lambda t: t.repartition("text").sortWithinPartitions("id").mapInArrow(_even, t.schema),
    "of no rows too": lambda t: t.filter("id IS NULL").mapInArrow(_even, t.schema).select("id"),
}


def _even(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pa.array([one % 2 == 0 for one in batch.column("id").to_pylist()], pa.bool_()))


def _renamed(table: DataFrame) -> DataFrame:
    return table.select(F.col("text").alias("key"), F.col("id").alias("its"))


def _arrow() -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], SCHEMA)


@pytest.fixture(scope="module")
def table(interpreted: SparkSession) -> DataFrame:
    return interpreted.createDataFrame(_arrow())


def _plain(value: object) -> Any:
    """A value as both have it; times are in the time zone of the machine with Spark."""
    if isinstance(value, Row):
        return {key: _plain(one) for key, one in value.asDict().items()}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def _rows(table: DataFrame) -> list[Any]:
    return sorted((_plain(row) for row in table.collect()), key=repr)


@pytest.fixture(scope="module")
def columns(table: DataFrame) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """What each says, of all columns at once."""
    every = [make().alias(f"c{at}") for at, make in enumerate(COLUMNS.values())]
    spark = [_plain(row) for row in table.select("id", *every).orderBy("id").collect()]
    with small_tables():
        own = [make().alias(f"c{at}") for at, make in enumerate(COLUMNS.values())]
        few = [_plain(row) for row in small_table(_arrow()).select("id", *own).collect()]
    told = [{title: [row[f"c{at}"] for row in rows] for at, title in enumerate(COLUMNS)} for rows in (spark, few)]
    return told[0], told[1]


@pytest.mark.parametrize("title", COLUMNS)
def test_a_column(columns: tuple[dict[str, list[Any]], dict[str, list[Any]]], title: str) -> None:
    spark, few = columns
    assert few[title] == spark[title]


@pytest.mark.parametrize("title", TABLES)
def test_a_table(table: DataFrame, title: str) -> None:
    spark = _rows(TABLES[title](table))
    with small_tables():
        few = _rows(TABLES[title](small_table(_arrow())))
    assert few == spark


def test_an_error_that_a_row_raises_is_raised() -> None:
    with small_tables(), pytest.raises(PenstockError, match="it is not known"):
        small_table(_arrow()).select(F.when(F.col("is_on"), F.raise_error(F.lit("it is not known"))))


def test_tables_are_joined_by_what_is_equal_only() -> None:
    with small_tables():
        some = small_table(_arrow())
        with pytest.raises(ValueError, match="joined by columns that are equal"):
            some.join(_renamed(some), F.col("id") > F.col("its"))


def test_days_are_days() -> None:
    with small_tables():
        (first, *_) = small_table(_arrow()).select(F.to_date("time").alias("day")).collect()
    assert first.day == date(2026, 1, 31)
