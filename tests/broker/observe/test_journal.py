"""The promises of a live node's journal: no event is left out, and missing rows are recorded."""

import asyncio
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import yaml

from penstock.broker.observe.journal import Journal
from penstock.broker.observe.log import NodeLog
from penstock.domain.schema.domain import JournalSettings
from penstock.engine.recorder import Recorder
from penstock.journal.read.tables import parts
from penstock.wire.codec import encode
from penstock.wire.packet import Pingreq, Pingresp, Puback, Publish
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.clients.peer import Peer
from tests.support.memory.journals import DAY, NOON, events, problems, rows
from tests.support.processes.admin import ask
from tests.support.processes.commands import PATIENCE, penstock, run, until
from tests.support.processes.node import ANY_PORT, LiveNode, passwords

SMALL_FILES = 64 * 1024
LARGE = bytes(SMALL_FILES)


class Journalled(LiveNode):
    """A node with a journal."""

    @property
    def journal(self) -> Path:
        return self.folder / "j"

    def write_domain(self, journal: dict[str, Any] | None = None, **more: Any) -> None:
        node = {"listen": ANY_PORT, "store": "memory", "admin": ANY_PORT, "sys_interval": 1, **more.pop("node", {})}
        domain = {
            "domain": "test",
            "nodes": {"main": node},
            "journal": {"folder": "j", "flush": 0.05, **(journal or {})},
        }
        self.write("domain.yaml", yaml.safe_dump(domain | more))

    def events(self) -> list[dict[str, Any]]:
        return events(self.journal)

    def payloads(self) -> list[bytes]:
        return [row["payload"] for row in self.events()]

    def until_recorded(self, count: int) -> list[dict[str, Any]]:
        until(lambda: len(self.events()) >= count, f"{count} events are in the journal")
        return self.events()

    async def peer(self, client_id: str, version: int = 5, **more: Any) -> Peer:
        peer = await Peer.open("127.0.0.1", self.port, version)
        await peer.connect(client_id, **more)
        return peer

    def admin(self, path: str) -> tuple[int, str]:
        status, _, body = ask(f"http://127.0.0.1:{self.ports('http')[0]}{path}")
        return status, body


@contextmanager
def journalling(
    folder: Path, journal: dict[str, Any] | None = None, before: Callable[[], None] | None = None, **more: Any
) -> Iterator[Journalled]:
    node = Journalled(folder, before)
    node.write_domain(journal, **more)
    node.start()
    try:
        yield node
    finally:
        node.stop()
    assert "Traceback" not in node.log


async def test_a_killed_node_loses_only_what_it_has_not_flushed(tmp_path: Path) -> None:
    with journalling(tmp_path) as node:
        peer = await node.peer("c")
        for number in range(20):
            await peer.publish("t", b"%d" % number, 1)
        node.until_recorded(20)
        for number in range(20, 40):
            await peer.publish("t", b"%d" % number, 1)
        node.kill()
        left = node.payloads()
        node.start()
        again = await node.peer("c")
        await again.publish("t", b"after", 1)
        until(lambda: b"after" in node.payloads(), "the node goes on with its journal")
        payloads = node.payloads()
    assert payloads == [*(b"%d" % number for number in range(len(left))), b"after"]
    assert len(left) >= 20
    assert [part.is_open for part in parts(node.journal)] == [False, False]
    numbers = [row["seq"] for row in node.events()]
    assert numbers == sorted(set(numbers))


async def test_what_waits_for_the_interval_is_written_without_more_traffic(tmp_path: Path) -> None:
    with journalling(tmp_path, {"flush": 0.2}) as node:
        peer = await node.peer("c", 4)
        await peer.send(Publish("t", b"1"), Publish("t", b"2"))
        assert [row["payload"] for row in node.until_recorded(2)] == [b"1", b"2"]


AS_IT_CAME = {
    "QoS 1, MQTT 3.1.1": (4, Publish("t", b"1", 1, packet_id=77)),
    "QoS 1 again, with its flag": (4, Publish("t", b"1", 1, dup=True, packet_id=77)),
    "QoS 2, retained": (5, Publish("t", b"1", 2, True, packet_id=77)),
    "longer than one byte of length says": (5, Publish("t", bytes(200), 1, packet_id=77)),
}


