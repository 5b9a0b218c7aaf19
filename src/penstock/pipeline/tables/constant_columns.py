"""Columns of Parquet files that have one value in all rows, as the files themselves say: they need not be read."""

from collections.abc import Iterable, Mapping

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, IntegralType, StringType, StructType

Alike = bool | int | str | bytes | None


def alike(files: Iterable[pq.FileMetaData], types: StructType) -> dict[str, Alike]:
    """Return the value of each column that has but one, in all of the files; NULL counts as one."""
    kinds = (BinaryType, BooleanType, IntegralType, StringType)
    names = {field.name for field in types.fields if isinstance(field.dataType, kinds)}
    values: dict[str, Alike] | None = None
    for group in (file.row_group(at) for file in files for at in range(file.num_row_groups)):
        here = _values(group, names)
        values = here if values is None else {name: value for name, value in here.items() if values[name] == value}
        names = set(values)
    return values or {}


def _values(group: pq.RowGroupMetaData, names: Iterable[str]) -> dict[str, Alike]:
    """Return the values that all rows of a part of a file share: equal bounds that were not cut off."""
    values: dict[str, Alike] = {}
    for column in map(group.column, range(group.num_columns)):
        name, known = column.path_in_schema, column.statistics
        if name not in names or known is None or not known.has_null_count:
            continue
        if known.null_count == group.num_rows:
            values[name] = None
        elif not known.null_count and known.has_min_max and known.min_raw == known.max_raw:
            values[name] = known.min
    return values


def with_values(table: DataFrame, values: Mapping[str, Alike]) -> DataFrame:
    """Return the table with these columns given, of the same type: what is made of them may be NULL."""
    types = {field.name: field.dataType for field in table.schema.fields}
    given = {name: F.lit(value).cast(types[name]) for name, value in values.items()}
    return table.withColumns({name: F.when(value.isNotNull(), value) for name, value in given.items()})
