"""Conditions over tables of typed content: what columns can be, what is missing, and which way errors fall."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.language import types
from penstock.language.condition import make_condition
from penstock.language.errors import Failure, FailureKind
from penstock.language.evaluators.closures import compile_metered
from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.language.types import ListType, RecordType
from penstock.language.values import Timestamp, Uint, make_map
from penstock.model.content.bounds import MAX_NODES
from penstock.pipeline.conditions.columns import applies, condition_column, explain_column, explained_column, holds
from penstock.pipeline.conditions.native.shapes import column_type
from penstock.pipeline.errors import PipelineError
from tests.support.cases.conditions import cases, declared
from tests.support.spark.conditions import answers, outcome, question, settings

SCHEMA = column_type(declared())
assert isinstance(SCHEMA, StructType)
TABLE_SCHEMA = StructType([StructField("content", SCHEMA)])
ROWS: list[tuple[dict[str, Any] | None]] = [
    ({"temperature": 31.0, "open": True},),
    ({"temperature": 29.0},),
    ({"open": False},),
    (None,),
]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Hot, cold, without a temperature, unreadable."""
    return spark.createDataFrame(ROWS, TABLE_SCHEMA)


def test_a_condition_is_true_false_or_the_kind_of_a_failure(table: DataFrame) -> None:
    column = condition_column(make_condition("temperature > 30", declared()), declared(), F.col("content"))
    found = [outcome(row.r) for row in table.select(column.alias("r")).collect()]
    assert found == [True, False, FailureKind.NO_SUCH_ATTRIBUTE, FailureKind.UNREADABLE_CONTENT]


def test_a_permit_that_fails_grants_nothing(table: DataFrame) -> None:
    permit = holds(make_condition("temperature > 30"), declared(), F.col("content"))
    assert [row.r for row in table.select(permit.alias("r")).collect()] == [True, False, False, False]


def test_a_denial_that_fails_applies(table: DataFrame) -> None:
    denial = applies(make_condition("temperature > 30"), declared(), F.col("content"))
    assert [row.r for row in table.select(denial.alias("r")).collect()] == [True, False, True, True]


def test_errors_fall_the_same_way_in_the_batch_function(table: DataFrame) -> None:
    condition = make_condition("string(temperature) == '31'")
    assert not explain_column(condition, declared()).native
    permit, denial = (way(condition, declared(), F.col("content")) for way in (holds, applies))
    found = table.select(permit.alias("permit"), denial.alias("denial")).collect()
    assert [(row.permit, row.denial) for row in found] == [(True, True), (False, False), (False, True), (False, True)]


def test_a_condition_that_asks_for_no_attribute_holds_of_unreadable_content_too(table: DataFrame) -> None:
    column = condition_column(make_condition("1 < 2"), declared(), F.col("content"))
    assert {outcome(row.r) for row in table.select(column.alias("r")).collect()} == {True}


def test_rows_are_filtered_by_spark_itself(table: DataFrame) -> None:
    permit = holds(make_condition("temperature > 30 && open"), declared(), F.col("content"))
    kept = table.filter(permit)
    assert kept.count() == 1
    assert _plan(kept).count("EvalPython") == 0


def test_the_batch_function_runs_once_for_a_row(table: DataFrame) -> None:
    conditions = [make_condition(f"string(temperature) == '{number}'") for number in (31, 29)]
    first, second = (condition_column(each, declared(), F.col("content")) for each in conditions)
    both = table.select("content", first.alias("a"), second.alias("b"))
    kept = both.filter("a.value or b.value").select("a.value", "a.error", "b.error")
    assert kept.count() == 2
    plan = _plan(kept)
    assert plan.count("ArrowEvalPython") == 1
    assert plan.count("evaluate(") == 2


def _plan(table: DataFrame) -> str:
    return str(table._jdf.queryExecution().executedPlan().toString())


