"""Access policies on a node: what edge nodes may write, and what readers see of it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.sessions import outbox
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.wire.packet import Puback, Publish
from tests.support.memory.node import Client, MemoryNode
from tests.support.memory.sparkplug import encode

DOMAIN = """
nodes: {test: {listen: "127.0.0.1:0"}}
clients:
  e1: {node: test, edge: G1/E1}
  e2: {node: test, edge: G1/E2}
  a1: {node: test, groups: [analytics], attributes: {level: 2}}
  a2: {node: test, groups: [analytics], attributes: {level: 2}}
  scada: {node: test}
access:
  - {subject: [G1/E1, G1/E2], topics: "spBv1.0/G1/+/+/#", may: [read, write]}
  - {subject: scada, topics: "spBv1.0/#", may: [read, write]}
  - {subject: "group:analytics", topics: "spBv1.0/G1/NBIRTH/E1", may: read, except: secret}
  - subject: "group:analytics"
    topics: "spBv1.0/G1/NDATA/E1"
    may: read
    except: [secret, "hidden/*"]
    when: "hide.value == 1"
  - subject: "group:analytics"
    topics: "spBv1.0/G1/NDATA/E1"
    may: read
    except: secret
    when: "!has(drop) && subject.attributes.level > 1"
  - subject: "group:analytics"
    topics: "spBv1.0/G1/NCMD/+"
    may: write
    when: "metrics.all(name, name == 'Node Control/Rebirth')"
