"""The results of the rounds: medians, ratios of rounds that were done side by side, and whether the aims are met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from benchmarks.reproduce.brokering.configurations import (
    CEM,
    CONTROL,
    INJ,
    MOV,
    NEW,
    ORI,
    PLAIN,
    SEM,
    SEM_PYTHON,
    SUP,
    Configuration,
)
from benchmarks.reproduce.brokering.rounds import Round

PAIRS = (
    *((one, PLAIN) for one in (CONTROL, NEW, SEM, MOV, INJ, SUP, SEM_PYTHON, CEM)),
    (SUP, INJ),
    (PLAIN, ORI),
)
"""Whose processor time is compared with whose."""
SEM_LIMIT = 1.15
ALIKE = 0.2
"""By how much of the machine what others used may differ between two rounds that are compared: on a busy machine a
message costs less, because a broker that comes late to its input takes more of it at a time."""

_Test = Callable[[Configuration, int, int], bool]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of some ratios, and between what bounds it is with a probability of 95 %."""

    middle: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio | None:
        """None of none. With fewer than six values nothing can be said with 95 %: the bounds are the extremes."""
        if not values:
            return None
        ordered = sorted(values)
        outside = _outside(len(ordered))
        return cls(median(ordered), ordered[outside], ordered[-1 - outside], len(ordered))

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}..{self.high:.2f})"


def _outside(count: int) -> int:
    """Return how many values at each end lie outside the 95 % interval of the median, by the binomial distribution."""
    tail, outside = 0.0, 0
    while outside < (count - 1) // 2:
        tail += comb(count, outside) / 2**count
        if tail > 0.025:
            break
        outside += 1
    return max(0, outside - 1)


