"""What columns are made of: functions of Spark, or, for a table of few rows, our own (`small/`).

Jobs say once what they ask of tables. Both understand it, and what one says the other says too: that is tested.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql import window as spark_window
from pyspark.sql.pandas import functions as spark_arrow

from penstock.pipeline.tables.small import functions as small
from penstock.pipeline.tables.small import grouped, table, udf

__all__ = ["F", "Window", "arrow_udf", "small_table", "small_tables"]

_is_small = ContextVar("_is_small", default=False)


@contextmanager
def small_tables() -> Iterator[None]:
    """Make columns of small tables within the context."""
    token = _is_small.set(True)
    try:
        yield
    finally:
        _is_small.reset(token)


def small_table(rows: pa.Table) -> "DataFrame":
    """Return a small table, which is asked as one of Spark's."""
    return cast("DataFrame", table.SmallTable(rows))


class _Chosen:
    """The members of one module or of the other."""

    def __init__(self, of_spark: object, of_small: object) -> None:
        self._of_spark = of_spark
        self._of_small = of_small

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_small if _is_small.get() else self._of_spark, name)


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import arrow_udf
else:
    F = _Chosen(functions, small)
    Window = _Chosen(spark_window.Window, grouped.SmallWindow)

    def arrow_udf(work, kind):
        """Return a function over Arrow batches as one of columns."""
        return (udf.arrow_udf if _is_small.get() else spark_arrow.arrow_udf)(work, kind)
