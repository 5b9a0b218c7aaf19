"""Runs one load against one started broker and measures it."""

from __future__ import annotations

import ctypes
import gc
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from benchmarks import frames
from benchmarks.brokers import Process
from benchmarks.generator import (
    Counts,
    ExactlyOnceSubscriber,
    LoadError,
    Publisher,
    Subscriber,
    clients,
    read_packet,
    subscribe,
)
from benchmarks.loads import Amount, IdleLoad, Load, MessageLoad, Publishes, Seconds

RUN_LIMIT = 120.0
REST = 0.0005
"""Seconds for which a subscriber's socket is left to fill before it is read, as a network card would: a wake-up for
each packet would cost the generator, and through it the broker, more than the packet."""
TICK = 0.00025
"""Seconds between two sends of a load with a rate."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one load, times in seconds; what the load does not have is None.

    Under an idle load the connections count: those that were held as delivered, the others as lost.
    """

    delivered: int = 0
    lost: int = 0
    cpu_per_message: float | None = None
    throughput: float | None = None
    p50: float | None = None
    p99: float | None = None
    generator_busy: float | None = None
    bytes_per_connection: float | None = None

    def summary(self) -> str:
        """One line, to be watched while the benchmark runs."""
        parts = [f"{self.delivered:,} delivered", f"{self.lost:,} lost"]
        if self.cpu_per_message is not None:
            parts.append(f"{self.cpu_per_message * 1e6:.2f} us CPU each")
        if self.throughput is not None:
            parts.append(f"{self.throughput:,.0f}/s")
        if self.generator_busy is not None:
            parts.append(f"generator {self.generator_busy:.0%}")
        if self.bytes_per_connection is not None:
            parts.append(f"{self.bytes_per_connection / 1024:.2f} KiB per connection")
        return ", ".join(parts)


def measure(load: Load, process: Process) -> Measurement:
    """Run `load` against the broker; raise LoadError if the broker does not bear it."""
    gc.collect()
    gc.disable()
    try:
        if isinstance(load, IdleLoad):
            return _measure_idle(load, process)
        return _measure_messages(load, process)
    except OSError as error:
        raise LoadError(f"a connection failed: {error}") from error
    finally:
        gc.enable()


def _measure_messages(load: MessageLoad, process: Process) -> Measurement:
    subscriber_ids = [f"sub{at}" for at in range(len(load.filters))]
    publisher_ids = [f"pub{at}" for at in range(load.publishers)]
    with (
        clients(process.port, subscriber_ids, clean=load.qos == 0) as subscribers,
        clients(process.port, publisher_ids, clean=True) as publishers,
        select.epoll() as poll,
    ):
        for sock, filters in zip(subscribers, load.filters, strict=True):
            subscribe(sock, filters, load.qos)
        measured = Traffic(load, poll, subscribers, publishers).measure(process.cpu_seconds)
    if not measured.delivered:
        raise LoadError("nothing was delivered")
    return measured


