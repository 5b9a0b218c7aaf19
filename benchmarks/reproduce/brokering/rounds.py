"""One round: messages at a fixed rate through a started chain, and what came of them (§8.1.3)."""

from __future__ import annotations

import gc
import select
from dataclasses import dataclass, replace
from time import perf_counter

import psutil

from benchmarks.drive import Measurement, Traffic
from benchmarks.generator import LoadError
from benchmarks.loads import IN_TURN, OWN_TOPICS, MessageLoad, Seconds
from benchmarks.reproduce.brokering.chain import Chain

EACH_PER_SECOND = 10.0
"""Messages per second of one publisher, as long as `MAX_PUBLISHERS` are enough for the rate."""
MAX_PUBLISHERS = 1900
"""Ten chains with so many connections each stay below 20,000 open files."""
WARM_UP = 0.5
STALL = 15.0
"""Seconds of silence after which a message counts as lost: an overloaded chain may be silent for long and lose none."""
KEPT_UP = 0.99
"""The part of the rate that must arrive within the round for the chain to count as fast enough."""
BEHIND = 0.9
"""A chain of which less than this part of the rate arrives is left behind. What its brokers did in the round they did
for other messages than those that arrived, so that a processor time for each says nothing."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round; processor times are seconds for each message that arrived."""

    configuration: str
    brokers: int
    rate: int
    repeat: int
    throughput: float
    """Messages a second that arrived within the round: the paper's MT."""
    lost: int
    """Messages of the round, warm-up included, that never arrived."""
    cpu: tuple[float, ...]
    """The figure of each broker, the first of the chain first."""
    p50: float | None
    p99: float | None
    generator_busy: float
    others_busy: float
    """The part of the machine that neither the brokers nor the generator used, but somebody did."""

    @property
    def cpu_total(self) -> float:
        return sum(self.cpu)

    @property
    def kept_up(self) -> bool:
        """Return whether everything arrived, and in time."""
        return not self.lost and self.throughput >= KEPT_UP * self.rate

    @property
    def is_behind(self) -> bool:
        """Return whether the chain lost messages or falls ever further behind."""
        return self.lost > 0 or self.throughput < BEHIND * self.rate

    def summary(self) -> str:
        """One line, to be watched while the benchmark runs."""
        costs = " ".join(f"{cpu * 1e6:.1f}" for cpu in self.cpu)
        return (
            f"{self.throughput:,.0f}/s, {self.lost:,} lost, {self.cpu_total * 1e6:.1f} us CPU each ({costs}),"
            f" generator {self.generator_busy:.0%}, others {self.others_busy:.0%}"
        )


def run(chain: Chain, rate: int, repeat: int, seconds: float) -> Round:
    """Publish at the rate for the warm-up and `seconds`; raise LoadError if the chain breaks."""
    load = _load(rate, seconds)
    publishers = chain.have_publishers(load.publishers)
    clocks = _Clocks(chain)
    gc.collect()
    gc.disable()
    try:
        with select.epoll() as poll:
            measured = Traffic(load, poll, chain.subscribers, publishers).measure(clocks.read)
    except OSError as error:
        raise LoadError(f"a connection failed: {error}") from error
    finally:
        gc.enable()
    if not chain.configuration.keeps_payload:
        measured = replace(measured, p50=None, p99=None)
    return _round(chain, rate, repeat, measured, clocks)


def _load(rate: int, seconds: float) -> MessageLoad:
    """Every publisher has one topic, and every topic one subscriber."""
    publishers = min(MAX_PUBLISHERS, round(rate / EACH_PER_SECOND))
    return MessageLoad(
        name="chain",
        title="",
        brokers=(),
        publishers=publishers,
        filters=OWN_TOPICS,
        topics=tuple(IN_TURN[at % len(IN_TURN)] for at in range(publishers)),
        copies=1,
        burst=1,
        # No bound: a chain that cannot keep up is what the experiment looks for.
        window=2**62,
        warm_up=Seconds(WARM_UP),
        measured=Seconds(seconds),
        rate=float(rate),
        stall=STALL,
    )


class _Clocks:
    """Processor time at the beginning and at the end of what is measured: of each broker, and of the machine."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._brokers: list[tuple[float, ...]] = []
        self._machine: list[float] = []
        self._at: list[float] = []

    def read(self) -> float:
        """Note the clocks; the brokers' together."""
        self._brokers.append(self._chain.cpu_seconds())
        self._machine.append(_machine_busy())
        self._at.append(perf_counter())
        return sum(self._brokers[-1])

    def of_brokers(self) -> tuple[float, ...]:
        before, after = self._brokers
        return tuple(then - now for now, then in zip(before, after, strict=True))

    def of_others(self, generator: float) -> float:
        """The part of the machine that somebody else used, given the generator's part of one processor."""
        elapsed = self._at[1] - self._at[0]
        busy = (self._machine[1] - self._machine[0] - sum(self.of_brokers())) / elapsed - generator
        return max(0.0, busy / (psutil.cpu_count() or 1))


def _machine_busy() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice + times.irq + times.softirq + times.steal)


def _round(chain: Chain, rate: int, repeat: int, measured: Measurement, clocks: _Clocks) -> Round:
    assert measured.throughput is not None
    assert measured.generator_busy is not None
    return Round(
        configuration=chain.configuration.name,
        brokers=len(chain.processes),
        rate=rate,
        repeat=repeat,
        throughput=measured.throughput,
        lost=measured.lost,
        cpu=tuple(cpu / max(1, measured.delivered) for cpu in clocks.of_brokers()),
        p50=measured.p50,
        p99=measured.p99,
        generator_busy=measured.generator_busy,
        others_busy=clocks.of_others(measured.generator_busy),
    )
