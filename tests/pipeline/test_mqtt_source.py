"""`spark.readStream.format("mqtt")`: beside Mosquitto and a node, what was published is there, at least once."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.source import MqttReader, MqttSource, register
from penstock.pipeline.spool import Message, Spool
from tests.support.mosquitto import HOST, mosquitto
from tests.support.node import running
from tests.support.paho import Paho

OPTIONS = {"host": HOST, "client_id": "spark", "topics": "t/#, u"}


def _message(number: int, size: int = 8) -> Message:
    return Message(number, "t", b"%d" % number * size, 1, False, None, b"", None, number)


# --- the spool


def test_a_spool_goes_on_where_it_was(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert [spool.append(_message(number)) for number in range(3)] == [0, 1, 2]
    spool.commit(1)
    spool.close()
    again = Spool(tmp_path)
    assert (again.committed, again.next) == (1, 3)
    assert again.append(_message(3)) == 3
    assert list(again.read(1, 4)) == [_message(number) for number in (1, 2, 3)]


def test_a_spool_that_was_cut_anywhere_has_what_is_whole(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        spool.append(_message(number))
    spool.close()
    (path,) = tmp_path.glob("*.spool")
    data = path.read_bytes()
    record = len(data) // 3
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        cut = Spool(tmp_path)
        assert list(cut.read(0, cut.next)) == [_message(number) for number in range(length // record)]
        cut.close()
        for made in tmp_path.glob("*.spool"):
            if made != path:
                made.unlink()


def test_a_spool_keeps_no_files_that_are_done_with(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(40):
        spool.append(_message(number, 500_000))
    assert len(list(tmp_path.glob("*.spool"))) > 2
    assert [one.time for one in spool.read(11, 29)] == list(range(11, 29))
    spool.commit(40)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    with pytest.raises(LookupError, match="there are records"):
        list(spool.read(0, 1))


def test_a_new_spool_begins_where_the_checkpoint_is(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(_message(0))
    spool.begin_at(1000)
    assert spool.append(_message(1)) == 1000
    spool.close()
    again = Spool(tmp_path)
    assert list(again.read(1000, 1001)) == [_message(1)]


# --- the reader, without Spark


@contextmanager
def _reading(port: int, folder: Path, **options: str) -> Iterator[MqttReader]:
    source = MqttSource({**OPTIONS, "port": str(port), "spool": str(folder), **options})
    reader = source.streamReader(source.schema())
    try:
        yield reader
    finally:
        reader.stop()


def _rows(reader: MqttReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    partitions = reader.partitions(start, end)
    return [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]


def _until(reader: MqttReader, start: dict[str, int], count: int) -> dict[str, int]:
    """The offset after so many messages."""
    end = start
    while end["next"] < start["next"] + count:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return end


@contextmanager
def _broker(kind: str) -> Iterator[int]:
    if kind == "mosquitto":
        with mosquitto("allow_anonymous true\nmax_queued_messages 0") as running_:
            yield running_.port
    else:
        with running() as node:
            yield node.port


@pytest.mark.parametrize("kind", ["mosquitto", "node"])
def test_what_is_not_committed_comes_again_from_the_broker(kind: str, tmp_path: Path) -> None:
    """Driver and disk are lost: the broker has not heard that anything arrived."""
    with _broker(kind) as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path / "lost") as reader:
            start = reader.initialOffset()
            for number in range(10):
                publisher.publish("t/x", b"%d" % number, 1)
            middle = _until(reader, start, 4)
            first = _rows(reader, start, {"next": 4})
            reader.commit({"next": 4})
        assert middle["next"] >= 4
        with _reading(port, tmp_path / "new") as reader:
            end = _until(reader, {"next": 4}, 6)
            rest = _rows(reader, {"next": 4}, end)
    assert [row["payload"] for row in first] == [b"%d" % number for number in range(4)]
    assert [row["payload"] for row in rest] == [b"%d" % number for number in range(4, 10)]


@pytest.mark.parametrize("kind", ["mosquitto", "node"])
def test_what_the_spool_has_is_not_taken_twice(kind: str, tmp_path: Path) -> None:
    """A driver that was stopped: the broker sends again what it has no answer to, and it is known."""
    with _broker(kind) as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path) as reader:
            start = reader.initialOffset()
            for number in range(10):
                publisher.publish("t/x", b"same", 1)
            end = _until(reader, start, 10)
        publisher.publish("t/x", b"last", 1)
        with _reading(port, tmp_path) as reader:
            assert _rows(reader, start, end) == _rows(reader, start, end)
            after = _until(reader, end, 1)
            reader.commit(after)
            publisher.publish("t/x", b"very last", 1)
            last = _until(reader, after, 1)
            found = _rows(reader, start, last)
    assert [row["payload"] for row in found] == [b"same"] * 10 + [b"last", b"very last"]


def test_acknowledged_when_it_is_on_disk(tmp_path: Path) -> None:
    """Then more can come than the broker lets be unanswered: Mosquitto 20."""
    with _broker("mosquitto") as port, Paho("publisher", version=4) as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path, acknowledge="spooled", version="3.1.1") as reader:
            start = reader.initialOffset()
            for number in range(100):
                publisher.publish("u", b"%d" % number, 1)
            rows = _rows(reader, start, _until(reader, start, 100))
    assert [row["payload"] for row in rows] == [b"%d" % number for number in range(100)]


def test_what_a_message_says(tmp_path: Path) -> None:
    with _broker("node") as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path) as reader:
            start = reader.initialOffset()
            publisher.publish("t/x", b"{}", 1, retain=True, ContentType="application/json", MessageExpiryInterval=99)
            (row,) = _rows(reader, start, _until(reader, start, 1))
    assert row["node"] == f"{HOST}:{port}"
    assert (row["seq"], row["topic"], row["payload"], row["qos"], row["retain"]) == (0, "t/x", b"{}", 1, True)
    assert row["content_type"] == "application/json"
    assert 0 < row["expiry"] <= 99


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"host": ""}, "needs the options `host` and `client_id`"),
        ({"topics": ""}, "needs the option `topics`"),
        ({"topics": "a/#/b"}, "a/#/b"),
        ({"spool": ""}, "needs the option `spool`"),
        ({"acknowledge": "never"}, "`acknowledge` is"),
        ({"version": "4"}, "MQTT version `4`"),
        ({"port": "x"}, "`x` is not a port"),
    ],
    ids=lambda value: str(value),
)
def test_options_that_make_no_sense(options: dict[str, str], problem: str) -> None:
    source = MqttSource({**OPTIONS, "spool": "s", **options})
    with pytest.raises(PipelineError, match=problem):
        source.streamReader(source.schema())


def test_a_client_that_may_not_subscribe_hears_it(tmp_path: Path) -> None:
    acl = {"acl": "user spark\ntopic read u\n"}
    with running({"acl": "acl"}, acl) as node, _reading(node.port, tmp_path, username="spark") as reader:
        with pytest.raises(PipelineError, match="does not let `spark` subscribe to `t/#`"):
            reader.initialOffset()


# --- on Spark


def test_restarted_streams_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    numbers = [b"%d" % number for number in range(60)]
    random.shuffle(numbers)
    with _broker("mosquitto") as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path / "spool") as reader:
            reader.initialOffset()  # the session begins
        for some in (numbers[:20], numbers[20:40], numbers[40:]):
            for payload in some:
                publisher.publish("t/x", payload, 1)
            query = _started(spark, port, tmp_path)
            query.awaitTermination()
            assert query.exception() is None
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert [bytes(row.payload) for row in sorted(rows, key=lambda row: row.seq)] == numbers


def _started(spark: SparkSession, port: int, folder: Path) -> StreamingQuery:
    options = {**OPTIONS, "port": str(port), "spool": str(folder / "spool"), "max_rows": "15"}
    rows = spark.readStream.format("mqtt").options(**options).load()  # type: ignore[arg-type]
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(os.fspath(folder / "table"))
