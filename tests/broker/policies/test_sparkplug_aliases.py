"""Sparkplug aliases at live nodes: data by alias is read by the birth of its client, or by none."""

from typing import Any

import pytest

from penstock.engine.federation.overlay import WINDOW
from penstock.model.sparkplug.payload import read_sparkplug
from tests.engine.sparkplug.test_leaks import BORN, MARK, NBIRTH, NDATA, payload
from tests.support.clients.paho import Paho
from tests.support.memory.sparkplug import encode
from tests.support.processes.federation import Nodes, federated, together

SWAPPED: list[dict[str, Any]] = [
    {"name": "a", "alias": 2, "datatype": 12, "string_value": "born"},
    {"name": "secret", "alias": 1, "datatype": 12, "string_value": MARK.decode()},
]
"""The aliases of `BORN`, exchanged."""
VALUE = {"alias": 1, "string_value": MARK.decode()}
ACCESS: list[dict[str, Any]] = [
    {"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": "write", "when": "!has(forbidden)"},
    {"subject": "host", "topics": "spBv1.0/#", "may": "read"},
    {"subject": "reader", "topics": "spBv1.0/G1/#", "may": "read", "except": "secret*"},
    {"subject": "fast", "topics": "spBv1.0/G1/#", "may": "read", "when": "!has(speed) || speed.value > 5"},
]
CLIENTS = {"e1": {"node": "a", "edge": "G1/E1"}, "host": {"node": "a"}, "reader": {"node": "a"}, "fast": {"node": "a"}}
BORN_ONCE = {
    "born": {NBIRTH: {"pass": True, "next": "again"}, "*": "pass"},
    "again": {NBIRTH: {"suppress": True, "next": "born"}, "*": "pass"},
}


def domain(**more: Any) -> dict[str, Any]:
    return {"nodes": {"a": {"store": "memory"}}, "clients": CLIENTS, "access": ACCESS, **more}


def by_alias_or_name(found: bytes) -> dict[Any, Any]:
    """The values of a message that has no value of a metric that is withheld."""
    assert MARK not in found
    read = read_sparkplug(found)
    return {**read["metrics"], **read["aliases"]}


REFUSED = {
    "a write policy": (domain(), payload(*SWAPPED, {"name": "forbidden", "int_value": 1}, seq=0)),
    "malformed": (domain(), payload({"alias": 9, "int_value": 1}, *SWAPPED, seq=0)),
    "a monitor": (domain(monitors={"once": {"link": "e1 -> a", "states": BORN_ONCE}}), payload(*SWAPPED, seq=0)),
    "an advertisement": (
        domain(
            clients={
                **CLIENTS,
                "e1": {**CLIENTS["e1"], "advertises": [{"name": "all", "filter": "#", "where": "seq != 7"}]},
            }
        ),
        payload(*SWAPPED, seq=7),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_after_a_refused_birth_nothing_passes_by_alias_until_a_good_one(why: str) -> None:
    """Issue 17, item 5."""
    rules, refused = REFUSED[why]
    with together(rules, links=0) as nodes:
        port = nodes.ports["a"]
        with (
            Paho("e1").connects(port) as edge,
            Paho("host").connects(port) as host,
            Paho("reader").connects(port) as reader,
        ):
            host.subscribe("spBv1.0/#", 1)
            reader.subscribe("spBv1.0/#", 1)
            edge.publish(NBIRTH, payload(*BORN, seq=0), qos=1)
            edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=1), qos=1)
            edge.publish(NBIRTH, refused, qos=1)
            edge.publish(NDATA, payload(VALUE, seq=1), qos=1)
            edge.publish(NDATA, payload({"name": "a", "string_value": "y"}, seq=2), qos=1)
            edge.publish(NBIRTH, payload(*SWAPPED, seq=0), qos=1)
            edge.publish(NDATA, payload({"alias": 2, "string_value": "z"}, VALUE, seq=1), qos=1)
            seen = [by_alias_or_name(found) for found in reader.payloads(5)]
            assert seen[1:] == [{1: "x"}, {"a": "y"}, {"a": "born"}, {2: "z"}]
            whole = [read_sparkplug(found)["aliases"] for found in host.payloads(5)]
            assert whole == [{}, {1: "x"}, {}, {}, {2: "z", 1: MARK.decode()}]


