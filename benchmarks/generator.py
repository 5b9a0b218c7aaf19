"""The load generator's connections: hand-made packets, non-blocking sockets in one epoll set.

It must cost far less than the broker it drives. So all PUBLISH packets of a load have one size: what a
subscriber received is counted and its time stamps are read without parsing, and a burst is one `join` and one
`send`. The kernel notes when bytes arrive (SO_TIMESTAMPNS), so a subscriber may be read late, many packets at a
time, and latencies stay true.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from time import time

from benchmarks import frames
from benchmarks.frames import ACK_SIZE, STAMP, PublishLayout

CONNECT_BATCH = 50
CONNECT_TIMEOUT = 30.0
BUFFER_SIZE = 1 << 18

# Python has no names for these; both are 35 on every architecture Debian has 64-bit releases for.
SO_TIMESTAMPNS = SCM_TIMESTAMPNS = 35
ANCILLARY_SIZE = 64


class LoadError(Exception):
    """The broker did not do what the load needs of it."""


class Counts:
    """The counts of what has been sent and received so far, and the latencies since the last `forget`."""

    def __init__(self) -> None:
        self.published = 0
        self.received = 0
        self.latencies = array("d")

    def forget(self) -> None:
        """Drop the latencies seen up to now."""
        self.latencies = array("d")


class Link:
    """One non-blocking connection in an epoll set, with what could not be sent yet."""

    def __init__(self, sock: socket.socket, poll: select.epoll) -> None:
        self.sock = sock
        self._poll = poll
        self._pending = b""
        poll.register(sock.fileno(), select.EPOLLIN)

    @property
    def blocked(self) -> bool:
        """Return whether bytes wait for the socket to become writable."""
        return bool(self._pending)

    def send(self, data: bytes) -> None:
        """Send now what the socket takes and the rest when it is writable again."""
        if self._pending:
            self._pending += data
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._pending = data[sent:]
            self._poll.modify(self.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def flush(self) -> None:
        """The socket is writable."""
        waiting, self._pending = self._pending, b""
        self._poll.modify(self.sock.fileno(), select.EPOLLIN)
        if waiting:
            self.send(waiting)


class Publisher(Link):
    """Sends its bursts in turn, stamped; at QoS 1 and 2 it also sees to their acknowledgement.

    A burst's packet ids are fixed, so it is sent again only when all of it has been acknowledged; brokers
    acknowledge in order [MQTT-4.6.0-2], so a count is enough to know.
    """

    def __init__(
        self,
        sock: socket.socket,
        poll: select.epoll,
        counts: Counts,
        qos: int,
        bursts: Sequence[tuple[bytes, ...]],
    ) -> None:
        super().__init__(sock, poll)
        self._counts = counts
        self._qos = qos
        self._bursts = bursts
        self._next = 0
        self._burst_size = len(bursts[0]) - 1
        self._rest = b""
        self.unacknowledged = 0

    @property
    def ready(self) -> bool:
        """Return whether the next burst may be sent."""
        room = self._burst_size * (len(self._bursts) - 1)
        return not self.blocked and self.unacknowledged <= room

    def publish(self) -> int:
        """Send the next burst and return how many messages it has."""
        self.send(STAMP.pack(time()).join(self._bursts[self._next]))
        self._next = (self._next + 1) % len(self._bursts)
        if self._qos:
            self.unacknowledged += self._burst_size
        self._counts.published += self._burst_size
        return self._burst_size

    def read(self) -> None:
        """Take acknowledgements and answer each PUBREC."""
        data = self._rest + _received(self.sock.recv(BUFFER_SIZE))
        whole = len(data) // ACK_SIZE * ACK_SIZE
        self._rest = data[whole:]
        to_release: list[bytes] = []
        for kind, packet_id in _ACK.iter_unpack(memoryview(data)[:whole]):
            if kind == frames.PUBREC:
                to_release.append(packet_id)
            elif kind in (frames.PUBACK, frames.PUBCOMP):
                self.unacknowledged -= 1
            else:
                raise LoadError(f"a publisher received `{kind.hex()}`")
        if to_release:
            self.send(_acknowledge(frames.PUBREL, to_release))


class Subscriber(Link):
    """Counts what it receives and keeps latencies; at QoS 0 or 1, where only PUBLISH packets come in."""

    def __init__(self, sock: socket.socket, poll: select.epoll, counts: Counts, layout: PublishLayout) -> None:
        super().__init__(sock, poll)
        self._counts = counts
        self._layout = layout
        self._size = layout.size
        after = layout.payload_size - STAMP.size
        if layout.qos:
            self._fields = struct.Struct(f"<{layout.packet_id_at}x2sd{after}x")
        else:
            self._fields = struct.Struct(f"<{layout.stamp_at}xd{after}x")
        self._first_byte = layout.first_byte
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._kept = 0

    def read(self) -> None:
        """Take what has arrived."""
        end, arrived = self._receive()
        count = end // self._size
        if count:
            self._check_first_byte()
            self._take(self._view[: count * self._size], count, arrived)
            self._keep(count * self._size, end)
        else:
            self._kept = end

    def _receive(self) -> tuple[int, float]:
        """Return the end of the received bytes in the buffer, and when the last of them arrived."""
        size, ancillary, _, _ = self.sock.recvmsg_into((self._view[self._kept :],), ANCILLARY_SIZE)
        if not size:
            raise LoadError("the broker closed a subscriber's connection")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == SCM_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                return self._kept + size, seconds + nanoseconds * 1e-9
        return self._kept + size, time()

    def _take(self, packets: memoryview, count: int, arrived: float) -> None:
        counts = self._counts
        counts.received += count
        if self._layout.qos:
            fields = list(self._fields.iter_unpack(packets))
            counts.latencies.extend([arrived - stamp for _, stamp in fields])
            self.send(_acknowledge(frames.PUBACK, [packet_id for packet_id, _ in fields]))
        else:
            counts.latencies.extend([arrived - stamp for (stamp,) in self._fields.iter_unpack(packets)])

    def _keep(self, start: int, end: int) -> None:
        self._kept = end - start
        if self._kept:
            self._buffer[: self._kept] = self._buffer[start:end]

    def _check_first_byte(self) -> None:
        if self._buffer[0] & 0xF7 != self._first_byte:
            raise LoadError(f"a subscriber received `{self._buffer[0]:02x}`, not `{self._first_byte:02x}`")


class ExactlyOnceSubscriber(Subscriber):
    """A subscriber at QoS 2, where PUBREL packets come in between."""

    def read(self) -> None:
        """Take what has arrived and answer it."""
        end, arrived = self._receive()
        at = 0
        publishes: list[bytes] = []
        releases: list[bytes] = []
        id_at, stamp_at = self._layout.packet_id_at, self._layout.stamp_at
        while end - at >= ACK_SIZE:
            if self._buffer[at] == frames.PUBREL[0]:
                releases.append(bytes(self._view[at + 2 : at + 4]))
                at += ACK_SIZE
            elif end - at < self._size:
                break
            else:
                publishes.append(bytes(self._view[at + id_at : at + stamp_at]))
                self._counts.latencies.append(arrived - STAMP.unpack_from(self._buffer, at + stamp_at)[0])
                at += self._size
        self._counts.received += len(publishes)
        self._keep(at, end)
        answer = _acknowledge(frames.PUBREC, publishes) + _acknowledge(frames.PUBCOMP, releases)
        if answer:
            self.send(answer)


_ACK = struct.Struct(">2s2s")
_TIMESPEC = struct.Struct("@qq")


def _acknowledge(kind: bytes, packet_ids: Sequence[bytes]) -> bytes:
    return kind + kind.join(packet_ids) if packet_ids else b""


def _received(data: bytes) -> bytes:
    if not data:
        raise LoadError("the broker closed a publisher's connection")
    return data


def open_clients(port: int, client_ids: Sequence[str], *, clean: bool, keepalive: int) -> list[socket.socket]:
    """Connections with CONNACK received, still blocking; in batches that fit a listen queue."""
    opened: list[socket.socket] = []
    try:
        for start in range(0, len(client_ids), CONNECT_BATCH):
            batch = client_ids[start : start + CONNECT_BATCH]
            for client_id in batch:
                opened.append(_open(port, frames.connect(client_id, clean=clean, keepalive=keepalive)))
            for sock in opened[start:]:
                kind, body = read_packet(sock)
                if kind != frames.CONNACK or body[1] != 0:
                    raise LoadError(f"the broker answered CONNECT with `{kind:02x} {body.hex()}`")
    except OSError as error:
        close_all(opened)
        raise LoadError(f"connection {len(opened)} of {len(client_ids)} failed: {error}") from error
    except BaseException:
        close_all(opened)
        raise
    return opened


def _open(port: int, first_packet: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(first_packet)
    return sock


def subscribe(sock: socket.socket, filters: Sequence[str], qos: int) -> None:
    """Subscribe and wait for the SUBACK."""
    for packet_id, start in enumerate(range(0, len(filters), 50), 1):
        some = filters[start : start + 50]
        sock.sendall(frames.subscribe(packet_id, some, qos))
        kind, body = read_packet(sock)
        if kind != frames.SUBACK or body[2:] != bytes((qos,)) * len(some):
            raise LoadError(f"the broker answered SUBSCRIBE with `{kind:02x} {body.hex()}`")


def read_packet(sock: socket.socket) -> tuple[int, bytes]:
    """One short packet (remaining length below 128) from a blocking socket."""
    header = _exactly(sock, 2)
    return header[0], _exactly(sock, header[1])


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            more = sock.recv(size - len(data))
        except TimeoutError as error:
            raise LoadError(f"no answer from the broker for {CONNECT_TIMEOUT:.0f} s") from error
        if not more:
            raise LoadError("the broker closed a connection")
        data += more
    return data


def close_all(socks: Sequence[socket.socket]) -> None:
    """Disconnect and close each."""
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.setblocking(False)
            sock.send(frames.DISCONNECT)
        sock.close()


@contextlib.contextmanager
def clients(port: int, client_ids: Sequence[str], *, clean: bool, keepalive: int = 0) -> Iterator[list[socket.socket]]:
    """Open clients, closed at the end."""
    opened = open_clients(port, client_ids, clean=clean, keepalive=keepalive)
    try:
        yield opened
    finally:
        close_all(opened)
