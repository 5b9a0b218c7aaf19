"""`spark.readStream.format("mqtt")`: beside Mosquitto and a node, what was published is there, at least once."""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.mqtt.source import MqttReader, MqttSource, register
from penstock.pipeline.mqtt.spool import Spool, SpooledMessage
from tests.support.clients.paho import Paho
from tests.support.processes.commands import until
from tests.support.processes.mosquitto import HOST, free_port, mosquitto
from tests.support.processes.node import LiveNode, running

OPTIONS = {"host": HOST, "client_id": "spark", "topics": "t/#, u"}


def _message(number: int, size: int = 8) -> SpooledMessage:
    return SpooledMessage(number, "t", b"%d" % number * size, 1, False, None, b"", None, number)


# --- the spool


def test_a_spool_goes_on_where_it_was(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first = spool.committed
    assert [spool.append(_message(number)) for number in range(3)] == [first, first + 1, first + 2]
    spool.commit(first + 1)
    spool.close()
    again = Spool(tmp_path)
    assert (again.committed, again.next) == (first + 1, first + 3)
    assert again.append(_message(3)) == first + 3
    assert list(again.read(first + 1, first + 4)) == [_message(number) for number in (1, 2, 3)]


def test_a_spool_that_was_cut_anywhere_has_what_is_whole(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first = spool.next
    for number in range(3):
        spool.append(_message(number))
    spool.close()
    (path,) = tmp_path.glob("*.spool")
    data = path.read_bytes()
    record = len(data) // 3
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        cut = Spool(tmp_path)
        assert list(cut.read(first, cut.next)) == [_message(number) for number in range(length // record)]
        cut.close()
        for made in tmp_path.glob("*.spool"):
            if made != path:
                made.unlink()


def test_a_spool_keeps_no_files_that_are_done_with(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first = spool.next
    for number in range(40):
        spool.append(_message(number, 500_000))
    assert len(list(tmp_path.glob("*.spool"))) > 2
    assert [one.time for one in spool.read(first + 11, first + 29)] == list(range(11, 29))
    spool.commit(first + 40)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    with pytest.raises(LookupError, match="there are records"):
        list(spool.read(first, first + 1))


def test_numbers_of_a_new_spool_are_not_those_of_a_lost_one(tmp_path: Path) -> None:
    lost = Spool(tmp_path / "lost")
    for number in range(100):
        lost.append(_message(number))
    assert Spool(tmp_path / "new").committed >= lost.next


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
    ends: list[dict[str, int]] = []

    def has_come() -> bool:
        ends.append(reader.latestOffset(start, reader.getDefaultReadLimit()))
        return len(_rows(reader, start, ends[-1])) >= count

    until(has_come, f"{count} messages come")
    return ends[-1]


BROKERS = pytest.mark.parametrize("kind", ["mosquitto", "node"])


class Restarting:
    """A broker that keeps sessions on disk, on the same port each time."""

    def __init__(self, kind: str, folder: Path, held: ExitStack) -> None:
        self.port = free_port()
        self._kind, self._folder, self._held = kind, folder, held
        self._node: LiveNode | None = None
        self._running = held.enter_context(ExitStack())
        self._start()

    def _start(self) -> None:
        if self._kind == "mosquitto":
            kept = f"persistence true\npersistence_location {self._folder}/\nautosave_interval 1"
            config = f"allow_anonymous true\nmax_queued_messages 0\n{kept}"
            self._running.enter_context(mosquitto(config, port=self.port))
        elif self._node is None:
            settings = {"listen": f"{HOST}:{self.port}", "store": "store.db"}
            self._node = self._held.enter_context(running(settings))
        else:
            self._node.start()

    def restarts(self) -> None:
        """Mosquitto writes what it has when it is asked to end; a node is killed."""
        if self._node is not None:
            self._node.kill()
        self._running.close()
        self._start()


@contextmanager
def _restarting(kind: str, folder: Path) -> Iterator[Restarting]:
    with ExitStack() as held:
        yield Restarting(kind, folder, held)


@contextmanager
def _broker(kind: str) -> Iterator[int]:
    if kind == "mosquitto":
        with mosquitto("allow_anonymous true\nmax_queued_messages 0") as running_:
            yield running_.port
    else:
        with running() as node:
            yield node.port


def _publish(port: int, *payloads: bytes) -> None:
    with Paho("publisher") as publisher:
        publisher.connects(port)
        for payload in payloads:
            publisher.publish("t/x", payload, 1)


@BROKERS
def test_what_is_not_committed_comes_again_from_the_broker(kind: str, tmp_path: Path) -> None:
    """Driver and disk are lost: the broker has not heard that anything arrived."""
    with _broker(kind) as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path / "lost") as reader:
            start = reader.initialOffset()
            for number in range(10):
                publisher.publish("t/x", b"%d" % number, 1)
            _until(reader, start, 10)
            some = {"next": start["next"] + 4}
            first = _rows(reader, start, some)
            reader.commit(some)
        with _reading(port, tmp_path / "new") as reader:
            end = _until(reader, some, 6)
            rest = _rows(reader, some, end)
    assert [row["payload"] for row in first] == [b"%d" % number for number in range(4)]
    assert [row["payload"] for row in rest] == [b"%d" % number for number in range(4, 10)]


def test_a_lost_spool_that_was_acknowledged_is_told(tmp_path: Path) -> None:
    with _broker("node") as port:
        with _reading(port, tmp_path / "lost", acknowledge="spooled") as reader:
            start = reader.initialOffset()
        with _reading(port, tmp_path / "new", acknowledge="spooled") as reader:
            reader.initialOffset()
            with pytest.raises(PipelineError, match="is not that of this checkpoint"):
                reader.latestOffset(start, reader.getDefaultReadLimit())


@BROKERS
def test_what_the_spool_has_is_not_taken_twice(kind: str, tmp_path: Path) -> None:
    """A driver that was stopped: the broker sends again what it has no answer to, and it is known."""
    with _broker(kind) as port, Paho("publisher") as publisher:
        publisher.connects(port)
        with _reading(port, tmp_path) as reader:
            start = reader.initialOffset()
            for _ in range(10):
                publisher.publish("t/x", b"same", 1)
            end = _until(reader, start, 10)
        publisher.publish("t/x", b"last", 1)
        with _reading(port, tmp_path) as reader:
            assert _rows(reader, start, end) == _rows(reader, start, end)
            after = _until(reader, end, 1)
            found = _rows(reader, start, after)
            reader.commit(after)
            publisher.publish("t/x", b"very last", 1)
            found += _rows(reader, after, _until(reader, after, 1))
    assert [row["payload"] for row in found] == [b"same"] * 10 + [b"last", b"very last"]


@BROKERS
def test_a_broker_that_starts_again_is_read_on(kind: str, tmp_path: Path) -> None:
    """The reader connects again by itself; what is not committed may come again, and nothing is missing."""
    before, after = [b"%d" % number for number in range(6)], [b"%d" % number for number in range(6, 12)]
    with _restarting(kind, tmp_path) as broker, _reading(broker.port, tmp_path / "spool") as reader:
        start = reader.initialOffset()
        _publish(broker.port, *before)
        _until(reader, start, 6)
        reader.commit({"next": start["next"] + 3})
        broker.restarts()
        _publish(broker.port, *after)
        middle = {"next": start["next"] + 3}
        found: list[bytes] = []

        def is_complete() -> bool:
            end = reader.latestOffset(middle, reader.getDefaultReadLimit())
            found[:] = [row["payload"] for row in _rows(reader, middle, end)]
            return set(found) >= {*before[3:], *after}

        until(is_complete, f"everything comes; {found}")
    assert [payload for payload in dict.fromkeys(found) if payload in after] == after


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
    assert row["seq"] == start["next"]
    assert (row["topic"], row["payload"], row["qos"], row["retain"]) == ("t/x", b"{}", 1, True)
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
    acl = {"acl": "user spark\ntopic read #\ntopic deny t/#\n"}
    with (
        running({"acl": "acl"}, acl) as node,
        _reading(node.port, tmp_path, username="spark") as reader,
        pytest.raises(PipelineError, match="does not let `spark` subscribe to `t/#`"),
    ):
        reader.initialOffset()


# --- on Spark


@BROKERS
def test_restarted_streams_lose_nothing(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """The query is started again for each part of what is published; and the broker too, with messages in it."""
    register(spark)
    numbers = [b"%d" % number for number in range(30)]
    random.shuffle(numbers)
    with _restarting(kind, tmp_path) as broker:
        with _reading(broker.port, tmp_path / "spool") as reader:
            reader.initialOffset()  # the session begins
        for part, some in enumerate((numbers[:15], numbers[15:])):
            _publish(broker.port, *some)
            if part == 1:
                broker.restarts()
            query = _started(spark, broker.port, tmp_path)
            query.awaitTermination()
            assert query.exception() is None
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    found = [bytes(row.payload) for row in sorted(rows, key=lambda row: row.seq)]
    assert list(dict.fromkeys(found)) == numbers


def _started(spark: SparkSession, port: int, folder: Path) -> StreamingQuery:
    options = {**OPTIONS, "port": str(port), "spool": str(folder / "spool"), "max_rows": "10"}
    rows = spark.readStream.format("mqtt").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(os.fspath(folder / "table"))
