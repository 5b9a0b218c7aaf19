"""Messages that wait for a session, queued or sent and not acknowledged, are judged by what holds when they leave."""

from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, Ensemble, ensemble
from penstock.engine import governing
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.policy.access.acl import Acl
from penstock.policy.access.passwords import PasswordHash, Passwords
from penstock.wire.packet import WillMessage
from penstock.wire.properties import Properties
from tests.support.memory.node import MemoryNode
from tests.support.memory.rehearsed import reload
from tests.support.memory.sparkplug import encode

CLIENTS: dict[str, Any] = {"ann": {"node": "test"}, "bob": {"node": "test"}}
HOT = {"name": "hot", "filter": "a", "where": "x > 5"}
PRODUCER = {"producer": "ann", "filter": "a", "rules": {"all": {"purpose": "health"}}}
BLOCK, REMOVE = (
    f"PolicyStatement {{ On(Forward, Publication) {{ If {{}} Then {{{element}}} }} }}"
    for element in ("BlockMessage()", "RemoveAttributes(y)")
)


def statement(policy: str) -> dict[str, Any]:
    return {"statements": {"policies": {"p": policy}, "apply": [{"policy": "p", "to": "publication", "of": "ann"}]}}


def monitored(link: str) -> dict[str, Any]:
    edges = [{"when": "x > 5", "pass": True}, {"suppress": True}]
    return {"monitors": {"m": {"link": link, "states": {"q0": {"a": edges, "*": "pass"}}}}}


PAYLOAD = b'{"x":1,"y":2}'
CHANGES: dict[str, tuple[dict[str, Any], str, list[bytes]]] = {
    "nothing": ({}, "", [PAYLOAD]),
    "advertises": ({"clients": CLIENTS | {"ann": {"node": "test", "advertises": [HOT]}}}, "", []),
    "where": ({"clients": CLIENTS | {"bob": {"node": "test", "where": {"a": "x > 5"}}}}, "", []),
    "a contract": ({"contracts": {"producers": {"ann": PRODUCER}}}, "", []),
    "a statement blocks": (statement(BLOCK), "", []),
    "a statement removes": (statement(REMOVE), "", [b'{"x":1}']),
    "a monitor on the publisher's link": (monitored("ann -> test"), "", []),
    "a monitor on the receiver's link": (monitored("test -> bob"), "", []),
    "the publisher may not write": ({}, "user ann\ntopic read a\nuser bob\ntopic read a", []),
    "the receiver may not read": ({}, "user ann\ntopic write a", []),
    "the publisher is not listed": ({"clients": {"bob": CLIENTS["bob"]}}, "", []),
    "the link is closed": (
        {
            "clients": {"ann": {"node": "test", "type": "secret"}, "bob": {"node": "test", "type": "open"}},
            "brokering": {"types": ["secret", "open"], "deny": [{"from": "secret", "to": "open"}]},
        },
        "",
        [],
    ),
}


def whole(**change: Any) -> Ensemble:
    plain = {"nodes": {"test": {"listen": "127.0.0.1:0"}}, "clients": CLIENTS, "contracts": {"bring": "*"}}
    return ensemble(Domain.model_validate(plain | change))


def rights(text: str) -> Acl:
    return Acl.parse(text or "user ann\ntopic write a\nuser bob\ntopic read a", "acl")


def changed(joined: MemoryNode, acl: Acl, domain: Ensemble, is_restarted: bool) -> MemoryNode:
    """The node after a reload, or after a restart with the new domain."""
    if not is_restarted:
        joined.govern(acl, domain)
        return joined
    store = Store(Path(":memory:"), "normal")
    changes, _ = joined.node.ledger.take()
    store.write(changes)
    store.commit()
    again = MemoryNode(acl=acl, durable=True, whole=domain)
    again.now = joined.now
    store.load(again.node, again.now)
    return again