"""
NBIRTH, NDATA, NCMD = (f"spBv1.0/G1/{kind}/E1" for kind in ("NBIRTH", "NDATA", "NCMD"))


def metrics(**values: int) -> list[dict[str, Any]]:
    return [{"name": name.replace("__", "/"), "datatype": 3, "int_value": value} for name, value in values.items()]


class Plant:
    """A node with an edge node, a host and two readers of the same rights."""

    def __init__(self, text: str = DOMAIN, durable: bool = False) -> None:
        self.joined = MemoryNode(
            durable=durable, commits=not durable, whole=ensemble(Domain.model_validate(yaml.safe_load(text)))
        )
        self.edge = self.joined.connect("e1")
        lasting: dict[str, Any] = {"session_expiry": 3600} if durable else {}
        self.clients = {name: self.joined.connect(name, **lasting) for name in ("a1", "a2", "scada")}
        for client in self.clients.values():
            client.subscribe("spBv1.0/#").take()
        self.seq = -1

    def says(self, topic: str, seq: int | None = None, **values: int) -> None:
        """Publish, with the next `seq` unless another is given."""
        self.seq = self.seq + 1 if seq is None else seq
        payload = encode({"timestamp": 1, "metrics": metrics(**values), "seq": self.seq % 256})
        self.edge.publish(topic, payload)

    def settle(self, store: Store) -> None:
        """Commit, and let go what waited for it."""
        changes, deferred = self.joined.node.ledger.take()
        store.write(changes)
        store.commit()
        outbox.release_deferred(self.joined.node, deferred)
        outbox.flush(self.joined.node)

    def got(self, name: str) -> list[tuple[int | None, dict[str, Any]]]:
        """What a reader has got since the last time: `seq` and values."""
        found = [packet for packet in self.clients[name].take() if isinstance(packet, Publish)]
        read = [read_sparkplug(packet.payload) for packet in found]
        return [(one.get("seq"), one["metrics"]) for one in read]


def restarted(plant: Plant, store: Store) -> None:
    """The node ends; another begins with what is in the store, and the same clients come back."""
    changes, _ = plant.joined.node.ledger.take()
    store.write(changes)
    store.commit()
    whole = plant.joined.node.ensemble
    plant.joined = MemoryNode(durable=True, commits=False, whole=whole)
    store.load(plant.joined.node, plant.joined.now)
    plant.edge = plant.joined.connect("e1")
    names: dict[str, Any] = {"clean_start": False, "session_expiry": 3600}
    plant.clients = {name: plant.joined.connect(name, **names) for name in plant.clients}
    plant.settle(store)


def test_what_is_owed_to_a_reader_outlives_the_node() -> None:
    store = Store(Path(":memory:"), "normal")
    plant = Plant(durable=True)
    plant.says(NBIRTH, a=0, hide=0, hidden__x=0)
    plant.says(NDATA, hide=1, hidden__x=7)
    plant.says(NDATA, hide=1, hidden__x=8)
    restarted(plant, store)
    plant.got("a1")
    plant.says(NDATA, hide=0)
    plant.settle(store)
    assert [values for _, values in plant.got("a1")] == [{"hide": 0, "hidden/x": 8}]
    restarted(plant, store)
    plant.says(NDATA, hide=0)
    plant.settle(store)
    assert [values for _, values in plant.got("a1")] == [{"hide": 0}]
    store.close()


def test_a_view_has_no_excluded_metric_and_what_is_whole_is_as_it_came() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=1, secret=2)
    assert plant.got("a1") == [(0, {"a": 1})]
    assert plant.got("scada") == [(0, {"a": 1, "secret": 2})]


def test_what_was_withheld_comes_back() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=0, hide=0, hidden__x=0)
    plant.says(NDATA, hide=1, hidden__x=7)
    plant.says(NDATA, hide=0)
    assert plant.got("a1") == [
        (0, {"a": 0, "hide": 0, "hidden/x": 0}),
        (1, {"hide": 1}),
        (2, {"hide": 0, "hidden/x": 7}),
    ]


def test_seq_has_no_gap_where_a_message_is_withheld_and_keeps_those_that_are_real() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=0, drop=0)
    for values in ({"a": 1}, {"drop": 1}, {"a": 2}):
        plant.says(NDATA, **values)
    plant.says(NDATA, seq=6, a=3)
    assert [seq for seq, _ in plant.got("a1")] == [0, 1, 2, 5]
    assert [seq for seq, _ in plant.got("scada")] == [0, 1, 2, 3, 6]


def test_seq_goes_round() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=0, drop=0)
    plant.says(NDATA, drop=1)
    for number in range(600):
        plant.says(NDATA, a=number)
    assert [seq for seq, _ in plant.got("a1")] == [number % 256 for number in range(601)]


def test_readers_with_the_same_rights_get_the_same_bytes() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=1, secret=2)
    one, two = (
        [packet.payload for packet in plant.clients[name].take() if isinstance(packet, Publish)]
        for name in ("a1", "a2")
    )
    assert one == two


def test_an_application_may_order_a_retransmission_and_nothing_else() -> None:
    plant = Plant()
    plant.edge.subscribe("spBv1.0/G1/NCMD/E1").take()
    order = encode({"metrics": [{"name": "Node Control/Rebirth", "datatype": 11, "boolean_value": True}]})
    answer = plant.clients["a1"].publish(NCMD, order, qos=1).take()
    assert [packet.reason for packet in answer if isinstance(packet, Puback)] == [0]
    assert [packet.payload for packet in plant.edge.take() if isinstance(packet, Publish)] == [order]
    answer = plant.clients["a1"].publish(NCMD, encode({"metrics": metrics(speed=9)}), qos=1).take()
    assert [packet.reason for packet in answer if isinstance(packet, Puback)] == [0x87]
    assert plant.edge.take() == []


def test_nobody_publishes_another_s_birth() -> None:
    plant = Plant()
    other = plant.joined.connect("e2")
    answer = other.publish(NBIRTH, encode({"metrics": metrics(a=1), "seq": 0}), qos=1).take()
    assert [packet.reason for packet in answer if isinstance(packet, Puback)] == [0x87]
    assert "nobody else speaks for it" in plant.joined.node.notices[-1].reason
    assert plant.got("scada") == []


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        (NDATA, b"\x12\x05abc"),
        (NDATA, b"{}"),
        ("spBv1.0/G1/NODATA/E1", encode({"metrics": []})),
        ("spBv1.0/G1/NDATA/E1/d1", encode({"metrics": []})),
        ("spBv1.0/STATE/host", b"ONLINE"),
        ("spBv1.0/STATE/host", b'{"online":true,"timestamp":1,"x":' + b"[" * 1000 + b"]" * 1000 + b"}"),
        ("spBv1.0/STATE/host", b'{"online":true,"timestamp":5,"online":false}'),
        ("spBv1.0/STATE/host", b'{"online":true,"timestamp":5,"x":"\xff"}'),
        (NBIRTH, encode({"metrics": [{"alias": 1, "int_value": 1}], "seq": 0})),
        ("spBv1.0", b""),
    ],
)
def test_what_is_not_sparkplug_is_refused_with_the_reason(topic: str, payload: bytes) -> None:
    plant = Plant()
    answer = plant.clients["scada"].publish(topic, payload, qos=1).take()
    assert [packet.reason for packet in answer if isinstance(packet, Puback)] == [0x99]
    assert re.search("not|without a name", plant.joined.node.notices[-1].reason)


def test_no_policy_no_access() -> None:
    plant = Plant()
    stranger = plant.joined.connect("a1", clean_start=True)
    stranger.subscribe("spBv1.0/#").take()
    plant.clients["scada"].publish("spBv1.0/G2/NDATA/E9", encode({"metrics": metrics(a=1), "seq": 0}))
    assert stranger.take() == []


def test_other_topics_are_as_ever() -> None:
    plant = Plant()
    plant.clients["a1"].subscribe("a/b").take()
    plant.clients["scada"].publish("a/b", b"hi")
    assert [packet.payload for packet in plant.clients["a1"].take() if isinstance(packet, Publish)] == [b"hi"]


def test_births_are_kept_and_read_through_the_same_views() -> None:
    plant = Plant()
    plant.says(NBIRTH, a=1, secret=2)
    for name in ("a1", "scada"):
        plant.got(name)
    said = {}
    for name in ("a1", "scada"):
        client: Client = plant.clients[name]
        client.subscribe("$sparkplug/certificates/#")
        (said[name],) = (packet for packet in client.take() if isinstance(packet, Publish))
    assert said["a1"].topic == f"$sparkplug/certificates/{NBIRTH}"
    assert read_sparkplug(said["a1"].payload)["metrics"] == {"a": 1}
    assert read_sparkplug(said["scada"].payload)["metrics"] == {"a": 1, "secret": 2}


def test_state_is_whole_or_not_there() -> None:
    plant = Plant(
        DOMAIN + '  - {subject: a1, topics: "spBv1.0/STATE/+", may: read, except: "*", when: "message.online"}\n'
    )
    for said in (b'{"online":true,"timestamp":1}', b'{"online":false,"timestamp":2}'):
        plant.clients["scada"].publish("spBv1.0/STATE/scada", said, retain=True)
    got = [packet.payload for packet in plant.clients["a1"].take() if isinstance(packet, Publish)]
    assert got == [b'{"online":true,"timestamp":1}']


def test_aliases_of_a_device() -> None:
    plant = Plant(DOMAIN + '  - {subject: a1, topics: "spBv1.0/G1/+/E1/d1", may: read, except: secret}\n')
    born = [{"name": "a", "alias": 1, "int_value": 0}, {"name": "secret", "alias": 2, "int_value": 0}]
    plant.edge.publish("spBv1.0/G1/DBIRTH/E1/d1", encode({"metrics": born, "seq": 1}))
    said = [{"alias": 1, "int_value": 5}, {"alias": 2, "int_value": 6}]
    plant.edge.publish("spBv1.0/G1/DDATA/E1/d1", encode({"metrics": said, "seq": 2}))
    got = [read_sparkplug(one.payload) for one in plant.clients["a1"].take() if isinstance(one, Publish)]
    assert [one["metrics"] for one in got] == [{"a": 0}, {}]
    assert got[1]["aliases"] == {1: 5}


BY_USER = """
nodes: {test: {listen: "127.0.0.1:0"}}
clients:
  e1: {node: test, edge: G1/E1}
  a1: {node: test, id: a1, user: alice}
  shared: {node: test, user: bob}
access:
  - {subject: G1/E1, topics: "spBv1.0/#", may: write}
  - {subject: [a1, kiosk], topics: "spBv1.0/#", may: read}
"""


@pytest.mark.parametrize(
    ("client_id", "user", "sees"), [("a1", "alice", True), ("a1", "bob", False), ("kiosk", "bob", True)]
)
def test_the_client_id_of_another_client_gives_nothing(client_id: str, user: str, sees: bool) -> None:
    joined = MemoryNode(whole=ensemble(Domain.model_validate(yaml.safe_load(BY_USER))))
    reader = joined.connect(client_id, user=user)
    reader.subscribe("spBv1.0/#").take()
    joined.connect("e1").publish(NBIRTH, encode({"metrics": metrics(a=1), "seq": 0}))
    assert any(isinstance(packet, Publish) for packet in reader.take()) is sees
