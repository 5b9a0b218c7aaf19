"""Received chunks to packets, for whoever wants packet values and not the node's hot path."""

from penstock.wire.decode import decode
from penstock.wire.errors import WireError, protocol_error
from penstock.wire.framing import MAX_PACKET, Framer
from penstock.wire.kinds import CONNECT
from penstock.wire.packet import MQTT_5, Connect, Packet


class StreamDecoder:
    """Decodes one direction of one connection.

    `version` 0 is the server's role: the first packet must be CONNECT, and names the version. A client knows
    it. `error` is set when the stream cannot be read on; packets returned by the same `feed` came before it
    and are good.
    """

    __slots__ = ("_framer", "error", "version")

    def __init__(self, limit: int = MAX_PACKET, version: int = 0) -> None:
        self.version = version
        self.error: WireError | None = None
        self._framer = Framer(limit)
        self._framer.minimal = version == MQTT_5

    def feed(self, data: bytes) -> list[Packet]:
        """Take a chunk and return the packets that it completes."""
        packets: list[Packet] = []
        if self.error is not None:
            return packets
        buffer, frames = self._framer.feed(data)
        try:
            for first, start, end in frames:
                packets.append(self._decode(first, buffer[start:end]))
        except WireError as error:
            self.error = error
        else:
            self.error = self._framer.error
        return packets

    def _decode(self, first: int, body: bytes) -> Packet:
        if self.version == 0 and first >> 4 != CONNECT:
            raise protocol_error("first packet is not CONNECT")  # [MQTT-3.1.0-1]
        packet = decode(first, body, self.version)
        if isinstance(packet, Connect):
            self.version = packet.version
            self._framer.minimal = packet.version == MQTT_5
        return packet
