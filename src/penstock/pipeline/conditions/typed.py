"""Conditions on typed content, as Spark's own expressions: for rows whose content is in a column.

A column of typed content is all that the payload says, or NULL. So where it is not NULL a condition can be asked of it;
the other rows, and conditions that have no native form, are left to `stages/match.py`.
"""

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, StructType

from penstock.language.parser import parse
from penstock.language.tree import Attribute, Has, walk
from penstock.pipeline.conditions.columns import native_holds
from penstock.pipeline.conditions.forms import ADDED, ConditionForms, Form

MAX_BRANCHES = 16
"""More than so many expressions, and Spark takes longer to compile them than it saves."""
MAX_CONDITIONS = 5_000
"""More than so many, and it takes longer to read them than it saves."""
_IS_THERE = "has_"


def narrowed(table: DataFrame, columns: Iterable[str], texts: Iterable[str]) -> list[Column]:
    """Return columns of typed content with the attributes alone that conditions ask for, so that no others are read.

    Each has a column beside it, which says whether there is typed content.
    """
    trees = [parse(text) for text in texts]
    asked = {node.name for tree in trees for node, _ in walk(tree) if isinstance(node, Attribute | Has)}
    narrow = list[Column]()
    for name in columns:
        fields = _struct(table, name).names
        kept = [field for field in fields if field in asked] or fields[:1]
        content = F.col(name)
        narrow.append(F.struct(*(content.getField(field).alias(field) for field in kept)).alias(name))
        narrow.append(content.isNotNull().alias(_IS_THERE + name))
    return narrow


def without(table: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Return the table without columns of typed content."""
    return table.drop(*(column for name in columns for column in (name, _IS_THERE + name)), *ADDED)


class TypedConditions:
    """Conditions, by their texts, over the columns of typed content of a table, which are `narrowed`."""

    def __init__(self, table: DataFrame, columns: tuple[str, ...], texts: Iterable[str], are_all: bool) -> None:
        """`are_all`: no row has another condition."""
        trees = {text: parse(text) for text in texts}
        forms = [Form(tree, F.col("where") == text) for text, tree in trees.items()]
        self._columns = columns
        self._forms = ConditionForms(trees) if len(forms) > MAX_BRANCHES else None
        if self._forms is not None:
            forms = self._forms.forms
        branches = list[tuple[Column, Column]]()
        if len(forms) * len(columns) <= MAX_BRANCHES:
            for name in columns:
                schema = _struct(table, name)
                for form in forms:
                    outcome = native_holds(form.tree, schema, F.col(name), form.given)
                    if outcome is not None:
                        branches.append((form.applies & _is_there(name), outcome))
        self._branches = branches
        self._decides_all = are_all and len(branches) == len(columns) * len(forms)

    def __bool__(self) -> bool:
        return bool(self._branches)

    def beside(self, table: DataFrame) -> DataFrame:
        """Return the table with what `split` and `holds` ask for."""
        return table if self._forms is None else self._forms.beside(table)

    def split(self, table: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return the rows whose condition, which is in `where`, can be asked so, or that have none; and the others."""
        if self._decides_all:  # said so that Spark can leave out whole parts of files
            others = table.filter(F.col("where").isNotNull())
            for name in self._columns:
                others = others.filter(_is_missing(table, name))
            is_typed = reduce(or_, map(_is_there, self._columns), F.lit(False))
            return table.filter(F.col("where").isNull() | is_typed), others
        decided = (F.coalesce(applies, F.lit(False)) for applies, _ in self._branches)
        is_decided = reduce(or_, decided, F.col("where").isNull())
        return table.filter(is_decided), table.filter(~is_decided)

    def holds(self) -> Column:
        """Return whether the condition is true, of a row that it applies to."""
        holds = F.lit(False)
        for applies, outcome in self._branches:
            holds = F.when(applies, outcome).otherwise(holds)
        return holds


def _struct(table: DataFrame, name: str) -> StructType:
    schema = table.schema[name].dataType
    assert isinstance(schema, StructType)
    return schema


def _is_there(name: str) -> Column:
    """Return whether there is typed content; for what monitors made anew the column is NULL."""
    return F.coalesce(F.col(_IS_THERE + name), F.lit(False))


def _is_missing(table: DataFrame, name: str) -> Column:
    """Return whether there is no typed content, in terms of its attributes too: files count the NULLs of each."""
    fields = (field for field in _struct(table, name).fields[:MAX_BRANCHES] if isinstance(field.dataType, AtomicType))
    return reduce(and_, (F.col(name).getField(field.name).isNull() for field in fields), ~_is_there(name))
