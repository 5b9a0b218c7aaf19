"""What of a journal cannot be read is in the quarantine, with the reason; what can be read is in the events."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.journal.format import SCHEMA, schema_of
from penstock.journal.write.segment import Segment
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.journal_stream import JournalReader
from penstock.pipeline.tables.tables import EVENT_TYPES
from tests.support.memory.journals import NOON, gathered, rows, write_segments

HOME = Path("node=n/date=2023-11-15")


def _broken_off(folder: Path) -> None:
    write_segments(folder, [rows(*((f"t/{at}", b"x" * 100) for at in range(50)))])
    (path,) = (folder / HOME).glob("*.arrow")
    path.write_bytes(path.read_bytes()[:-1000])


def _of_another_version(folder: Path) -> None:
    (folder / HOME).mkdir(parents=True)
    schema = SCHEMA.with_metadata({**(schema_of("n", "d").metadata or {}), b"penstock.journal": b"99"})
    with pa.OSFile(str(folder / HOME / "0000000000000000-1.arrow"), "wb") as file, pa.ipc.new_stream(file, schema):
        pass


def _no_segment(folder: Path) -> None:
    (folder / HOME).mkdir(parents=True)
    (folder / HOME / "0000000000000000-1.arrow").write_bytes(b"this is no segment")


def _no_event(folder: Path) -> None:
    write_segments(folder, [gathered([b"\x10\x00"])])


def _gap(folder: Path) -> None:
    segment = Segment(folder, "n", "test", 0, NOON)
    segment.gap(0, NOON, 17)
    segment.seal()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_broken_off, "it breaks off"),
        (_of_another_version, "99"),
        (_no_segment, ""),
        (_no_event, "it is not a PUBLISH packet"),
        (_gap, "17"),
    ],
    ids=["breaks off", "another version", "no segment", "no event", "a gap"],
)
def test_what_cannot_be_read_has_a_reason(damage: object, reason: str, spark: SparkSession, tmp_path: Path) -> None:
    assert callable(damage)
    damage(tmp_path / "j")
    (lost,) = tables.quarantine(spark, tmp_path / "j").collect()
    assert lost["node"] == "n"
    assert lost["problem"]
    assert reason in lost["problem"]
    assert "\n" not in lost["problem"]
    options = {"path": str(tmp_path / "j"), "quarantine": str(tmp_path / "q")}
    reader = JournalReader(EVENT_TYPES, options)
    for partition in reader.partitions({}, reader.latestOffset({}, ReadAllAvailable())):
        list(reader.read(partition))
    (file,) = (tmp_path / "q").glob("*.parquet")
    assert pq.read_table(file)["problem"].to_pylist() == [lost["problem"]], "a stream sets the same aside"


def test_a_file_that_comes_too_late_for_a_stream_is_missed_aloud(tmp_path: Path) -> None:
    write_segments(tmp_path / "j", *([rows((f"t/{at}", b"x"))] for at in range(3)))
    late = sorted((tmp_path / "j").rglob("*.arrow"))[1]
    late.rename(tmp_path / late.name)
    reader = JournalReader(EVENT_TYPES, {"path": str(tmp_path / "j"), "quarantine": str(tmp_path / "q")})
    end = reader.latestOffset({}, ReadAllAvailable())
    read = [batch for partition in reader.partitions({}, end) for batch in reader.read(partition)]
    assert sorted(pa.Table.from_batches(read)["topic"].to_pylist()) == ["t/0", "t/2"]
    (tmp_path / late.name).rename(late)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    (file,) = (tmp_path / "q").glob("*.parquet")
    (lost,) = pq.read_table(file).to_pylist()
    assert lost["seq"] == int(late.name.split("-")[0])
    assert "are in no file: it is lost, or comes too late" in lost["problem"]
