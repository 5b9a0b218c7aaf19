"""Real MQTT clients for the demos: paho-mqtt, MQTT 5."""

from __future__ import annotations

import socket
from typing import Literal, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from examples.narration import wait_for

AN_HOUR = 3600


class Client:
    """A client that remembers what the node told it."""

    def __init__(
        self,
        name: str,
        user: str | None = None,
        *,
        password: str | None = None,
        session: int = 0,
        returns: bool = False,
        transport: Literal["tcp", "websockets"] = "tcp",
    ) -> None:
        """In the examples the password of a user is its name and `-demo`; `session`: seconds that it is kept."""
        self.name = name
        self.session = session
        self.received: list[mqtt.MQTTMessage] = []
        self.answers: dict[int, ReasonCode] = {}
        self.greeting: ReasonCode | None = None
        self.connections = 0
        self.resumed = False
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            name,
            protocol=mqtt.MQTTv5,
            transport=transport,
            reconnect_on_failure=returns,
        )
        if user is not None:
            self.paho.username_pw_set(user, password or f"{user}-demo")
        self.paho.on_connect = self._on_connect
        self.paho.on_message = lambda _client, _data, message: self.received.append(message)
        self.paho.on_subscribe = lambda _client, _data, mid, codes, _said: self.answers.update({mid: codes[0]})
        self.paho.on_publish = lambda _client, _data, mid, code, _said: self.answers.update({mid: code})

    def _on_connect(
        self, client: mqtt.Client, data: object, flags: mqtt.ConnectFlags, code: ReasonCode, said: object
    ) -> None:
        self.connections += 1
        self.resumed = flags.session_present
        self.greeting = code

    def connect(self, port: int) -> Self:
        """Connect, and wait for the node's answer. A client with a session takes it up again."""
        wanted = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        wanted.SessionExpiryInterval = self.session
        self.greeting = None
        self.paho.connect("127.0.0.1", port, clean_start=not self.session, properties=wanted)
        self.paho.loop_start()
        wait_for(lambda: self.greeting is not None)
        return self

    def subscribe(self, filter: str, qos: int = 0) -> ReasonCode:
        _, mid = self.paho.subscribe(filter, qos)
        return self._answered(mid)

    def publish(self, topic: str, payload: str, qos: int, *, retain: bool = False) -> ReasonCode:
        return self._answered(self.paho.publish(topic, payload, qos, retain).mid)

    def _answered(self, mid: int | None) -> ReasonCode:
        assert mid is not None
        if not wait_for(lambda: mid in self.answers):
            raise SystemExit(f"the client `{self.name}` got no answer from the node")
        return self.answers[mid]

    def payloads(self, topic: str = "#") -> list[str]:
        """What came on the topics that match a filter."""
        chosen = [message for message in list(self.received) if mqtt.topic_matches_sub(topic, message.topic)]
        return [str(message.payload, "utf-8") for message in chosen]

    def leave(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.leave()

    def vanish(self) -> None:
        """Lose the connection without a word, as a device does that loses power."""
        connection = self.paho.socket()
        assert isinstance(connection, socket.socket)
        connection.shutdown(socket.SHUT_RDWR)
        self.paho.loop_stop()