def test_what_has_no_column_type_is_said() -> None:
    with pytest.raises(PipelineError, match="attributes of type `dyn` have no column type"):
        column_type(RecordType({"a": types.DYN}))
    with pytest.raises(PipelineError, match="attributes that are not declared"):
        column_type(RecordType({"a": types.INT}, others=types.DYN))


@pytest.mark.usefixtures("spark")
def test_a_column_that_no_attribute_can_be_is_said() -> None:
    with pytest.raises(PipelineError, match="a column of type `date` cannot be an attribute"):
        explain_column(parse("a == 1"), StructType([StructField("a", DateType())]))


MOMENT = datetime(2026, 11, 15, 10, 0, 0, 123456, UTC)
COLUMNS: dict[str, tuple[DataType, Any, Any]] = {
    "small": (ShortType(), 7, 7),
    "middle": (IntegerType(), -7, -7),
    "single": (FloatType(), 0.5, 0.5),
    "large": (column_type(types.UINT), Decimal(2**64 - 1), Uint(2**64 - 1)),
    "at": (TimestampType(), MOMENT, Timestamp(int(MOMENT.timestamp()) * 10**9 + 123_456_000)),
    "moments": (ArrayType(TimestampType()), [MOMENT, None], [Timestamp(1_794_736_800_123_456_000), None]),
    "numbers": (ArrayType(IntegerType()), [1, 2, None], [1, 2, None]),
    "singles": (ArrayType(FloatType()), [float("nan"), 0.5], [float("nan"), 0.5]),
    "metrics": (MapType(StringType(), LongType()), {"x": 1, "y": None}, {"x": 1, "y": None}),
    "flags": (MapType(BooleanType(), StringType()), {True: "on"}, make_map([(True, "on")])),
    "by number": (MapType(LongType(), StringType()), {1: "one"}, {1: "one"}),
    "rooms": (
        ArrayType(column_type(RecordType({"name": types.STRING, "floor": types.INT}))),
        [{"name": "hall", "floor": 1}, {"name": "attic"}, None],
        [{"name": "hall", "floor": 1}, {"name": "attic"}, None],
    ),
    "absent": (StringType(), None, ...),
    "sure": (StringType(), "here", "here"),
}
CONDITIONS = """
small + middle == 0
type(small) == int && type(single) == double && type(large) == uint
single * 2.0 == 1.0
large > 9223372036854775807
large + 1u > 0u
large - 1u == 18446744073709551614u
large / 10u * 10u + large % 10u == large
uint(string(large)) == large
double(large) == 18446744073709551616.0
at < timestamp('2026-11-15T10:00:00.123456001Z')
at > timestamp('2026-11-15T10:00:00.123455999Z')
at.getFullYear() == 2026 && at.getMilliseconds() == 123 && at.getHours('-03:30') == 6
at - timestamp('2026-11-15T09:59:59Z') == duration('1.123456s')
at in moments
moments[0] == at && moments[1] == null
moments[2] == at
moments.exists(m, m == at)
2 in numbers
3 in numbers
null in numbers
2.0 in numbers
numbers == [1, 2, null]
numbers == [1, 2]
numbers + [3] == [1, 2, null, 3]
numbers.map(n, n == null ? 0 : n) == [1, 2, 0]
numbers.filter(n, n != null).size() == 2
numbers.all(n, n < 3)
numbers.exists(n, n > 1)
numbers.exists_one(n, n == 1)
numbers[small - 5]
numbers[middle]
numbers[0.0] == 1 && numbers[1u] == 2
singles[0] == singles[0]
singles == singles
0.5 in singles
singles.exists(s, s != s)
metrics.x == 1 && metrics['x'] == 1
metrics.y == null
metrics.y > 0
metrics.z == 1
has(metrics.x) && !has(metrics.z)
'x' in metrics
absent in metrics
1 in metrics
metrics.exists(k, k == 'y')
size(metrics) == 2 && size(rooms) == 3
flags[true] == 'on' && !(false in flags)
flags.on == 'on'
`by number`[1] == 'one'
`by number`[1u] == 'one'
`by number`[2] == 'one'
rooms[0].floor == 1
rooms[1].floor == 1
rooms[2].floor == 1
rooms.exists(r, r.name == 'attic')
rooms.all(r, r.floor == 1)
rooms.exists(r, r == null)
has(rooms[1].name) && !has(rooms[1].floor)
has(rooms[2].name)
rooms[0].all(k, k in ['name', 'floor'])
size(rooms[1]) == 1
rooms[1] == {'name': 'attic'}
has(absent) || sure == 'here'
absent == 'x' || sure == 'here'
absent == 'x' && sure == 'here'
sure < absent
""".strip().splitlines()