@pytest.mark.parametrize("title", AS_IT_CAME)
async def test_a_packet_without_properties_is_kept_as_it_came(tmp_path: Path, title: str) -> None:
    version, packet = AS_IT_CAME[title]
    with journalling(tmp_path) as node:
        peer = await node.peer("c", version)
        await peer.send(packet)
        node.until_recorded(1)
        node.stop()
        assert _packets(node.journal) == [encode(packet, version)]


async def test_of_properties_only_those_that_travel_are_kept(tmp_path: Path) -> None:
    came = Publish("t", b"1", 1, packet_id=77, properties=Properties(content_type="a/b", topic_alias=3))
    aliased = Publish("", b"2", 1, packet_id=78, properties=Properties(topic_alias=3))
    with journalling(tmp_path) as node:
        peer = await node.peer("c")
        await peer.send(came, aliased)
        node.until_recorded(2)
        node.stop()
        assert _packets(node.journal) == [
            encode(Publish("t", b"1", 1, packet_id=1, properties=Properties(content_type="a/b")), 5),
            encode(Publish("t", b"2", 1, packet_id=1), 5),
        ]


async def test_it_says_from_whom_events_are_withheld(tmp_path: Path) -> None:
    """Issue 17, item 10: of receivers that policies denied an event, the journal said nothing."""
    acl = "user ann\ntopic readwrite #\nuser bob\ntopic read a/#\nuser eve\ntopic read #\nuser lan\ntopic read #\n"
    cut = "PolicyStatement { On(Forward, Publication) { If {x > 1} Then {BlockMessage()} Elseif {} Then {%s} } }"
    statements = {
        "policies": {"p": cut % 'RemoveAttributes("y")'},
        "apply": [{"policy": "p", "to": "subscription", "of": "eve", "filter": "b/#"}],
    }
    names = ("ann", "bob", "eve", "lan")
    clients = {name: {"node": "main", "user": name, "type": "far" if name == "lan" else "near"} for name in names}
    domain: dict[str, Any] = {
        "node": {"acl": "acl", "passwords": "passwords"},
        "clients": clients,
        "statements": statements,
        "brokering": {"types": ["near", "far"], "deny": [{"from": "near", "to": "far"}]},
    }
    (tmp_path / "acl").write_text(acl)
    (tmp_path / "passwords").write_text(passwords(**dict.fromkeys(names, "x")))
    with journalling(tmp_path, **domain) as node:
        peers = {name: await node.peer(name, username=name, password=b"x") for name in names}
        for name in ("bob", "eve", "lan"):
            await peers[name].subscribe("#", qos=1)
        await peers["ann"].publish("a/1", b"{}", 1)
        await peers["ann"].publish("b/1", b'{"x": 1, "y": 2}', 1)
        await peers["ann"].publish("b/1", b'{"x": 2, "y": 2}', 1)
        arrivals = [row for row in node.until_recorded(4) if row["kind"] == "arrival"]
        far = ("suppress", "route", "brokering", ("lan",))
        assert [_kept(row) for row in arrivals] == [
            {far},
            {far, ("suppress", "match", "acl", ("bob",)), ("replace", "judge", "p#1.2", ("eve",))},
            {far, ("suppress", "match", "acl", ("bob",)), ("suppress", "judge", "p#1.1", ("eve",))},
        ]
        code, shown, _ = run(penstock("journal", "show", str(node.journal), "--client", "bob", "--topic", "b/#"))
        assert code == 0
        assert shown.count("withheld from bob: match by acl: the access list does not let it read the topic") == 2


def _kept(row: dict[str, Any]) -> set[tuple[Any, ...]]:
    kept = row["withheld"] or ()
    return {(one["effect"], one["stage"], one["rule"], tuple(one["receivers"])) for one in kept}


def _packets(folder: Path) -> list[bytes]:
    tables = [pa.ipc.open_stream(part.path).read_all() for part in parts(folder)]
    return [packet for table in tables for packet in table["packet"].to_pylist() if packet]


