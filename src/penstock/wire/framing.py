"""Received chunks to packet boundaries, without decoding what is inside.

This is the first thing that happens to every received byte, so the usual case, whole packets with nothing
pending, touches only fixed headers and copies nothing.
"""

from typing import Final

from penstock.wire.errors import WireError, malformed
from penstock.wire.primitives import MAX_VARINT
from penstock.wire.reason import Reason

MAX_PACKET: Final = MAX_VARINT + 5  # the largest packet that MQTT can frame

Frame = tuple[int, int, int]


class Framer:
    """Splits a stream into packets of at most `limit` bytes, fixed header included.

    `error` is set when the stream cannot be read on; frames returned by the same `feed` came before it and
    are good. After that every chunk is dropped. `minimal` says that a length longer than it needs to be is an
    error, as in MQTT 5; MQTT 3.1.1 allows it. Both can be set when they become known.
    """

    __slots__ = ("_need", "_pending", "error", "limit", "minimal")

    def __init__(self, limit: int = MAX_PACKET) -> None:
        self.limit = limit
        self.minimal = False
        self.error: WireError | None = None
        self._pending = bytearray()
        self._need = 0  # the size of the packet that is pending, or 0 while its header is not whole

    @property
    def pending(self) -> int:
        """The number of bytes of an incomplete packet that are held: never more than `limit`, or a header."""
        return len(self._pending)

    def feed(self, data: bytes) -> tuple[bytes, list[Frame]]:
        """Take a chunk; return a buffer and the whole packets in it: (first byte, body start, body end)."""
        if self._pending or self.error is not None:
            data = self._joined(data)
        size = len(data)
        limit = self.limit
        if 2 < size <= limit:
            # One whole packet, as who sends now and then sends it, needs no loop.
            length = data[1]
            if length < 0x80:
                start = 2
            elif 0 < data[2] < 0x80:
                length += (data[2] << 7) - 0x80
                start = 3
            else:
                start = size
            if start + length == size:
                return data, [(data[0], start, size)]
        frames: list[Frame] = []
        pos = 0
        while pos + 1 < size:
            start = pos + 2
            length = data[pos + 1]
            if length >= 0x80:
                # Most packets are shorter than 16 KiB: two bytes of length are read here, without a call.
                if size > start and 0 < data[start] < 0x80:
                    length += (data[start] << 7) - 0x80
                    start += 1
                else:
                    length, start = self._long_length(data, pos)
                    if start == 0:
                        break
            end = start + length
            if end - pos > limit:
                what = f"packet of {end - pos} bytes is larger than {limit}"
                self._fail(WireError(Reason.PACKET_TOO_LARGE, what))
                return data, frames
            if end > size:
                self._need = end - pos
                break
            frames.append((data[pos], start, end))
            pos = end
        if pos < size and self.error is None:
            self._pending += data[pos:] if pos else data
        return data, frames

    def _joined(self, data: bytes) -> bytes:
        """Return all that is pending and `data`, if that completes a packet or its header; else nothing yet."""
        if self.error is not None:
            return b""
        self._pending += data
        if len(self._pending) < self._need:
            return b""
        joined = bytes(self._pending)
        self._pending = bytearray()
        self._need = 0
        return joined

    def _long_length(self, data: bytes, pos: int) -> tuple[int, int]:
        """Return the remaining length and the start of the body, which is 0 if the length is incomplete or wrong."""
        value = 0
        shift = 0
        start = pos + 1
        while start < len(data):
            byte = data[start]
            start += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and self.minimal:
                    break  # [MQTT-1.5.5-1]
                return value, start
            shift += 7
            if shift == 28:
                break
        else:
            return 0, 0
        self._fail(malformed(f"remaining length `{data[pos + 1 : start].hex(' ')}` is not a variable byte integer"))
        return 0, 0

    def _fail(self, error: WireError) -> None:
        self.error = error
        self._pending = bytearray()
