"""All rounds: scenarios, configurations and rates, taking turns, with the rate rising until a chain is left behind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.brokers import BrokerError
from benchmarks.generator import LoadError
from benchmarks.reproduce.brokering import rounds
from benchmarks.reproduce.brokering.chain import Chain
from benchmarks.reproduce.brokering.configurations import Configuration
from benchmarks.reproduce.brokering.rounds import Round

CALM = 0.10
"""The part of the machine that others may use in a round before the round is done again."""
PATIENCE = 2
"""At how many rates in a row a chain is left behind before it is not driven any further."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of the measurement."""

    scenarios: tuple[int, ...]
    """Brokers in the chain."""
    rates: tuple[int, ...]
    seconds: float
    repeats: int
    tries: int
    """The number of attempts of a round that other processes disturb; the calmest counts."""


@dataclass(slots=True)
class _Runner:
    """One configuration in one scenario and repeat; its chain is started again after it lost messages."""

    configuration: Configuration
    brokers: int
    scratch: Path
    chain: Chain | None = None
    behind: int = 0

    @property
    def goes_on(self) -> bool:
        return self.behind < PATIENCE

    def run(self, rate: int, repeat: int, seconds: float) -> Round:
        if self.chain is None:
            self.chain = Chain(self.configuration, self.brokers, self.scratch)
        try:
            done = rounds.run(self.chain, rate, repeat, seconds)
        except BaseException:
            self.stop()
            raise
        if done.lost:
            self.stop()  # what was lost may still come, and would be counted in the next round
        return done

    def stop(self) -> None:
        if self.chain is not None:
            self.chain.stop()
            self.chain = None


@dataclass(slots=True)
class Experiment:
    """The rounds so far, and what went wrong."""

    configurations: Sequence[Configuration]
    extent: Extent
    scratch: Path
    rounds: list[Round] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Everything once, then everything again: what disturbs the machine for a while disturbs all alike."""
        for repeat in range(1, self.extent.repeats + 1):
            for brokers in self.extent.scenarios:
                self._scenario(brokers, repeat)

    def _scenario(self, brokers: int, repeat: int) -> None:
        runners = [_Runner(candidate, brokers, self.scratch) for candidate in self.configurations]
        try:
            for number, rate in enumerate(self.extent.rates):
                at = (number + repeat) % len(runners)
                for runner in runners[at:] + runners[:at]:
                    if runner.goes_on:
                        self._calm_round(runner, rate, repeat)
        finally:
            for runner in runners:
                runner.stop()

    def _calm_round(self, runner: _Runner, rate: int, repeat: int) -> None:
        name = runner.configuration.name
        tried: list[Round] = []
        while len(tried) < self.extent.tries and not any(candidate.others_busy <= CALM for candidate in tried):
            print(f"{runner.brokers} brokers, {rate:,}/s, {repeat}, {name}: ", end="", file=sys.stderr, flush=True)
            try:
                tried.append(runner.run(rate, repeat, self.extent.seconds))
            except (LoadError, BrokerError) as error:
                print(error, file=sys.stderr)
                self.notes.append(f"{name}, {runner.brokers} brokers, {rate:,}/s: {error}")
                break
            print(tried[-1].summary(), file=sys.stderr)
        best = min(tried, key=lambda candidate: candidate.others_busy, default=None)
        if best is not None:
            self.rounds.append(best)
        is_behind = best is None or best.is_behind
        runner.behind = runner.behind + 1 if is_behind else 0
