"""Conditions on Spark, many at a time: each has its own content in its own column of a table of one row."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from penstock.language.errors import FailureKind
from penstock.language.tree import Tree
from penstock.language.values import Uint, Value
from penstock.pipeline.conditions.columns import Explanation, explained_column

CODEGEN_OFF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def settings(spark: SparkSession, changed: dict[str, str]) -> Iterator[None]:
    """Runs with other settings of the session."""
    before = {key: spark.conf.get(key) for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old or "")


_TYPES: dict[type, DataType] = {
    type(None): NullType(),
    bool: BooleanType(),
    int: LongType(),
    Uint: DecimalType(20, 0),
    float: DoubleType(),
    str: StringType(),
    bytes: BinaryType(),
}


class Untyped(Exception):
    """Content that no columns can hold: a list with elements of different types."""


def column_type_of(value: Value) -> DataType:
    """The type of a column that holds a value exactly; raises `Untyped`."""
    if isinstance(value, dict):
        return StructType([StructField(key, column_type_of(each)) for key, each in value.items()])
    if isinstance(value, list):
        kinds = [column_type_of(each) for each in value if each is not None]
        if any(kind != kinds[0] for kind in kinds):
            raise Untyped
        return ArrayType(kinds[0] if kinds else NullType(), None in value)
    return _TYPES[type(value)]


def as_column(value: Value) -> Any:
    """A value as `createDataFrame` takes it."""
    match value:
        case Uint():
            return Decimal(int(value))
        case dict():
            return {key: as_column(each) for key, each in value.items()}
        case list():
            return [as_column(each) for each in value]
        case _:
            return value


@dataclass(frozen=True)
class Question:
    """A condition, and content: typed if there is a schema, else a payload."""

    tree: Tree
    content: Any
    schema: StructType | None

    def column(self, name: str) -> tuple[Column, Explanation]:
        return explained_column(self.tree, self.schema, F.col(name))


def question(tree: Tree, content: dict[str, Value]) -> Question:
    """The condition over content in columns if there are types for it, else over JSON."""
    try:
        schema = column_type_of(content)
    except Untyped:
        return Question(tree, json.dumps(content).encode(), None)
    assert isinstance(schema, StructType)
    return Question(tree, as_column(content), schema)


@dataclass(frozen=True)
class Answer:
    """What a condition came to, and how."""

    outcome: bool | FailureKind
    how: Explanation


def answers(spark: SparkSession, questions: Iterable[Question], at_once: int = 50) -> list[Answer]:
    """What each condition comes to. Those that are native go together, as do those that are not."""
    asked = [(at, each, *each.column(f"c{at}")) for at, each in enumerate(questions)]
    found: dict[int, Answer] = {}
    for native in (True, False):
        alike = [each for each in asked if each[3].native is native]
        for start in range(0, len(alike), at_once):
            found |= _answered(spark, alike[start : start + at_once])
    return [found[at] for at, *_ in asked]


def _answered(spark: SparkSession, asked: list[tuple[int, Question, Column, Explanation]]) -> dict[int, Answer]:
    types = [BinaryType() if each.schema is None else each.schema for _, each, _, _ in asked]
    fields = [StructField(f"c{at}", type_) for (at, *_), type_ in zip(asked, types, strict=True)]
    table = spark.createDataFrame(
        [tuple(each.content for _, each, _, _ in asked)], StructType(fields), verifySchema=False
    )
    (row,) = table.select(*(column.alias(f"r{at}") for at, _, column, _ in asked)).collect()
    return {at: Answer(outcome(found), how) for (at, _, _, how), found in zip(asked, row, strict=True)}


def outcome(found: Row) -> bool | FailureKind:
    """What a row of a condition's column says: exactly one of value and error."""
    assert (found.value is None) is not (found.error is None), f"both or none of value and error: {found}"
    return bool(found.value) if found.error is None else FailureKind(found.error)
