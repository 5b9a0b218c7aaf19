"""Sessions and wills as paho-mqtt sees them: what waits for a client that is away, what tells of one that is gone."""

import time
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.clients.paho import Paho, properties, value
from tests.support.processes.node import LiveNode

VERSIONS = pytest.mark.parametrize("version", [4, 5])


def _lasting(name: str, version: int, port: int) -> tuple[Paho, bool]:
    """A client whose session outlives its connection; and whether the session was there."""
    client = Paho(name, version, clean=False)
    connected = client.tries(port, **({"SessionExpiryInterval": 600} if version == 5 else {}))
    assert connected.reason == 0
    return client, connected.session_present


def _forget(name: str, port: int) -> None:
    Paho(name).connects(port).leaves()


@VERSIONS
def test_a_session_keeps_subscriptions_and_queues_messages(node: LiveNode, name: str, version: int) -> None:
    away, present = _lasting(name, version, node.port)
    assert not present
    away.subscribe(f"{name}/+", 2)
    away.leaves()
    with Paho(version=version).connects(node.port) as bob:
        for qos in (1, 2, 0, 2):
            bob.publish(f"{name}/{qos}", b"%d" % qos, qos)
    back, present = _lasting(name, version, node.port)
    with back:
        assert present
        assert back.payloads(3) == [b"1", b"2", b"2"]  # QoS 0 does not wait
        back.publish(f"{name}/x", b"still subscribed")
        assert back.receive().payload == b"still subscribed"
    _forget(name, node.port)


@VERSIONS
def test_a_clean_start_forgets(node: LiveNode, name: str, version: int) -> None:
    away, _ = _lasting(name, version, node.port)
    away.subscribe(name, 1)
    away.leaves()
    with Paho(version=version).connects(node.port) as bob:
        bob.publish(name, b"lost", 1)
        with Paho(name, version) as clean:
            assert not clean.tries(node.port).session_present
            clean.subscribe(f"{name}/new", 1)
            bob.publish(name, b"not subscribed", 1)
            bob.publish(f"{name}/new", b"new", 1)
            assert clean.receive().payload == b"new"


def test_a_session_expires(node: LiveNode, name: str) -> None:
    away = Paho(name, clean=False).connects(node.port, SessionExpiryInterval=1)
    away.subscribe(name, 1)
    away.leaves()
    time.sleep(2.5)
    with Paho(name, clean=False) as back:
        assert not back.tries(node.port).session_present


@pytest.mark.parametrize(("at_end", "present"), [(0, False), (600, True)])
def test_disconnect_says_how_long_the_session_lives(node: LiveNode, name: str, at_end: int, present: bool) -> None:
    Paho(name, clean=False).connects(node.port, SessionExpiryInterval=300).leaves(SessionExpiryInterval=at_end)
    with Paho(name, clean=False) as back:
        assert back.tries(node.port).session_present is present


def test_a_message_expires_in_the_queue(node: LiveNode, name: str) -> None:
    away, _ = _lasting(name, 5, node.port)
    away.subscribe(name, 1)
    away.leaves()
    with Paho().connects(node.port) as bob:
        bob.publish(name, b"short", 1, MessageExpiryInterval=1)
        bob.publish(name, b"long", 1, MessageExpiryInterval=100)
        time.sleep(2.1)
        back, _ = _lasting(name, 5, node.port)
        with back:
            message = back.receive()
            assert message.payload == b"long"
            assert 0 < value(message.properties, "MessageExpiryInterval") <= 98
    _forget(name, node.port)


def test_a_retained_message_expires(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as bob:
        bob.publish(f"{name}/a", b"short", 1, retain=True, MessageExpiryInterval=1)
        bob.publish(f"{name}/b", b"for ever", 1, retain=True)
        time.sleep(1.5)
        bob.subscribe(f"{name}/#", 1)
        assert bob.receive().payload == b"for ever"
        bob.publish(f"{name}/b", b"", 1, retain=True)
        assert bob.receive().payload == b""


def _with_will(name: str, version: int, **values: Any) -> Paho:
    client = Paho(name, version)
    will_properties = properties("will", **values) if version == 5 else None
    client.client.will_set(f"{name}/will", b"gone", 1, retain=False, properties=will_properties)
    return client


@VERSIONS
def test_a_will_tells_of_a_broken_connection(node: LiveNode, name: str, version: int) -> None:
    with Paho(version=version).connects(node.port) as ann:
        ann.subscribe(f"{name}/will", 1)
        _with_will(name, version).connects(node.port).breaks()
        message = ann.receive()
        assert (message.payload, message.qos) == (b"gone", 1)


@VERSIONS
def test_no_will_after_a_goodbye(node: LiveNode, name: str, version: int) -> None:
    with Paho(version=version).connects(node.port) as ann:
        ann.subscribe(f"{name}/#", 1)
        _with_will(name, version).connects(node.port).leaves()
        ann.publish(f"{name}/marker", b"nothing before", 1)
        assert ann.receive().payload == b"nothing before"


def test_a_will_comes_with_its_properties_after_its_delay(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/#", 1)
        client = _with_will(name, 5, WillDelayInterval=1, ContentType="text/plain", UserProperty=[("a", "1")])
        client.connects(node.port, SessionExpiryInterval=60).breaks()
        ann.publish(f"{name}/marker", b"not yet", 1)
        assert ann.receive().payload == b"not yet"
        message = ann.receive()
        assert message.payload == b"gone"
        assert value(message.properties, "ContentType") == "text/plain"
        assert value(message.properties, "UserProperty") == [("a", "1")]
    _forget(name, node.port)


def test_whoever_comes_back_in_time_has_no_will(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/#", 1)
        _with_will(name, 5, WillDelayInterval=1).connects(node.port, SessionExpiryInterval=60).breaks()
        with Paho(name, clean=False).connects(node.port) as back:
            time.sleep(2.2)
            back.publish(f"{name}/marker", b"nothing before", 1)
            assert ann.receive().payload == b"nothing before"


def test_a_will_does_not_wait_longer_than_its_session(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/will", 1)
        _with_will(name, 5, WillDelayInterval=3600).connects(node.port, SessionExpiryInterval=1).breaks()
        assert ann.receive().payload == b"gone"


def test_disconnect_with_will(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/will", 1)
        client = _with_will(name, 5).connects(node.port)
        client.client.disconnect(ReasonCode(PacketTypes.DISCONNECT, identifier=4))
        client.client.loop_stop()
        assert ann.receive().payload == b"gone"


def test_a_client_that_falls_silent_is_dropped_with_its_will(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/will", 1)
        client = _with_will(name, 4).connects(node.port, keepalive=1)
        client.client.loop_stop()  # nobody sends PINGREQ any more
        assert ann.receive().payload == b"gone"
