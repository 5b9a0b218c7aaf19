"""paho-mqtt with its loop in a thread, for tests that go step by step: what arrives waits in queues."""

import queue
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST

_KINDS = {
    "connect": PacketTypes.CONNECT,
    "publish": PacketTypes.PUBLISH,
    "will": PacketTypes.WILLMESSAGE,
    "subscribe": PacketTypes.SUBSCRIBE,
    "disconnect": PacketTypes.DISCONNECT,
}


def properties(kind: str, **values: Any) -> Properties:
    """paho's properties of a packet; a list of values is a property that occurs several times."""
    made = Properties(_KINDS[kind])  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def value(found: Properties | None, name: str) -> Any:
    """One property, None if it is absent."""
    return getattr(found, name, None)


class Connected:
    """What the CONNACK said."""

    def __init__(self, flags: mqtt.ConnectFlags, reason: ReasonCode, found: Properties | None) -> None:
        self.session_present = flags.session_present
        self.reason = reason
        self.properties = found


class Paho:
    """One paho client. Leaving the `with` block disconnects it."""

    def __init__(self, client_id: str = "", version: int = 5, clean: bool = True, transport: Any = "tcp") -> None:
        clean_session = clean if version == 4 else None
        self.version = version
        self.clean = clean
        protocol = MQTTProtocolVersion(version)
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, clean_session, None, protocol, transport)
        self.client.reconnect_delay_set(1, 1)  # its end waits for the delay, which would grow to two minutes
        self.messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self.connections: queue.Queue[Connected] = queue.Queue()
        self.ends: queue.Queue[ReasonCode] = queue.Queue()
        self._answers: dict[int, queue.Queue[list[ReasonCode]]] = {}
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_connect = self._connected
        self.client.on_disconnect = lambda _client, _data, _flags, reason, _found: self.ends.put(reason)
        self.client.on_subscribe = self._answered
        self.client.on_publish = lambda _client, _data, mid, reason, _found: self._answer(mid).put([reason])

    def _connected(self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, found: Any) -> None:
        self.connections.put(Connected(flags, reason, found))

    def _answered(self, _client: Any, _data: Any, mid: int, reasons: list[ReasonCode], _found: Any) -> None:
        self._answer(mid).put(reasons)

    def _answer(self, mid: int) -> "queue.Queue[list[ReasonCode]]":
        return self._answers.setdefault(mid, queue.Queue())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    # --- connecting

    def trusts(self, context: ssl.SSLContext) -> Self:
        """Use TLS."""
        self.client.tls_set_context(context)
        return self

    def is_user(self, name: str, password: str | None = None) -> Self:
        self.client.username_pw_set(name, password)
        return self

    def tries(self, port: int, keepalive: int = 60, **values: Any) -> Connected:
        """Connect once, with the properties named; what the CONNACK said, be it yes or no."""
        self.client.connect_timeout = PATIENCE
        options: dict[str, Any] = {}
        if self.version == 5:
            options = {"clean_start": self.clean, "properties": properties("connect", **values)}
        self.client.connect(HOST, port, keepalive, **options)
        self.client.loop_start()
        return self.connections.get(timeout=PATIENCE)

    def connects(self, port: int, keepalive: int = 60, **values: Any) -> Self:
        """Connect, and be accepted."""
        connected = self.tries(port, keepalive, **values)
        assert connected.reason == 0, connected.reason
        return self

    def leaves(self, **values: Any) -> None:
        """DISCONNECT, and wait until the connection is closed."""
        if values:
            self.client.disconnect(properties=properties("disconnect", **values))
        else:
            self.client.disconnect()
        self.ends.get(timeout=PATIENCE)
        self.client.loop_stop()

    def breaks(self) -> None:
        """Cut the connection without a word."""
        sock = self.client.socket()
        assert sock is not None
        self.client.loop_stop()
        sock.close()

    # --- messages

    def subscribe(
        self, filter: str, qos: int = 0, identifier: int = 0, said: Mapping[str, str] | None = None, **options: Any
    ) -> int:
        """Subscribe; what the SUBACK granted or why it refused. `said`: the user properties."""
        if self.version == 5:
            values = {"SubscriptionIdentifier": identifier} if identifier else {}
            found = properties("subscribe", **values, **({"UserProperty": list(said.items())} if said else {}))
            result, mid = self.client.subscribe(filter, options=SubscribeOptions(qos, **options), properties=found)
        else:
            result, mid = self.client.subscribe(filter, qos)
        assert result == mqtt.MQTT_ERR_SUCCESS
        assert mid is not None
        (reason,) = self._answer(mid).get(timeout=PATIENCE)
        return int(reason.value)

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False, **values: Any) -> int:
        """Publish and wait until it is through; the reason of the PUBACK or PUBREC, 0 for QoS 0."""
        found = properties("publish", **values) if values else None
        info = self.client.publish(topic, payload, qos, retain, found)
        (reason,) = self._answer(info.mid).get(timeout=PATIENCE)
        return int(reason.value)

    def receive(self) -> mqtt.MQTTMessage:
        """The next message."""
        return self.messages.get(timeout=PATIENCE)

    def nothing_arrives(self) -> None:
        """Nothing is on its way: what the client sends to itself comes first."""
        marker = f"marker/{self.client._client_id!r}"
        self.subscribe(marker)
        self.publish(marker, b"", 1)
        assert self.receive().topic == marker

    def payloads(self, count: int) -> list[bytes]:
        """The payloads of the next messages."""
        return [bytes(self.receive().payload) for _ in range(count)]
