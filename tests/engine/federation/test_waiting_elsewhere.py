"""An event that waits at another node, retained or queued, leaves only if the present domain lets it come there."""

from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine import governing
from penstock.engine.events import ingress
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.access.acl import Acl
from penstock.wire.packet import Publish
from tests.support.memory.rehearsed import reload

NODES = ("a", "b", "c")
CLIENTS = {"ann": {"node": "a"}, "bob": {"node": "c"}}
LINKS = [{"between": ["a", "b"]}, {"between": ["b", "c"]}]
LOW = {"q0": {"oven": [{"when": "x <= 5", "pass": True}, {"suppress": True}], "*": "pass"}}
PAYLOAD = b'{"x": 7}'
BLOCK = "PolicyStatement { On(Forward, Publication) { If {} Then {BlockMessage()} } }"
BROKERING = {"types": ["secret", "open"], "deny": [{"from": "secret", "to": "open"}]}


def typed(first: str, second: str) -> dict[str, Any]:
    """Links of these types; ann's is secret, bob's open."""
    return {
        "clients": {"ann": {"node": "a", "type": "secret"}, "bob": {"node": "c", "type": "open"}},
        "links": [LINKS[0] | {"type": first}, LINKS[1] | {"type": second}],
        "brokering": {"types": ["secret", "open"], "deny": []},
    }


def monitored(link: str) -> dict[str, Any]:
    return {"monitors": {"low": {"link": link, "states": LOW}}}


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "brokering at the first node": (typed("open", "open"), {"brokering": BROKERING}, None),
    "brokering at the node between": (typed("secret", "open"), {"brokering": BROKERING}, None),
    "brokering at the last node": (typed("secret", "secret"), {"brokering": BROKERING}, None),
    "acl": ({}, {}, "user ann\ntopic write other"),
    "the publisher is not listed": ({}, {"clients": {"bob": CLIENTS["bob"]}}, None),
    "advertises": (
        {},
        {
            "clients": CLIENTS
            | {"ann": {"node": "a", "advertises": [{"name": "low", "filter": "oven", "where": "x < 5"}]}}
        },
        None,
    ),
    "a statement": (
        {},
        {"statements": {"policies": {"p": BLOCK}, "apply": [{"policy": "p", "to": "publication", "of": "ann"}]}},
        None,
    ),
    "a contract": (
        {},
        {"contracts": {"producers": {"ann": {"producer": "ann", "filter": "oven", "rules": {"r": {"purpose": "p"}}}}}},
        None,
    ),
    "a monitor on the publisher's link": ({}, monitored("ann -> a"), None),
    "a monitor on the first link": ({}, monitored("a -> b"), None),
    "a monitor on the last link": ({}, monitored("b -> c"), None),
}


def domain(**more: Any) -> Domain:
    nodes = {name: {"listen": "127.0.0.1:0"} for name in NODES}
    plain = {"domain": "d", "nodes": nodes, "links": LINKS, "clients": CLIENTS, "contracts": {"bring": "*"}}
    return Domain.model_validate(plain | more)


class Played:
    """Three nodes in a line; what ann publishes at one end waits for bob at the other."""

    def __init__(self, way: str, before: dict[str, Any]) -> None:
        written = domain(**before)
        self.rehearsal = Rehearsal(written, ensemble(written))
        self.way = way
        for client in CLIENTS:
            self.rehearsal.connect(client)
        self.rehearsal.subscribe("bob", "oven", 1)
        if way == "queued":
            self.rehearsal.disconnect("bob")
        elif way == "queued between nodes":
            self.rehearsal.cut("b", "c")
        self.rehearsal.publish("ann", "oven", PAYLOAD, qos=1, retain=way == "retained")
        self.rehearsal.run()
        self.seen = len(self.rehearsal.deliveries("bob"))

    def reload(self, after: dict[str, Any], acl: str | None) -> None:
        whole = ensemble(domain(**after))
        for name, node in self.rehearsal.nodes.items():
            rights = None if acl is None or name != "a" else Acl.parse(acl, "acl")
            governing.govern(node, node.limits, None, rights, whole)
        self.rehearsal.run()

    def arrived(self) -> list[bytes]:
        """What bob gets of what has waited."""
        if self.way == "queued":
            self.rehearsal.connect("bob")
        elif self.way == "queued between nodes":
            self.rehearsal.restore("b", "c")
        else:
            self.rehearsal.unsubscribe("bob", "oven")
            self.rehearsal.subscribe("bob", "oven", 1)
        self.rehearsal.run()
        return [delivered.payload for delivered in self.rehearsal.deliveries("bob")[self.seen :]]


