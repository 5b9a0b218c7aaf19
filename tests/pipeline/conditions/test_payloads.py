"""Conditions over payloads whose types are not known, and over the XML of content that is also in columns."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock.language.condition import make_condition
from penstock.language.errors import Failure, FailureKind
from penstock.language.types import ANYTHING
from penstock.model.content.content import Content, Format
from penstock.pipeline.conditions.columns import condition_column, explain_column
from tests.support.spark.conditions import outcome

JSON = [b'{"t": 31, "room": "hall"}', b'{"t": 31.5}', b'{"t": "31"}', b"[1, 2]", b"31", b"{", b"", b"\xff", None]
XML = [b"<r><t>31</t><t>32</t><alarm level='high'/></r>", b"<r/>", b"<r", b'{"r": 1}', None]
TABLE: list[tuple[str, list[bytes | None], Format | None]] = [
    ("t > 30", JSON, None),
    ("t > 30", JSON, Format.JSON),
    ("has(room) && room == 'hall'", JSON, None),
    ("size(value) == 2 || value == 31", JSON, Format.JSON),
    ("value.contains('1')", JSON, Format.TEXT),
    ("has(t)", JSON, Format.OPAQUE),
    ("true", JSON, Format.JSON),
    ("xpath('//t') == ['31', '32']", XML, None),
    ("xpath('count(//t)') > 1.0 && r.alarm.`@level` == 'high'", XML, Format.XML),
    ("xpath('//t') == [] || true", XML, Format.XML),
]


def expected(text: str, payload: bytes | None, format: Format | None) -> bool | FailureKind:
    if payload is None:
        return FailureKind.UNREADABLE_CONTENT
    found = make_condition(text).holds(Content(payload, format))
    return found.kind if isinstance(found, Failure) else found


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[list[bool | FailureKind]]:
    """For each line of the table, what the condition comes to for each payload."""
    most = max(len(payloads) for _, payloads, _ in TABLE)
    rows = [tuple(payloads[at] if at < len(payloads) else None for _, payloads, _ in TABLE) for at in range(most)]
    table = spark.createDataFrame(rows, ", ".join(f"p{at} binary" for at in range(len(TABLE))))
    columns = [
        condition_column(make_condition(text), None, F.col(f"p{at}"), format=format)
        for at, (text, _, format) in enumerate(TABLE)
    ]
    answers = table.select(*columns).collect()
    return [[outcome(row[at]) for row in answers[: len(payloads)]] for at, (_, payloads, _) in enumerate(TABLE)]


@pytest.mark.parametrize("at", range(len(TABLE)), ids=[f"{text}, {format}" for text, _, format in TABLE])
def test_payloads_come_to_what_they_do_in_a_node(at: int, found: list[list[bool | FailureKind]]) -> None:
    text, payloads, format = TABLE[at]
    assert found[at] == [expected(text, payload, format) for payload in payloads]


@pytest.mark.usefixtures("spark")
def test_content_of_which_nothing_is_declared_is_its_payload() -> None:
    assert explain_column(make_condition("t > 30"), ANYTHING).construct == "content without types"


def test_two_members_with_one_name_are_unreadable(spark: SparkSession) -> None:
    table = spark.createDataFrame([('{"t": 31, "t": 30}',), ('{"t": 31}',)], "text string")
    rows = table.select(condition_column(make_condition("t == 31"), None, F.col("text")).alias("r")).collect()
    assert [outcome(row.r) for row in rows] == [FailureKind.UNREADABLE_CONTENT, True]


def test_text_is_a_payload_too(spark: SparkSession) -> None:
    table = spark.createDataFrame([('{"t": 31}',), ('{"t": "é"}',)], "text string")
    rows = table.select(condition_column(make_condition("t == 31"), None, F.col("text")).alias("r")).collect()
    assert [outcome(row.r) for row in rows] == [True, False]


SCHEMA = StructType([StructField("t", StringType())])


def rows_of(spark: SparkSession, **options: Any) -> list[bool | FailureKind]:
    condition = make_condition("xpath('string(//t)') == '31'")
    content = StructType([StructField("content", SCHEMA), StructField("payload", StringType())])
    table = spark.createDataFrame([({"t": "31"}, "<r><t>31</t></r>"), ({"t": "32"}, "{}")], content)
    column = condition_column(condition, SCHEMA, F.col("content"), **options)
    return [outcome(row.r) for row in table.select(column.alias("r")).collect()]


def test_xpath_beside_columns_asks_the_payload(spark: SparkSession) -> None:
    assert rows_of(spark, payload=F.col("payload")) == [True, FailureKind.UNREADABLE_CONTENT]
    condition = make_condition("t == '' || xpath('//t') == []")
    assert explain_column(condition, SCHEMA, F.col("payload")).construct == "xpath"


def test_xpath_beside_columns_without_a_payload_finds_no_xml(spark: SparkSession) -> None:
    assert rows_of(spark) == [FailureKind.UNREADABLE_CONTENT] * 2
