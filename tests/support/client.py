"""A client on a blocking socket that hides nothing: packets out, packets in, and the end of the connection."""

import socket
import ssl
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.wire.codec import encode
from penstock.wire.packet import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from penstock.wire.properties import Properties
from penstock.wire.stream import Decoder
from tests.support.mosquitto import HOST

PATIENCE = 20.0

Kind = TypeVar("Kind", bound=Packet)


class Ended(Exception):
    """The node has closed the connection."""


class RawClient:
    """One connection. Whatever the node sends that is not MQTT raises; what nobody asked for stays in `inbox`."""

    def __init__(self, port: int, version: int = 5, context: ssl.SSLContext | None = None) -> None:
        self.version = version
        self.inbox: list[Packet] = []
        self._decoder = Decoder(version=version)
        self._last_id = 0
        plain = socket.create_connection((HOST, port), timeout=PATIENCE)
        self.socket = context.wrap_socket(plain, server_hostname="localhost") if context else plain

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # --- sending

    def send(self, *packets: Packet) -> None:
        """Send packets in one chunk."""
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def next_id(self) -> int:
        self._last_id = self._last_id % 65535 + 1
        return self._last_id

    # --- receiving

    def receive(self, timeout: float = PATIENCE) -> Packet:
        """The next packet; raises `Ended` when there is none any more, TimeoutError when none has come."""
        end = time.monotonic() + timeout
        while not self.inbox:
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.socket.recv(65536)
            except ConnectionError as error:
                raise Ended(str(error)) from None
            if not data:
                raise Ended("closed")
            self.inbox.extend(self._decoder.feed(data))
            assert self._decoder.error is None, self._decoder.error
        return self.inbox.pop(0)

    def expect(self, kind: type[Kind]) -> Kind:
        """The next packet, which must be of this kind."""
        packet = self.receive()
        assert isinstance(packet, kind), f"expected {kind.__name__}, got {packet}"
        return packet

    def rest(self) -> list[Packet]:
        """All packets until the node closes the connection."""
        packets: list[Packet] = []
        try:
            while True:
                packets.append(self.receive())
        except Ended:
            return packets

    # --- whole exchanges

    def connect(self, client_id: str = "", **fields: Any) -> Connack:
        """Say CONNECT; fields are those of `Connect`, or properties."""
        names = [name for name in fields if name in Properties.__struct_fields__]
        if names:
            fields["properties"] = Properties(**{name: fields.pop(name) for name in names})
        self.send(Connect(client_id, self.version, **fields))
        return self.expect(Connack)

    def subscribe(self, filter: str, qos: int = 0, **options: Any) -> int:
        """Subscribe; the reason of the SUBACK."""
        packet_id = self.next_id()
        self.send(Subscribe(packet_id, (Subscription(filter, qos, **options),)))
        answer = self.expect(Suback)
        assert answer.packet_id == packet_id
        return answer.reasons[0]

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **fields: Any) -> int | None:
        """Publish with QoS 0, or with QoS 1 and the reason of its PUBACK."""
        assert qos < 2
        packet_id = self.next_id() if qos else 0
        self.send(Publish(topic, payload, qos, packet_id=packet_id, **fields))
        return self.expect(Puback).reason if qos else None

    def ping(self) -> None:
        """PINGREQ and PINGRESP: what was sent before has been handled, and what came before is in the inbox."""
        self.send(Pingreq())
        earlier: list[Packet] = []
        while not isinstance(packet := self.receive(), Pingresp):
            earlier.append(packet)
        self.inbox = earlier + self.inbox

    def reason_of_end(self) -> int:
        """Why the node ends the connection: the reason of a DISCONNECT that must be the last packet."""
        last = self.rest()[-1]
        assert isinstance(last, Disconnect), last
        return last.reason


def opened(port: int, client_id: str = "", version: int = 5, **fields: Any) -> RawClient:
    """A client that the node has accepted."""
    client = RawClient(port, version)
    connack = client.connect(client_id, **fields)
    assert connack.reason == 0, connack
    return client
