"""Malformed conditions in a real SUBSCRIBE: each is refused with a clear reason, and the node goes on."""

from typing import Any

import yaml

from penstock.wire.packet import Publish, Suback, Subscribe, SubscriptionRequest
from penstock.wire.properties import Properties
from tests.support.cases.conditions import FOLDER, SCHEMA
from tests.support.clients.peer import Peer
from tests.support.processes.federation import federated
from tests.support.processes.mosquitto import HOST

MISTAKES = yaml.safe_load((FOLDER / "mistakes.yaml").read_text("utf-8"))
DOMAIN: dict[str, Any] = {
    "nodes": {"main": {"store": "memory"}},
    "content": [{"topics": "declared/#", "format": "sparkplug", "schema": SCHEMA}],  # which has all types
}


async def answer(peer: Peer, filter: str, where: str) -> tuple[int, str]:
    """The reason code and the reason string for a subscription with a condition."""
    number = peer.new_id()
    await peer.send(
        Subscribe(number, (SubscriptionRequest(filter, 0),), Properties(user_properties=(("where", where),)))
    )
    suback = await peer.expect(Suback, packet_id=number)
    return suback.reasons[0], suback.properties.reason_string or ""


def first_line(text: str) -> str:
    return text.splitlines()[0].partition(", at character")[0]


async def test_each_is_refused_and_the_node_goes_on() -> None:
    assert len(MISTAKES) >= 60
    with federated(DOMAIN) as nodes:
        peer = await Peer.open(HOST, nodes.ports["main"])
        await peer.connect("malformed", properties=Properties(request_problem_info=True))
        wrong = {}
        for mistake in MISTAKES:
            filter = "declared/a" if mistake.get("declared") else "a"
            code, text = await answer(peer, filter, mistake["text"])
            error = mistake["error"].rstrip("\n")
            if code != 0x83 or text != f"condition: {error}"[: len(text)] or first_line(error) not in text:
                wrong[mistake["title"]] = (code, text)
        assert wrong == {}
        assert await answer(peer, "a", "x > 1") == (0, "")
        await peer.send(Publish("a", b'{"x": 1}'), Publish("a", b'{"x": 2}'))
        await peer.receive("a", payload=b'{"x": 2}')
        await peer.close()
        assert "Traceback" not in nodes.log("main")
