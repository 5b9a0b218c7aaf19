"""A peer that says exactly what it is told to say, right or wrong, and looks at every packet it gets."""

import asyncio
import contextlib
from collections import deque
from typing import Any, Self, TypeVar

from penstock.wire.codec import encode, encode_varint
from penstock.wire.packet import (
    MQTT_5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.stream import StreamDecoder
from tests.support.processes.commands import PATIENCE

Kind = TypeVar("Kind", bound=Packet)


def text(value: str | bytes) -> bytes:
    """A string as it stands in a packet, valid or not."""
    raw = value.encode() if isinstance(value, str) else value
    return len(raw).to_bytes(2, "big") + raw


def frame(first: int, body: bytes = b"") -> bytes:
    """A packet by hand: first byte, length, body."""
    return bytes([first]) + encode_varint(len(body)) + body


class Peer:
    """One network connection to a server, packet by packet. Nothing is sent that a test does not ask for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.version = version
        self._reader = reader
        self._writer = writer
        self._decoder = StreamDecoder(version=version)
        self._arrived: deque[Packet] = deque()
        self._last_id = 0

    @classmethod
    async def open(cls, host: str, port: int, version: int = MQTT_5) -> Self:
        """A connection on which nothing has been said yet."""
        reader, writer = await asyncio.open_connection(host, port)
        return cls(reader, writer, version)

    # --- what goes out

    async def send(self, *packets: Packet) -> None:
        """Send packets in one chunk."""
        await self.send_raw(b"".join(encode(packet, self.version) for packet in packets))

    async def send_raw(self, data: bytes) -> None:
        """Send bytes as they are. A server that has closed already is no error: what it said is still to be read."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    def new_id(self) -> int:
        """A packet identifier that has not been used on this connection."""
        self._last_id += 1
        return self._last_id

    # --- what comes in

    async def next(self, patience: float = PATIENCE) -> Packet | None:
        """The next packet, or None at the end of the connection."""
        async with asyncio.timeout(patience):
            while not self._arrived:
                try:
                    data = await self._reader.read(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._arrived.extend(self._decoder.feed(data))
                if self._decoder.error is not None:
                    raise AssertionError(f"the server sent a bad packet: {self._decoder.error}")
        return self._arrived.popleft()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, as bytes."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read()

    async def expect(self, kind: type[Kind], patience: float = PATIENCE, **fields: Any) -> Kind:
        """The next packet, which must be of `kind` and have these values in its fields."""
        try:
            packet = await self.next(patience)
        except TimeoutError:
            raise AssertionError(f"no {kind.__name__} came") from None
        assert isinstance(packet, kind), f"expected {kind.__name__}, got {packet}"
        different = {name: getattr(packet, name) for name, value in fields.items() if getattr(packet, name) != value}
        assert not different, f"{different} in {packet}, expected {fields}"
        return packet

    async def expect_nothing(self) -> None:
        """Nothing waits for this peer: the answer to a PINGREQ is the next packet."""
        await self.send(Pingreq())
        await self.expect(Pingresp)

    async def expect_close(self) -> None:
        """The server closes the connection and says nothing before."""
        try:
            packet = await self.next()
        except TimeoutError:
            raise AssertionError("the connection is still open") from None
        assert packet is None, f"expected the end of the connection, got {packet}"

    async def expect_end(self, reason: int) -> None:
        """The server ends the connection: with a DISCONNECT that has `reason` in MQTT 5, without a word in 3.1.1."""
        if self.version == MQTT_5:
            await self.expect(Disconnect, reason=reason)
        await self.expect_close()

    # --- whole exchanges

    async def connect(self, client_id: str = "", **fields: Any) -> Connack:
        """Connect and be accepted."""
        await self.send(Connect(client_id, version=self.version, **fields))
        return await self.expect(Connack, reason=0)

    async def subscribe(
        self,
        *filters: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> tuple[int, ...]:
        """Subscribe and return the reason codes."""
        number = self.new_id()
        wanted = tuple(
            SubscriptionRequest(name, qos, no_local, retain_as_published, retain_handling) for name in filters
        )
        await self.send(Subscribe(number, wanted, properties))
        return (await self.expect(Suback, packet_id=number)).reasons

    async def unsubscribe(self, *filters: str) -> tuple[int, ...]:
        """Unsubscribe and return the reason codes, which 3.1.1 does not have."""
        number = self.new_id()
        await self.send(Unsubscribe(number, filters))
        return (await self.expect(Unsuback, packet_id=number)).reasons

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> int:
        """Publish, go through the handshake of the QoS, and return the reason code.

        A QoS 0 message is followed by a PINGREQ, so that the server has taken it when this returns.
        """
        number = self.new_id() if qos else 0
        await self.send(Publish(topic, payload, qos, retain, packet_id=number, properties=properties))
        if qos == 0:
            await self.expect_nothing()
            return 0
        if qos == 1:
            return (await self.expect(Puback, packet_id=number)).reason
        reason = (await self.expect(Pubrec, packet_id=number)).reason
        if reason < 0x80:
            await self.send(Pubrel(number))
            await self.expect(Pubcomp, packet_id=number, reason=0)
        return reason

    async def receive(self, topic: str | None = None, patience: float = PATIENCE, **fields: Any) -> Publish:
        """The next packet, which must be a PUBLISH with these values, acknowledged as its QoS asks."""
        if topic is not None:
            fields["topic"] = topic
        message = await self.expect(Publish, patience, **fields)
        if message.qos == 1:
            await self.send(Puback(message.packet_id))
        elif message.qos == 2:
            await self.send(Pubrec(message.packet_id))
            await self.expect(Pubrel, packet_id=message.packet_id)
            await self.send(Pubcomp(message.packet_id))
        return message

    # --- the end

    async def disconnect(self, reason: int = 0, properties: Properties = NO_PROPERTIES) -> None:
        """Say goodbye, and wait until the server has closed."""
        await self.send(Disconnect(reason, properties))
        await self.expect_close()
        await self.close()

    async def abort(self) -> None:
        """Vanish without a DISCONNECT, and wait until the server has seen it."""
        self._writer.write_eof()
        while await self.next() is not None:
            pass
        await self.close()

    async def close(self) -> None:
        """Close the connection from this side."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