RULES: dict[str, Any] = {
    "node": {"acl": "acl"},
    "clients": {
        **{name: {"node": "main"} for name in ("door", "board", "v4", "echo", "g1", "g2", "late")},
        "hot": {"node": "main", "where": {"#": "t > 50"}},
        "meter": {"node": "main", "advertises": [{"name": "low", "filter": "#", "where": "t < 80"}]},
    },
    "content": [{"topics": ["temp/#", "noise/#", "open"], "format": "json", "schema": {"t": "int", "n": "int"}}],
    "monitors": {
        "once": {
            "link": "door -> main",
            "states": {
                "q0": {"open": {"emit": ["open", "log/open"], "next": "used"}, "*": "pass"},
                "used": {"open": "suppress", "temp/reset": {"pass": True, "next": "q0"}, "*": "pass"},
            },
        },
        "quiet": {"link": "main -> board", "states": {"q0": {"noise/#": "suppress", "*": "pass"}}},
        "still": {"link": "main -> g2", "states": {"q0": {"noise/#": "suppress", "*": "pass"}}},
        "calm": {"link": "main -> late", "states": {"q0": {"noise/#": "suppress", "*": "pass"}}},
    },
}
TOPICS = ("temp/1", "temp/reset", "noise/1", "open", "secret/1")
Got = list[tuple[str, bytes]]


async def _drain(peer: Peer) -> Got:
    """All that waits for a client, acknowledged."""
    got: Got = []
    while True:
        before = len(got)
        await peer.send(Pingreq())
        while not isinstance(packet := await peer.next(), Pingresp):
            if isinstance(packet, Publish):
                got.append((packet.topic, packet.payload))
                if packet.qos:
                    await peer.send(Puback(packet.packet_id))
        if len(got) == before:
            return got


async def _traffic(node: Journalled, seed: int) -> tuple[Got, dict[str, Got]]:
    """Random publications of several clients; what was published, and what each client got."""
    chance = random.Random(seed)
    peers = {name: await node.peer(name, version) for name, version in CLIENTS.items()}
    for name in ("board", "hot", "v4"):
        await peers[name].subscribe("#", qos=1)
    await peers["echo"].subscribe("#", no_local=True)
    for name in ("g1", "g2"):
        await peers[name].subscribe("$share/g/#", qos=1)
    published: Got = []
    for number in range(120):
        name, topic = chance.choice(("door", "v4", "echo", "meter")), chance.choice(TOPICS)
        qos, payload = chance.randrange(2), b'{"t": %d, "n": %d}' % (chance.randrange(100), number)
        more = Properties(content_type="application/json") if name != "v4" and not number % 3 else NO_PROPERTIES
        packet_id = peers[name].new_id() if qos else 0
        await peers[name].send(Publish(topic, payload, qos, not number % 2, packet_id=packet_id, properties=more))
        published.append((topic, payload))
    got = {name: await _drain(peer) for name, peer in peers.items()}
    await peers["late"].subscribe("noise/#")  # which its monitor keeps from it
    await peers["late"].subscribe("temp/#")
    for name, peer in peers.items():  # what others sent after its turn
        got[name] += await _drain(peer)
        await peer.close()
    return published, got


CLIENTS = {"door": 5, "v4": 4, "echo": 5, "meter": 5, "board": 4, "hot": 5, "g1": 5, "g2": 4, "late": 5}


@pytest.mark.parametrize("seed", [1, 2])
async def test_what_happened_is_what_the_journal_says(tmp_path: Path, seed: int) -> None:
    (tmp_path / "acl").write_text("topic readwrite #\ntopic deny secret/#\n")
    with journalling(tmp_path, {"segment_size": 4096}, **RULES) as node:
        published, got = await _traffic(node, seed)
        node.stop()
        events = node.events()
    arrivals = [row for row in events if row["kind"] == "arrival"]
    assert sorted((row["topic"], row["payload"]) for row in arrivals) == sorted(published)
    for name in CLIENTS:
        reached = [row for row in events if name in {receiver["client_id"] for receiver in row["reached"]}]
        assert sorted((row["topic"], row["payload"]) for row in reached) == sorted(got[name]), name
    assert got["g1"]
    assert got["g2"]
    retained = [row for row in events if row["kind"] == "retained" and row["reached"]]
    assert [(row["topic"], row["payload"]) for row in retained] == got["late"] != []
    kept = [(row["topic"], _kept(row)) for row in events if row["kind"] == "retained" and not row["reached"]]
    assert kept == [("noise/1", {("suppress", "shape", "calm", ("late",))})]
    assert {row["entity"] for row in retained} <= {"door", "v4", "echo", "meter"}
    assert {(row["stage"], row["effect"], row["rule"], row["reason"]) for row in retained} == {
        ("match", "pass", "temp/#", "it was retained")
    }
    verdicts = {(row["stage"], row["effect"]) for row in events}
    assert verdicts >= {("admit", "pass"), ("admit", "suppress"), ("edit", "suppress"), ("conform", "suppress")}
    outputs = {row["topic"] for row in events if row["kind"] == "output"}
    assert outputs >= {"open", "log/open"}
    assert all(row["reached"] == [] for row in events if row["effect"] == "suppress")
    assert {row["topic"] for row in events if row["stage"] == "admit" and row["effect"] == "suppress"} == {"secret/1"}
    assert problems(node.journal) == []


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILES, resource.RLIM_INFINITY))


