"""Groups with `expiry: 0` on live nodes: each publication proves by itself that its sender is a member, and what was
changed or sent again on the link does not (statements §5.2, Fig. 14, "not cached").
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.federation import Federation
from penstock.client import Client
from penstock.domain import Domain
from penstock.engine.sessions.session import Session
from penstock.engine.trust import group_proofs
from penstock.engine.trust.publication_proofs import UNPROVEN
from penstock.engine.trust.state import GroupSecrets
from tests.broker.policies.test_statements import until
from tests.support.clients.library import all_until, client, take
from tests.support.processes.cable import Cable
from tests.support.processes.mosquitto import HOST, free_port

SECRET, OTHER = "the-secret-of-inner-4711", "the-secret-of-others-4711"
MEMBERS = """
PolicyStatement {
  On(Forward, Publication) { @broker: Egress If {AuthenticateSender(inner)} Then {} Elseif {} Then {BlockMessage()} }
}
"""
SUBSCRIBER = {"to": "*", "set": ["subscription"], "elements": "*"}


class Pair:
    """Nodes `a` and `b`, each with a configuration of its own, and a cable between them."""

    def __init__(self, folder: Path, cable: Cable, ports: dict[str, int], expiry: float) -> None:
        self.cable = cable
        self._folder, self._ports, self._expiry = folder, ports, expiry
        self.federations = {name: Federation(self.domain(), (name,), None) for name in ports}

    def domain(self, secret: str = "inner") -> Domain:
        plain: dict[str, Any] = {
            "nodes": {name: {"listen": f"{HOST}:{port}", "store": "memory"} for name, port in self._ports.items()},
            "links": [{"between": ["a", "b"], "address": f"{HOST}:{self.cable.port}", "secret": "link"}],
            "trust_groups": {
                "inner": {"secret": {"file": str(self._folder / secret)}, "nodes": ["a", "b"], "expiry": self._expiry}
            },
            "statements": {"grants": [SUBSCRIBER]},
        }
        return Domain.model_validate(plain)

    def client(self, at: str, client_id: str, **settings: Any) -> Client:
        return client(self._ports[at], client_id, **settings)

    def end(self, at: str, of: str) -> Session:
        return self.federations[at].servers[at].node.federation.neighbours[of]

    async def wanted(self, filter: str = "t") -> None:
        await until(
            lambda: any(each.filter == filter for each in self.end("a", "b").subscriptions.values()),
            "the subscription is known",
        )


@pytest.fixture(params=[0])
def expiry(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture
async def pair(tmp_path: Path, expiry: float) -> AsyncIterator[Pair]:
    (tmp_path / "inner").write_text(SECRET)
    (tmp_path / "other").write_text(OTHER)
    ports = {name: free_port() for name in ("a", "b")}
    async with Cable(ports["b"]) as cable, contextlib.AsyncExitStack() as stack:
        pair = Pair(tmp_path, cable, ports, expiry)
        for name in ("b", "a"):
            await pair.federations[name].start()
            stack.push_async_callback(pair.federations[name].stop)
        await until(lambda: pair.end("a", "b").trust.proven and pair.end("b", "a").trust.proven, "the link is up")
        yield pair


def reasons(said: pytest.LogCaptureFixture) -> set[str]:
    return {vars(record)["reason"] for record in said.records if record.msg == UNPROVEN}


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


async def test_publications_of_a_member_pass_on_the_link_at_every_qos(
    pair: Pair, said: pytest.LogCaptureFixture
) -> None:
    async with pair.client("b", "sub") as sub, pair.client("a", "pub") as pub:
        wanted = await sub.subscribe("t", policy=MEMBERS)
        await pair.wanted()
        for number in range(6):
            await pub.publish("t", {"n": number}, qos=1 if number % 2 else 0, properties=[("k", "v")], expiry=60)
        events = await take(wanted, 6)
    assert [event.attributes["n"] for event in events] == list(range(6))
    assert pair.cable.carried.count(b"penstock-proof") == 6
    assert b"penstock-proven" not in pair.cable.carried
    assert reasons(said) == set()


async def test_a_client_proves_each_publication_and_who_has_not_the_secret_is_denied(pair: Pair) -> None:
    async with (
        pair.client("b", "sub") as sub,
        pair.client("b", "ann", groups={"inner": SECRET.encode()}) as ann,
        pair.client("b", "eve", groups={"inner": OTHER.encode()}) as eve,
    ):
        wanted = await sub.subscribe("t", policy=MEMBERS)
        for number in range(3):
            await eve.publish("t", {"of": "eve", "n": number})
            await ann.publish("t", {"of": "ann", "n": number}, properties=[("k", "v")])
        events = await take(wanted, 3)
    assert [(event.attributes["of"], event.attributes["n"]) for event in events] == [("ann", 0), ("ann", 1), ("ann", 2)]


async def test_what_is_changed_on_the_link_is_denied_with_the_reason(
    pair: Pair, said: pytest.LogCaptureFixture
) -> None:
    async with pair.client("b", "sub") as sub, pair.client("a", "pub") as pub:
        wanted = await sub.subscribe("t", policy=MEMBERS)
        await pair.wanted()
        pair.cable.change = lambda data: data.replace(b"12 degrees", b"99 degrees")
        await pub.publish("t", "12 degrees", qos=1)
        await pub.publish("t", "as it was", qos=1)
        (event,) = await take(wanted, 1)
    assert event.payload == b"as it was"
    why = "its proof is wrong: another secret, or it was changed on its way"
    assert reasons(said) == {f"trust group `inner`: a publication does not prove it: {why}"}


async def test_what_is_sent_again_on_the_link_is_denied_with_the_reason(
    pair: Pair, said: pytest.LogCaptureFixture
) -> None:
    async with pair.client("b", "sub") as sub, pair.client("a", "pub") as pub:
        wanted = await sub.subscribe("t", policy=MEMBERS)
        await pair.wanted()
        pair.cable.change = lambda data: data * 2 if b"open the gate" in data else data
        await pub.publish("t", "open the gate", qos=0)
        await pub.publish("t", "close it", qos=0)
        events = await take(wanted, 2)
    assert [event.payload for event in events] == [b"open the gate", b"close it"]
    why = "its proof has been used before on this connection"
    assert reasons(said) == {f"trust group `inner`: a publication does not prove it: {why}"}


@pytest.mark.parametrize("expiry", [0, 600], ids=["not cached", "cached"], indirect=True)
async def test_a_member_that_has_lost_the_secret_is_denied_at_once_unless_its_proof_is_cached(
    pair: Pair, expiry: float
) -> None:
    groups = {"inner": SECRET.encode()}
    async with (
        pair.client("b", "sub") as sub,
        pair.client("a", "pub") as pub,
        pair.client("b", "ann", groups=groups) as ann,
    ):
        wanted = await sub.subscribe("t", policy=MEMBERS)
        free = await sub.subscribe("free")
        await pair.wanted()
        await pub.publish("t", "before")
        assert [event.payload for event in await take(wanted, 1)] == [b"before"]
        server = pair.federations["a"].servers["a"]
        group_proofs.hold(server.node, GroupSecrets(), server.now())
        await pub.publish("t", "after")
        await pub.publish("free", "the last")
        await take(free, 1)  # so `b` has had both
        await ann.publish("t", "the last")
        left = await all_until(wanted, b"the last")
    assert left == ([b"after"] if expiry else [])


@pytest.mark.parametrize("expiry", [600], ids=["cached"], indirect=True)
async def test_no_publication_carries_a_proof_where_proofs_are_cached(pair: Pair) -> None:
    async with pair.client("b", "sub") as sub, pair.client("a", "pub") as pub:
        wanted = await sub.subscribe("t", policy=MEMBERS)
        await pair.wanted()
        await pub.publish("t", "x")
        await take(wanted, 1)
    assert b"penstock-proof" not in pair.cable.carried


async def test_what_was_proven_by_a_secret_of_before_counts_no_more_after_a_reload(pair: Pair) -> None:
    async with pair.client("b", "sub") as sub, pair.client("a", "pub") as pub:
        first = await sub.subscribe("t", policy=MEMBERS)
        await pair.wanted()
        await pub.publish("t", "kept", retain=True)
        assert [event.payload for event in await take(first, 1)] == [b"kept"]
        again = await sub.subscribe("t", policy=MEMBERS, name="while it counts")
        assert [event.payload for event in await take(again, 1)] == [b"kept"]
        for name in ("b", "a"):
            await pair.federations[name].reload(pair.domain("other"))
        end = pair.end("a", "b")
        await until(lambda: end.trust.proven and pair.end("b", "a").trust.proven, "the new secret is proven")
        late = await sub.subscribe("t", policy=MEMBERS, name="afterwards")
        await pub.publish("t", "new")
        assert await all_until(late, b"new") == []
