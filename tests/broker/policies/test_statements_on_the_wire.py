"""What statements block or take out at the sending node does not leave it: not a byte of it is on the link."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker.federation import Federation
from penstock.domain import Domain
from tests.broker.policies.test_statements import GRANTED, Live, until
from tests.support.clients.library import take
from tests.support.processes.cable import Cable
from tests.support.processes.mosquitto import HOST, free_port

SECRET, OPEN, LAST = "the-code-is-4711", "it-is-12-degrees", "it-is-all"


@contextlib.asynccontextmanager
async def cabled(**statements: Any) -> AsyncIterator[tuple[Live, Cable]]:
    """Two nodes, n0 and n1, with a cable between them that keeps all that goes over it."""
    ports = {name: free_port() for name in ("n0", "n1")}
    async with Cable(ports["n1"]) as cable:
        domain = {
            "nodes": {name: {"listen": f"{HOST}:{port}", "store": "memory"} for name, port in ports.items()},
            "links": [{"between": ["n0", "n1"], "address": f"{HOST}:{cable.port}"}],
            "statements": {"grants": [GRANTED], **statements},
        }
        federation = Federation(Domain.model_validate(domain), ("n0", "n1"), None)
        await federation.start()
        try:
            live = Live(federation)
            ends = (live.node("n0").federation.neighbours["n1"], live.node("n1").federation.neighbours["n0"])
            await until(lambda: all(end.outlet is not None for end in ends), "the link is up")
            yield live, cable
        finally:
            await federation.stop()


def rule(inside: str) -> str:
    return f"PolicyStatement {{ On(Forward, Publication) {{ {inside} }} }}"


TAKEN_OUT = "Then {RemoveAttributes(secret)}"
BLOCKED = "If {has(secret)} Then {BlockMessage()}"


@pytest.mark.parametrize("matching", ["Before", "After"])
@pytest.mark.parametrize("carrier", ["publication", "advertisement", "subscription", "given"])
@pytest.mark.parametrize("does", [f"If {{}} {TAKEN_OUT}", BLOCKED], ids=["taken out", "blocked"])
async def test_what_a_policy_takes_out_or_blocks_is_not_on_the_link(carrier: str, matching: str, does: str) -> None:
    policy = rule(f"@matching: {matching} @broker: Routing {does}")
    given = {"policies": {"it": policy}, "apply": [{"policy": "it", "to": "publication", "of": "p"}]}
    statements = given if carrier == "given" else {}
    on = {carrier: policy}
    async with cabled(**statements) as (live, cable), live.client("n0", "p") as p, live.client("n1", "s") as s:
        wanted = await s.subscribe("t", policy=on.get("subscription"))
        await p.advertise("t", policy=on.get("advertisement"))
        await until(lambda: live.wants("n0", "n1", "t"), "the subscription is known")
        await p.publish("t", {"open": OPEN, "secret": SECRET}, policy=on.get("publication"))
        await p.publish("t", {"open": LAST})
        events = [event.attributes for event in await take(wanted, 1 if does is BLOCKED else 2)]
    left = [] if does is BLOCKED else [{"open": OPEN}]
    assert events == [*left, {"open": LAST}]
    assert SECRET.encode() not in cable.carried
    assert LAST.encode() in cable.carried  # else nothing could be seen there
    assert (OPEN.encode() in cable.carried) is bool(left)