@pytest.mark.parametrize("way", ["retained", "queued", "queued between nodes"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_event_that_could_not_come_any_more_does_not_leave(change: str, way: str) -> None:
    before, after, acl = CHANGES[change]
    played = Played(way, before)
    played.reload(before | after, acl)
    assert played.arrived() == []


@pytest.mark.parametrize("way", ["retained", "queued", "queued between nodes"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_event_that_could_still_come_leaves(change: str, way: str) -> None:
    before, after, _ = CHANGES[change]
    played = Played(way, before)
    played.reload(before | {key: before.get(key) for key in after if before.get(key)}, "pattern write oven")
    assert played.arrived() == [PAYLOAD]


@pytest.mark.parametrize("is_cyclic", [False, True])
@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, [PAYLOAD]), ({"in": "other"}, []), ({"monitor": "cloud -> a"}, []), ({"monitor": "a -> b"}, [])],
)
def test_an_event_of_a_foreign_broker_that_could_not_come_any_more_does_not_leave(
    change: dict[str, str], expected: list[bytes], is_cyclic: bool
) -> None:
    """Other nodes did not know who had published what a foreign broker had brought."""
    links = [*LINKS, {"between": ["a", "cloud"]}, *([{"between": ["a", "c"]}] if is_cyclic else [])]
    plain: dict[str, Any] = {
        "links": links,
        "foreign": {"cloud": {"address": "127.0.0.1:1", "in": "oven", "out": "none"}},
    }
    written = domain(**plain)
    rehearsal = Rehearsal(written, ensemble(written))
    rehearsal.connect("bob")
    rehearsal.subscribe("bob", "oven", 1)
    if is_cyclic:
        rehearsal.cut("a", "c")  # so it comes by way of b
    rehearsal.disconnect("bob")
    rehearsal.publish("cloud", "oven", PAYLOAD, 1)
    rehearsal.run()
    monitors = monitored(change["monitor"]) if "monitor" in change else {}
    foreign = {"cloud": plain["foreign"]["cloud"] | {"in": change.get("in", "oven")}}
    reload(
        rehearsal, domain(**plain | monitors | {"foreign": foreign}).model_dump(by_alias=True, exclude_unset=True), {}
    )
    rehearsal.connect("bob")
    assert [delivered.payload for delivered in rehearsal.deliveries("bob")] == expected


@pytest.mark.parametrize("max_packet_size", [300, 2_000, 1_000_000])
def test_a_long_access_list_is_told_in_packets_that_the_neighbour_takes(max_packet_size: int) -> None:
    written = domain(
        nodes={name: {"listen": "127.0.0.1:0", "limits": {"max_packet_size": max_packet_size}} for name in NODES}
    )
    lines = [f'topic write room/{number}/\u00e4"' for number in range(200)]
    acl = Acl.parse("\n".join(("user ann", *lines, "topic read other")), "acl")
    rehearsal = Rehearsal(written, ensemble(written), {"a": acl})
    rehearsal.run()
    for node in rehearsal.nodes.values():
        known = node.federation.rights["a"]
        assert known.acl is not None
        assert known.acl.rights("ann", "ann").may_write('room/199/\u00e4"')
        assert not known.acl.rights("ann", "ann").may_write("other")


@pytest.mark.parametrize("topic", ["$penstock/rights", "$penstock/interest"])
def test_a_foreign_broker_cannot_speak_as_a_node(topic: str) -> None:
    links = [*LINKS, {"between": ["c", "cloud"]}]
    written = domain(foreign={"cloud": {"address": "127.0.0.1:1", "in": ["#"], "out": ["#"]}}, links=links)
    rehearsal = Rehearsal(written, ensemble(written))
    rehearsal.run()
    node = rehearsal.nodes["c"]
    known, subscribed = dict(node.federation.rights), dict(node.federation.neighbours["cloud"].subscriptions)
    payload = {
        "$penstock/rights": b'{"node": "a", "at": 9e9, "text": "pattern write #"}',
        "$penstock/interest": b'{"add": [{"filter": "secret/#"}]}',
    }
    ingress.receive(node, node.federation.neighbours["cloud"], Publish(topic, payload[topic]), rehearsal.now)
    rehearsal.run()
    assert node.federation.rights == known
    assert dict(node.federation.neighbours["cloud"].subscriptions) == subscribed
    assert any(notice.kind == "publish denied" and notice.topic == topic for notice in rehearsal.notices)
