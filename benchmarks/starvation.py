"""`python -m benchmarks starvation`: a bystander's latency while another client floods the broker, beside Mosquitto.

The bystander publishes a small QoS 0 message every 10 ms and receives it on a second connection; nothing that it does
concerns the flood. One other process floods, in one of nine ways. The figures are the times from `send` to arrival of
the bystander's messages: median, 99th percentile and maximum. A message that has not come `PATIENCE` seconds after
the flood has ended counts as lost. What needs policies (conditions, meta-events) is the same traffic at Mosquitto,
which does not evaluate any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import frames
from benchmarks.brokers import MOSQUITTO, Broker, penstock_program, running
from benchmarks.generator import open_clients, read_packet, subscribe
from benchmarks.machine import describe
from benchmarks.node import OUTPUT

EVERY = 0.01
"""Seconds between two messages of the bystander."""
PATIENCE = 20.0
STAMP = struct.Struct("<d")
RETAINED_TOPICS = 20_000
NESTED = "a.all(x, a.all(y, a.all(z, x + y + z >= 0)))"
"""A condition whose cost grows with the third power of the list."""


@dataclass(frozen=True)
class Figures:
    """The bystander's latencies in milliseconds."""

    flood: str
    broker: str
    messages: int
    lost: int
    p50: float
    p99: float
    maximum: float


def _domain(port: int, folder: Path) -> list[str]:
    domain = folder / "domain.yaml"
    domain.write_text(
        f"domain: bench\nnodes:\n  main: {{listen: '127.0.0.1:{port}', store: memory}}\n"
        "statements:\n  policies:\n    tells: |\n      PolicyStatement {On(Forward, Publication) {\n"
        '        If {} Then {Publish("[class,Told],[message,$Message]")}}}\n'
        "  apply: [{policy: tells, to: publication, of: '*', filter: flood/meta}]\n"
    )
    return [penstock_program(), "run", str(domain)]


PENSTOCK = Broker("penstock", "penstock", "penstock, store: memory", _domain)


# --- floods: each is a function of a port, runs in a process of its own, and goes on until it is ended


def _publish(topic: str, payload: bytes, first: int = 0x30) -> bytes:
    body = frames.text(topic) + payload
    return bytes((first,)) + frames.varint(len(body)) + body


def _open(port: int, name: str) -> socket.socket:
    (sock,) = open_clients(port, [name], clean=True, keepalive=0)
    return sock


def _open5(port: int, name: str) -> socket.socket:
    """An MQTT 5 connection: only there are user properties."""
    sock = socket.create_connection(("127.0.0.1", port))
    body = frames.text("MQTT") + bytes((5, 2, 0, 0, 0)) + frames.text(name)
    sock.sendall(b"\x10" + frames.varint(len(body)) + body)
    read_packet(sock)
    return sock


def _one_topic(port: int) -> None:
    sock = _open(port, "flood")
    data = _publish("flood/one", b"x" * 100) * 2_000
    while True:
        sock.sendall(data)


def _fresh(port: int, first: int = 0x30) -> None:
    sock = _open(port, "flood")
    number = 0
    while True:
        sock.sendall(b"".join(_publish(f"flood/fresh/{at:x}", b"x", first) for at in range(number, number + 2_000)))
        number += 2_000


def _retained(port: int) -> None:
    _fresh(port, 0x31)


def _subscriptions(port: int) -> None:
    sock = _open(port, "flood")
    number = 0
    while True:
        batch = range(number, number + 200)
        sock.sendall(b"".join(frames.subscribe(at % 65535 + 1, [f"flood/{at}/+/x/#"], 0) for at in batch))
        number += 200
        _drain(sock)


def _conditions(port: int) -> None:
    sock = _open5(port, "flood")
    for number in range(20):
        where = f"{NESTED} || size(a) == {number}"
        properties = b"\x26" + frames.text("where") + frames.text(where) + b"\x26" + frames.text("name")
        properties += frames.text(f"c{number}")
        body = struct.pack(">H", number + 1) + frames.varint(len(properties)) + properties
        body += frames.text("flood/conditions") + b"\x00"
        sock.sendall(b"\x82" + frames.varint(len(body)) + body)
        read_packet(sock)
    payload = json.dumps({"a": list(range(90_000))}).encode()
    sender = _open(port, "flooding")
    packet = _publish("flood/conditions", payload)
    while True:
        sender.sendall(packet)
        _drain(sock)


def _connects(port: int) -> None:
    packet = frames.connect("", clean=True, keepalive=0)
    while True:
        socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        for sock in socks:
            sock.sendall(packet)
        for sock in socks:
            sock.recv(100)
            sock.close()


def _large(port: int) -> None:
    reader, sock = _open(port, "reading"), _open(port, "flood")
    subscribe(reader, ["flood/large"], 0)
    packet = _publish("flood/large", bytes(4 * 2**20))
    while True:
        sock.sendall(packet)
        _drain(reader)


def _replays(port: int) -> None:
    filler = _open(port, "filling")
    topics = [f"flood/kept/{at}" for at in range(RETAINED_TOPICS)]
    filler.sendall(b"".join(_publish(topic, b"x", 0x31) for topic in topics))
    filler.sendall(frames.PINGREQ)
    read_packet(filler)
    sock = _open(port, "flood")
    data = b"".join(frames.subscribe(number + 1, ["flood/kept/#"], 0) for number in range(100))
    while True:
        _send_and_drain(sock, data)


