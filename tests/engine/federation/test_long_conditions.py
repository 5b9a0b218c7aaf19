"""Conditions that are too long for other nodes to read together: more is sent than is wanted, and no link breaks."""

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.scenes.domains import nodes

LONG = "x" * 6000


def test_what_a_client_asks_for_and_what_the_domain_adds() -> None:
    clients = {"p": {"node": "a"}, "s": {"node": "b", "where": {"t": f"a == '{LONG}'"}}}
    domain = Domain.model_validate({"nodes": nodes("a", "b"), "links": [{"between": ["a", "b"]}], "clients": clients})
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in clients:
        rehearsal.connect(client)
    rehearsal.subscribe("s", "t", where=f"b == '{LONG}'")
    payloads = [b'{"a": "%b", "b": "%b"}' % (one, LONG.encode()) for one in (LONG.encode(), b"other")]
    for payload in payloads:
        rehearsal.publish("p", "t", payload)
        rehearsal.run()
    assert [message.payload for message in rehearsal.deliveries("s")] == payloads[:1]
