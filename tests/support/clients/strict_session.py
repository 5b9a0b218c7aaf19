"""Clients that keep their side of a session over any number of connections, as the standards say, and keep account.

A sender knows what was acknowledged; a receiver knows what was delivered to it and how often. What a client that only
forgets would hide, a message lost or delivered twice, these two see.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from penstock.wire.packet import (
    Connack,
    Connect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.clients.peer import Peer
from tests.support.processes.mosquitto import HOST

_LASTING = 3600


@dataclass
class _Lasting:
    """A session that outlives its connections."""

    client_id: str
    version: int
    window: int = 15
    known: bool = field(default=False, init=False)
    """Whether the node has acknowledged that there is a session."""

    async def open(self, port: int) -> Peer | None:
        """Connect; None if the node went away meanwhile."""
        try:
            peer = await Peer.open(HOST, port, self.version)
        except ConnectionError:
            return None
        properties = NO_PROPERTIES
        if self.version == 5:
            properties = Properties(session_expiry=_LASTING, receive_maximum=self.window)
        await peer.send(Connect(self.client_id, self.version, False, properties=properties))
        connack = await peer.next()
        if connack is None:
            await peer.close()
            return None
        assert isinstance(connack, Connack)
        assert connack.reason == 0, connack
        assert connack.session_present or not self.known, f"the node has lost the session of {self.client_id}"
        self.known = True
        return peer


@dataclass
class Sender(_Lasting):
    """Publishes numbered messages without end, as many at a time as its window holds."""

    topic: str = ""
    qos: int = 1
    retain: bool = False
    pause: float = 0.0
    """Seconds between two packets that it takes."""
    sent: int = field(default=0, init=False)
    acknowledged: set[bytes] = field(default_factory=set, init=False)
    stopping: bool = field(default=False, init=False)
    _inflight: dict[int, Publish | Pubrel] = field(default_factory=dict, init=False)
    _payloads: dict[int, bytes] = field(default_factory=dict, init=False)
    _last_id: int = field(default=0, init=False)

    async def run(self, port: int) -> None:
        """Until the node goes away; or, once `stopping`, until everything sent is through."""
        peer = await self.open(port)
        if peer is None:
            return
        try:
            await self._send(peer)
        finally:
            await peer.close()

    async def _send(self, peer: Peer) -> None:
        await peer.send(*self._repeated())  # [MQTT-4.4.0-1]
        while not (self.stopping and not self._inflight):
            await peer.send(*self._more())
            packet = await peer.next()
            if packet is None:
                break
            answer = self._take(packet)
            if answer is not None:
                await peer.send(answer)
            await asyncio.sleep(self.pause)

    def _repeated(self) -> list[Packet]:
        return [
            msgspec.structs.replace(packet, dup=True) if isinstance(packet, Publish) else packet
            for packet in self._inflight.values()
        ]

    def _more(self) -> Iterator[Packet]:
        while not self.stopping and len(self._inflight) < self.window:
            self.sent += 1
            payload = f"{self.client_id}:{self.sent}".encode()
            self._last_id = next(number for number in self._after(self._last_id) if number not in self._inflight)
            self._payloads[self._last_id] = payload
            packet = Publish(self.topic, payload, self.qos, self.retain, packet_id=self._last_id)
            self._inflight[self._last_id] = packet
            yield packet

    @staticmethod
    def _after(number: int) -> Iterator[int]:
        while True:
            number = number % 65535 + 1
            yield number

    def _take(self, packet: Packet) -> Packet | None:
        match packet:
            case Puback() if self.qos == 1:
                assert packet.reason < 0x80, packet
                del self._inflight[packet.packet_id]
                self.acknowledged.add(self._payloads.pop(packet.packet_id))
            case Pubrec() if self.qos == 2:
                assert packet.reason < 0x80, packet
                self.acknowledged.add(self._payloads[packet.packet_id])
                self._inflight[packet.packet_id] = Pubrel(packet.packet_id)
                return Pubrel(packet.packet_id)
            case Pubcomp() if self.qos == 2:
                assert isinstance(self._inflight.pop(packet.packet_id), Pubrel)
                del self._payloads[packet.packet_id]
            case _:
                raise AssertionError(f"{self.client_id} got {packet}")
        return None


@dataclass
class Receiver(_Lasting):
    """Takes everything that its one subscription brings."""

    filter: str = "#"
    qos: int = 2
    delivered: Counter[bytes] = field(default_factory=Counter, init=False)
    order: list[bytes] = field(default_factory=list, init=False)
    _held: set[int] = field(default_factory=set, init=False)

    async def subscribe(self, port: int) -> None:
        """Have a session with the subscription; what is acknowledged from now on is owed to this receiver."""
        peer = await self.open(port)
        assert peer is not None
        assert await peer.subscribe(self.filter, qos=self.qos) == (self.qos,)
        await peer.close()

    async def run(self, port: int, until: frozenset[bytes] | None = None) -> None:
        """Until the node goes away; or until all of `until` are delivered, or nothing comes any more."""
        peer = await self.open(port)
        if peer is None:
            return
        try:
            while until is None or not until <= self.delivered.keys():
                packet = await peer.next()
                if packet is None:
                    return
                await peer.send(self._take(packet))
            await self._finish(peer)
        except TimeoutError:
            pass
        finally:
            await peer.close()

    async def _finish(self, peer: Peer) -> None:
        """Acknowledge what the node repeats, until it has nothing more."""
        busy = True
        while busy or self._held:
            busy = False
            await peer.send(Pingreq())
            while not isinstance(packet := await peer.next(), Pingresp):
                assert packet is not None
                busy = True
                await peer.send(self._take(packet))

    def _take(self, packet: Packet) -> Packet:
        match packet:
            case Publish(qos=1):
                self._deliver(packet.payload)
                return Puback(packet.packet_id)
            case Publish(qos=2):
                if packet.packet_id not in self._held:  # [MQTT-4.3.3-10]
                    self._held.add(packet.packet_id)
                    self._deliver(packet.payload)
                return Pubrec(packet.packet_id)
            case Pubrel():
                self._held.discard(packet.packet_id)
                return Pubcomp(packet.packet_id)
        raise AssertionError(f"{self.client_id} got {packet}")

    def _deliver(self, payload: bytes) -> None:
        self.delivered[payload] += 1
        self.order.append(payload)


def numbers(receiver: Receiver, sender: Sender) -> list[int]:
    """The numbers of a sender's messages in the order in which they were delivered."""
    prefix = sender.client_id.encode() + b":"
    return [int(payload[len(prefix) :]) for payload in receiver.order if payload.startswith(prefix)]
