"""A QoS 2 message that was suppressed and is sent again, because its sender did not see the answer, counts once."""

from pathlib import Path
from typing import Any

import pytest

from penstock.wire.packet import MQTT_5, MQTT_311, Publish, Pubrec, Pubrel
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.support.clients.peer import Peer
from tests.support.processes.node import running

HOST = "127.0.0.1"
COUNT = '''
from penstock.policy.monitors.monitor import derive


class Count:
    """Suppresses all but questions for how many it has suppressed."""

    def start(self):
        return 0

    def step(self, state, event, now):
        if event.topic == "ask":
            return state, (derive(event, "ask", str(state).encode()),)
        return state + 1, ()
'''
CLIENTS = {"ann": {"node": "main"}, "bob": {"node": "main"}}
EVERY_SECOND = {"q0": {"a": {"suppress": True, "next": "q1"}}, "q1": {"a": {"pass": True, "next": "q0"}}}
MONITORS: dict[str, Any] = {"automaton": {"states": EVERY_SECOND}, "python": {"python": "count:Count"}}


async def _joins(port: int, version: int) -> Peer:
    ann = await Peer.open(HOST, port, version)
    properties = {} if version == MQTT_311 else {"properties": Properties(session_expiry=600)}
    await ann.connect("ann", clean_start=False, **properties)
    return ann


@pytest.mark.parametrize("is_killed", [False, True], ids=["broken", "killed"])
@pytest.mark.parametrize("monitor", MONITORS)
@pytest.mark.parametrize(
    ("version", "suppressed"), [(MQTT_5, "tell"), (MQTT_5, "hide"), (MQTT_311, "tell")], ids=["5", "5-hidden", "311"]
)
async def test_steps_the_monitor_once(
    version: int, suppressed: str, monitor: str, is_killed: bool, tmp_path: Path
) -> None:
    """Issue 17, item 20: a PUBREC that refuses frees the identifier, and the same message was judged anew."""
    settings = {"store": str(tmp_path / "store"), "suppressed": suppressed}
    domain: dict[str, Any] = {"clients": CLIENTS, "monitors": {"m": {"link": "ann -> main"} | MONITORS[monitor]}}
    reason = Reason.NOT_AUTHORIZED if (version, suppressed) == (MQTT_5, "tell") else Reason.SUCCESS
    with running(settings, {"count.py": COUNT}, **domain) as node:
        ann = await _joins(node.port, version)
        await ann.send(Publish("a", b"1", 2, packet_id=7))
        first = await ann.expect(Pubrec, packet_id=7, reason=reason)
        for _ in range(3):  # ann did not see it
            if is_killed:
                node.kill()
                node.start()
            else:
                await ann.abort()
            ann = await _joins(node.port, version)
            await ann.send(Publish("a", b"1", 2, dup=True, packet_id=7))
            assert await ann.expect(Pubrec) == first
        bob = await Peer.open(HOST, node.port)
        await bob.connect("bob")
        await bob.subscribe("#", qos=1)
        if reason == Reason.SUCCESS:
            await ann.send(Pubrel(7))
            await ann.next()
        if monitor == "python":
            await ann.publish("ask", qos=1)
            await bob.receive("ask", payload=b"1")
        else:
            await ann.send(Publish("a", b"1", 2, packet_id=7))  # a second one, though it says the same
            await ann.expect(Pubrec, packet_id=7, reason=Reason.SUCCESS)
            await bob.receive("a", payload=b"1")
        await bob.expect_nothing()
