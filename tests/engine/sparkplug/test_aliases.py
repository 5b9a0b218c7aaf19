"""What aliases mean is what the last birth of their client said: random traffic, in which births are refused or late.

The oracle is in the traffic: each value is the name of its metric.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.events import user_properties
from penstock.engine.federation import overlay
from penstock.engine.matching.step_budget import StepBudget
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.wire.packet import Puback, Publish
from penstock.wire.properties import Properties
from tests.engine.sparkplug.test_federation import ACCESS, LINE, RING, federation
from tests.support.generators.sparkplug import FORBIDDEN, traffic
from tests.support.memory.node import Client, MemoryNode
from tests.support.memory.sparkplug import encode

ADVERTISED = {"name": "all", "filter": "#", "where": "timestamp < timestamp('1970-01-01T00:00:00.050Z')"}
DBIRTH = "spBv1.0/G1/DBIRTH/E1/d"
RULES: dict[str, Any] = {
    "nodes": {"test": {"listen": "127.0.0.1:0", "store": "memory"}},
    "clients": {
        "e1": {"node": "test", "edge": "G1/E1", "advertises": [ADVERTISED]},
        **{name: {"node": "test"} for name in ("other", "host", "reader")},
    },
    "access": [
        {"subject": ["G1/E1", "other"], "topics": "spBv1.0/#", "may": "write", "when": f"!has({FORBIDDEN})"},
        {"subject": "host", "topics": "spBv1.0/#", "may": ["read", "write"]},
        {"subject": "reader", "topics": "spBv1.0/#", "may": "read", "except": "secret*"},
    ],
    "monitors": {
        "every-other": {
            "link": "e1 -> test",
            "states": {
                "q": {DBIRTH: {"pass": True, "next": "r"}, "*": "pass"},
                "r": {DBIRTH: {"suppress": True, "next": "q"}, "*": "pass"},
            },
        }
    },
}


class Host:
    """Reads by the births that it has received, and by nothing else."""

    def __init__(self) -> None:
        self.names: dict[str, dict[int | None, str | None]] = {}
        self.by_alias = 0

    def reads(self, topic: str, payload: bytes) -> None:
        """Every value is that of the metric which this host takes it for."""
        _, _, kind, *source = topic.split("/")
        message, read = parse(payload), read_sparkplug(payload)
        if kind in ("NBIRTH", "NDEATH"):
            self.names.clear()
        names = self.names.setdefault("/".join(source), {})
        if "DATA" not in kind:
            names.clear()
        if "BIRTH" in kind:
            names.update((metric.alias, metric.name) for metric in message.metrics)
        assert all(value == name for name, value in read["metrics"].items())
        assert all(value == names[alias] for alias, value in read["aliases"].items())
        self.by_alias += len(read["aliases"])


def got(client: Client) -> list[Publish]:
    return [packet for packet in client.take() if isinstance(packet, Publish)]


@pytest.mark.parametrize("seed", range(40))
def test_nobody_takes_a_value_for_that_of_another_metric(seed: int) -> None:
    joined = MemoryNode(whole=ensemble(Domain.model_validate(RULES)))
    clients = {name: joined.connect(name) for name in RULES["clients"]}
    readers = {name: Host() for name in ("host", "reader")}
    for name in readers:
        clients[name].subscribe("spBv1.0/#").take()
    for said in traffic(random.Random(seed), 400):
        clients["other" if said.is_intruder else "e1"].publish(said.topic, said.payload, said.qos)
        for name, host in readers.items():
            for packet in got(clients[name]):
                assert name == "host" or b"secret" not in packet.payload
                host.reads(packet.topic, packet.payload)
    assert all(host.by_alias > 5 for host in readers.values())


@pytest.mark.parametrize("links", [LINE, RING], ids=["line", "ring"])
@pytest.mark.parametrize("seed", range(20))
def test_between_nodes_a_report_is_read_by_its_own_birth(
    links: list[tuple[str, str]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows between nodes are small, so that what has QoS 1 waits, births too, while reports at QoS 0 go on."""
    monkeypatch.setattr(overlay, "WINDOW", 2)
    draw = random.Random(seed)
    rehearsal = federation(links)
    rehearsal.subscribe("there", "spBv1.0/#")
    rehearsal.wait(1)
    seen = 0
    for said in traffic(draw, 200):
        if not said.is_intruder:
            rehearsal.publish("e1", said.topic, said.payload, qos=said.qos)
        _disturb(draw, rehearsal)
        seen += _seen(rehearsal)
    rehearsal.restore("b", "c")
    rehearsal.wait(10)
    assert seen + _seen(rehearsal) > 20