@dataclass(frozen=True, slots=True)
class Results:
    """The rounds of one run of the experiment."""

    configurations: tuple[Configuration, ...]
    scenarios: tuple[int, ...]
    rounds: tuple[Round, ...]

    def at(self, configuration: Configuration, brokers: int, rate: int) -> list[Round]:
        """The repeats of one round."""
        key = (configuration.name, brokers, rate)
        return [round_ for round_ in self.rounds if (round_.configuration, round_.brokers, round_.rate) == key]

    def rates(self, brokers: int, configuration: Configuration | None = None) -> list[int]:
        """The rates at which a scenario was run, at least once, rising."""
        matching = {
            round_.rate
            for round_ in self.rounds
            if round_.brokers == brokers and (configuration is None or round_.configuration == configuration.name)
        }
        return sorted(matching)

    def throughput(self, configuration: Configuration, brokers: int, rate: int) -> float | None:
        """The median MT."""
        return _median([round_.throughput for round_ in self.at(configuration, brokers, rate)])

    def lost(self, configuration: Configuration, brokers: int, rate: int) -> int:
        """The most that any repeat lost."""
        return max((round_.lost for round_ in self.at(configuration, brokers, rate)), default=0)

    def cpu(self, configuration: Configuration, brokers: int, rate: int) -> tuple[float, ...]:
        """The median processor time for a message at each broker; empty if it was left behind or not measured."""
        matching = [round_.cpu for round_ in self.at(configuration, brokers, rate) if not round_.is_behind]
        return tuple(median(of_one) for of_one in zip(*matching, strict=True))

    def kept_up(self, configuration: Configuration, brokers: int, rate: int) -> bool:
        """Return whether more than half of the repeats kept up."""
        matching = self.at(configuration, brokers, rate)
        return 2 * sum(round_.kept_up for round_ in matching) > len(matching)

    def kept_up_to(self, configuration: Configuration, brokers: int) -> int:
        """The rate up to which it kept up; 0 if it never did."""
        return self._up_to(configuration, brokers, self.kept_up)

    def lossless_to(self, configuration: Configuration, brokers: int) -> int:
        """The rate up to which no repeat lost a message."""
        return self._up_to(configuration, brokers, lambda *key: not self.lost(*key))

    def _up_to(self, configuration: Configuration, brokers: int, holds: _Test) -> int:
        reached = 0
        for rate in self.rates(brokers, configuration):
            if not holds(configuration, brokers, rate):
                break
            reached = rate
        return reached

    @property
    def shown(self) -> list[Configuration]:
        """The configurations without the control, which has nothing of its own to show."""
        return [round_ for round_ in self.configurations if round_ is not CONTROL]

    def compared_rate(self, configuration: Configuration, brokers: int) -> int:
        """The rate at which processor times of a scenario are shown: the highest at which all but CEM kept up.

        A configuration that did not keep up there has its own: the highest at which it did, or else the lowest of all.
        """
        rates = self.rates(brokers)
        if not rates:
            return 0
        compared = [round_ for round_ in self.shown if round_ is not CEM]
        common = min((self.kept_up_to(round_, brokers) for round_ in compared), default=0) or rates[0]
        own = self.kept_up_to(configuration, brokers) or rates[0]
        return min(common, own)

    def ratio(self, first: Configuration, other: Configuration, brokers: int | None = None) -> Ratio | None:
        """Processor time of one to that of the other, over the pairs of rounds that can be compared."""
        others = {(round_.brokers, round_.rate, round_.repeat): round_ for round_ in self._rounds_in_step(other)}
        pairs = [
            (round_, others[key])
            for round_ in self._rounds_in_step(first)
            if (key := (round_.brokers, round_.rate, round_.repeat)) in others and brokers in (None, round_.brokers)
        ]
        return Ratio.of([a.cpu_total / b.cpu_total for a, b in pairs if abs(a.others_busy - b.others_busy) <= ALIKE])

    def _rounds_in_step(self, configuration: Configuration) -> list[Round]:
        return [round_ for round_ in self.rounds if round_.configuration == configuration.name and not round_.is_behind]

    def aims(self) -> list[tuple[str, str]]:
        """Return the aims of issue 3, and the results."""
        longest = max(self.scenarios)
        return [
            ("NEW costs nothing that can be measured over PLAIN", self._nothing_measurable()),
            (f"SEM (automaton) at most {SEM_LIMIT} times PLAIN's processor time", self._at_most(SEM)),
            (f"SEM (Python class) at most {SEM_LIMIT} times PLAIN's processor time", self._at_most(SEM_PYTHON)),
            (f"with {longest} brokers no loss at a rate at which ORI loses none", self._as_lossless(longest)),
        ]

    def _nothing_measurable(self) -> str:
        matching, chance = self.ratio(NEW, PLAIN), self.ratio(CONTROL, PLAIN)
        if matching is None:
            return "not measured"
        beside = f", PLAIN to itself {chance}" if chance is not None else ""
        highest = max(1.0, chance.high) if chance is not None else 1.0
        return f"{'met' if matching.low <= highest else 'not met'}: {matching}{beside}"

    def _at_most(self, configuration: Configuration) -> str:
        matching = self.ratio(configuration, PLAIN)
        if matching is None:
            return "not measured"
        return f"{'met' if matching.middle <= SEM_LIMIT else 'not met'}: {matching}"

    def _as_lossless(self, brokers: int) -> str:
        lossless = [rate for rate in self.rates(brokers, ORI) if not self.lost(ORI, brokers, rate)]
        shared = [rate for rate in lossless if self.at(PLAIN, brokers, rate) and self.at(NEW, brokers, rate)]
        if not shared:
            return "not measured"
        lossy = [
            f"{round_.name} at {rate:,}/s"
            for round_ in (PLAIN, NEW)
            for rate in shared
            if self.lost(round_, brokers, rate)
        ]
        matching = f"not met: lost by {', '.join(lossy)}" if lossy else f"met up to {max(shared):,}/s"
        skipped = [f"{rate:,}" for rate in lossless if rate not in shared]
        return f"{matching}; not compared at {', '.join(skipped)}/s" if skipped else matching


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
