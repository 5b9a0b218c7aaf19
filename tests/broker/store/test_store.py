"""The store by itself: what is written is loaded equal, and a file that cannot be used is refused with words."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.store.schema import VERSION
from penstock.broker.store.store import Store, StoreError
from penstock.engine.events.passage import Delivery
from penstock.engine.ledger import Changes
from penstock.engine.sessions import outbox
from penstock.engine.sessions.outbox import flush
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.window import send_or_queue
from penstock.model.event import Event
from penstock.wire.packet import Puback, Pubrec, WillMessage
from penstock.wire.properties import Properties
from tests.support.memory.node import START, MemoryNode
from tests.support.models.stored_state import durable_state, load, read_disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path, "full")
    yield opened
    opened.close()


def save(joined: MemoryNode, store: Store) -> None:
    """Commit as a server does."""
    changes, deferred = joined.node.ledger.take()
    store.write(changes)
    store.commit()
    outbox.release_deferred(joined.node, deferred)
    flush(joined.node)


def waiting() -> MemoryNode:
    """A node that stores only when it is told to."""
    return MemoryNode(durable=True, commits=False)


# --- what is written is loaded


def test_everything_of_a_session_is_loaded_equal(store: Store) -> None:
    joined = waiting()
    ann = joined.connect(
        "ann",
        user="user of ann",
        session_expiry=3600,
        receive_maximum=2,
        will=WillMessage(
            "w/\u00e4", b"\0\xff", 2, True, Properties(will_delay=7, message_expiry=9, content_type="text")
        ),
    )
    ann.subscribe("a/+", qos=2, identifier=7, retain_as_published=True)
    ann.subscribe("a/#", qos=1, identifier=268_435_455, no_local=True)
    ann.subscribe("$share/group/b", qos=1)
    ben = joined.connect("ben \u2603", version=4, clean_start=False)
    ben.subscribe("#", qos=1)
    ben.lose()
    bob = joined.connect("bob", session_expiry=5)
    bob.publish("a/b", b"offered", qos=2, properties=Properties(user_properties=(("k", "v"), ("k", "w"))))
    bob.publish("a/c", b"released", qos=2, retain=True)
    bob.publish("a/d", b"queued", qos=1, properties=Properties(message_expiry=60, response_topic="r"))
    save(joined, store)
    (released,) = [message.packet_id for message in ann.messages() if message.payload == b"released"]
    ann.sends(Pubrec(released))
    save(joined, store)
    expected = durable_state(joined.node)
    assert durable_state(load(store, START)) == expected


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "offline"])
def test_the_time_of_a_session_goes_on_while_there_is_no_node(store: Store, is_connected: bool) -> None:
    joined = waiting()
    ann = joined.connect("ann", session_expiry=100)
    save(joined, store)
    if not is_connected:
        ann.lose()
        save(joined, store)
    restarted = MemoryNode(durable=True)
    restarted.now = START + 60
    store.load(restarted.node, restarted.now)
    restarted.wait(50)
    # a node that was killed does not know since when its clients are gone
    assert ("ann" in restarted.node.sessions) is is_connected


def test_a_will_waits_for_its_delay_over_a_restart(store: Store) -> None:
    joined = waiting()
    bob = joined.connect(
        "bob", session_expiry=100, will=WillMessage("w", b"gone", properties=Properties(will_delay=30))
    )
    save(joined, store)
    bob.lose()
    save(joined, store)
    restarted = MemoryNode(durable=True)
    store.load(restarted.node, START + 10)
    restarted.now = START + 10
    ann = restarted.connect("ann").subscribe("w")
    restarted.wait(19)
    assert ann.payloads() == []
    restarted.wait(1)
    assert ann.payloads() == ["gone"]


def test_the_will_of_a_client_that_was_connected_when_the_node_was_killed_is_published(store: Store) -> None:
    joined = waiting()
    joined.connect("bob", session_expiry=100, will=WillMessage("w", b"gone", retain=True))
    save(joined, store)
    restarted = MemoryNode(durable=True)
    store.load(restarted.node, restarted.now)
    restarted.wait(1)
    assert restarted.connect("ann").subscribe("w").payloads() == ["gone"]


def test_retained_messages_that_have_expired_are_taken_off_the_disk(store: Store) -> None:
    joined = waiting()
    bob = joined.connect("bob")
    bob.publish("a", b"short", retain=True, properties=Properties(message_expiry=5))
    bob.publish("b", b"long", retain=True, properties=Properties(message_expiry=500))
    save(joined, store)
    restarted = waiting()
    restarted.now = START + 5
    store.load(restarted.node, restarted.now)
    save(restarted, store)
    assert [topic for topic, _ in load(store, START).retained.match("#")] == ["b"]


def test_new_rows_are_numbered_after_those_that_are_stored(store: Store) -> None:
    joined = waiting()
    joined.connect("ann", session_expiry=100).subscribe("a", qos=1)
    bob = joined.connect("bob")
    bob.publish("a", b"1", qos=1)
    save(joined, store)
    restarted = waiting()
    store.load(restarted.node, restarted.now)
    restarted.connect("ben", session_expiry=100).subscribe("a", qos=1)
    restarted.connect("bob").publish("a", b"2", qos=1)
    save(restarted, store)
    disk = read_disk(store)
    assert (disk.payloads("ann"), disk.payloads("ben")) == ({b"1", b"2"}, {b"2"})


# --- what is not written


def count_rows(store: Store, path: Path) -> dict[str, int]:
    store.close()
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    db.close()
    return {table: number for table, number in rows.items() if number}


def test_what_comes_and_goes_between_two_commits_is_not_written(store: Store, path: Path) -> None:
    joined = waiting()
    ann = joined.connect("ann", session_expiry=100)
    bob = joined.connect("bob")
    save(joined, store)
    ann.subscribe("a", qos=1)
    bob.publish("a", b"message", qos=1)
    bob.publish("r", b"retained", retain=True)
    joined.connect("ben", session_expiry=100).subscribe("a", qos=1)
    changes = joined.node.ledger.changes
    ann.sends(Puback(1))
    bob.publish("r", b"", retain=True)
    ann.unsubscribe("a")
    joined.connect("ben")
    assert not changes.messages
    assert not changes.deliveries
    assert not changes.dropped_messages
    assert not changes.dropped_deliveries
    save(joined, store)
    assert count_rows(store, path) == {"session": 1}


def test_a_session_that_is_to_end_with_its_connection_leaves_the_store(store: Store, path: Path) -> None:
    joined = waiting()
    ann = joined.connect("ann", session_expiry=100).subscribe("a", qos=2)
    ann.publish("b", b"held", qos=2)
    joined.connect("bob").publish("a", b"queued", qos=2)
    save(joined, store)
    again = joined.connect("ann", clean_start=False)
    save(joined, store)
    assert "ann" not in read_disk(store).sessions
    again.lose()
    save(joined, store)
    assert count_rows(store, path) == {}


def test_an_event_that_is_too_large_for_its_first_reader_is_stored_for_the_others(store: Store) -> None:
    joined = waiting()
    joined.connect("small", session_expiry=100, maximum_packet_size=20).subscribe("a", qos=1)
    joined.connect("large", session_expiry=100).subscribe("a", qos=1)
    joined.connect("larger", session_expiry=100).subscribe("a", qos=1)
    save(joined, store)
    joined.connect("bob").publish("a", bytes(100), qos=1)
    save(joined, store)
    disk = read_disk(store)
    assert [disk.payloads(name) for name in ("small", "large", "larger")] == [set(), {bytes(100)}, {bytes(100)}]


def test_a_batch_that_is_tried_again_is_written_as_it_was(store: Store) -> None:
    """Deliveries that were settled meanwhile are written, and taken off by the next batch."""
    joined = waiting()
    ann = joined.connect("ann", session_expiry=100).subscribe("a", qos=1)
    save(joined, store)
    bob = joined.connect("bob")
    for payload in (b"1", b"2", b"3"):
        bob.publish("a", payload, qos=1)
    changes, _ = joined.node.ledger.take()
    store.write(changes)
    store.rollback()
    ann.sends(Puback(1), Puback(2))
    store.write(changes)
    store.commit()
    save(joined, store)
    assert read_disk(store).payloads("ann") == {b"3"}
    assert durable_state(load(store, START)) == durable_state(joined.node)


# --- content


def test_conditions_names_and_advertisements_are_loaded(store: Store) -> None:
    joined = waiting()
    ann = joined.connect("ann", session_expiry=3600)
    ann.subscribe("a", user_properties=(("where", "x > 1"), ("name", "big"), ("scope", "local")))
    ann.subscribe("a", user_properties=(("where", "x < 1"), ("name", "small")))
    ann.publish("$penstock/advertise", b'{"name": "one", "filter": "b", "where": "y == 2"}', qos=1)
    ann.publish("$penstock/advertise", b'{"name": "two", "filter": "c", "scope": "local"}', qos=1)
    save(joined, store)
    loaded = load(store, START)
    assert durable_state(loaded) == durable_state(joined.node)
    assert loaded.sessions["ann"].declared.claims == joined.node.sessions["ann"].declared.claims
    ann.unsubscribe("a", user_properties=(("name", "big"),))
    ann.publish("$penstock/unadvertise", b'{"name": "one"}', qos=1)
    save(joined, store)
    assert durable_state(load(store, START)) == durable_state(joined.node)
    ann.leave(session_expiry=0)
    save(joined, store)
    assert durable_state(load(store, START)) == durable_state(joined.node)


FORMAT_1 = """
DROP TABLE advertisement;
DROP TABLE subscription;
CREATE TABLE subscription (
  session INTEGER NOT NULL, filter TEXT NOT NULL, qos INTEGER NOT NULL, no_local INTEGER NOT NULL,
  retain_as_published INTEGER NOT NULL, identifier INTEGER NOT NULL, PRIMARY KEY (session, filter)
) WITHOUT ROWID;
INSERT INTO subscription VALUES (1, 'a/+', 2, 1, 0, 7);
PRAGMA user_version = 1;
"""


def test_a_store_of_format_1_is_taken_over(path: Path) -> None:
    first = Store(path, "full")
    joined = waiting()
    joined.connect("ann", session_expiry=3600)
    save(joined, first)
    first.close()
    db = sqlite3.connect(path)
    newer = (
        "standing",
        "revision",
        "rights",
        "persisted",
        "bound",
        "shown",
        "token",
        "evidence",
        "brought",
        "held",
        "collected",
        "capsule",
        "refused",
        "moving",
    )
    later = [(table, column) for table in ("retained", "message") for column in ("token", "path")]
    later += [("delivery", "revision"), ("session", "began")]
    without = "".join(f"ALTER TABLE {table} DROP COLUMN {column}; " for table, column in later)
    db.executescript(without + "".join(f"DROP TABLE {table}; " for table in newer) + FORMAT_1)
    db.close()
    again = Store(path, "full")
    (subscription,) = load(again, START).sessions["ann"].subscriptions.values()
    assert (
        subscription.filter,
        subscription.name,
        subscription.qos,
        subscription.no_local,
        subscription.identifier,
    ) == ("a/+", "", 2, True, 7)
    assert (subscription.condition, subscription.asked, subscription.scope) == (None, "", None)
    joined.connect("ben", session_expiry=3600).subscribe("b", user_properties=(("where", "x > 1"),))
    save(joined, again)
    assert "b" in load(again, START).sessions["ben"].subscriptions
    again.close()


FORMAT_12 = "DROP TABLE refused; DROP TABLE moving; ALTER TABLE session DROP COLUMN began; "
FORMAT_11 = FORMAT_12 + "DROP TABLE capsule; "
FORMAT_10 = f"""{FORMAT_11}
ALTER TABLE held DROP COLUMN revision;
ALTER TABLE delivery DROP COLUMN revision;
DROP TABLE revision;
DROP TABLE rights;
CREATE TABLE access (digest TEXT NOT NULL);
CREATE TABLE statements (digest TEXT NOT NULL);
"""
FORMAT_9 = FORMAT_10 + "ALTER TABLE held DROP COLUMN retain; "
FORMAT_8 = FORMAT_9 + "".join(
    f"ALTER TABLE {table} DROP COLUMN {column}; "
    for table, column in (
        ("retained", "path"),
        ("message", "path"),
        ("held", "path"),
        ("collected", "path"),
        ("collected", "link_type"),
    )
)


@pytest.mark.parametrize("format", [8, 9, 10, 11, 12, VERSION])
def test_it_is_known_what_came_from_another_node(path: Path, format: int) -> None:
    joined, first = waiting(), Store(path, "full")
    joined.connect("ann", session_expiry=3600).subscribe("#", qos=1).lose()
    joined.connect("bob").publish("here", b"1", qos=1, retain=True)
    bob = joined.node.sessions["bob"]
    for topic, origin, way in (("there", "$node/b", ("b",)), ("here", bob.client_id, ())):
        event = Event(topic, b"2", 1, True, b"", None, origin, None, bob.place.publish_type, way)
        joined.node.retained.hold(event)
        joined.node.ledger.retained(topic, event)
        forms = Forms(event, START)
        send_or_queue(joined.node, Delivery(joined.node.sessions["ann"], event, 1, False, ()), forms)
    save(joined, first)
    first.close()
    if format < VERSION:
        db = sqlite3.connect(path)
        db.executescript(
            {8: FORMAT_8, 9: FORMAT_9, 10: FORMAT_10, 11: FORMAT_11, 12: FORMAT_12}[format]
            + f"PRAGMA user_version = {format};"
        )
        db.close()
    again = Store(path, "full")
    node = load(again, START)
    assert {topic: event.path for topic, event in node.retained.match("#")} == {"there": ("b",), "here": ()}
    assert [delivery.event.path for delivery in node.sessions["ann"].outbox.queue or ()][-2:] == [("b",), ()]
    again.close()


# --- files that cannot be used


def test_a_store_of_another_format_is_refused(path: Path) -> None:
    Store(path, "full").close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(StoreError, match=f"has format {VERSION + 1}, this version reads {VERSION}"):
        Store(path, "full")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="cannot be opened: file is not a database"):
        Store(path, "full")


def test_a_new_store_is_for_its_owner_only(store: Store, path: Path) -> None:
    store.write(Changes())
    store.commit()
    assert {file.name: file.stat().st_mode & 0o077 for file in path.parent.glob("node.db*")} == {
        "node.db": 0,
        "node.db-wal": 0,
    }


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "missing" / "node.db", "full")


def test_a_store_whose_rows_make_no_sense_is_refused(store: Store, path: Path) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute("INSERT INTO session (id, client_id, listener, version, expiry) VALUES (1, 'ann', '', 5, 'soon')")
    db.commit()
    db.close()
    broken = Store(path, "full")
    with pytest.raises(StoreError, match="cannot be read"):
        load(broken)
    broken.close()


def test_two_processes_cannot_use_one_store(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="database is locked"):
            Store(path, "full")
    finally:
        holder.communicate("let go\n")
    Store(path, "full").close()


HOLD = """
import sys
from pathlib import Path
from penstock.broker.store.store import Store
store = Store(Path(sys.argv[1]), "full")
print("held", flush=True)
sys.stdin.readline()
store.close()
"""