def _disturb(draw: random.Random, rehearsal: Rehearsal) -> None:
    match draw.randrange(40):
        case 0:
            rehearsal.cut("b", "c")
        case 1 | 2:
            rehearsal.restore("b", "c")
            rehearsal.wait(10)
        case 3:
            rehearsal.restart("b")
        case number if number < 15:
            rehearsal.run()


def _seen(rehearsal: Rehearsal) -> int:
    payloads = [packet.payload for packet in rehearsal.deliveries("there")]
    assert all(b"secret" not in payload for payload in payloads)
    return sum(len(read_sparkplug(payload)["aliases"]) for payload in payloads)


NBIRTH, NDATA, NCMD = (f"spBv1.0/G1/{kind}/E1" for kind in ("NBIRTH", "NDATA", "NCMD"))


def born(**aliases: int) -> bytes:
    metrics = [{"name": name, "alias": alias, "string_value": name} for name, alias in aliases.items()]
    return encode({"timestamp": 1, "seq": 0, "metrics": metrics})


def test_the_client_is_told_why_its_reports_are_refused_and_nobody_else_can_cause_it() -> None:
    joined = MemoryNode(whole=ensemble(Domain.model_validate(RULES)))
    edge, other = joined.connect("e1"), joined.connect("other")
    by_alias = encode({"timestamp": 1, "seq": 1, "metrics": [{"alias": 1, "string_value": "a"}]})

    def reason() -> int:
        (answer,) = (packet for packet in edge.publish(NDATA, by_alias, qos=1).take() if isinstance(packet, Puback))
        return answer.reason

    edge.publish(NBIRTH, born(a=1)).take()
    other.publish(NBIRTH, born(secret=1)).take()
    assert reason() < 0x80
    edge.publish(NBIRTH, born(secret=1, forbidden=2)).take()
    assert reason() == 0x87
    assert "until its next birth" in joined.node.notices[-1].reason
    edge.publish(NBIRTH, born(a=1)).take()
    assert reason() < 0x80


def test_a_command_by_alias_is_not_delivered_under_another_birth_than_it_was_checked_by() -> None:
    commands = {"subject": "there", "topics": NCMD, "may": "write", "except": "secret"}
    rehearsal = federation(LINE, access=[*ACCESS, commands])
    rehearsal.subscribe("e1", NCMD)
    rehearsal.wait(1)
    rehearsal.publish("e1", NBIRTH, born(a=1, secret=2))
    rehearsal.run()
    rehearsal.cut("b", "c")
    rehearsal.publish("e1", NBIRTH, born(a=2, secret=1))
    rehearsal.run()
    for metric in ({"alias": 1, "string_value": "x"}, {"name": "a", "string_value": "y"}):
        rehearsal.publish("there", NCMD, encode({"metrics": [metric]}), qos=1)
    rehearsal.restore("b", "c")
    rehearsal.wait(10)
    assert [read_sparkplug(packet.payload)["metrics"] for packet in rehearsal.deliveries("e1")] == [{"a": "y"}]


def test_a_command_by_alias_that_waited_is_not_delivered_under_another_birth_than_it_was_checked_by() -> None:
    access = [*RULES["access"], {"subject": "G1/E1", "topics": NCMD, "may": "read"}]
    joined = MemoryNode(whole=ensemble(Domain.model_validate({**RULES, "access": access})))
    edge, host = joined.connect("e1", session_expiry=100), joined.connect("host")
    edge.subscribe(NCMD, qos=1).publish(NBIRTH, born(a=1, secret=2)).lose()
    for metric in ({"alias": 1, "string_value": "x"}, {"name": "a", "string_value": "y"}):
        host.publish(NCMD, encode({"metrics": [metric]}), qos=1)
    edge = joined.connect("e1", clean_start=False, session_expiry=100)
    assert [read_sparkplug(packet.payload)["metrics"] for packet in got(edge)] == [{"a": "y"}]


