"""Conditions that differ only in the constants that something is compared with: they have one form.

So a thousand bounds for a thousand topics are one expression of Spark's, and a small table of constants that is joined
by the text of the condition.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.language import types
from penstock.language.parser import parse
from penstock.language.tree import EQUALITY, ORDER, Binary, Literal, Tree, Variable, rebuilt
from penstock.language.types import ScalarType
from penstock.pipeline.conditions.native.parts import ColumnCell, Part

_KINDS: dict[str, tuple[ScalarType, str]] = {
    "double": (types.DOUBLE, "double"),
    "int": (types.INT, "bigint"),
    "string": (types.STRING, "string"),
}
"""Kinds of constants that are taken out, and what they are in columns."""
_TEXT, _FORM, _GIVEN = "form_of", "form", "given_"
ADDED = (_TEXT, _FORM, *(_GIVEN + kind for kind in _KINDS))
"""Columns that `ConditionForms.beside` adds."""

Constants = dict[str, list[object]]


class Form(NamedTuple):
    """A condition with variables in place of constants."""

    tree: Tree
    applies: Column
    """To a row with what is given beside it."""

    @property
    def given(self) -> dict[str, Part]:
        """Return the values of its variables."""
        parts: dict[str, Part] = {}

        def note(node: Tree) -> Tree:
            if isinstance(node, Variable) and " " in node.name:
                kind, _, place = node.name.partition(" ")
                parts[node.name] = ColumnCell(_KINDS[kind][0], F.get(F.col(_GIVEN + kind), F.lit(int(place))))
            return node

        rebuilt(self.tree, note)
        return parts


class ConditionForms:
    """The forms of conditions, which are given by their texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._numbers: dict[Tree, int] = {}
        self._rows = list[tuple[object, ...]]()
        for text in texts:
            tree, constants = taken_apart(parse(text))
            number = self._numbers.setdefault(tree, len(self._numbers))
            self._rows.append((text, number, *(constants[kind] for kind in _KINDS)))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def forms(self) -> list[Form]:
        return [Form(tree, F.col(_FORM) == number) for tree, number in self._numbers.items()]

    def beside(self, table: DataFrame) -> DataFrame:
        """Return the table with the form of the condition in `where`, and its constants, beside it."""
        named = F.broadcast(_table(table.sparkSession, self._rows))
        return table.join(named, table["where"] == named[_TEXT], "left")


def _table(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    given = ", ".join(f"{_GIVEN}{kind} array<{column}>" for kind, (_, column) in _KINDS.items())
    return spark.createDataFrame(rows, f"{_TEXT} string, {_FORM} int, {given}")


def taken_apart(tree: Tree) -> tuple[Tree, Constants]:
    """Return the form of a condition, and its constants by kind, in the order of their variables."""
    constants: Constants = {kind: [] for kind in _KINDS}

    def change(node: Tree) -> Tree:
        if not isinstance(node, Binary) or node.operator not in (*ORDER, *EQUALITY):
            return node
        if isinstance(node.left, Literal) == isinstance(node.right, Literal):
            return node
        left, right = (_variable(side, constants) for side in (node.left, node.right))
        return Binary(node.operator, rebuilt(left, change), rebuilt(right, change), at=node.at)

    return rebuilt(tree, change), constants


def _variable(side: Tree, constants: Constants) -> Tree:
    if not isinstance(side, Literal) or side.kind not in constants:
        return side
    constants[side.kind].append(side.value)
    return Variable(f"{side.kind} {len(constants[side.kind]) - 1}")
