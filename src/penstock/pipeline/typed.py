"""Conditions on typed content, as Spark's own expressions: for rows whose content is in a column.

A column of typed content is all that the payload says, or NULL. So where it is not NULL a condition can be asked of it;
the other rows, and conditions that have no native form, are left to `satisfied.py`.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.language.condition import condition_of
from penstock.language.parser import parse
from penstock.pipeline.columns import explain_column, holds

MOST_BRANCHES = 16
"""More than so many expressions, and Spark takes longer to compile them than it saves."""


class TypedConditions:
    """Conditions, by their texts, over the columns of typed content of a table."""

    def __init__(self, table: DataFrame, columns: tuple[str, ...], texts: Iterable[str], are_all: bool) -> None:
        """`are_all`: no row has another condition."""
        conditions = {text: condition_of(parse(text)) for text in texts}
        self._columns = columns
        branches = list[tuple[Column, Column]]()
        for name in columns:
            schema = table.schema[name].dataType
            assert isinstance(schema, StructType)
            for text, condition in conditions.items():
                if explain_column(condition, schema, F.col("payload")).native:
                    applies = (F.col("where") == text) & F.col(name).isNotNull()
                    branches.append((applies, holds(condition, schema, F.col(name))))
        self._branches = branches if len(branches) <= MOST_BRANCHES else []
        self._decides_all = are_all and len(self._branches) == len(columns) * len(conditions)

    def __bool__(self) -> bool:
        return bool(self._branches)

    def split(self, table: DataFrame) -> tuple[DataFrame, DataFrame]:
        """The rows whose condition, which is in `where`, can be asked so, or that have none; and the others."""
        if self._decides_all:  # said so that Spark can leave out whole parts of files
            others = table.filter(F.col("where").isNotNull())
            for name in self._columns:
                others = others.filter(F.col(name).isNull())
            is_typed = F.lit(False)
            for name in self._columns:
                is_typed = is_typed | F.col(name).isNotNull()
            return table.filter(F.col("where").isNull() | is_typed), others
        found = F.col("where").isNull()
        for applies, _ in self._branches:
            found = found | F.coalesce(applies, F.lit(False))
        return table.filter(found), table.filter(~found)

    def holds(self) -> Column:
        """Whether it is true, of a row that it applies to."""
        found = F.lit(False)
        for applies, outcome in self._branches:
            found = F.when(applies, outcome).otherwise(found)
        return found
