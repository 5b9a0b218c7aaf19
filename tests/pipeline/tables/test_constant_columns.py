"""Columns that need not be read: what files say of them is so."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.testing import assertDataFrameEqual

from penstock.pipeline.tables.constant_columns import alike, with_values

LONG = "long" * 10_000
"""Files do not say what the least is of such values."""
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "b", "a\0", "\N{GRINNING FACE}", LONG]),
    "bytes": (pa.binary(), [b"", b"a", b"\xff"]),
    "small": (pa.int8(), [-1, 0, 1]),
    "large": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "flag": (pa.bool_(), [False, True]),
    "number": (pa.float64(), [0.0, -0.0, float("nan")]),
    "several": (pa.list_(pa.string()), [[], ["a"]]),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
READ = ("number", "several")
"""Columns of types that are read in any case."""


def _column(values: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Values for four parts of three rows each, of which few are others than the first, if any."""
    some = st.sampled_from([*values, None])
    alike = some.map(lambda value: [value] * 12)
    but_one = st.tuples(alike, st.integers(0, 11), some).map(lambda it: [*it[0][: it[1]], it[2], *it[0][it[1] + 1 :]])
    return alike | but_one | st.lists(some, min_size=12, max_size=12)


tables = st.fixed_dictionaries({name: _column(values) for name, (_, values) in COLUMNS.items()})


def written(folder: Path, columns: dict[str, list[Any]]) -> list[Path]:
    """Two files of two parts each."""
    table, paths = pa.table(columns, SCHEMA), [folder / "0.parquet", folder / "1.parquet"]
    for at, path in enumerate(paths):
        pq.write_table(table.slice(6 * at, 6), path, row_group_size=3)
    return paths


def said(paths: list[Path]) -> dict[str, Any]:
    return alike(map(pq.read_metadata, paths), from_arrow_schema(SCHEMA))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables)
def test_what_all_rows_have(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    one = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    assert said(written(tmp_path, columns)) == {
        name: value for name, value in one.items() if name not in READ and value != LONG
    }


def test_no_files() -> None:
    assert said([]) == {}


def test_files_without_rows(tmp_path: Path) -> None:
    pq.write_table(SCHEMA.empty_table(), tmp_path / "0.parquet")
    assert said([tmp_path / "0.parquet"]) == {}


@pytest.mark.parametrize("which", [0, 1, -1], ids=["the first", "the second", "NULL"])
def test_the_table_is_the_same(spark: SparkSession, tmp_path: Path, which: int) -> None:
    columns = {name: [[*values, None][which]] * 12 for name, (_, values) in COLUMNS.items()}
    paths = written(tmp_path, columns)
    table = spark.read.parquet(*map(str, paths))
    values = said(paths)
    assert set(values) == COLUMNS.keys() - READ
    given = with_values(table, values)
    assert given.schema == table.schema
    assertDataFrameEqual(given, table)
