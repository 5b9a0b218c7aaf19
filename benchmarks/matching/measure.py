"""Measures: processor time for each publication, condition by condition and index by index."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Protocol, TypeVar

from benchmarks.matching.counting import Counting, Each
from benchmarks.matching.workload import Subscription, Workload
from penstock.engine.matching.predicates import Predicates
from penstock.language.condition import Condition, make_condition
from penstock.model.content.content import Content, Format

T = TypeVar("T")

TREE, COUNTING, EACH = "tree", "counting", "each"
PUBLICATIONS = 1_000
WARM_UP = 10
"""Rounds before measuring: blocks are sorted when they have been asked for a while."""
ROUNDS = 101
SECONDS_FOR_OTHERS = 2.0
"""Seconds for which the indexes that serve only for comparison are measured."""


class Index(Protocol):
    """An index that matches content."""

    def match(self, content: Content) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """One way to match, with so many subscriptions of one workload."""

    workload: str
    index: str
    subscriptions: int
    rounds: tuple[float, ...]
    """Seconds for one publication, in each round."""
    matches: float
    """The average of one publication."""
    seconds_to_add: float
    """One subscription, once its condition is made."""
    seconds_to_make: float
    """The condition of one subscription: parse, check and compile."""

    @property
    def seconds(self) -> float:
        """For one publication: the median."""
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class _Filled:
    """The node's index with so many subscriptions."""

    subscriptions: list[Subscription]
    conditions: list[Condition]
    tree: Predicates[int]
    adding: float
    making: float


def measure(workload: Workload, counts: Sequence[int]) -> list[Measurement]:
    """All three ways with so many subscriptions, and so many; the three must find the same."""
    contents = [Content(payload, Format.JSON) for payload in workload.publications(PUBLICATIONS)]
    filled = [_fill(workload, count) for count in counts]
    gc.collect()
    gc.freeze()  # millions of objects that stay are no news to the collector
    try:
        trees = _interleaved([index_.tree for index_ in filled], contents)
        measured = []
        for index_, rounds in zip(filled, trees, strict=True):
            ways: dict[str, Index] = {COUNTING: Counting(index_.subscriptions), EACH: Each(index_.conditions)}
            matches = sum(len(index_.tree.match(content)) for content in contents) / len(contents)
            measured.append(_measurement(workload, TREE, index_, rounds, matches))
            for name, index in ways.items():
                some = contents[: _affordable(index, contents)]
                _check_same(index_.tree, index, some)
                measured.append(_measurement(workload, name, index_, (_round(index, some),), matches))
    finally:
        gc.unfreeze()
    return measured


def _fill(workload: Workload, count: int) -> _Filled:
    print(f"{workload.name}: making {count:,} subscriptions", file=sys.stderr)
    subscriptions = workload.subscriptions(count)
    conditions, making = _timed(lambda: [make_condition(" && ".join(map(str, index_))) for index_ in subscriptions])
    tree: Predicates[int] = Predicates()

    def add_all() -> None:
        for number, condition in enumerate(conditions):
            tree.add(number, condition, number)

    _, adding = _timed(add_all)
    return _Filled(subscriptions, conditions, tree, adding / count, making / count)


def _measurement(
    workload: Workload, name: str, filled: _Filled, rounds: tuple[float, ...], matches: float
) -> Measurement:
    count = len(filled.subscriptions)
    measured = Measurement(workload.name, name, count, rounds, matches, filled.adding, filled.making)
    print(f"{workload.name} {count:,} {name}: {measured.seconds * 1e6:,.1f} us", file=sys.stderr)
    return measured


def _interleaved(indexes: Sequence[Index], contents: Sequence[Content]) -> list[tuple[float, ...]]:
    """Seconds of each index in each round, in which all take turns: what disturbs the machine disturbs all of them."""
    for index in indexes:
        for _ in range(WARM_UP):
            _round(index, contents)
    rounds = [[_round(index, contents) for index in indexes] for _ in range(ROUNDS)]
    return list(zip(*rounds, strict=True))


def _round(index: Index, contents: Sequence[Content]) -> float:
    match = index.match
    start = process_time()
    for content in contents:
        match(content)
    return (process_time() - start) / len(contents)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = process_time()
    result = work()
    return result, process_time() - start


def _affordable(index: Index, contents: Sequence[Content]) -> int:
    """Return how many publications can be matched in the time there is; at least ten."""
    _, seconds = _timed(lambda: [index.match(content) for content in contents[:3]])
    return min(len(contents), max(10, int(SECONDS_FOR_OTHERS / max(seconds / 3, 1e-6))))


def _check_same(tree: Index, other: Index, contents: Sequence[Content]) -> None:
    for content in contents:
        if sorted(tree.match(content)) != sorted(other.match(content)):
            raise AssertionError(f"two ways to match do not find the same for {content.payload!r}")


def of_call(work: Callable[[], object], times: int = 20_000) -> float:
    """The processor time of one call: the median of rounds."""
    calls = range(times // 20)
    work()
    matches = []
    for _ in range(20):
        start = process_time()
        for _ in calls:
            work()
        matches.append((process_time() - start) / len(calls))
    return median(matches)
