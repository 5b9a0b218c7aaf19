"""Tokens that end: clients and nodes renew theirs, and for what was kept longer than its token the node vouches."""

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine import governing
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.trust import keys
from penstock.policy.tokens.revocation import Revoked
from penstock.policy.tokens.verification import Verified
from tests.engine.trust.test_trust import denied, line


def two() -> Rehearsal:
    rehearsal = line(2, {"sign": 0.5}, tokens={"lifetime": 600})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    return rehearsal


def alone(name: str) -> Rehearsal:
    """A node without neighbours."""
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem"}},
            "tokens": {
                "keys": "keys.json",
                "grants": [{"clients": "*", "publish": "home/#", "subscribe": "home/#"}],
            },
        }
    )
    return Rehearsal(domain, ensemble(domain))


def got(rehearsal: Rehearsal, client: str) -> list[bytes]:
    return [one.payload for one in rehearsal.deliveries(client)]


def test_clients_and_neighbours_have_new_tokens_however_long_it_was() -> None:
    rehearsal = two()
    for number in range(3):
        rehearsal.wait(10_000)
        rehearsal.publish("ann", "home/door", b"%d" % number)
        rehearsal.run()
    assert got(rehearsal, "bob") == [b"0", b"1", b"2"]
    assert denied(rehearsal) == denied(rehearsal, "not registered") == denied(rehearsal, "token ended") == []


def test_for_what_waits_longer_than_its_token_counts_the_node_vouches() -> None:
    rehearsal = two()
    rehearsal.cut("b1", "b2")
    rehearsal.publish("ann", "home/door", b"early", qos=1)
    rehearsal.run()
    rehearsal.wait(700)
    rehearsal.publish("ann", "home/door", b"late", qos=1)
    rehearsal.restore("b1", "b2")
    assert got(rehearsal, "bob") == [b"early", b"late"]
    assert holders(rehearsal) == {"$node/b1", "ann"}
    assert denied(rehearsal) == []


def test_for_what_is_retained_longer_than_its_token_counts_the_node_vouches() -> None:
    rehearsal = two()
    rehearsal.unsubscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"open", qos=1, retain=True)
    rehearsal.run()
    rehearsal.wait(700)
    rehearsal.subscribe("bob", "home/#")
    assert got(rehearsal, "bob") == [b"open"]
    assert holders(rehearsal) == {"$node/b1"}


def holders(rehearsal: Rehearsal) -> set[str]:
    """Whose tokens b1 has told b2."""
    link = rehearsal.nodes["b2"].federation.neighbours["b1"].trust.tokens
    assert link is not None
    return {one.token.claims.subject.name for one in link.heard.values() if isinstance(one, Verified)}


RETAINED = [
    pytest.param(1, "token", "b1", ["home/eve"], id="at the only node"),
    pytest.param(2, "token", "b1", ["home/eve"], id="at its own node"),
    pytest.param(2, "token", "b2", ["home/eve"], id="at a neighbour"),
    pytest.param(2, "key", "b2", [], id="of the key at a neighbour"),
]


@pytest.mark.parametrize(("nodes", "what", "at", "topics"), RETAINED)
def test_what_is_retained_of_a_revoked_token_goes_to_nobody_new(
    nodes: int, what: str, at: str, topics: list[str]
) -> None:
    rehearsal = line(nodes) if nodes > 1 else alone("b1")
    for client in ("ann", "eve"):
        rehearsal.connect(client, "b1")
        rehearsal.publish(client, f"home/{client}", b"open", qos=1, retain=True)
    rehearsal.run()
    node = rehearsal.nodes["b1"]
    shown = node.sessions["ann"].trust.token
    assert shown is not None
    assert node.trust.keys is not None
    ids = frozenset({shown.token.claims.id if what == "token" else node.trust.keys.signing.key_id})
    for one in rehearsal.nodes.values():
        assert one.trust.keys is not None
        keys.hold(one, one.trust.keys._replace(revoked=Revoked(**{f"{what}s": ids})), rehearsal.now)
    rehearsal.run()
    rehearsal.connect("cam", at)
    rehearsal.subscribe("cam", "home/#")
    assert [one.topic for one in rehearsal.deliveries("cam")] == topics


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize("nodes", [1, 2])
def test_what_is_queued_of_a_revoked_token_does_not_leave(nodes: int, is_ended: bool) -> None:
    """A node without neighbours did not keep the tokens of what waits, and no node those that had ended."""
    rehearsal = line(nodes) if nodes > 1 else alone("b1")
    rehearsal.connect("cam", "b1")
    rehearsal.subscribe("cam", "home/#", 1)
    rehearsal.disconnect("cam")
    for client in ("ann", "eve"):
        rehearsal.connect(client, "b1")
        rehearsal.publish(client, f"home/{client}", b"open", qos=1)
    rehearsal.run()
    shown = rehearsal.nodes["b1"].sessions["ann"].trust.token
    assert shown is not None
    if is_ended:
        for client in ("ann", "eve"):
            rehearsal.disconnect(client)
        rehearsal.wait(4_000)
        rehearsal.wait(4_000)
    for one in rehearsal.nodes.values():
        assert one.trust.keys is not None
        one.trust.keys = one.trust.keys._replace(revoked=Revoked(tokens=frozenset({shown.token.claims.id})))
        governing.govern(one, one.limits, None, None, rehearsal.ensemble, rehearsal.now)
    rehearsal.run()
    rehearsal.connect("cam", "b1")
    assert [one.topic for one in rehearsal.deliveries("cam")] == ["home/eve"]
