"""Small tables, asked as those of Spark are: what is asked for is worked out at once, in this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.pipeline.tables.small.column import (
    Column,
    Equal,
    Exploded,
    Name,
    asked,
    elements,
    literal,
    named,
    unpacked,
)
from penstock.pipeline.tables.small.grouped import SmallAggregate, groups, order

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SmallSession:
    """Makes tables."""

    def createDataFrame(self, rows: pa.Table, schema: object = None) -> "SmallTable":
        return SmallTable(rows)


class SmallTable:
    """Rows with named columns."""

    sparkSession = SmallSession()

    def __init__(self, rows: pa.Table) -> None:
        plain = pa.schema([pa.field(field.name, field.type) for field in rows.schema])
        self._rows = pa.table([_whole(column) for column in rows.columns], schema=plain)

    @property
    def columns(self) -> list[str]:
        return list(self._rows.column_names)

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def __getitem__(self, name: str) -> Column:
        return named(name)

    # --- columns

    def select(self, *columns: Name) -> "SmallTable":
        return self._of(list(unpacked(columns, self._rows)))

    def withColumn(self, name: str, column: Column) -> "SmallTable":
        return self.withColumns({name: column})

    def withColumns(self, columns: dict[str, Column]) -> "SmallTable":
        kept = [columns.get(name, named(name)) for name in self.columns]
        more = [name for name in columns if name not in self.columns]
        return self._of([*kept, *(columns[name] for name in more)], [*self.columns, *more])

    def drop(self, *names: str) -> "SmallTable":
        return SmallTable(self._rows.select([name for name in self.columns if name not in names]))

    def toDF(self, *names: str) -> "SmallTable":
        return SmallTable(self._rows.rename_columns(list(names)))

    def _of(self, columns: Sequence[Column], names: Sequence[str] = ()) -> "SmallTable":
        made = [column.of(self._rows) for column in columns]
        exploding = [at for at, column in enumerate(columns) if isinstance(column, Exploded)]
        if exploding:
            (at,) = exploding
            values, parents = elements(made[at])
            made = [values if at == other else column.take(parents) for other, column in enumerate(made)]
        return SmallTable(pa.table(made, names=list(names) or [column.name for column in columns]))

    # --- rows

    def filter(self, condition: Column | str) -> "SmallTable":
        text = condition if isinstance(condition, str) else ""
        if text.endswith(" IS NULL"):
            condition = named(text.removesuffix(" IS NULL")).isNull()
        return SmallTable(self._rows.filter(asked(condition).of(self._rows)))

    def limit(self, num: int) -> "SmallTable":
        return SmallTable(self._rows.slice(0, num))

    def distinct(self) -> "SmallTable":
        firsts, _ = groups([column.chunk(0) for column in self._rows.columns] if self._rows.num_rows else [], 0)
        return self._taken(firsts) if self._rows.num_rows else self

    def orderBy(self, *columns: Name) -> "SmallTable":
        return self._taken(order(self._rows, columns))

    sortWithinPartitions = orderBy

    def repartition(self, *columns: Name) -> "SmallTable":
        return self

    def coalesce(self, parts: int) -> "SmallTable":
        return self

    def localCheckpoint(self, storageLevel: object = None) -> "SmallTable":
        return self

    def unionByName(self, other: "SmallTable", allowMissingColumns: bool = False) -> "SmallTable":
        missing = set(self.columns) ^ set(other.columns)
        if missing and not allowMissingColumns:
            raise ValueError(f"only one of two tables has {', '.join(sorted(missing))}")
        return SmallTable(pa.concat_tables([self._rows, other._rows], promote_options="permissive"))

    def mapInArrow(self, work: Work, schema: object) -> "SmallTable":
        given = self._rows.to_batches() or [pa.RecordBatch.from_pylist([], self._rows.schema)]
        made = pa.Table.from_batches(list(work(iter(given))))
        if isinstance(schema, StructType):
            schema = to_arrow_schema(schema, timezone="UTC")
        return SmallTable(made.cast(_nullable(schema)) if isinstance(schema, pa.Schema) else made)

    def join(
        self, other: "SmallTable", on: "str | list[str] | list[Column] | Column", how: str = "inner"
    ) -> "SmallTable":
        given = on if isinstance(on, list) else [on]
        by = [pair for key in given for pair in ([Equal(key, key, False)] if isinstance(key, str) else key.equals)]
        if not by or not all(isinstance(key, str) or key.equals for key in given):
            raise ValueError("tables are joined by columns that are equal")
        mine, its = self._keys([pair.left for pair in by]), other._keys([pair.right for pair in by])
        places = dict[tuple[object, ...], list[int]]()
        for at, key in enumerate(its):
            places.setdefault(key, []).append(at)
        pairs = list[tuple[int, int | None]]()
        for at, key in enumerate(mine):
            is_known = all(value is not None or pair.null_safe for value, pair in zip(key, by, strict=True))
            matching = places.get(key, []) if is_known else []
            pairs += [(at, place) for place in matching] or ([(at, None)] if how == "left" else [])
        left, right = self._taken([at for at, _ in pairs]), other._taken([at for _, at in pairs])
        names = [name for name in given if isinstance(name, str)]
        first = [*names, *(name for name in left.columns if name not in names)]
        kept = [name for name in right.columns if name not in names]
        columns = [*(left._rows[name] for name in first), *(right._rows[name] for name in kept)]
        return SmallTable(pa.table(columns, names=[*first, *kept]))

    def _keys(self, names: list[str]) -> list[tuple[object, ...]]:
        return list(zip(*(self._rows[name].to_pylist() for name in names), strict=True))

    def _taken(self, places: Sequence[int | None]) -> "SmallTable":
        return SmallTable(self._rows.take(pa.array(places, pa.int64())))

    # --- groups of rows

    def groupBy(self, *columns: Name) -> "Grouped":
        return Grouped(self._rows, [asked(name) for name in columns])

    def agg(self, *columns: SmallAggregate) -> "SmallTable":
        return Grouped(self._rows, []).agg(*columns)

    # --- out of it

    def count(self) -> int:
        return int(self._rows.num_rows)

    def toArrow(self) -> pa.Table:
        return self._rows

    def collect(self) -> list[Row]:
        return [_row(row) for row in self._rows.to_pylist()]


class Grouped:
    """The rows of a table that have the same in some columns."""

    def __init__(self, rows: pa.Table, by: Sequence[Column]) -> None:
        self._rows = rows
        self._by = by

    def agg(self, *columns: SmallAggregate) -> SmallTable:
        keys = [column.of(self._rows) for column in self._by]
        firsts, at = groups(keys, self._rows.num_rows)
        first = pa.array(firsts, pa.int64())
        made = [
            *(key.take(first) for key in keys),
            *(column.of_groups(self._rows, at, len(firsts)) for column in columns),
        ]
        return SmallTable(pa.table(made, names=[column.name for column in (*self._by, *columns)]))

    def count(self) -> SmallTable:
        return self.agg(SmallAggregate(literal(1), "count", "count"))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _row(values: dict[str, Any]) -> Row:
    return Row(**{name: _row(value) if isinstance(value, dict) else value for name, value in values.items()})
