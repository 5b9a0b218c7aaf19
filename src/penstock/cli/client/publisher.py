"""A connection over which commands publish and wait for the broker's answers."""

import threading
from collections.abc import Callable
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.client import broker_options as broker
from penstock.cli.client.properties import properties_for

Answered = Callable[[int, ReasonCode, str], None]
"""Called with the number of a message, the broker's reason code, and its words."""

_WINDOW = 1000  # how far reading may be ahead of the broker


class PublishConnection:
    """A connection, served by paho-mqtt's thread while this one reads and waits; its methods raise `CommandFailure`."""

    def __init__(
        self,
        options: broker.ClientOptions,
        on_answer: Answered,
        reconnects: bool = False,
        patience: float | None = None,
        max_inflight: int = 20,
    ) -> None:
        """Prepare a connection.

        `reconnects`: a lost connection is made again, as for a stream of lines that may outlive a broker's restart.
        `patience`: seconds to wait for an answer; None: as long as it takes.
        """
        self._options = options
        self._on_answer = on_answer
        self._reconnects = reconnects
        self._patience = patience
        self._client = broker.make_client(options, reconnects=reconnects)
        self._client.max_inflight_messages_set(max_inflight)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._changed = threading.Condition()
        self._is_connected = self._was_connected = False
        self._sent = self._answered = 0
        self._failure: broker.CommandFailure | None = None

    def __enter__(self) -> Self:
        broker.connect(self._client, self._options)
        self._client.loop_start()
        try:
            self._wait(lambda: self._is_connected)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.disconnect(properties=properties_for("disconnect", self._options.properties))
        self._client.loop_stop()

    def send(self, topic: str, payload: bytes, qos: int, **more: Any) -> int:
        """Publish one message and return its number; wait if there is no connection, or if too many wait to be sent."""
        self._wait(lambda: self._is_connected and self._sent - self._answered < _WINDOW)
        self._sent += 1
        info = self._client.publish(topic, payload, qos, **more)
        if info.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            raise broker.CommandFailure(f"cannot publish: {paho.error_string(info.rc)}")
        return info.mid

    def wait_for_all(self) -> None:
        """Wait until every message is sent, and answered if it has an answer."""
        self._wait(lambda: self._sent <= self._answered)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure is not None or is_so(), self._patience)
        if self._failure is not None:
            raise self._failure
        if not done:
            raise broker.CommandFailure(f"`{self._options.where}` does not answer")

    def _on_connect(self, client: object, data: object, flags: object, reason: ReasonCode, properties: object) -> None:
        with self._changed:
            if reason.is_failure:
                self._failure = broker.refusal(self._options, reason, properties)
            else:
                self._is_connected = self._was_connected = True
            self._changed.notify_all()

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self._is_connected = False
            if not (self._reconnects and self._was_connected):
                self._failure = self._failure or broker.lost(self._options, reason)
            if self._options.qos == 0:
                self._answered = self._sent  # what was not sent will not be
            self._changed.notify_all()

    def _on_publish(self, client: object, data: object, number: int, reason: ReasonCode, properties: object) -> None:
        words = [str(reason), getattr(properties, "ReasonString", "")]
        with self._changed:
            self._on_answer(number, reason, ": ".join(filter(None, words)))
            self._answered += 1
            self._changed.notify_all()
