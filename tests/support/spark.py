"""Conditions on Spark, many at a time: each has its own content in its own column of a table of one row."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, SparkSession
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

from penstock.language.errors import Kind
from penstock.language.tree import Tree
from penstock.language.values import Uint, Value
from penstock.pipeline.columns import Explanation, explained_column

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

    outcome: bool | Kind
    how: Explanation


def answers(spark: SparkSession, questions: Iterable[Question], at_once: int = 50) -> list[Answer]:
    """What each condition comes to; exactly one of value and error has to be there."""
    waiting = list(questions)
    found: list[Answer] = []
    for start in range(0, len(waiting), at_once):
        found += _answered(spark, waiting[start : start + at_once])
    return found


def _answered(spark: SparkSession, questions: list[Question]) -> list[Answer]:
    fields = [
        StructField(f"c{at}", BinaryType() if each.schema is None else each.schema)
        for at, each in enumerate(questions)
    ]
    table = spark.createDataFrame([tuple(each.content for each in questions)], StructType(fields), verifySchema=False)
    columns, explanations = zip(*(each.column(f"c{at}") for at, each in enumerate(questions)), strict=True)
    (row,) = table.select(*(column.alias(f"r{at}") for at, column in enumerate(columns))).collect()
    for each in row:
        assert (each.value is None) is not (each.error is None), f"both or none of value and error: {each}"
    outcomes = [each.value if each.error is None else Kind(each.error) for each in row]
    return [Answer(outcome, how) for outcome, how in zip(outcomes, explanations, strict=True)]
