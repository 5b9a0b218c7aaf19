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
from benchmarks.matching.workload import Workload
from penstock.engine.predicates import Predicates
from penstock.language.condition import make_condition
from penstock.model.content import Content, Format

T = TypeVar("T")

TREE, COUNTING, EACH = "tree", "counting", "each"
PUBLICATIONS = 1_000
WARM_UP = 10
"""Rounds before measuring: blocks are sorted when they have been asked for a while."""
ROUNDS = 31
SECONDS_FOR_OTHERS = 2.0
"""How long the ways that are only there to compare with are measured."""


class Index(Protocol):
    """What matches content."""

    def match(self, content: Content) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """One way to match, with so many subscriptions of one workload."""

    workload: str
    index: str
    subscriptions: int
    seconds: float
    """For one publication."""
    matches: float
    """Of one publication, on average."""
    seconds_to_add: float
    """One subscription, once its condition is made."""
    seconds_to_make: float
    """The condition of one subscription: parse, check and compile."""


def measure(workload: Workload, count: int) -> list[Measurement]:
    """All three ways with so many subscriptions; they must find the same."""
    contents = [Content(payload, Format.JSON) for payload in workload.publications(PUBLICATIONS)]
    subscriptions = workload.subscriptions(count)
    conditions, making = _timed(lambda: [make_condition(" && ".join(map(str, each))) for each in subscriptions])
    tree: Predicates[int] = Predicates()

    def fill() -> Index:
        for number, condition in enumerate(conditions):
            tree.add(number, condition, number)
        return tree

    ways: dict[str, Callable[[], Index]] = {
        TREE: fill,
        COUNTING: lambda: Counting(subscriptions),
        EACH: lambda: Each(conditions),
    }
    made = []
    gc.collect()
    gc.freeze()  # a million objects that stay are no news to the collector
    try:
        for name, make in ways.items():
            index, adding = _timed(make)
            some = contents if name == TREE else contents[: _affordable(index, contents)]
            _check_same(tree, index, some)
            found = sum(len(index.match(content)) for content in some)
            seconds = _for_each(index, some, ROUNDS if name == TREE else 1)
            each = adding / count, making / count
            made.append(Measurement(workload.name, name, count, seconds, found / len(some), *each))
            print(f"{workload.name} {count:,} {name}: {seconds * 1e6:,.1f} us", file=sys.stderr)
    finally:
        gc.unfreeze()
    return made


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = process_time()
    result = work()
    return result, process_time() - start


def _affordable(index: Index, contents: Sequence[Content]) -> int:
    """How many publications can be matched in the time there is; at least ten."""
    _, seconds = _timed(lambda: [index.match(content) for content in contents[:3]])
    return min(len(contents), max(10, int(SECONDS_FOR_OTHERS / max(seconds / 3, 1e-6))))


def _check_same(tree: Index, other: Index, contents: Sequence[Content]) -> None:
    for content in contents:
        if sorted(tree.match(content)) != sorted(other.match(content)):
            raise AssertionError(f"two ways to match do not find the same for {content.payload!r}")


def _for_each(index: Index, contents: Sequence[Content], rounds: int) -> float:
    """The processor time of one match: the median of rounds over all contents."""
    if rounds > 1:
        for _ in range(WARM_UP):
            for content in contents:
                index.match(content)
    match = index.match
    times = []
    for _ in range(rounds):
        start = process_time()
        for content in contents:
            match(content)
        times.append((process_time() - start) / len(contents))
    return median(times)


def of_call(work: Callable[[], object], times: int = 20_000) -> float:
    """The processor time of one call: the median of rounds."""
    calls = range(times // 20)
    work()
    found = []
    for _ in range(20):
        start = process_time()
        for _ in calls:
            work()
        found.append((process_time() - start) / len(calls))
    return median(found)