@pytest.fixture(scope="module")
def of_columns(spark: SparkSession) -> dict[str, bool | FailureKind]:
    schema = StructType([StructField(name, kind, name != "sure") for name, (kind, _, _) in COLUMNS.items()])
    content = {name: value for name, (_, value, _) in COLUMNS.items()}
    table = spark.createDataFrame([(content,)], StructType([StructField("content", schema)]))
    columns = [condition_column(parse(text), schema, F.col("content")) for text in CONDITIONS]
    (row,) = table.select(*columns).collect()
    return dict(zip(CONDITIONS, map(outcome, row), strict=True))


@pytest.mark.parametrize("text", CONDITIONS)
def test_all_kinds_of_columns(text: str, of_columns: dict[str, bool | FailureKind]) -> None:
    content = {name: value for name, (_, _, value) in COLUMNS.items() if value is not ...}
    expected = decide(parse(text), content)
    assert of_columns[text] == (expected.kind if isinstance(expected, Failure) else expected)


MANY = {
    "exists(x, x == 0)": True,
    "exists(x, x == -1)": False,
    "all(x, x > 0)": False,
    "exists_one(x, x == 0)": True,
    "filter(x, x == 0) == [0]": True,
    "filter(x, 1 / x > 0) == []": FailureKind.DIVIDE_BY_ZERO,
    "map(x, x)[0] == 0": True,
    "exists(x, 1 / x > 2)": FailureKind.DIVIDE_BY_ZERO,
    "exists(x, x < 0) || a.exists(x, x > 99998)": True,
}


def test_simple_macros_are_for_all_content_and_so_are_native(spark: SparkSession) -> None:
    content = {"a": list(range(MAX_NODES))}
    asked = [question(parse(f"a.{text}"), content) for text in MANY]
    found = answers(spark, asked)
    assert dict(zip(MANY, (answer.outcome for answer in found), strict=True)) == MANY
    assert all(answer.how.native for answer in found)
    for (text, expected), each in zip(MANY.items(), asked, strict=True):
        outcome = compile_metered(each.tree)[0](content)
        assert (outcome.kind if isinstance(outcome, Failure) else outcome) == expected, text


def test_the_session_s_time_zone_and_mode_do_not_matter(spark: SparkSession) -> None:
    about_time = [case for case in cases() if case.file == "time" and case.content]
    asked = [question(parse(case.expression), case.content) for case in about_time]
    before = [answer.outcome for answer in answers(spark, asked)]
    for zone in ("America/St_Johns", "Pacific/Kiritimati"):
        with settings(spark, {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": "false"}):
            assert [answer.outcome for answer in answers(spark, asked)] == before


@pytest.mark.usefixtures("spark")
def test_a_long_conjunction_of_plain_comparisons_is_native() -> None:
    names = [f"a{at}" for at in range(50)]
    schema = column_type(RecordType(dict.fromkeys(names, types.DOUBLE)))
    assert isinstance(schema, StructType)
    text = " && ".join(f"{name} >= 1.0 && {name} < 2.0" for name in names)
    _, how = explained_column(parse(text), schema, F.col("content"))
    assert how.native


def test_declared_attributes_are_columns() -> None:
    schema = column_type(RecordType({"tags": ListType(types.STRING), "at": types.TIMESTAMP, "n": types.UINT}))
    assert schema.simpleString() == "struct<tags:array<string>,at:timestamp,n:decimal(20,0)>"
