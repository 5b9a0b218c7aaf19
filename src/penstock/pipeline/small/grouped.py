"""What is asked of several rows at a time: sums and the like over groups, and places in an order."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.pipeline.distinct import distinct
from penstock.pipeline.small.column import Column, Name, Rows, asked


def groups(keys: Sequence[pa.Array], count: int) -> tuple[list[int], list[int]]:
    """Of so many rows, where each combination of keys is for the first time; and for each row which of these it is."""
    if not keys:
        return [0], [0] * count
    batch = pa.RecordBatch.from_arrays(list(keys), [str(at) for at in range(len(keys))])
    firsts, at = distinct(batch)
    return firsts.tolist(), at.tolist()


def order(rows: Rows, by: Sequence[Name]) -> list[int]:
    """The rows in order; NULL is less than anything."""
    found = list(range(rows.num_rows))
    for one in reversed([asked(name) for name in by]):
        values = [(value is not None, value) for value in one.of(rows).to_pylist()]
        found.sort(key=values.__getitem__, reverse=one.is_down)
    return found


class Window:
    """Rows with the same in some columns, in an order."""

    def __init__(self, parts: Sequence[Name], by: Sequence[Name] = ()) -> None:
        self._parts = parts
        self._by = by

    @classmethod
    def partitionBy(cls, *names: Name) -> "Window":
        return cls(names)

    def orderBy(self, *names: Name) -> "Window":
        return Window(self._parts, names)

    def members(self, rows: Rows) -> list[list[int]]:
        """The rows of each, in order."""
        firsts, at = groups([asked(name).of(rows) for name in self._parts], rows.num_rows)
        found: list[list[int]] = [[] for _ in firsts]
        for row in order(rows, self._by):
            found[at[row]].append(row)
        return found

    def ordered_by(self, rows: Rows) -> list[list[Any]]:
        """The columns that rows are ordered by."""
        return [asked(name).of(rows).to_pylist() for name in self._by]


class Aggregate(Column):
    """One value of many, those that are not NULL."""

    def __init__(
        self, of: Column, work: Callable[[list[Any]], Any], name: str, kind: pa.DataType | None = None
    ) -> None:
        super().__init__(self._alone, name)
        self._column = of
        self._work = work
        self._kind = kind

    def alias(self, name: str) -> "Aggregate":
        return Aggregate(self._column, self._work, name, self._kind)

    def over(self, window: Window) -> Column:
        def of(rows: Rows) -> pa.Array:
            members = window.members(rows)
            values = self.of_groups(rows, members)
            found: list[int] = [0] * rows.num_rows
            for at, group in enumerate(members):
                for row in group:
                    found[row] = at
            return values.take(pa.array(found, pa.int64()))

        return Column(of, self.name)

    def of_groups(self, rows: Rows, members: Sequence[Sequence[int]]) -> pa.Array:
        """The value of each group of rows."""
        asked_of = self._column.of(rows)
        values = asked_of.to_pylist()
        found = [self._work([values[row] for row in group if values[row] is not None]) for group in members]
        return pa.array(found, self._kind or asked_of.type)

    def _alone(self, rows: Rows) -> pa.Array:
        raise TypeError(f"`{self.name}` is asked of groups of rows")


class RowNumber:
    """The place of a row, from 1 on."""

    def over(self, window: Window) -> Column:
        def of(rows: Rows) -> pa.Array:
            found = [0] * rows.num_rows
            for group in window.members(rows):
                for place, row in enumerate(group, 1):
                    found[row] = place
            return pa.array(found, pa.int32())

        return Column(of, "row_number")


class DenseRank:
    """The same, where rows that are alike in the order have one place."""

    def over(self, window: Window) -> Column:
        def of(rows: Rows) -> pa.Array:
            found = [0] * rows.num_rows
            by = list(zip(*window.ordered_by(rows), strict=True))
            for group in window.members(rows):
                place, last = 0, None
                for row in group:
                    place += last is None or by[row] != by[last]
                    found[row], last = place, row
            return pa.array(found, pa.int32())

        return Column(of, "dense_rank")
