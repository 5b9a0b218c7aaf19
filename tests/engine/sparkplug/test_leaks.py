"""Ways by which somebody might get at a metric that is withheld, or write one that it may not: each is closed."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.broker.store.store import Store
from penstock.domain import Domain, Ensemble, ensemble
from penstock.model.event import Event
from penstock.model.sparkplug.message import COMPRESSED
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.wire.packet import Puback, Publish, WillMessage
from tests.support.memory.node import Client, MemoryNode
from tests.support.memory.sparkplug import PAYLOAD, encode

MARK = b"SECRET"
"""Stands in every value that is withheld, and nowhere else."""
NBIRTH, NDATA, NCMD, NDEATH, STATE = (
    *(f"spBv1.0/G1/{kind}/E1" for kind in ("NBIRTH", "NDATA", "NCMD", "NDEATH")),
    "spBv1.0/STATE/scada",
)
DBIRTH, DDATA = (f"spBv1.0/G1/{kind}/E1/d1" for kind in ("DBIRTH", "DDATA"))
CERTIFICATE = f"$sparkplug/certificates/{NBIRTH}"
DOMAIN = """
nodes: {test: {listen: "127.0.0.1:0"}}
clients:
  e1: {node: test, edge: G1/E1}
  scada: {node: test, user: scada}
  reader: {node: test}
  second: {node: test}
  someone: {node: test, user: someone, id: null}
access:
  - {subject: G1/E1, topics: "spBv1.0/G1/+/E1/#", may: [read, write]}
  - {subject: scada, topics: "spBv1.0/#", may: [read, write]}
  - {subject: [reader, second], topics: "spBv1.0/G1/+/E1/#", may: read, except: "secret*"}
  - subject: reader
    topics: "spBv1.0/G1/NCMD/+"
    may: write
    when: "metrics.all(name, name == 'Node Control/Rebirth')"
  - {subject: second, topics: "spBv1.0/G1/NCMD/+", may: write, except: speed}
