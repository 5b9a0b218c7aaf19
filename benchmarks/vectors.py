"""`python -m benchmarks.vectors`: what nodes tell each other of least-trustworthy paths, against how many they are.

Real ratings and tables, and the messages that nodes would send, without the nodes: from the start until nobody has
anything to tell, and again after one piece of evidence at the node with most links. The longest step is what one node
does in one turn: it takes what came, works out ratings anew, and makes what it tells; it does nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from penstock.domain.schema.trust import TrustSettings
from penstock.engine.trust.announcements import Announcement, PathUpdate
from penstock.engine.trust.state import Ratings
from penstock.policy.trust.rating import Evidence, Thresholds
from penstock.policy.trust.vectors import TrustTable, Update

SIZES = (6, 25, 50, 100, 200, 400)


class Traffic(NamedTuple):
    """Until all is told."""

    rounds: int
    messages: int
    bytes: int
    largest: int
    seconds: float
    longest_step: float


def network(nodes: int, chance: random.Random) -> list[tuple[str, str]]:
    """A random tree with a quarter as many links more: every node has a way to every other, and some have several."""
    names = [f"b{number}" for number in range(nodes)]
    pairs = {(names[chance.randrange(at)], names[at]) for at in range(1, nodes)}
    while len(pairs) < nodes - 1 + nodes // 4:
        first, second = sorted(chance.sample(range(nodes), 2))
        pairs.add((names[first], names[second]))
    return sorted(pairs)


def tell_all(nodes: dict[str, Ratings], neighbours: dict[str, list[str]]) -> Traffic:
    """Let all tell what is new, round after round, until nothing is."""
    rounds = messages = size = largest = 0
    seconds = longest = 0.0
    under_way: dict[str, list[tuple[str, Update]]] = {name: [] for name in nodes}
    while True:
        sent: dict[str, list[tuple[str, Update]]] = {name: [] for name in nodes}
        for name, ratings in nodes.items():
            began = time.process_time()
            for other, update in under_way[name]:
                ratings.heard(table_of(ratings), other, update)
            if ratings.is_stale:
                ratings.refresh(neighbours[name], set(neighbours[name]), 0.0)
            for other in neighbours[name] if ratings.is_changed else ():
                update_for = table_of(ratings).update_for(other)
                if update_for is not None:
                    sent[other].append((name, update_for))
                    sums = tuple((walk.origin, walk.edges, total) for walk, total in update_for.sums.items())
                    vector = PathUpdate(update_for.number, update_for.is_whole, sums)
                    length = len(msgspec.json.encode(Announcement(vector=vector)))
                    size, largest, messages = size + length, max(largest, length), messages + 1
            ratings.is_changed = False
            took = time.process_time() - began
            seconds, longest = seconds + took, max(longest, took)
        if not any(sent.values()):
            return Traffic(rounds, messages, size, largest, seconds, longest)
        rounds, under_way = rounds + 1, sent


def table_of(ratings: Ratings) -> TrustTable:
    """Return the table of a node, whose rule asks for paths."""
    assert ratings.table is not None
    return ratings.table


def run(size: int, longest: int | None, seed: int) -> tuple[Traffic, Traffic]:
    """From the start, and after one rating has changed."""
    chance = random.Random(seed)
    neighbours: dict[str, list[str]] = {}
    for first, second in network(size, chance):
        neighbours.setdefault(first, []).append(second)
        neighbours.setdefault(second, []).append(first)
    settings = TrustSettings(rule="path", longest=longest)
    nodes = {name: Ratings(name, size, settings, Thresholds(0.5)) for name in neighbours}
    for name, others in neighbours.items():
        for other in others:
            nodes[name].evidence[other] = Evidence(chance.randrange(100), chance.randrange(100))
    gc.collect()
    gc.disable()  # one node has little; here all are in one process
    begin = tell_all(nodes, neighbours)
    name = max(sorted(neighbours), key=lambda name: len(neighbours[name]))
    ratings, other = nodes[name], neighbours[name][0]
    ratings.evidence[other] = Evidence(chance.randrange(100), 100)
    ratings.is_stale = True
    return begin, tell_all(nodes, neighbours)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="benchmarks.vectors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks only")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="numbers of nodes")
    parser.add_argument("--longest", nargs="+", type=int, metavar="N", help="longest paths, beside what is usual")
    options = parser.parse_args(arguments)
    head = "nodes | longest path | rounds | messages a node | kB a node | largest, kB | longest step, ms"
    lines = [f"| {head} | after a change: messages, kB, longest step in ms |", f"|{' --- |' * 8}"]
    for size in options.sizes or (SIZES[:2] if options.quick else SIZES):
        for longest in (None, *(options.longest or ())):
            begin, after = run(size, longest, seed=1)
            shown = f"{begin.messages / size:.0f} | {begin.bytes / size / 1000:.1f} | {begin.largest / 1000:.1f}"
            lines.append(
                f"| {size} | {longest or 'usual'} | {begin.rounds} | {shown} | {begin.longest_step * 1000:.1f} |"
                f" {after.messages}, {after.bytes / 1000:.1f}, {after.longest_step * 1000:.1f} |"
            )
            print(lines[-1], flush=True)
    text = "\n".join(lines)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in describe("1").items())
    (OUTPUT / "vectors.md").write_text(f"# What nodes tell each other of paths\n\n{text}\n\n{about}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
