"""Policies and the store: what clients have set survives, what cannot be read back widens nothing, what persists."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.broker.store.persisted import Selection
from penstock.broker.store.store import Store
from penstock.cli.main import main
from penstock.domain import Domain, LimitSettings
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.engine import governing
from penstock.engine.ledger import Persisted
from penstock.engine.node import Node
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.wire.properties import Properties
from tests.support.clients.peer import Peer
from tests.support.memory.node import START, MemoryNode
from tests.support.models.stored_state import durable_state
from tests.support.processes.admin import ask
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, running

ON_PUBLICATIONS = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
TRIM = ON_PUBLICATIONS.format("If {} Then {RemoveAttributes(secret)}")
BLOCK = ON_PUBLICATIONS.format("If {} Then {BlockMessage()}")
PERSIST = ON_PUBLICATIONS.format("If {} Then {Persist(audit)}")
GRANT = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*", "others": "#"}
CLIENTS = {name: {"node": "test"} for name in ("ann", "bob", "p")}


def made(**statements: Any) -> Ensemble:
    return ensemble(
        Domain.model_validate(
            {
                "nodes": {"test": {"listen": ANY_PORT}},
                "clients": CLIENTS,
                "statements": {"grants": [GRANT], **statements},
            }
        )
    )


def save(node: Node, store: Store) -> None:
    store.write(node.ledger.take()[0])
    store.commit()


def load(store: Store, whole: Ensemble | None = None, now: float = START) -> Node:
    node = Node("test", LimitSettings(), lambda: "made", durable=True, ensemble=whole or made())
    store.load(node, now)
    return node


def resumed(store: Store, whole: Ensemble | None = None) -> MemoryNode:
    """A node that starts with a store, and clients can connect to."""
    joined = MemoryNode(durable=True, whole=whole or made())
    store.load(joined.node, joined.now)
    return joined


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = Store(tmp_path / "node.db", "full")
    yield opened
    opened.close()


def advertise(client: Any, name: str, filter: str, policy: str) -> None:
    client.publish(
        "$penstock/advertise", json.dumps({"name": name, "filter": filter, "policy": policy}).encode(), qos=1
    )


def with_policies() -> MemoryNode:
    joined = MemoryNode(durable=True, commits=False, whole=made())
    ann = joined.connect("ann", session_expiry=3600)
    ann.subscribe("t/#", qos=1, user_properties=(("policy", TRIM), ("name", "trimmed")))
    ann.subscribe("u", qos=1)
    advertise(joined.connect("p", session_expiry=3600), "all", "t/#", PERSIST)
    return joined


def policies(node: Node, client: str) -> dict[str, str]:
    session = node.sessions[client]
    policies = {
        subscription.name or subscription.filter: subscription.policy for subscription in session.subscriptions.values()
    }
    policies |= {name: advertisement.policy for name, advertisement in session.declared.advertisements.items()}
    return {name: "" if policy is None else policy.text for name, policy in policies.items()}


def test_policies_of_subscriptions_and_advertisements_are_loaded(store: Store) -> None:
    joined = with_policies()
    save(joined.node, store)
    loaded = load(store)
    assert durable_state(loaded) == durable_state(joined.node)
    assert policies(loaded, "ann") == policies(joined.node, "ann")
    assert policies(loaded, "p") == policies(joined.node, "p")
    assert "RemoveAttributes" in policies(loaded, "ann")["trimmed"]
    assert loaded.statements.with_policies, "the advertisement's policy is known to the tables"


def test_a_policy_that_is_restored_is_applied(store: Store) -> None:
    save(with_policies().node, store)
    joined = resumed(store)
    ann = joined.connect("ann", clean_start=False)
    joined.connect("p", clean_start=False).publish("t/1", b'{"a": 1, "secret": 2}', qos=1)
    assert [json.loads(payload) for payload in ann.payloads()] == [{"a": 1}]


FORMAT_4 = """
DROP TABLE revision; DROP TABLE rights; CREATE TABLE access (digest TEXT NOT NULL);
DROP TABLE persisted; DROP TABLE bound; DROP TABLE moving; ALTER TABLE session DROP COLUMN began;
ALTER TABLE delivery DROP COLUMN revision;
DROP TABLE shown; DROP TABLE token; DROP TABLE evidence;
DROP TABLE brought; DROP TABLE held; DROP TABLE collected; DROP TABLE refused; DROP TABLE capsule;
ALTER TABLE retained DROP COLUMN token; ALTER TABLE message DROP COLUMN token;
ALTER TABLE retained DROP COLUMN path; ALTER TABLE message DROP COLUMN path;
ALTER TABLE subscription DROP COLUMN policy; ALTER TABLE advertisement DROP COLUMN policy;
PRAGMA user_version = 4;
"""


def test_a_store_of_format_4_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    first = Store(path, "full")
    save(with_policies().node, first)
    first.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(FORMAT_4)
    again = Store(path, "full")
    loaded = load(again)
    assert policies(loaded, "ann") == {"trimmed": "", "u": ""}
    assert policies(loaded, "p") == {"all": ""}
    joined = with_policies()
    save(joined.node, again)
    assert policies(load(again), "ann") == policies(joined.node, "ann")
    again.close()


# --- what cannot be read back


@pytest.fixture
def without_package(tmp_path: Path) -> Any:
    """A store whose policies use an element that is no longer installed."""
    path = tmp_path / "node.db"
    first = Store(path, "full")
    save(with_policies().node, first)
    first.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        for table in ("subscription", "advertisement"):
            db.execute(f"UPDATE {table} SET policy = replace(policy, 'RemoveAttributes', 'Blacken')")
            db.execute(f"UPDATE {table} SET policy = replace(policy, 'Persist', 'Blacken')")
        db.commit()
    again = Store(path, "full")
    yield again
    again.close()


def test_a_subscription_whose_policy_cannot_be_read_is_not_restored_and_the_operator_is_told(
    without_package: Store,
) -> None:
    node = load(without_package)
    assert policies(node, "ann") == {"u": ""}
    notices = [(notice.kind, notice.client_id, notice.topic) for notice in node.notices]
    assert ("policy dropped", "ann", "t/#") in notices
    assert any("there is no element `Blacken`" in notice.reason for notice in node.notices)
    save(node, without_package)
    assert [notice for notice in load(without_package).notices if notice.client_id == "ann"] == []


def test_under_an_advertisement_whose_policy_cannot_be_read_nothing_is_published(without_package: Store) -> None:
    joined = resumed(without_package)
    assert ("policy dropped", "p") in [(notice.kind, notice.client_id) for notice in joined.node.notices]
    governing.govern(
        joined.node, LimitSettings(), None, None, made(), START
    )  # nor does a reload take it for a policy of the client
    bob = joined.connect("bob").subscribe("#")
    p = joined.connect("p", clean_start=False)
    p.publish("t/1", b"secret", qos=1)
    assert bob.payloads() == []
    advertise(p, "all", "t/#", TRIM)
    p.publish("t/1", b'{"a": 1}', qos=1)
    assert bob.payloads() == ['{"a":1}'], "said anew, it counts again"


def test_an_advertisement_whose_policy_cannot_be_read_stays_in_the_store_as_it_was(without_package: Store) -> None:
    node = load(without_package)
    save(node, without_package)
    assert any("`Blacken`" in notice.reason for notice in load(without_package).notices if notice.client_id == "p")


# --- what is granted no longer


def test_a_policy_that_is_granted_no_longer_when_the_node_starts_is_dropped(store: Store) -> None:
    save(with_policies().node, store)
    node = load(store, made(grants=[{**GRANT, "elements": ["Persist"]}]))
    assert policies(node, "ann") == {"trimmed": "", "u": ""}
    assert "Persist" in policies(node, "p")["all"]
    (notice,) = [candidate for candidate in node.notices if candidate.kind == "policy dropped"]
    assert (notice.client_id, notice.topic) == ("ann", "t/#")
    assert notice.reason == "a subscription's policy is dropped: `ann` may not use `RemoveAttributes`"
    save(node, store)
    assert policies(load(store), "ann") == {"trimmed": "", "u": ""}


# --- what waited while policies changed


def given(policy: str, to: str = "subscription", of: str = "ann") -> dict[str, Any]:
    return {"policies": {"one": policy}, "apply": [{"policy": "one", "to": to, "of": of}]}


ASKS = ON_PUBLICATIONS.format("If {secret == 2} Then {RemoveAttributes(secret)}")


def waiting(path: Path, before: Ensemble) -> None:
    """A store in which a message waits for ann, published by p."""
    domain = Domain.model_validate({"nodes": {"test": {"listen": ANY_PORT}}, "clients": CLIENTS})
    store = Store(path, "full")
    rehearsal = Rehearsal(domain, before, None, {"test": store})
    for client in ("ann", "p"):
        rehearsal.connect(client, "test")
    rehearsal.subscribe("ann", "t")
    rehearsal.disconnect("ann")
    rehearsal.publish("p", "t", b'{"a": 1, "secret": 2}', qos=1)
    rehearsal.run()
    store.close()


CHANGES = {
    "nothing": ({}, {}, {"a": 1, "secret": 2}),
    "the same policy, which asks for what it has taken out": (given(ASKS), given(ASKS), {"a": 1}),
    "a policy for its reader": ({}, given(TRIM), {"a": 1}),
    "a policy that blocks, for its reader": ({}, given(BLOCK), None),
    "a policy for its publisher's publications": ({}, given(TRIM, "publication", "p"), {"a": 1}),
    "a policy for its publisher's advertisement": ({}, given(BLOCK, "advertisement", "p"), None),
    "a policy for another publisher": ({}, given(BLOCK, "publication", "bob"), {"a": 1, "secret": 2}),
    "a policy that asks for what an earlier one took out": (given(TRIM), given(ASKS), None),
    "a policy that is gone": (given(TRIM), {}, {"a": 1}),
}


@pytest.mark.parametrize("title", CHANGES)
def test_what_waits_while_the_node_is_off_is_judged_again_if_policies_changed(tmp_path: Path, title: str) -> None:
    before, after, expected = CHANGES[title]
    path = tmp_path / "node.db"
    waiting(path, made(**before))
    store = Store(path, "full")
    joined = resumed(store, made(**after))
    ann = joined.connect("ann", clean_start=False)
    assert [json.loads(payload) for payload in ann.payloads()] == ([] if expected is None else [expected])
    store.close()


# --- what is persisted


def rows(store: Store, **selection: Any) -> list[Persisted]:
    return list(store.persisted(Selection(**selection)))


def test_a_message_is_persisted_with_what_made_it_so(store: Store) -> None:
    joined = MemoryNode(durable=True, commits=False, whole=made(**given(PERSIST, "publication", "p")))
    joined.connect("ann").subscribe("t")
    joined.connect("p").publish("t", b"kept\xff")
    save(joined.node, store)
    assert rows(store) == [Persisted(START, "audit", "one", "t", b"kept\xff")]


def test_above_the_limit_the_oldest_are_dropped_and_it_is_said_once(store: Store) -> None:
    joined = MemoryNode(durable=True, commits=False, whole=made(**given(PERSIST, "publication", "p")))
    joined.node.limits = LimitSettings(persisted_messages=3)
    joined.connect("ann").subscribe("t")
    p = joined.connect("p")
    for number in range(5):
        p.publish("t", str(number).encode())
        if number == 1:
            save(joined.node, store)
    changes = joined.node.ledger.take()[0]
    store.write(changes)
    store.rollback()
    store.write(changes)  # tried again, it is the same
    store.commit()
    assert [row.payload for row in rows(store)] == [b"2", b"3", b"4"]
    assert len([notice for notice in joined.node.notices if notice.kind == "full"]) == 1
    again = MemoryNode(durable=True, commits=False, whole=made(**given(PERSIST, "publication", "p")))
    again.node.limits = LimitSettings(persisted_messages=2)
    store.load(again.node, START)
    again.connect("ann").subscribe("t")
    again.connect("p").publish("t", b"5")
    save(again.node, store)
    assert [row.payload for row in rows(store)] == [b"4", b"5"], "a lower limit holds too"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    path = tmp_path / "node.db"
    store = Store(path, "full")
    node = load(store)
    for at, (collection, payload) in enumerate(
        [("audit", b'{"a": 1}'), ("other", b"\x00\xff"), ("audit", b"3\x1b[2J")]
    ):
        node.ledger.persist(Persisted(1_700_000_000 + 60 * at, collection, "p", f"t/{at}", payload), 10)
    save(node, store)
    store.close()
    return path


def run(*arguments: str) -> tuple[int, str, str]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(["persisted", *arguments])
    return code, out.getvalue(), error.getvalue()


SHOWN = {
    "all": ((), ["t/0", "t/1", "t/2"]),
    "of a collection": (("--collection", "audit"), ["t/0", "t/2"]),
    "from a time on": (("--since", "2023-11-14T22:14:20"), ["t/1", "t/2"]),
    "before a time": (("--until", "2023-11-14T23:14:20+01:00"), ["t/0"]),
    "of a collection that is not there": (("--collection", "none"), []),
}


@pytest.mark.parametrize("title", SHOWN)
def test_the_command_shows_them(full: Path, title: str) -> None:
    options, expected = SHOWN[title]
    code, out, error = run("--store", str(full), "--json", *options)
    assert (code, error) == (0, "")
    assert [json.loads(line)["topic"] for line in out.splitlines()] == expected


def test_the_command_shows_a_table_and_payloads_do_the_terminal_no_harm(full: Path) -> None:
    _, out, _ = run("--store", str(full))
    lines = out.splitlines()
    assert lines[0].split() == ["time", "collection", "policy", "topic", "payload"]
    assert lines[1].split() == ["2023-11-14T22:13:20.000Z", "audit", "p", "t/0", '{"a":', "1}"]
    assert lines[2].endswith("2 bytes: 00 ff")
    assert lines[3].endswith("3\\x1b[2J")
    _, out, _ = run("--store", str(full), "--collections")
    assert [line.split() for line in out.splitlines()[1:]] == [["audit", "2"], ["other", "1"]]


def test_the_command_deletes_what_is_chosen(full: Path) -> None:
    assert run("--store", str(full), "--collection", "audit", "--delete") == (0, "2 messages deleted\n", "")
    assert [json.loads(line)["topic"] for line in run("--store", str(full), "--json")[1].splitlines()] == ["t/1"]


def test_the_command_makes_no_store(tmp_path: Path) -> None:
    code, _, error = run("--store", str(tmp_path / "missing.db"))
    assert (code, error) == (1, f"penstock: there is no store `{tmp_path}/missing.db`\n")
    assert not (tmp_path / "missing.db").exists()


# --- a live node


def persisted(address: str) -> Any:
    return json.loads(ask(address)[2])


async def test_kill_9_and_a_restart_keep_policies_and_what_was_persisted() -> None:
    with running({"store": "node.db", "admin": ANY_PORT}) as node:
        whole = yaml.safe_load((node.folder / "domain.yaml").read_text())
        whole["statements"] = {"grants": [GRANT]}
        node.stop()
        (node.folder / "domain.yaml").write_text(yaml.safe_dump(whole))
        node.start()
        reader = await Peer.open(HOST, node.port)
        await reader.connect("reader", properties=Properties(session_expiry=3600))
        await reader.subscribe("t", qos=1, properties=Properties(user_properties=(("policy", TRIM),)))
        sender = await Peer.open(HOST, node.port)
        await sender.connect("sender", properties=Properties(session_expiry=3600))
        advertisement = json.dumps({"name": "all", "filter": "#", "policy": PERSIST}).encode()
        await sender.publish("$penstock/advertise", advertisement, qos=1)
        await sender.publish("t", b'{"a": 1, "secret": 1}', qos=1)
        assert json.loads((await reader.receive("t")).payload) == {"a": 1}
        node.kill()
        node.start()
        sender = await Peer.open(HOST, node.port)
        await sender.connect("sender", clean_start=False, properties=Properties(session_expiry=3600))
        await sender.publish("t", b'{"a": 2, "secret": 2}', qos=1)
        reader = await Peer.open(HOST, node.port)
        await reader.connect("reader", clean_start=False, properties=Properties(session_expiry=3600))
        got = {json.dumps(json.loads((await reader.receive("t")).payload)) for _ in range(2)}
        assert got == {'{"a": 1}', '{"a": 2}'}, "the first was not acknowledged before the node was killed"
        messages = persisted(f"http://{HOST}:{node.ports('http')[0]}/api/persisted?collection=audit")
        assert [json.loads(message["payload"])["a"] for message in messages] == [1, 2]
        assert run("--store", str(node.folder / "node.db"))[0] == 1, "a node that runs has its store for itself"


def test_in_a_rehearsal_nodes_with_stores_keep_the_policies_of_clients_and_of_neighbours(tmp_path: Path) -> None:
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": ANY_PORT} for name in ("near", "far")},
            "links": [{"between": ["near", "far"]}],
            "brokering": {"default": "default", "types": ["default"]},
            "statements": {"grants": [GRANT]},
        }
    )
    stores = {name: Store(tmp_path / name, "full") for name in domain.nodes}
    rehearsal = Rehearsal(domain, ensemble(domain), None, stores)
    rehearsal.connect("s", "near")
    rehearsal.connect("p", "far")
    rehearsal.subscribe("s", "t", policy=TRIM)
    rehearsal.advertise("p", "all", "t", policy=PERSIST)
    rehearsal.run()
    alone = Node("far", LimitSettings(), lambda: "made", durable=True, ensemble=rehearsal.ensemble)
    stores["far"].load(alone, rehearsal.now)
    wants = alone.sessions["$node/near"].subscriptions.values()
    assert ["RemoveAttributes" in want.policy.text for want in wants if want.policy] == [True]
    for name in ("far", "near"):
        rehearsal.restart(name)
    rehearsal.publish("p", "t", b'{"a": 1, "secret": 2}', qos=1)
    rehearsal.run()
    assert [json.loads(delivery.payload) for delivery in rehearsal.deliveries("s")] == [{"a": 1}]
    assert [row.topic for row in rows(stores["far"])] == ["t"]
    for store in stores.values():
        store.close()