def _let_files_grow(node: Journalled) -> None:
    psutil.Process(node.pid).rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def test_a_node_that_is_to_stop_admits_nothing_until_it_can_be_recorded(tmp_path: Path) -> None:
    with journalling(tmp_path, {"when_failing": "stop"}, small_files) as node:
        watcher, publisher, late = [await node.peer(name) for name in ("watcher", "publisher", "late")]
        await watcher.subscribe("$SYS/broker/penstock/journal", "t")
        assert (await watcher.receive("$SYS/broker/penstock/journal")).payload == b"ok"
        await publisher.publish("t", LARGE)
        assert (await watcher.receive("t")).payload == LARGE
        node.until_logged("error", "the journal cannot be written: nothing is admitted", "File too large")
        assert (await watcher.receive("$SYS/broker/penstock/journal")).payload == b"File too large"
        await late.send(Publish("t", b"late"), Pingreq())
        await watcher.expect_nothing()  # it can be asked, and nothing was passed on to it
        status, health = node.admin("/health")
        assert status == 503
        assert "journal cannot be written: File too large" in health
        assert "journal_healthy" in node.admin("/metrics")[1]
        _let_files_grow(node)
        async with asyncio.timeout(PATIENCE):
            while (message := await watcher.receive()).topic != "t":
                pass
        assert message.payload == b"late"
        assert isinstance(await late.next(), Pingresp)
        until(lambda: node.admin("/health")[0] == 200, "the node is healthy again")
        node.until_logged("the journal is written again")
        assert node.until_recorded(2)[1]["payload"] == b"late"
    assert problems(node.journal) == []


async def test_the_alarm_does_not_wait_for_the_interval_of_the_other_figures(tmp_path: Path) -> None:
    with journalling(tmp_path, None, small_files, node={"sys_interval": 3600}) as node:
        watcher, publisher = await node.peer("watcher"), await node.peer("publisher")
        await watcher.subscribe("$SYS/broker/penstock/journal")
        assert (await watcher.receive()).payload == b"ok"
        await publisher.publish("t", LARGE)
        assert (await watcher.receive()).payload == b"File too large"
        _let_files_grow(node)
        assert (await watcher.receive()).payload == b"ok"


async def test_a_node_that_is_to_go_on_says_how_much_is_missing(tmp_path: Path) -> None:
    with journalling(tmp_path, {"when_failing": "go on"}, small_files) as node:
        watcher, publisher = [await node.peer(name) for name in ("watcher", "publisher")]
        await watcher.subscribe("t")
        await publisher.publish("t", b"before")
        node.until_recorded(1)
        await publisher.publish("t", LARGE)
        node.until_logged("error", "the node goes on without it", "File too large")
        until(lambda: 'journal_rows_lost_total{node="main"} 1.0' in node.admin("/metrics")[1], "the loss is counted")
        await publisher.publish("t", b"after")
        until(lambda: b"after" in node.payloads(), "the journal goes on")
        assert [(await watcher.receive("t")).payload for _ in range(3)] == [b"before", LARGE, b"after"]
        until(lambda: node.admin("/health")[0] == 200, "the node is healthy again")
    assert node.payloads() == [b"before", b"after"]
    assert [problem.split(":")[0] for problem in problems(node.journal)] == ["1 rows are missing before this one"]


async def test_a_folder_that_cannot_be_written_holds_everything_up_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("not a folder")
    with journalling(tmp_path, {"when_failing": "stop"}) as node:
        node.until_logged("error", "the journal cannot be written: nothing is admitted")
        peer = await node.peer("c")
        await peer.send(Publish("t", b"1", 1, packet_id=7))
        await asyncio.sleep(0.5)
        (tmp_path / "j").unlink()
        await peer.expect(Puback, packet_id=7)
        assert [row["payload"] for row in node.until_recorded(1)] == [b"1"]