"""
BORN: list[dict[str, Any]] = [
    {"name": "a", "alias": 1, "datatype": 12, "string_value": "born"},
    {"name": "secret", "alias": 2, "datatype": 12, "string_value": MARK.decode()},
    {"name": "speed", "alias": 3, "datatype": 3, "int_value": 5},
    {"name": "Node Control/Rebirth", "datatype": 11, "boolean_value": False},
]


def whole(text: str = DOMAIN) -> Ensemble:
    return ensemble(Domain.model_validate(yaml.safe_load(text)))


def payload(*metrics: dict[str, Any], **more: Any) -> bytes:
    return encode({"timestamp": 1, "metrics": list(metrics), **more})


class Plant:
    """A node, its edge node, and a reader from whom `secret` is withheld."""

    def __init__(self, text: str = DOMAIN, durable: bool = False) -> None:
        self.joined = MemoryNode(durable=durable, commits=not durable, whole=whole(text))
        self.edge = self.joined.connect("e1")
        self.scada = self.joined.connect("scada", user="scada")
        lasting: dict[str, Any] = {"session_expiry": 3600} if durable else {}
        self.reader = self.joined.connect("reader", **lasting)
        self.reader.subscribe("spBv1.0/#", qos=1).take()

    def born(self, *more: dict[str, Any]) -> None:
        self.edge.publish(NBIRTH, payload(*BORN, *more, seq=0))

    def seen(self, client: Client | None = None) -> list[Publish]:
        """What the reader, or another, has got; nothing of it has the mark in it."""
        found = [one for one in (client or self.reader).take() if isinstance(one, Publish)]
        for one in found:
            assert MARK not in one.payload
            assert MARK not in _inflated(one.payload)
        return found

    def metrics(self, client: Client | None = None) -> list[dict[Any, Any]]:
        """Values by name, or by alias."""
        read = (read_sparkplug(one.payload) for one in self.seen(client))
        return [{**one["metrics"], **one["aliases"]} for one in read]


def _inflated(data: bytes) -> bytes:
    found = PAYLOAD.FromString(data)
    if found.uuid != COMPRESSED.decode():  # type: ignore[attr-defined]
        return b""
    body: bytes = found.body  # type: ignore[attr-defined]
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else zlib.decompress(body)


def reason(client: Client) -> int:
    (answer,) = (one for one in client.take() if isinstance(one, Puback))
    return answer.reason


# --- aliases


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        pytest.param({"alias": 2}, {}, id="an alias"),
        pytest.param({"name": "", "alias": 2}, {}, id="an empty name beside the alias"),
        pytest.param({"name": "a", "alias": 2}, {}, id="another's name"),
        pytest.param({"name": "secret", "alias": 1}, {}, id="another's alias"),
        pytest.param({"alias": 77}, {}, id="an alias that no birth has told of"),
        pytest.param({"name": "secret/part"}, {}, id="a pattern"),
        pytest.param({"name": "a"}, {"a": MARK.decode()}, id="what may be seen"),
    ],
)
def test_a_report_by(said: dict[str, Any], seen: dict[str, Any]) -> None:
    plant = Plant()
    plant.born()
    assert plant.metrics() == [{"a": "born", "speed": 5, "Node Control/Rebirth": False}]
    plant.edge.publish(NDATA, payload({**said, "string_value": MARK.decode()}, seq=1))
    if seen:
        (got,) = (one for one in plant.reader.take() if isinstance(one, Publish))
        assert read_sparkplug(got.payload)["metrics"] == seen
    else:
        assert plant.metrics() == [{}]


def test_what_was_said_under_a_false_alias_is_not_given_back() -> None:
    when = 'except: [secret], when: "!has(open)"'
    text = DOMAIN.replace('may: read, except: "secret*"}', f"may: read, {when}}}", 1)
    plant = Plant(text + '  - {subject: reader, topics: "spBv1.0/G1/+/E1/#", may: read, when: "has(open)"}\n')
    plant.born({"name": "open", "alias": 4, "int_value": 0, "datatype": 3})
    plant.reader.take()
    plant.edge.publish(NDATA, payload({"name": "a", "alias": 2, "string_value": MARK.decode()}, seq=1))
    assert plant.metrics() == []
    plant.edge.publish(NDATA, payload({"alias": 4, "int_value": 1}, seq=2))
    assert plant.metrics() == [{4: 1}]


def test_devices_are_born_again_with_their_edge_node() -> None:
    plant = Plant()
    plant.born()
    device = {"name": "fine", "alias": 9, "string_value": "x"}
    plant.edge.publish(DBIRTH, payload(device, seq=1))
    plant.edge.publish(DDATA, payload({"alias": 9, "string_value": "y"}, seq=2))
    assert plant.metrics()[-1] == {9: "y"}
    plant.born()
    plant.edge.publish(DDATA, payload({"alias": 9, "string_value": MARK.decode()}, seq=1))
    assert plant.metrics()[-1] == {}


def test_a_message_that_waits_is_not_read_by_a_later_birth() -> None:
    plant = Plant(DOMAIN.replace('except: "secret*"', "except: nothing"), durable=True)
    plant.joined.commits = True
    plant.born()
    plant.reader.acknowledge()
    plant.reader.lose()
    plant.edge.publish(NDATA, payload({"alias": 2, "string_value": MARK.decode()}, seq=1), qos=1)
    plant.edge.publish(NBIRTH, payload({"name": "a", "alias": 2, "string_value": "born"}, seq=0))
    plant.joined.govern(None, whole())
    back = plant.joined.connect("reader", clean_start=False, session_expiry=3600)
    assert plant.metrics(back) == [{}]


# --- compressed payloads


def compressed(inner: bytes, algorithm: str | None = "GZIP", **more: Any) -> bytes:
    made = PAYLOAD(timestamp=1, uuid=COMPRESSED.decode(), body=_deflated(inner, algorithm), **more)
    if algorithm is not None:
        made.metrics.add(name="algorithm", datatype=12, string_value=algorithm)  # type: ignore[attr-defined]
    return made.SerializeToString()


def _deflated(inner: bytes, algorithm: str | None) -> bytes:
    return gzip.compress(inner) if algorithm == "GZIP" else zlib.compress(inner)


@pytest.mark.parametrize("algorithm", ["GZIP", "DEFLATE", None])
def test_what_is_compressed_is_pruned_like_anything_else(algorithm: str | None) -> None:
    plant = Plant()
    plant.edge.publish(NBIRTH, compressed(payload(*BORN, seq=0), algorithm, seq=0))
    plant.edge.publish(NDATA, compressed(payload({"alias": 2, "string_value": MARK.decode()}, seq=1), algorithm))
    first, second = plant.seen()
    assert set(read_sparkplug(_inflated(first.payload))["metrics"]) == {"a", "speed", "Node Control/Rebirth"}
    assert read_sparkplug(_inflated(second.payload))["aliases"] == {}


def test_nothing_travels_around_a_compressed_body() -> None:
    plant = Plant()
    plant.born()
    plant.reader.take()
    said = payload({"alias": 1, "string_value": "x"}, seq=1)
    hidden = payload({"alias": 2, "string_value": MARK.decode()}, seq=1)
    beside = compressed(said) + hidden[:-2]
    twice = PAYLOAD(timestamp=1, uuid=COMPRESSED.decode(), body=gzip.compress(said) + gzip.compress(hidden))
    twice.metrics.add(name="algorithm", string_value="GZIP")  # type: ignore[attr-defined]
    posing = PAYLOAD(timestamp=1, uuid=COMPRESSED.decode(), body=gzip.compress(said))
    posing.metrics.add(name="algorithm", alias=2, string_value="GZIP")  # type: ignore[attr-defined]
    again = compressed(compressed(hidden))
    for wrong in (beside, twice.SerializeToString(), posing.SerializeToString(), again):
        assert reason(plant.edge.publish(NDATA, wrong, qos=1)) == 0x99
    assert plant.seen() == []


# --- commands


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"alias": 3, "int_value": 9}, id="by alias"),
        pytest.param({"alias": 77, "int_value": 9}, id="by an alias that no birth has told of"),
        pytest.param({"name": "Node Control/Rebirth", "alias": 3, "int_value": 9}, id="by alias, under another's name"),
        pytest.param({"name": "Node Control/Rebirth", "alias": 77, "int_value": 9}, id="by name and unknown alias"),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_a_command_may_not_be_smuggled(said: dict[str, Any], version: int) -> None:
    plant = Plant()
    plant.born()
    plant.edge.subscribe(NCMD).take()
    for name in ("reader", "second"):
        plant.joined.connect(name, version).publish(NCMD, payload(said))
    got = [read_sparkplug(one.payload) for one in plant.edge.take() if isinstance(one, Publish)]
    assert all(not one["metrics"] and not one["aliases"] for one in got)


def test_a_client_is_not_another_by_its_client_id() -> None:
    plant = Plant()
    plant.born()
    posing = plant.joined.connect("scada", user="someone")
    assert posing.refused is not None
    assert "client id `scada` belongs to another client" in posing.refused.text
    assert plant.scada.closed is None


# --- what is kept


def test_nobody_takes_back_or_forges_what_is_another_s() -> None:
    plant = Plant()
    plant.born()
    plant.scada.publish(STATE, b'{"online":true,"timestamp":1}', retain=True)
    forged = payload({"name": "a", "alias": 2, "string_value": "x"}, seq=0)
    for topic, said in ((STATE, b""), (CERTIFICATE, b""), (CERTIFICATE, forged)):
        assert reason(plant.reader.publish(topic, said, qos=1, retain=True)) == 0x87
    late = plant.joined.connect("scada", user="scada")
    late.subscribe("$sparkplug/certificates/#").subscribe("spBv1.0/STATE/#")
    assert {one.topic for one in late.take() if isinstance(one, Publish)} == {STATE, CERTIFICATE}


def test_a_host_takes_its_state_back_and_only_who_may_know_hears_of_it() -> None:
    plant = Plant()
    plant.scada.subscribe(STATE).take()
    plant.scada.publish(STATE, b'{"online":false,"timestamp":1}', retain=True).take()
    plant.scada.publish(STATE, b"", retain=True)
    assert [one.payload for one in plant.scada.take() if isinstance(one, Publish)] == [b""]
    assert plant.seen() == []
    late = plant.joined.connect("scada", user="scada")
    assert [one for one in late.subscribe(STATE).take() if isinstance(one, Publish)] == []


def test_an_empty_message_is_for_those_who_may_read_it() -> None:
    plant = Plant(DOMAIN.replace("[reader, second]", "second"))
    plant.edge.publish(NDATA, b"")
    assert plant.seen() == []


def test_only_state_is_retained() -> None:
    plant = Plant()
    plant.born()
    plant.edge.publish(NDATA, payload({"alias": 2, "string_value": MARK.decode()}, seq=1), retain=True)
    plant.edge.publish(NBIRTH, payload({"name": "a", "alias": 2, "string_value": "born"}, seq=0), retain=True)
    assert plant.joined.node.retained.get(NDATA) is None
    assert plant.joined.node.retained.get(NBIRTH) is None
    late = plant.joined.connect("second")
    late.subscribe("spBv1.0/#")
    assert plant.seen(late) == []


def test_what_may_be_seen_by_day_is_not_shown_at_night() -> None:
    day = '  - {subject: second, topics: "spBv1.0/STATE/#", may: read, when: "now.getHours() >= 12"}\n'
    plant = Plant(DOMAIN + day)
    plant.scada.publish(STATE, b'{"online":true,"timestamp":1}', retain=True)
    second = plant.joined.connect("second")
    got = []
    for _ in range(2):
        second.subscribe(STATE)
        got.append(len([one for one in second.take() if isinstance(one, Publish)]))
        plant.joined.wait(12 * 3600)
    assert sorted(got) == [0, 1]


# --- ways of delivery


def test_who_asks_for_content_learns_nothing_of_what_is_withheld() -> None:
    plant = Plant()
    asks = {
        "is there": "'secret' in metrics",
        "is not there": "!('secret' in metrics)",
        "value": "metrics.secret == 'SECRET'",
        "either": "!('secret' in metrics) || metrics.secret == 'other'",
    }
    plant.reader.unsubscribe("spBv1.0/#").take()
    for number, (name, where) in enumerate(asks.items(), start=1):
        wishes = (("where", where), ("name", name.replace(" ", "-")))
        plant.reader.subscribe("spBv1.0/#", identifier=number, user_properties=wishes)
    plant.reader.take()
    plant.born()
    (got,) = plant.seen()
    assert set(got.properties.subscription_ids) == {2, 4}


def test_shared_subscriptions_have_views_too_and_choose_who_may_see() -> None:
    plant = Plant(DOMAIN.replace("[reader, second]", "second"))
    plant.reader.subscribe("$share/hosts/spBv1.0/#").take()
    second = plant.joined.connect("second")
    second.subscribe("$share/hosts/spBv1.0/#").take()
    plant.born()
    for seq in range(1, 5):
        plant.edge.publish(NDATA, payload({"alias": 2, "string_value": MARK.decode()}, seq=seq))
    assert plant.seen() == []
    assert len(plant.seen(second)) == 5


@pytest.mark.parametrize("filter", ["#", "+/G1/#", "spBv1.0/+/NDATA/E1", "spBv1.0/G1/+/+", NDATA])
def test_subscriptions_by(filter: str) -> None:
    plant = Plant()
    second = plant.joined.connect("second", topic_alias_maximum=10)
    second.subscribe(filter).take()
    plant.born()
    for seq in range(1, 4):
        plant.edge.publish(NDATA, payload(*({**one, "string_value": MARK.decode()} for one in BORN[1:2]), seq=seq))
    assert len(plant.seen(second)) in (3, 4)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_death_left_as_a_will_is_pruned_like_anything_else(qos: int) -> None:
    plant = Plant()
    said = payload({"name": "bdSeq", "datatype": 4, "long_value": 7}, {"name": "secret", "string_value": MARK.decode()})
    dying = plant.joined.connect("e1", will=WillMessage(NDEATH, said, qos))
    assert dying.refused is None
    dying.lose()
    assert plant.metrics() == [{"bdSeq": 7}]


def test_a_will_speaks_for_nobody_else() -> None:
    plant = Plant()
    plant.scada.subscribe(NDEATH).take()
    posing = plant.joined.connect("reader", will=WillMessage(NDEATH, payload({"name": "bdSeq", "long_value": 7}), 1))
    posing.lose()
    assert [one for one in plant.scada.take() if isinstance(one, Publish)] == []


def test_what_monitors_send_to_a_client_is_projected() -> None:
    monitor = """
