"""What is asked of several rows at a time: sums and the like over groups, and places in an order."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.pipeline.tables.distinct import distinct
from penstock.pipeline.tables.small.column import Column, Name, Rows, asked


def groups(keys: Sequence[pa.Array], count: int) -> tuple[list[int], list[int]]:
    """Return where each combination of keys is for the first time, and for each row which of these it has."""
    if not keys:
        return [0], [0] * count
    batch = pa.RecordBatch.from_arrays(list(keys), [str(at) for at in range(len(keys))])
    firsts, at = distinct(batch)
    return firsts.tolist(), at.tolist()


def order(rows: Rows, by: Sequence[Name]) -> list[int]:
    """Return the rows in order; NULL is less than anything."""
    places = list(range(rows.num_rows))
    for column in reversed([asked(name) for name in by]):
        values = [(value is not None, value) for value in column.of(rows).to_pylist()]
        places.sort(key=values.__getitem__, reverse=column.is_down)
    return places


class SmallWindow:
    """Rows with the same in some columns, in an order."""

    def __init__(self, parts: Sequence[Name], by: Sequence[Name] = ()) -> None:
        self._parts = parts
        self._by = by

    @classmethod
    def partitionBy(cls, *names: Name) -> "SmallWindow":
        return cls(names)

    def orderBy(self, *names: Name) -> "SmallWindow":
        return SmallWindow(self._parts, names)

    def groups(self, rows: Rows) -> tuple[list[int], list[int]]:
        """Return the groups of the rows of a table, as `groups` does."""
        return groups([asked(name).of(rows) for name in self._parts], rows.num_rows)

    def members(self, rows: Rows) -> list[list[int]]:
        """Return the rows of each group, in order."""
        firsts, at = self.groups(rows)
        members: list[list[int]] = [[] for _ in firsts]
        for row in order(rows, self._by):
            members[at[row]].append(row)
        return members

    def ordered_by(self, rows: Rows) -> list[list[Any]]:
        """Return the columns that rows are ordered by."""
        return [asked(name).of(rows).to_pylist() for name in self._by]


_SLOWLY: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: sum(values) if values else None,
    "max": lambda values: max(values, default=None),
    "min": lambda values: min(values, default=None),
}


class SmallAggregate(Column):
    """One value of many, those that are not NULL: `count`, `sum`, `max` or `min`."""

    def __init__(self, of: Column, what: str, name: str = "") -> None:
        super().__init__(self._alone, name or f"{what}({of.name})")
        self._column = of
        self._what = what

    def alias(self, name: str) -> "SmallAggregate":
        return SmallAggregate(self._column, self._what, name)

    def over(self, window: SmallWindow) -> Column:
        def of(rows: Rows) -> pa.Array:
            firsts, at = window.groups(rows)
            return self.of_groups(rows, at, len(firsts)).take(pa.array(at, pa.int64()))

        return Column(of, self.name)

    def of_groups(self, rows: Rows, at: Sequence[int], count: int) -> pa.Array:
        """Return the value of each of so many groups, given the group of each row."""
        asked_of = self._column.of(rows)
        kind = asked_of.type if self._what in ("max", "min") else pa.int64()
        if pa.types.is_list(asked_of.type) or not at:  # Arrow has no order of lists, and no group without rows
            values: list[list[Any]] = [[] for _ in range(count)]
            for group, value in zip(at, asked_of.to_pylist(), strict=True):
                if value is not None:
                    values[group].append(value)
            return pa.array(map(_SLOWLY[self._what], values), kind, size=count)
        grouped = pa.table({"group": pa.array(at, pa.int64()), "value": asked_of}).group_by("group")
        totals = grouped.aggregate([("value", self._what)]).sort_by("group")
        return totals[f"value_{self._what}"].combine_chunks().cast(kind)

    def _alone(self, rows: Rows) -> pa.Array:
        raise TypeError(f"`{self.name}` is asked of groups of rows")


class RowNumber:
    """The place of a row, from 1 on."""

    def over(self, window: SmallWindow) -> Column:
        def of(rows: Rows) -> pa.Array:
            numbers = [0] * rows.num_rows
            for group in window.members(rows):
                for place, row in enumerate(group, 1):
                    numbers[row] = place
            return pa.array(numbers, pa.int32())

        return Column(of, "row_number")


class DenseRank:
    """The same, where rows that are alike in the order have one place."""

    def over(self, window: SmallWindow) -> Column:
        def of(rows: Rows) -> pa.Array:
            ranks = [0] * rows.num_rows
            by = list(zip(*window.ordered_by(rows), strict=True))
            for group in window.members(rows):
                place, last = 0, None
                for row in group:
                    place += last is None or by[row] != by[last]
                    ranks[row], last = place, row
            return pa.array(ranks, pa.int32())

        return Column(of, "dense_rank")
