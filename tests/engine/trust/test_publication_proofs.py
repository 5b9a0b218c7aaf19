"""Groups with `expiry: 0` in rehearsals: messages that wait prove themselves on the link by which they leave."""

from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.events import link_plans
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages import runner
from penstock.engine.trust import group_proofs
from penstock.engine.trust.state import GroupSecrets
from penstock.model.publication_proof import PROOF
from penstock.model.verdict import Effect
from tests.support.scenes.domains import nodes

MEMBERS = """
PolicyStatement {
  On(Forward, Publication) { @broker: Egress If {AuthenticateSender(inner)} Then {} Elseif {} Then {BlockMessage()} }
}
"""


def rehearsal(expiry: float = 0, **more: Any) -> Rehearsal:
    plain = {
        "nodes": nodes("a", "b", "c"),
        "links": [{"between": ["a", "b"]}, {"between": ["b", "c"]}],
        "clients": {
            "ann": {"node": "a"},
            "bob": {"node": "b"},
            "cid": {"node": "c"},
            "dan": {"node": "b"},
            "eve": {"node": "b"},
        },
        "trust_groups": {"inner": {"secret": {"env": "A"}, "nodes": ["a", "b"], "clients": "dan", "expiry": expiry}},
        "statements": {"grants": [{"to": "*", "set": "subscription", "elements": "*"}]},
    }
    domain = Domain.model_validate({**plain, **more})
    play = Rehearsal(domain, ensemble(domain))
    for client in ("ann", "bob", "cid", "dan", "eve"):
        play.connect(client)
    return play


def payloads(play: Rehearsal, client: str) -> list[bytes]:
    return [each.payload for each in play.deliveries(client)]


def publish(play: Rehearsal, client: str, payload: bytes, **how: Any) -> None:
    play.publish(client, "t", payload, **how)
    play.run()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_neighbour_in_the_group_passes_and_one_that_is_not_does_not(qos: int) -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    publish(play, "ann", b"of a", qos=qos, properties=(("k", "v"),), expiry=9)
    publish(play, "cid", b"of c", qos=qos)
    assert payloads(play, "bob") == [b"of a"]
    assert play.deliveries("bob")[0].properties == (("k", "v"),)


def test_a_client_proves_each_publication_or_the_domain_vouches_for_it() -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    publish(play, "dan", b"listed")
    publish(play, "eve", b"before")
    play.prove("eve", ["inner"], "b")
    publish(play, "eve", b"proven")
    play.wait(1000)
    publish(play, "eve", b"proven later", qos=1)
    play.prove("eve", [], "b")
    publish(play, "eve", b"no more")
    assert payloads(play, "bob") == [b"listed", b"proven", b"proven later"]


def test_what_waits_for_a_link_proves_itself_on_the_next_connection() -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    publish(play, "ann", b"1", qos=1)
    play.cut("a", "b")
    for payload in (b"2", b"3"):
        publish(play, "ann", payload, qos=1)
    play.wait(100)
    play.restore("a", "b")
    publish(play, "ann", b"4", qos=1)
    assert payloads(play, "bob") == [b"1", b"2", b"3", b"4"]


def test_each_exchange_goes_on_with_new_numbers() -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    sent = []
    for number in range(8):
        publish(play, "ann", str(number).encode())
        play.wait(1.3)
        sent.append(str(number).encode())
    assert payloads(play, "bob") == sent


def test_a_retained_message_counts_as_proven_as_long_as_the_secret() -> None:
    play = rehearsal()
    play.subscribe("bob", "#")
    publish(play, "ann", b"kept", retain=True)
    play.subscribe("dan", "t", policy=MEMBERS)
    assert payloads(play, "dan") == [b"kept"]
    group_proofs.hold(play.nodes["b"], GroupSecrets({"inner": b"another secret"}), play.now)
    play.subscribe("dan", "t", policy=MEMBERS, name="again")
    assert payloads(play, "dan") == [b"kept"]


@pytest.mark.parametrize("is_rotated", [False, True])
def test_a_queued_message_is_judged_again_if_the_secret_that_it_was_proven_by_is_gone(is_rotated: bool) -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    play.disconnect("bob")
    publish(play, "ann", b"waits", qos=1)
    publish(play, "dan", b"is listed", qos=1)
    if is_rotated:
        group_proofs.hold(play.nodes["b"], GroupSecrets({"inner": b"another secret"}), play.now)
    play.connect("bob")
    assert payloads(play, "bob") == ([] if is_rotated else [b"waits"]) + [b"is listed"]


def test_why_a_publication_is_stopped_is_said() -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    node = play.nodes["b"]
    of_a, of_c = (
        explain({"b": node}, arrival(node, neighbour, hypothetical("t", b"x")), play.now, ("bob",))[-1].verdicts[-1]
        for neighbour in ("a", "c")
    )
    why = "BlockMessage(): the publication does not prove trust group `inner`: it carries no proof"
    assert (of_c.effect, of_c.reason) == (Effect.SUPPRESS, why)
    assert of_a.effect is not Effect.SUPPRESS


@pytest.mark.parametrize("expiry", [0, 600])
def test_only_links_that_carry_proofs_cost_something(expiry: float) -> None:
    play = rehearsal(expiry)
    for client in ("bob", "cid"):
        play.subscribe(client, "t")
    plans = {}
    for name, client in (("a", "ann"), ("b", "dan")):
        node = play.nodes[name]
        session = next(each for each in node.sessions.values() if each.place.entity == client)
        plans[name] = runner.find_plan(node, link_plans.plans_of(node, session), b"t")
    assert plans["a"].simple is (expiry > 0)
    (to_c,) = (each for each in play.nodes["b"].sessions.values() if each.neighbour == "c")
    assert to_c in (*plans["b"].direct4, *plans["b"].direct5)


@pytest.mark.parametrize("name", [PROOF, "penstock-proven"])
def test_a_client_cannot_say_of_itself_that_something_is_proven(name: str) -> None:
    play = rehearsal()
    play.subscribe("bob", "t", policy=MEMBERS)
    publish(play, "eve", b"x", properties=((name, "1 inner:AAAA"), (name, "inner 0123456789abcdef")))
    assert payloads(play, "bob") == []