monitors:
  twice: {link: test -> reader, states: {q: {"spBv1.0/G1/NDATA/E1": {pass: true}, "*": pass}}}
"""
    plant = Plant(DOMAIN + monitor)
    plant.born()
    plant.edge.publish(NDATA, payload({"alias": 2, "string_value": MARK.decode()}, seq=1))
    assert plant.metrics() == [{"a": "born", "speed": 5, "Node Control/Rebirth": False}, {}]


def test_a_foreign_broker_sees_what_it_may() -> None:
    text = DOMAIN.replace(
        "access:",
        'foreign: {plantwide: {address: "127.0.0.1:1", in: ["#"], out: ["spBv1.0/#"]}}\n'
        "links: [{between: [test, plantwide]}]\naccess:",
    ).replace("[reader, second]", "[reader, second, plantwide]")
    joined = MemoryNode(whole=whole(text))
    from penstock.engine.federation import overlay
    from penstock.engine.sessions.render import Forms
    from penstock.engine.sparkplug import births
    from penstock.engine.stages import project

    overlay.prepare(joined.node)
    session = joined.node.federation.neighbours["plantwide"]
    event = Event(NBIRTH, payload(*BORN, seq=0))
    assert births.take_in(joined.node, event) == ""
    shown = project.show(joined.node, session, Forms(event, joined.now))
    assert shown is not None
    assert MARK not in shown.event.payload


def test_certificates_go_where_births_may_go() -> None:
    text = DOMAIN.replace("e1: {node: test, edge: G1/E1}", "e1: {node: test, edge: G1/E1, type: sensitive}")
    text = text.replace("scada: {node: test, user: scada}", "scada: {node: test, user: scada, type: internet}")
    text = text.replace("reader: {node: test}", "reader: {node: test, type: sensitive}")
    text = text.replace("second: {node: test}", "second: {node: test, type: internet}")
    text = text.replace("someone: {node: test, user: someone, id: null}", "")
    text += "brokering: {types: [internet, sensitive], deny: [{from: sensitive, to: internet}]}\n"
    plant = Plant(text)
    plant.scada.subscribe("$sparkplug/certificates/#").take()
    plant.born()
    assert [one for one in plant.scada.take() if isinstance(one, Publish)] == []
    plant.scada.subscribe("$sparkplug/certificates/#")
    assert [one for one in plant.scada.take() if isinstance(one, Publish)] == []
    plant.reader.take()
    plant.reader.subscribe("$sparkplug/certificates/#")
    assert [one.topic for one in plant.seen()] == [CERTIFICATE]


# --- across a restart


def test_what_waits_for_a_reader_outlives_the_node_as_it_was_seen() -> None:
    when = "when: \"!has(metrics.secret) || metrics.secret.value != ''\""
    text = DOMAIN.replace('except: "secret*"', f'except: "secret*", {when}')
    store = Store(Path(":memory:"), "normal")
    plant = Plant(text, durable=True)
    store.load(plant.joined.node, plant.joined.now)
    plant.born()
    plant.reader.lose()
    plant.edge.publish(
        NDATA, payload({"alias": 1, "string_value": "x"}, {"alias": 2, "string_value": "S"}, seq=1), qos=1
    )
    changes, _ = plant.joined.node.ledger.take()
    store.write(changes)
    store.commit()
    for policy, expected in ((text, [{1: "x"}]), (DOMAIN.replace("[reader, second]", "second"), [])):
        again = MemoryNode(durable=True, whole=whole(policy))
        store.load(again.node, again.now)
        reader = again.connect("reader", clean_start=False, session_expiry=3600)
        payloads = [message.payload for message in reader.messages() if message.topic == NDATA]
        assert [read_sparkplug(payload)["aliases"] for payload in payloads] == expected
    store.close()