def _meta_events(port: int) -> None:
    reader, sock = _open(port, "reading"), _open(port, "telling")
    subscribe(reader, ["$penstock/meta/#", "flood/meta"], 0)
    data = _publish("flood/meta", b'{"n": 1}') * 200
    while True:
        sock.sendall(data)
        _drain(reader)


def _drain(sock: socket.socket) -> None:
    """Read what is there."""
    while select.select([sock], [], [], 0)[0]:
        if not sock.recv(1 << 20):
            raise ConnectionError("closed")


def _send_and_drain(sock: socket.socket, data: bytes) -> None:
    """Send all, and read whenever something is there: the broker may not read on before that."""
    view = memoryview(data)
    sock.setblocking(False)
    while view:
        readable, writable, _ = select.select([sock], [sock], [])
        if readable and not sock.recv(1 << 20):
            raise ConnectionError("closed")
        if writable:
            with contextlib.suppress(BlockingIOError):
                view = view[sock.send(view) :]


FLOODS: dict[str, Callable[[int], None]] = {
    "one topic": _one_topic,
    "fresh topics": _fresh,
    "retained": _retained,
    "subscriptions": _subscriptions,
    "conditions": _conditions,
    "connects": _connects,
    "large payloads": _large,
    "replays": _replays,
    "meta-events": _meta_events,
}


def _endless(flood: Callable[[int], None], port: int) -> None:
    while True:
        with contextlib.suppress(OSError, AssertionError, struct.error):
            flood(port)
        time.sleep(0.1)  # the broker has cut it off: come again


@contextlib.contextmanager
def _flooding(name: str | None, port: int) -> Iterator[None]:
    if name is None:
        yield
        return
    process = multiprocessing.get_context("fork").Process(target=_endless, args=(FLOODS[name], port), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


# --- the bystander


def measure(name: str | None, port: int, warm: float, seconds: float) -> tuple[list[float], int]:
    """Flood for so many seconds; return the bystander's latencies in seconds, and how many messages were lost."""
    publisher, subscriber = _open(port, "bystander-out"), _open(port, "bystander-in")
    subscribe(subscriber, ["bystander"], 0)
    with _flooding(name, port):
        _talk(publisher, subscriber, warm)
        latencies, sent = _talk(publisher, subscriber, seconds)
        lost = sent - len(latencies)
    publisher.close()
    subscriber.close()
    return latencies, lost


def _talk(publisher: socket.socket, subscriber: socket.socket, seconds: float) -> tuple[list[float], int]:
    size = len(_publish("bystander", STAMP.pack(0.0)))
    latencies: list[float] = []
    pending = b""
    sent, begun = 0, time.monotonic()
    end = begun + seconds
    while True:
        now = time.monotonic()
        if now < end and now >= begun + sent * EVERY:
            publisher.sendall(_publish("bystander", STAMP.pack(now)))
            sent += 1
            continue
        if now >= end and (len(latencies) >= sent or now > end + PATIENCE):
            return latencies, sent
        due = begun + sent * EVERY if now < end else end + PATIENCE
        if not select.select([subscriber], [], [], max(0.0, due - now))[0]:
            continue
        pending += subscriber.recv(65536)
        now = time.monotonic()
        while len(pending) >= size:
            latencies.append(now - STAMP.unpack(pending[size - STAMP.size : size])[0])
            pending = pending[size:]


def figures(name: str, broker: Broker, warm: float, seconds: float) -> Figures:
    """Measure one flood at one broker, started for it."""
    with running(broker, OUTPUT / "scratch") as process:
        latencies, lost = measure(None if name == "none" else name, process.port, warm, seconds)
    ordered = sorted(latency * 1000 for latency in latencies) or [float("inf")]
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Figures(name, broker.name, len(latencies), lost, ordered[len(ordered) // 2], p99, ordered[-1])


def table(rows: Sequence[Figures]) -> str:
    """The figures, one line for each flood and broker."""
    lines = ["| flood | broker | p50 ms | p99 ms | maximum ms | lost |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        shown = f"{row.p50:.1f} | {row.p99:.1f} | {row.maximum:.1f} | {row.lost}"
        lines.append(f"| {row.flood} | {row.broker} | {shown} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks starvation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 s of each flood, to see that it works")
    parser.add_argument("--floods", default="none," + ",".join(FLOODS), help="comma-separated (default: all)")
    parser.add_argument("--brokers", default="mosquitto,penstock", help="comma-separated (default: both)")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.floods.split(",")]
    brokers = [broker for broker in (MOSQUITTO, PENSTOCK) if broker.family in options.brokers.split(",")]
    unknown = [name for name in names if name not in FLOODS and name != "none"]
    if unknown:
        print(f"no flood `{unknown[0]}`: there are {', '.join(FLOODS)}", file=sys.stderr)
        return 2
    warm, seconds = (0.5, 2.0) if options.quick else (2.0, 10.0)
    rows = []
    for name in names:
        for broker in brokers:
            rows.append(figures(name, broker, warm, seconds))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
    text = table(rows)
    print(f"\n{text}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {key}: {value}" for key, value in describe(f"{seconds:.0f} s of each flood").items())
    (OUTPUT / "starvation.md").write_text(f"# A bystander while another client floods\n\n{text}\n\n{about}\n")
    print(f"written: {OUTPUT / 'starvation.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