def test_aliases_of_an_edge_node_that_connects_anew_mean_nothing_until_its_next_birth() -> None:
    """Issue 17, item 6: the birth with which it exchanged its aliases was lost with its connection."""
    with together(domain(), links=0) as nodes:
        port = nodes.ports["a"]
        with Paho("host").connects(port) as host, Paho("reader").connects(port) as reader:
            host.subscribe("spBv1.0/#", 1)
            reader.subscribe("spBv1.0/#", 1)
            with Paho("e1").connects(port) as edge:
                edge.publish(NBIRTH, payload(*BORN, seq=0), qos=1)
                edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=1), qos=1)
            with Paho("e1").connects(port) as edge:
                edge.publish(NDATA, payload(VALUE, {"name": "a", "string_value": "y"}, seq=1), qos=1)
                edge.publish(NBIRTH, payload(*SWAPPED, seq=0), qos=1)
                edge.publish(NDATA, payload({"alias": 2, "string_value": "z"}, VALUE, seq=1), qos=1)
                seen = [by_alias_or_name(found) for found in reader.payloads(5)]
                assert seen[1:] == [{1: "x"}, {"a": "y"}, {"a": "born"}, {2: "z"}]
                whole = [read_sparkplug(found)["aliases"] for found in host.payloads(5)]
                assert whole == [{}, {1: "x"}, {}, {}, {2: "z", 1: MARK.decode()}]


def test_a_report_that_overtakes_its_birth_between_nodes_is_not_read_by_an_older_one() -> None:
    """Issue 17, item 6. The other node sleeps: births wait for its acknowledgements, reports at QoS 0 do not."""
    clients = {**CLIENTS, "reader": {"node": "b"}}
    nodes_of = {name: {"store": "memory"} for name in "ab"}
    rules = domain(nodes=nodes_of, links=[{"between": ["a", "b"]}], clients=clients)
    with (
        federated(rules) as nodes,
        Paho("e1").connects(nodes.ports["a"]) as edge,
        Paho("host").connects(nodes.ports["a"]) as host,
        Paho("reader").connects(nodes.ports["b"]) as reader,
    ):
        _overtaken(nodes, edge, host, reader)


def _overtaken(nodes: Nodes, edge: Paho, host: Paho, reader: Paho) -> None:
    for filter in ("spBv1.0/#", "fill", "settle"):
        reader.subscribe(filter, 1)
    while reader.messages.empty():
        host.publish("settle", b"", qos=1)
    edge.publish(NBIRTH, payload(*BORN, seq=0), qos=1)
    while (found := reader.receive()).topic != NBIRTH:
        pass
    nodes.freeze("b")
    for _ in range(WINDOW + 5):
        host.publish("fill", b"", qos=1)
    edge.publish(NBIRTH, payload(*SWAPPED, seq=0), qos=1)
    edge.publish(NDATA, payload(VALUE, seq=1))
    edge.publish(NDATA, payload({"alias": 2, "string_value": "z"}, seq=2), qos=1)
    nodes.thaw("b")
    seen: list[tuple[str, dict[Any, Any]]] = []
    while not seen or seen[-1][1] != {2: "z"}:
        found = reader.receive()
        if found.topic != "fill" and found.topic != "settle":
            seen.append((found.topic, by_alias_or_name(bytes(found.payload))))
    assert seen == [(NDATA, {}), (NBIRTH, {"a": "born"}), (NDATA, {2: "z"})]


def test_a_value_that_does_not_fit_its_type_is_refused() -> None:
    """Issue 17, item 8: modulo 2^32 this one would be 7, which may be seen."""
    with together(domain(), links=0) as nodes:
        port = nodes.ports["a"]
        with Paho("e1").connects(port) as edge, Paho("fast").connects(port) as fast:
            fast.subscribe("spBv1.0/#", 1)
            for value in ({"long_value": (1 << 32) + 7}, {"int_value": 9}):
                edge.publish(NBIRTH, encode({"metrics": [{"name": "speed", "datatype": 3, **value}], "seq": 0}), qos=1)
            assert read_sparkplug(fast.payloads(1)[0])["metrics"] == {"speed": 9}
            fast.nothing_arrives()


def test_a_statement_that_names_metrics_refuses_data_by_alias() -> None:
    """Issue 17, item 7."""
    keep = "PolicyStatement { On(Forward, Publication) { @broker: Egress If {} Then {KeepOnlyAttributes(a)} } }"
    rules = domain(
        statements={"policies": {"keep": keep}, "apply": [{"policy": "keep", "to": "publication", "of": "e1"}]}
    )
    del rules["access"]
    with together(rules, links=0) as nodes:
        port = nodes.ports["a"]
        with Paho("e1").connects(port) as edge, Paho("reader").connects(port) as reader:
            reader.subscribe("spBv1.0/#", 1)
            edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=1), qos=1)
            edge.publish(NDATA, payload({"name": "a", "string_value": "y"}, seq=2), qos=1)
            assert [read_sparkplug(found)["metrics"] for found in reader.payloads(1)] == [{"a": "y"}]
            reader.nothing_arrives()
