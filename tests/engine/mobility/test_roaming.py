"""Clients that change their node in memory: their session, and what waits for it, follow."""

from penstock.domain import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.rehearsed import domain

TWO = """
nodes: {a: {listen: ["127.0.0.1:0"]}, b: {listen: ["127.0.0.1:0"]}}
links: [{between: [a, b]}]
clients:
  ann: {node: a}
  eve: {node: b}
  bob: {node: [a, b], roams: true}
"""


def roaming(text: str = TWO) -> Rehearsal:
    written = domain(text)
    return Rehearsal(written, ensemble(written))


def payloads(rehearsal: Rehearsal, entity: str) -> list[str]:
    return [each.payload.decode() for each in rehearsal.deliveries(entity)]


def test_what_waits_at_the_old_node_follows_a_client_that_just_connects_to_another() -> None:
    rehearsal = roaming()
    rehearsal.connect("ann")
    rehearsal.connect("eve")
    rehearsal.connect("bob", "a")
    rehearsal.subscribe("bob", "t/#", qos=2)
    rehearsal.disconnect("bob", "a")
    for number in range(3):
        rehearsal.publish("ann", "t/1", f"a{number}".encode(), qos=1)
        rehearsal.publish("eve", "t/2", f"e{number}".encode(), qos=2)
    rehearsal.run()
    assert payloads(rehearsal, "bob") == []
    rehearsal.connect("bob", "b")
    got = rehearsal.deliveries("bob")
    assert sorted(payloads(rehearsal, "bob")) == ["a0", "a1", "a2", "e0", "e1", "e2"]
    assert {(each.node, each.topic, each.qos) for each in got} == {("b", "t/1", 1), ("b", "t/2", 2)}
    assert "bob" not in rehearsal.nodes["a"].sessions
    assert rehearsal.nodes["b"].sessions["bob"].connection.moving is None
    rehearsal.publish("ann", "t/1", b"later", qos=1)
    rehearsal.publish("eve", "t/1", b"late", qos=1)
    rehearsal.run()
    assert sorted(payloads(rehearsal, "bob")[6:]) == ["late", "later"]
