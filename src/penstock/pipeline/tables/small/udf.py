"""Functions over Arrow batches as functions of columns."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.pipeline.tables.small.column import Column, Rows

Work = Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]


class arrow_udf:
    """A function that is given all columns of a batch, and gives one."""

    def __init__(self, work: Work, kind: str) -> None:
        self._work = work

    def asNondeterministic(self) -> "arrow_udf":
        return self

    def __call__(self, *columns: Column) -> Column:
        def of(rows: Rows) -> pa.Array:
            (made,) = self._work(iter([tuple(column.of(rows) for column in columns)]))
            return made

        return Column(of, "udf")