async def test_memory_is_bounded_while_the_journal_waits(tmp_path: Path) -> None:
    with journalling(tmp_path, {"when_failing": "stop"}, small_files) as node:
        publisher = await node.peer("publisher")
        await publisher.publish("t", LARGE)
        node.until_logged("the journal cannot be written")
        before = node.rss()
        count = 3000
        sending = asyncio.create_task(publisher.send(*[Publish("t", bytes(60_000))] * count))
        await asyncio.sleep(1)
        assert not sending.done(), "the publisher has to wait"
        assert node.rss() - before < 100 * 2**20, "180 MB were to be sent"
        _let_files_grow(node)
        await sending
        until(lambda: str(count + 1) in _counted(node), "everything is written")
        assert node.rss() - before < 300 * 2**20


def _counted(node: Journalled) -> str:
    lines = node.admin("/metrics")[1].splitlines()
    return next(line for line in lines if line.startswith("penstock_journal_rows_total")).partition(" ")[2]


async def test_segments_are_sealed_by_size(tmp_path: Path) -> None:
    with journalling(tmp_path, {"segment_size": 4096}) as node:
        peer = await node.peer("c")
        for number in range(1, 5):
            await peer.publish("t", bytes(3000), 1)
            node.until_recorded(number)
        until(lambda: sum(not part.is_open for part in parts(node.journal)) >= 2, "segments are sealed")


async def test_segments_are_sealed_by_age_without_more_traffic(tmp_path: Path) -> None:
    with journalling(tmp_path, {"segment_age": 1}) as node:
        peer = await node.peer("c")
        await peer.publish("t", b"1", 1)
        node.until_recorded(1)
        until(lambda: [part.is_open for part in parts(node.journal)] == [False], "the segment is sealed")


def test_a_day_begins_a_segment(tmp_path: Path) -> None:
    recorder = Recorder()
    journal = Journal(
        JournalSettings(folder=tmp_path / "j", flush=0, segment_age=DAY), "main", "test", recorder, NodeLog("main")
    )
    journal.start(lambda: None)
    for time in (NOON, NOON + DAY / 2 - 1, NOON + DAY / 2):
        gathered = rows(("t", b"%d" % time), time=time)
        recorder.rows = gathered
        recorder.notes = gathered.notes
        journal.turn(time, 0)
    journal.stop()
    assert [part.day.isoformat() for part in parts(tmp_path / "j")] == ["2023-11-15", "2023-11-16"]
    assert [row["payload"] for row in events(tmp_path / "j")] == [b"1700049600", b"1700092799", b"1700092800"]


async def test_a_reload_is_another_revision(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("topic readwrite #\n")
    with journalling(tmp_path, node={"acl": "acl"}) as node:
        peer = await node.peer("c")
        await peer.publish("t", b"1", 1)
        (tmp_path / "acl").write_text("topic readwrite other\n")
        node.reload()
        await peer.publish("t", b"2", 1)
        first, second = node.until_recorded(2)
    assert (first["effect"], second["effect"]) == ("pass", "suppress")
    assert first["revision"] != second["revision"]
    revisions = node.journal / "revisions"
    assert (revisions / str(first["revision"]) / "main.acl").read_text() == "topic readwrite #\n"
    assert (revisions / str(second["revision"]) / "main.acl").read_text() == "topic readwrite other\n"


async def test_a_reload_takes_other_settings_of_the_journal(tmp_path: Path) -> None:
    with journalling(tmp_path, {"segment_age": 3600}) as node:
        peer = await node.peer("c")
        await peer.publish("t", b"1", 1)
        node.until_recorded(1)
        assert [part.is_open for part in parts(node.journal)] == [True]
        node.write_domain({"segment_age": 1})
        node.reload()
        await peer.publish("t", b"2", 1)
        node.until_recorded(2)
        until(lambda: not any(part.is_open for part in parts(node.journal)), "all segments are sealed")


async def test_a_reload_does_not_move_the_journal_and_says_so(tmp_path: Path) -> None:
    with journalling(tmp_path) as node:
        peer = await node.peer("c")
        node.write_domain({"folder": "elsewhere"})
        node.reload()
        await peer.publish("t", b"1", 1)
        node.until_recorded(1)
        node.until_logged("journal changed: `folder` (needs a restart)")
    assert not (tmp_path / "elsewhere").exists()


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    node = Journalled(tmp_path)
    node.write_domain()
    code = "import sys; sys.modules['pyarrow'] = None; from penstock.cli.main import main; sys.exit(main())"
    for command in (["run", str(tmp_path / "domain.yaml")], ["journal", "stats", str(tmp_path)]):
        ended = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1
        assert "`pyarrow`: install `penstock[journal]`" in ended.stderr
