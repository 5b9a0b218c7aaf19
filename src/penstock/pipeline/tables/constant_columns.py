"""Columns of Parquet files that have one value in all rows, as the files themselves say: they need not be read."""

from collections.abc import Iterable, Mapping

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, IntegralType, StringType, StructType

Alike = bool | int | str | bytes | None


def alike(files: Iterable[pq.FileMetaData], types: StructType) -> dict[str, Alike]:
    """The value of each column that has but one, in all of the files; NULL counts as one."""
    kinds = (BinaryType, BooleanType, IntegralType, StringType)
    names = {field.name for field in types.fields if isinstance(field.dataType, kinds)}
    found: dict[str, Alike] | None = None
    for group in (file.row_group(at) for file in files for at in range(file.num_row_groups)):
        here = _values(group, names)
        found = here if found is None else {name: value for name, value in here.items() if found[name] == value}
        names = set(found)
    return found or {}


def _values(group: pq.RowGroupMetaData, names: Iterable[str]) -> dict[str, Alike]:
    """Those that the rows of one part of a file share. A least and a greatest value that are equal were not cut off."""
    found: dict[str, Alike] = {}
    for column in map(group.column, range(group.num_columns)):
        name, known = column.path_in_schema, column.statistics
        if name not in names or known is None or not known.has_null_count:
            continue
        if known.null_count == group.num_rows:
            found[name] = None
        elif not known.null_count and known.has_min_max and known.min_raw == known.max_raw:
            found[name] = known.min
    return found


def with_values(table: DataFrame, values: Mapping[str, Alike]) -> DataFrame:
    """The table with these columns given, of the same type: what is made of them may be NULL."""
    types = {field.name: field.dataType for field in table.schema.fields}
    given = {name: F.lit(value).cast(types[name]) for name, value in values.items()}
    return table.withColumns({name: F.when(value.isNotNull(), value) for name, value in given.items()})