@pytest.mark.parametrize("is_restarted", [False, True], ids=["reload", "restart"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["queued", "in flight"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_message_that_waits_is_judged_when_it_leaves(change: str, is_sent: bool, is_restarted: bool) -> None:
    difference, acl, expected = CHANGES[change]
    joined = MemoryNode(acl=rights(""), durable=True, commits=False, whole=whole())
    bob = joined.connect("bob", user="bob", clean_start=False, session_expiry=100)
    bob.subscribe("a", 1)
    if not is_sent:
        bob.lose()
    joined.connect("ann", user="ann").publish("a", PAYLOAD, qos=1)
    if is_sent:
        bob.lose()
    joined = changed(joined, rights(acl), whole(**difference), is_restarted)
    joined.commits = True
    again = joined.connect("bob", user="bob", clean_start=False, session_expiry=100)
    assert [message.payload for message in again.messages()] == expected


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("change", ["nothing", "a statement blocks", "a statement removes"])
def test_a_message_for_a_client_that_does_not_read_is_judged_when_it_leaves(
    change: str, qos: int, version: int
) -> None:
    difference, _, expected = CHANGES[change]
    joined = MemoryNode(whole=whole())
    more: dict[str, Any] = {"topic_alias_maximum": 5} if version == 5 else {}
    bob = joined.connect("bob", version, **more).subscribe("a", qos)
    bob.take()
    bob.goes_deaf()
    ann = joined.connect("ann")
    ann.publish("a", PAYLOAD, qos=qos)
    joined.govern(None, whole(**difference))
    ann.publish("a", PAYLOAD, qos=qos)
    bob.reads_on()
    count = 1 if qos == 0 else 2
    assert [message.payload for message in bob.acknowledge()] == expected * count
    assert not bob.session or not bob.session.outbox.inflight


# --- monitors

RENAME = {"monitors": {"m": {"link": "ann -> test", "states": {"q0": {"b": {"rename": "a"}, "*": "pass"}}}}}


@pytest.mark.parametrize(
    ("topic", "acl", "expected"),
    [
        ("b", "user ann\ntopic write b\nuser bob\ntopic read a", [PAYLOAD]),
        ("b", "user ann\ntopic write a\nuser bob\ntopic read a", []),
        ("a", "user ann\ntopic write b\nuser bob\ntopic read a", []),
    ],
    ids=["the right to the cause is left", "the right to the cause is gone", "the right to the event is gone"],
)
@pytest.mark.parametrize("is_retained", [False, True], ids=["queued", "retained"])
def test_a_monitor_on_the_link_of_a_publisher_does_not_keep_its_rights(
    topic: str, acl: str, expected: list[bytes], is_retained: bool
) -> None:
    joined = MemoryNode(acl=rights("user ann\ntopic write #\nuser bob\ntopic read a"), whole=whole(**RENAME))
    bob = joined.connect("bob", user="bob", clean_start=False, session_expiry=100)
    if not is_retained:
        bob.subscribe("a", 1)
        bob.lose()
    joined.connect("ann", user="ann").publish(topic, PAYLOAD, qos=1, retain=is_retained)
    joined.govern(rights(acl), whole(**RENAME))
    again = joined.connect("bob", user="bob", clean_start=False, session_expiry=100)
    if is_retained:
        again.subscribe("a", 1)
    assert [message.payload for message in again.messages()] == expected


# --- wills


@pytest.mark.parametrize("is_delayed", [False, True])
@pytest.mark.parametrize("change", ["nothing", "the client is not listed", "the user is not known"])
def test_a_will_is_published_only_for_a_client_that_could_connect(change: str, is_delayed: bool) -> None:
    joined = MemoryNode(whole=whole())
    bob = joined.connect("bob").subscribe("a")
    properties = Properties(will_delay=10) if is_delayed else Properties()
    will = WillMessage("a", PAYLOAD, 0, False, properties)
    ann = joined.connect("ann", user="ann", will=will, clean_start=False, session_expiry=100)
    if is_delayed:
        ann.lose()
    clients = {"bob": CLIENTS["bob"]} if change == "the client is not listed" else CLIENTS
    user = "eve" if change == "the user is not known" else "ann"
    passwords = Passwords({user: PasswordHash.of(b"secret", 1)})
    governing.govern(joined.node, joined.node.limits, passwords, None, whole(clients=clients))
    if is_delayed:
        joined.wait(10)
    else:
        ann.lose()
    joined.turn()
    assert [message.payload for message in bob.messages()] == ([PAYLOAD] if change == "nothing" else [])


# --- Sparkplug

NBIRTH, NDATA = "spBv1.0/G/NBIRTH/E", "spBv1.0/G/NDATA/E"
READ = {"subject": "bob", "topics": "spBv1.0/G/+/E", "may": "read"}
ACCESS: dict[str, tuple[dict[str, Any], list[dict[int, str]]]] = {
    "nothing": ({}, [{1: "x", 2: "y"}]),
    "except": ({"except": "b"}, [{1: "x"}]),
    "read is removed": ({"subject": "cid"}, []),
    "a time that is over": ({"when": "now < timestamp('1970-01-01T00:00:00Z')"}, []),
    "a metric is not written any more": ({"write": {"except": "b"}}, [{1: "x"}]),
    "write is removed": ({"write": {"may": "read"}}, []),
}


def plant(write: dict[str, Any] | None = None, **change: Any) -> Ensemble:
    clients = {"e": {"node": "test", "edge": "G/E"}, "bob": {"node": "test"}, "cid": {"node": "test"}}
    written = {"subject": "G/E", "topics": "spBv1.0/G/+/E", "may": ["read", "write"]}
    access = [written | (write or {}), READ | change]
    domain = {"nodes": {"test": {"listen": "127.0.0.1:0"}}, "clients": clients, "access": access}
    return ensemble(Domain.model_validate(domain))


def reported(joined: MemoryNode, is_sent: bool) -> None:
    """Have a report by alias wait for bob."""
    bob = joined.connect("bob", clean_start=False, session_expiry=100)
    bob.subscribe("spBv1.0/G/NDATA/E", 1)
    if not is_sent:
        bob.lose()
    edge = joined.connect("e")
    metrics = [{"name": name, "alias": alias, "datatype": 12} for alias, name in ((1, "a"), (2, "b"))]
    values = [{"alias": alias, "string_value": value} for alias, value in ((1, "x"), (2, "y"))]
    edge.publish(NBIRTH, encode({"timestamp": 1, "seq": 0, "metrics": [m | {"string_value": ""} for m in metrics]}))
    edge.publish(NDATA, encode({"timestamp": 2, "seq": 1, "metrics": values}), qos=1)
    if is_sent:
        bob.lose()


def reports(joined: MemoryNode) -> list[dict[int, str]]:
    bob = joined.connect("bob", clean_start=False, session_expiry=100)
    return [read_sparkplug(message.payload)["aliases"] for message in bob.messages()]


@pytest.mark.parametrize("is_sent", [False, True], ids=["queued", "in flight"])
@pytest.mark.parametrize("change", ACCESS)
def test_metrics_that_wait_are_projected_when_they_leave(change: str, is_sent: bool) -> None:
    difference, expected = ACCESS[change]
    joined = MemoryNode(whole=plant())
    reported(joined, is_sent)
    joined.govern(None, plant(**difference))
    assert reports(joined) == expected


@pytest.mark.parametrize("is_sent", [False, True], ids=["queued", "in flight"])
@pytest.mark.parametrize(("seconds", "expected"), [(10, [{1: "x", 2: "y"}]), (100, [])])
def test_a_message_does_not_leave_after_the_time_at_which_it_could_be_read(
    is_sent: bool, seconds: float, expected: list[dict[int, str]]
) -> None:
    joined = MemoryNode(whole=plant(when="now < timestamp('1970-01-01T00:01:00Z')"))
    joined.now = 0
    reported(joined, is_sent)
    joined.wait(seconds)
    assert reports(joined) == expected


@pytest.mark.parametrize("nodes", ["a", "ab"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [("nothing", [b"a b"]), ("not listed", []), ("a metric", [b"a"]), ("write", []), ("acl", []), ("types", [])],
)
def test_the_certificate_of_a_birth_that_could_not_come_any_more_is_not_shown(
    change: str, expected: list[bytes], nodes: str
) -> None:
    """Certificates were a node's own, whoever had published the birth."""
    first, last = nodes[0], nodes[-1]
    write: dict[str, Any] = {"subject": "*", "topics": "spBv1.0/#", "may": ["read", "write"]}
    domain: dict[str, Any] = {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in {first, last}},
        "links": [{"between": [first, last], "type": "secret"}] if first != last else [],
        "clients": {"e": {"node": first, "edge": "G/E", "type": "secret"}, "bob": {"node": last, "type": "open"}},
        "access": [write],
        "brokering": {"types": ["secret", "open"], "deny": []},
    }
    play = Rehearsal(written := Domain.model_validate(domain), ensemble(written))
    for name in domain["clients"]:
        play.connect(name)
    metrics = [{"name": name, "alias": at, "datatype": 12, "string_value": "v"} for at, name in enumerate("ab")]
    play.publish("e", NBIRTH, encode({"timestamp": 1, "seq": 0, "metrics": metrics}), 1)
    play.run()
    acls = dict[str, Acl]()
    match change:
        case "not listed":
            domain["clients"] = {"bob": domain["clients"]["bob"]}
        case "a metric":
            domain["access"] = [write | {"subject": "G/E", "except": "b"}, write | {"subject": "bob"}]
        case "write":
            domain["access"] = [write | {"may": "read"}]
        case "acl":
            acls = {name: Acl.parse("pattern read #\npattern read $sparkplug/#", "acl") for name in (first, last)}
        case "types":
            domain["brokering"]["deny"] = [{"from": "secret", "to": "open"}]
    reload(play, domain, acls)
    play.subscribe("bob", "$sparkplug/#")
    shown = [read_sparkplug(delivered.payload)["metrics"] for delivered in play.deliveries("bob")]
    assert {" ".join(names).encode() for names in shown} == set(expected)
