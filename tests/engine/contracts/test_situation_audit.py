"""Break-the-glass is audited: what opens and ends is always told and kept, with who got what because of it."""

from typing import Any

import msgspec
import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine import governing
from penstock.engine.contracts.situation_audit import COLLECTION, ENDED, OPENED, REFUSED
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.node import MemoryNode

SAID: dict[str, Any] = {
    "nodes": {name: {"listen": "127.0.0.1:0"} for name in "ab"},
    "links": [{"between": ["a", "b"]}],
    "clients": {
        name: {"node": node} for name, node in {"bob": "a", "capsule": "a", "rescue": "b", "near": "a"}.items()
    },
    "contracts": {
        "producers": {
            "bob": {"producer": "bob", "filter": "place", "rules": {"r": {"purpose": "help", "situation": "hazard"}}}
        },
        "consumers": {"c": {"consumer": ["rescue", "near"], "purpose": "help", "situation": "hazard", "wants": {}}},
        "situations": {
            name: {"sources": ["capsule"], "opens": "open", "closes": "close", "lasts": "1h"}
            for name in ("hazard", "war")
        },
    },
}


def play() -> Rehearsal:
    domain = Domain.model_validate(SAID)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in SAID["clients"]:
        rehearsal.connect(client)
    for client in ("rescue", "near"):
        rehearsal.subscribe(client, "place")
    return rehearsal


def say(rehearsal: Rehearsal, who: str, topic: str) -> None:
    rehearsal.publish(who, topic, b'{"lat": 1}', 1)
    rehearsal.run()


def test_each_node_tells_what_opens_and_ends_and_who_got_what() -> None:
    rehearsal = play()
    for who, topic in (
        ("bob", "place"),
        ("capsule", "open"),
        ("bob", "place"),
        ("bob", "place"),
        ("capsule", "close"),
        ("bob", "place"),
    ):
        say(rehearsal, who, topic)
    assert [len(rehearsal.deliveries(who)) for who in ("near", "rescue")] == [2, 2]
    told = [(one.kind, one.reason) for one in rehearsal.notices if "`hazard`" in one.reason]
    assert sorted(told) == [
        (ENDED, "`hazard` closed as node `a` tells; events released here because of it: `rescue` 2"),
        (ENDED, "`hazard` closed by `capsule`; events released here because of it: `near` 2"),
        (OPENED, "`hazard` opened by `capsule`"),
        (OPENED, "`hazard` opened by `capsule` as node `a` tells"),
    ]


def test_other_nodes_are_told_of_all_that_one_event_changes() -> None:
    rehearsal = play()
    say(rehearsal, "capsule", "open")
    for node in rehearsal.nodes.values():
        assert node.contracts is not None
        assert set(node.contracts.open) == {"hazard", "war"}
    say(rehearsal, "capsule", "close")
    for node in rehearsal.nodes.values():
        assert node.contracts is not None
        assert not node.contracts.open


def test_it_is_kept_in_the_store_and_what_others_try_is_only_told() -> None:
    nodes = {"test": {"listen": "127.0.0.1:0"}}
    clients = {name: {"node": "test"} for name in SAID["clients"]}
    domain = Domain.model_validate({**SAID, "nodes": nodes, "links": [], "clients": clients})
    joined = MemoryNode(whole=ensemble(domain), durable=True, commits=False)
    node = joined.node
    joined.connect("rescue").publish("open", b"{}")
    assert [one.kind for one in node.notices] == ["situation", "situation"]
    assert node.ledger.persisted == 0
    capsule = joined.connect("capsule")
    capsule.publish("open", b"{}")
    capsule.publish("open", b"{}")
    capsule.publish("close", b"{}")
    rows = [row for row in node.ledger.changes.persisted.values() if row.policy == "situation hazard"]
    assert [row.collection for row in rows] == [COLLECTION] * 2
    assert [msgspec.json.decode(row.payload)["change"] for row in rows] == ["opened", "closed"]


FAR = {"sources": ["capsule", "spy"], "opens": "open", "closes": "close"}


@pytest.mark.parametrize(
    ("title", "who", "lasts", "more", "is_open", "why"),
    [
        ("as here", "capsule", "1h", {}, True, ""),
        ("a source that is none here", "spy", "1h", {}, False, "`spy` is none of its sources here"),
        ("longer than here", "capsule", "30d", {}, False, "it is to last 2592000 s, and lasts 3600 s at most here"),
        ("longer than here, by as much as clocks differ", "capsule", 3660, {}, True, ""),
        ("one that is not there", "capsule", "1h", {"fire": FAR | {"lasts": "1h"}}, True, "no such situation here"),
    ],
)
def test_the_word_of_another_node_counts_as_far_as_the_own_domain_goes(
    title: str, who: str, lasts: str | int, more: dict[str, Any], is_open: bool, why: str
) -> None:
    clients = {**SAID["clients"], "spy": {"node": "a"}}
    here = Domain.model_validate({**SAID, "clients": clients})
    said = {**SAID["contracts"], "situations": {"hazard": FAR | {"lasts": lasts}, **more}}
    there = Domain.model_validate({**SAID, "clients": clients, "contracts": said})
    rehearsal = Rehearsal(here, ensemble(here))
    node = rehearsal.nodes["a"]
    governing.govern(node, node.limits, None, None, ensemble(there), rehearsal.now)
    for client in (who, "bob", "rescue"):
        rehearsal.connect(client)
    rehearsal.subscribe("rescue", "place")
    say(rehearsal, who, "open")
    say(rehearsal, "bob", "place")
    assert len(rehearsal.deliveries("rescue")) == is_open, title
    refused = [one.reason for one in rehearsal.nodes["b"].notices if one.kind == REFUSED]
    assert [why in one for one in refused] == ([True] if why else []), refused
    rehearsal.wait(3601)
    assert not rehearsal.nodes["b"].contracts.open_at(rehearsal.now)  # type: ignore[union-attr]