class Traffic:
    """The connections of one load at work."""

    def __init__(
        self,
        load: MessageLoad,
        poll: select.epoll,
        subscribers: list[socket.socket],
        publishers: list[socket.socket],
    ) -> None:
        self._load = load
        self._poll = poll
        self._counts = Counts()
        for sock in (*subscribers, *publishers):
            sock.setblocking(False)
        kind = ExactlyOnceSubscriber if load.qos == 2 else Subscriber
        self._links: dict[int, Publisher | Subscriber] = {
            sock.fileno(): kind(sock, poll, self._counts, load.layout) for sock in subscribers
        }
        self._publishers = [
            Publisher(sock, poll, self._counts, load.qos, load.bursts(at)) for at, sock in enumerate(publishers)
        ]
        self._links |= {client.sock.fileno(): client for client in self._publishers}
        self._turn = 0
        self._written_off = 0
        self._seen = 0
        self._seen_at = perf_counter()

    def measure(self, broker_cpu: Callable[[], float]) -> Measurement:
        """Warm up, measure, then wait for what is still on its way."""
        self._run(self._load.warm_up)
        counts = self._counts
        counts.forget()
        cpu, own_cpu = broker_cpu(), time.process_time()
        received, began = counts.received, perf_counter()
        self._run(self._load.measured)
        elapsed, delivered = perf_counter() - began, counts.received - received
        cpu, own_cpu = broker_cpu() - cpu, time.process_time() - own_cpu
        latencies = sorted(counts.latencies)
        self._drain()
        return Measurement(
            delivered=delivered,
            lost=counts.published * self._load.copies - counts.received,
            cpu_per_message=cpu / delivered if delivered else None,
            throughput=delivered / elapsed,
            p50=latencies[len(latencies) // 2] if latencies else None,
            p99=latencies[len(latencies) * 99 // 100] if latencies else None,
            generator_busy=own_cpu / elapsed,
        )

    @property
    def _on_the_way(self) -> int:
        return self._counts.published * self._load.copies - self._counts.received - self._written_off

    def _run(self, amount: Amount) -> None:
        limit = amount.seconds if isinstance(amount, Seconds) else RUN_LIMIT
        began = perf_counter()
        if self._load.rate is not None:
            self._pace(began, began + limit, self._load.rate)
            return
        target = self._counts.published + amount.count if isinstance(amount, Publishes) else None
        while perf_counter() < began + limit:
            self._fill_window(target)
            if target is not None and self._counts.published >= target and self._on_the_way <= 0:
                return
            self._serve_after_rest()
            self._write_off_after_stall()
        if target is not None:
            raise LoadError(f"not done after {RUN_LIMIT:.0f} s")

    def _fill_window(self, target: int | None) -> None:
        """Let the publishers that are ready send in turn as long as the window has room, up to `target` in all."""
        cost = self._load.burst * self._load.copies
        refused = 0
        while self._on_the_way + cost <= self._load.window and refused < len(self._publishers):
            if target is not None and self._counts.published >= target:
                return
            publisher = self._next_publisher()
            if publisher.ready:
                publisher.publish()
                refused = 0
            else:
                refused += 1

    def _pace(self, began: float, ends: float, rate: float) -> None:
        """Send at even distances, each message by another publisher."""
        sent = 0
        while (now := perf_counter()) < ends:
            due = int((now - began) * rate) - sent
            for _ in range(due):
                self._next_publisher().publish()
            sent += due
            self._serve(0)
            if self._on_the_way > self._load.window:
                raise LoadError(f"cannot hold {rate:,.0f} msg/s: {self._on_the_way:,} messages are on their way")
            # Asleep, not spinning: the generator and the broker may share a processor core's resources.
            time.sleep(max(0.0, now + TICK - perf_counter()))

    def _next_publisher(self) -> Publisher:
        publisher = self._publishers[self._turn]
        self._turn = (self._turn + 1) % len(self._publishers)
        return publisher

    def _serve_after_rest(self) -> None:
        if self._poll.poll(0.05, 1):
            time.sleep(REST)
            self._serve(0)

    def _serve(self, timeout: float) -> None:
        links = self._links
        for number, mask in self._poll.poll(timeout):
            link = links[number]
            if mask & select.EPOLLOUT:
                link.flush()
            if mask & ~select.EPOLLOUT:
                link.read()

    def _write_off_after_stall(self) -> None:
        """Give up on what does not come, so that a loss does not close the window for good."""
        now = perf_counter()
        if self._counts.received != self._seen or self._on_the_way <= 0:
            self._seen, self._seen_at = self._counts.received, now
        elif now - self._seen_at > self._load.stall:
            self._written_off += self._on_the_way

    def _drain(self) -> None:
        self._seen_at = perf_counter()
        while self._on_the_way > 0 or any(client.unacknowledged for client in self._publishers):
            before = self._counts.received
            self._serve(0.05)
            if before != self._counts.received:
                self._seen_at = perf_counter()
            elif perf_counter() - self._seen_at > self._load.stall:
                return


def _measure_idle(load: IdleLoad, process: Process) -> Measurement:
    # A first few, so that what the broker sets up once is not charged to the connections.
    with clients(process.port, [f"first{at}" for at in range(20)], clean=True, keepalive=60) as first:
        _ping(first)
    before = process.rss()
    with clients(process.port, [f"idle{at}" for at in range(load.connections)], clean=True, keepalive=60) as idle:
        _ping(idle)
        time.sleep(load.hold)
        held = _ping(idle)
        used = process.rss() - before
    return Measurement(
        delivered=held,
        lost=load.connections - held,
        bytes_per_connection=used / load.connections,
    )


def _ping(socks: list[socket.socket]) -> int:
    """Return how many of the connections answer a PINGREQ."""
    held = 0
    for sock in socks:
        try:
            sock.sendall(frames.PINGREQ)
            kind, _ = read_packet(sock)
            held += kind == frames.PINGRESP[0]
        except (OSError, LoadError):
            continue
    return held


def sharpen_timers() -> None:
    """Make sleeps end when they are due, not up to 50 microseconds later."""
    pr_set_timerslack = 29
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_timerslack, 1, 0, 0, 0)
