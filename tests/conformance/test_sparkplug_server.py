"""The assertions of the Sparkplug 3.0 specification, section 12 (Conformance), on a Compliant and on an Aware MQTT
server, each by its id, at a live node.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.clients.paho import Paho, properties
from tests.support.memory.sparkplug import PAYLOAD, encode
from tests.support.processes.node import LiveNode, running

DOMAIN: dict[str, Any] = {
    "clients": {"e1": {"node": "main", "edge": "G1/E1"}, "host": {"node": "main"}, "late": {"node": "main"}},
    "access": [
        {"subject": "e1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]},
        {"subject": ["host", "late"], "topics": "spBv1.0/#", "may": ["read", "write"]},
    ],
}
STATE = "spBv1.0/STATE/host"
ONLINE, OFFLINE = b'{"online":true,"timestamp":1}', b'{"online":false,"timestamp":1}'
CERTIFICATES = "$sparkplug/certificates/"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveNode]:
    with running({}, **DOMAIN) as node:
        yield node


def birth(seq: int = 0, value: int = 1) -> bytes:
    metrics = [{"name": "bdSeq", "datatype": 8, "long_value": "0"}, {"name": "x", "datatype": 3, "int_value": value}]
    return encode({"timestamp": "1000", "seq": seq, "metrics": metrics})


def death() -> bytes:
    return encode({"timestamp": "1000", "metrics": [{"name": "bdSeq", "datatype": 8, "long_value": "0"}]})


def publishes_at(live: LiveNode, qos: int) -> None:
    with Paho("e1").connects(live.port) as edge, Paho("host").connects(live.port) as host:
        assert host.subscribe("spBv1.0/G1/#", qos) == qos
        edge.publish("spBv1.0/G1/NBIRTH/E1", birth(), qos)
        message = host.receive()
        assert (message.topic, message.qos, message.payload) == ("spBv1.0/G1/NBIRTH/E1", qos, birth())


def qos0(live: LiveNode) -> None:
    """A server must support publish and subscribe at QoS 0."""
    publishes_at(live, 0)


def qos1(live: LiveNode) -> None:
    """A server must support publish and subscribe at QoS 1."""
    publishes_at(live, 1)


def will_messages(live: LiveNode) -> None:
    """A server must support all of will messages, with the retain flag and QoS 1."""
    with Paho("late").connects(live.port) as watching:
        watching.subscribe(STATE, 1)
        while not watching.messages.empty():
            watching.messages.get()
        host = Paho("host")
        host.client.will_set(STATE, OFFLINE, 1, True, properties("will"))
        host.connects(live.port)
        host.publish(STATE, ONLINE, 1, retain=True)
        until_told(watching, ONLINE)
        host.breaks()
        message = until_told(watching, OFFLINE)
        assert message.qos == 1
    with Paho("late").connects(live.port) as later:
        later.subscribe(STATE, 1)
        message = later.receive()
        assert (message.payload, message.retain, message.qos) == (OFFLINE, True, 1)


def until_told(client: Paho, payload: bytes) -> Any:
    while (message := client.receive()).payload != payload:
        pass
    return message


def retained(live: LiveNode) -> None:
    """A server must support all of the retain flag."""
    with Paho("host").connects(live.port) as host:
        host.publish(STATE, ONLINE, 1, retain=True)
        with Paho("late").connects(live.port) as late:
            late.subscribe(STATE, 1)
            message = late.receive()
            assert (message.payload, message.retain) == (ONLINE, True)
            host.publish(STATE, OFFLINE, 1, retain=True)
            assert late.receive().retain is False
        host.publish(STATE, b"", 1, retain=True)
        with Paho("late").connects(live.port) as late:
            late.subscribe(STATE, 1)
            late.nothing_arrives()


def aware_basic(live: LiveNode) -> None:
    """An Aware server is a Compliant one."""
    for each in (qos0, qos1, will_messages, retained):
        each(live)


def born(live: LiveNode, topic: str) -> Any:
    """What who comes later finds of a birth that was published without the retain flag."""
    with Paho("e1").connects(live.port) as edge:
        edge.publish("spBv1.0/G1/NBIRTH/E1", birth(0, 7), 1)
        edge.publish("spBv1.0/G1/DBIRTH/E1/D1", birth(1, 7), 1)
    with Paho("late").connects(live.port) as late:
        late.subscribe(CERTIFICATES + "#", 1)
        found = {message.topic: message for message in (late.receive(), late.receive())}
        return found[topic]


def aware_store(live: LiveNode) -> None:
    """An Aware server must store NBIRTH and DBIRTH messages as they pass through it, as they are."""
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/NBIRTH/E1").payload == birth(0, 7)
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/DBIRTH/E1/D1").payload == birth(1, 7)


def aware_nbirth_mqtt_topic(live: LiveNode) -> None:
    """It must make NBIRTHs available on `$sparkplug/certificates/namespace/group_id/NBIRTH/edge_node_id`."""
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/NBIRTH/E1").payload


def aware_nbirth_mqtt_retain(live: LiveNode) -> None:
    """There with the retain flag."""
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/NBIRTH/E1").retain


def aware_dbirth_mqtt_topic(live: LiveNode) -> None:
    """It must make DBIRTHs available on `$sparkplug/certificates/namespace/group_id/DBIRTH/edge_node_id/device_id`."""
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/DBIRTH/E1/D1").payload


def aware_dbirth_mqtt_retain(live: LiveNode) -> None:
    """There with the retain flag."""
    assert born(live, f"{CERTIFICATES}spBv1.0/G1/DBIRTH/E1/D1").retain


def aware_ndeath_timestamp(live: LiveNode) -> None:
    """It may replace the timestamp of NDEATH messages; if so, by the time at which it tries to deliver them."""
    with Paho("host").connects(live.port) as host:
        host.subscribe("spBv1.0/G1/NDEATH/+", 1)
        edge = Paho("e1")
        edge.client.will_set("spBv1.0/G1/NDEATH/E1", death(), 1, False, properties("will"))
        edge.connects(live.port)
        edge.publish("spBv1.0/G1/NBIRTH/E1", birth(), 1)
        before = int(time.time() * 1000)
        edge.breaks()
        told: Any = PAYLOAD.FromString(bytes(host.receive().payload))
        assert before - 1000 <= told.timestamp <= int(time.time() * 1000) + 1000
        assert [(metric.name, metric.long_value) for metric in told.metrics] == [("bdSeq", 0)]


ASSERTIONS: dict[str, Callable[[LiveNode], None]] = {
    "tck-id-conformance-mqtt-qos0": qos0,
    "tck-id-conformance-mqtt-qos1": qos1,
    "tck-id-conformance-mqtt-will-messages": will_messages,
    "tck-id-conformance-mqtt-retained": retained,
    "tck-id-conformance-mqtt-aware-basic": aware_basic,
    "tck-id-conformance-mqtt-aware-store": aware_store,
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-topic": aware_nbirth_mqtt_topic,
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-retain": aware_nbirth_mqtt_retain,
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-topic": aware_dbirth_mqtt_topic,
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-retain": aware_dbirth_mqtt_retain,
    "tck-id-conformance-mqtt-aware-ndeath-timestamp": aware_ndeath_timestamp,
}


@pytest.mark.parametrize("id", ASSERTIONS)
def test_the_assertion_holds(id: str, live: LiveNode) -> None:
    ASSERTIONS[id](live)