BY_ALIAS = encode({"timestamp": 1, "seq": 1, "metrics": [{"alias": 1, "string_value": "secret"}]})


@pytest.mark.parametrize("is_restarted", [False, True])
def test_aliases_mean_nothing_to_a_client_that_connects_anew_until_its_next_birth(is_restarted: bool) -> None:
    """The birth with which it exchanged them was lost, with its connection or with the node."""
    store = Store(Path(":memory:"), "normal")
    whole = ensemble(Domain.model_validate(RULES))
    joined = MemoryNode(durable=True, commits=False, whole=whole)
    store.load(joined.node, joined.now)
    edge = joined.connect("e1").publish(NBIRTH, born(a=1, secret=2))
    if is_restarted:
        changes, _ = joined.node.ledger.take()
        store.write(changes)
        store.commit()
        joined = MemoryNode(whole=whole)
        store.load(joined.node, joined.now)
    else:
        edge.lose()
        joined.commits = True
    reader = joined.connect("reader")
    reader.subscribe("spBv1.0/#").take()
    edge = joined.connect("e1").publish(NDATA, BY_ALIAS)
    edge.publish(NBIRTH, born(secret=1, a=2)).publish(
        NDATA, encode({"timestamp": 1, "metrics": [{"alias": 2, "string_value": "a"}]})
    )
    assert [read_sparkplug(packet.payload)["aliases"] for packet in got(reader)] == [{}, {}, {2: "a"}]
    store.close()


def test_a_birth_that_is_refused_for_a_property_of_nodes_ends_what_aliases_meant() -> None:
    joined = MemoryNode(whole=ensemble(Domain.model_validate(RULES)))
    edge, reader = joined.connect("e1"), joined.connect("reader")
    reader.subscribe("spBv1.0/#").take()
    forged = Properties(user_properties=((user_properties.BIRTH, "x"),))
    edge.publish(NBIRTH, born(a=1, secret=2)).publish(NBIRTH, born(secret=1, a=2), properties=forged)
    edge.publish(NDATA, BY_ALIAS)
    assert [read_sparkplug(packet.payload)["metrics"] for packet in got(reader)] == [{"a": "a"}]


def test_a_birth_for_which_no_steps_of_conditions_are_left_ends_what_aliases_meant() -> None:
    joined = MemoryNode(whole=ensemble(Domain.model_validate(RULES)))
    edge, reader = joined.connect("e1"), joined.connect("reader")
    reader.subscribe("spBv1.0/#").take()
    edge.publish(NBIRTH, born(a=1, secret=2))
    joined.node.sessions["e1"].connection.publishing = spent = StepBudget()
    assert spent.is_left(joined.now, joined.node.limits.condition_steps)
    spent.charge(10 * joined.node.limits.condition_steps)
    edge.publish(NBIRTH, born(secret=1, a=2))
    joined.wait(60)
    edge.publish(NDATA, BY_ALIAS)
    assert [read_sparkplug(packet.payload)["metrics"] for packet in got(reader)] == [{"a": "a"}]


def test_a_value_that_its_edge_node_may_not_write_any_more_is_given_back_to_nobody() -> None:
    """The reader was owed it: the present domain would not have let it come."""
    hidden = {"subject": "other", "topics": "spBv1.0/#", "may": "read", "except": "a"}
    shown, written = {**hidden, "except": []}, {**RULES["access"][0], "except": "a"}
    rules = [*RULES["access"], hidden], [written, *RULES["access"][1:], shown]
    before, then = (ensemble(Domain.model_validate({**RULES, "access": access})) for access in rules)
    joined = MemoryNode(whole=before)
    edge, reader = joined.connect("e1"), joined.connect("other")
    reader.subscribe("spBv1.0/#").take()
    edge.publish(NBIRTH, born(a=1, b=2))
    edge.publish(NDATA, encode({"timestamp": 1, "metrics": [{"alias": 1, "string_value": "old"}]}))
    joined.govern(None, then)
    edge.publish(NDATA, encode({"timestamp": 1, "metrics": [{"alias": 2, "string_value": "b"}]}))
    found = [packet.payload for packet in got(reader)]
    assert b"b" in found[-1]
    assert all(b"old" not in payload for payload in found)
