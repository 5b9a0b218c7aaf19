"""`python -m benchmarks.vectors`: what nodes tell each other of least-trustworthy paths, against how many they are.

Real tables and the messages that nodes would send, without the nodes: from the start until nobody has anything to tell,
and again after one rating has changed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from penstock.engine.trust.announcements import Announcement, PathUpdate
from penstock.policy.trust.vectors import TrustTable, Update

SIZES = (6, 12, 25, 50, 100)
MAX_LENGTH = 8
"""Edges of the paths looked at in large networks, where the first column has all."""


class Traffic(NamedTuple):
    """Until all is told."""

    rounds: int
    messages: int
    bytes: int
    seconds: float


def network(nodes: int, chance: random.Random) -> list[tuple[str, str]]:
    """A random tree with a quarter as many links more: every node has a way to every other, and some have several."""
    names = [f"b{number}" for number in range(nodes)]
    pairs = {(names[chance.randrange(at)], names[at]) for at in range(1, nodes)}
    while len(pairs) < nodes - 1 + nodes // 4:
        first, second = sorted(chance.sample(range(nodes), 2))
        pairs.add((names[first], names[second]))
    return sorted(pairs)


def tell_all(tables: dict[str, TrustTable], neighbours: dict[str, list[str]]) -> Traffic:
    """Let all tell what is new, round after round, until nothing is."""
    began = time.process_time()
    rounds = messages = size = 0
    while True:
        under_way: list[tuple[str, str, Update]] = []
        for name, table in tables.items():
            for other in neighbours[name]:
                update = table.update_for(other)
                if update is not None:
                    under_way.append((name, other, update))
        if not under_way:
            return Traffic(rounds, messages, size, time.process_time() - began)
        rounds += 1
        for name, other, update in under_way:
            sums = tuple((walk.origin, walk.edges, total) for walk, total in update.sums.items())
            size += len(msgspec.json.encode(Announcement(vector=PathUpdate(update.number, update.is_whole, sums))))
            messages += 1
            tables[other].receive(name, update)


def run(nodes: int, longest: int | None, seed: int) -> tuple[Traffic, Traffic]:
    """From the start, and after one rating has changed."""
    chance = random.Random(seed)
    neighbours: dict[str, list[str]] = {}
    for first, second in network(nodes, chance):
        neighbours.setdefault(first, []).append(second)
        neighbours.setdefault(second, []).append(first)
    tables = {name: TrustTable(name, nodes, longest) for name in neighbours}
    for name, others in neighbours.items():
        for other in others:
            tables[name].set_rating(other, chance.random())
    begin = tell_all(tables, neighbours)
    name = chance.choice(sorted(neighbours))
    tables[name].set_rating(neighbours[name][0], chance.random())
    return begin, tell_all(tables, neighbours)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="benchmarks.vectors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks only")
    options = parser.parse_args(arguments)
    lines = [
        "| nodes | longest path | rounds | messages a node | kB a node | CPU s in all | after a change: messages, kB |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for nodes in SIZES[:3] if options.quick else SIZES:
        for longest in (None, MAX_LENGTH):
            if (longest is None and nodes > 25) or (longest is not None and nodes <= MAX_LENGTH):
                continue
            begin, after = run(nodes, longest, seed=1)
            shown = f"{begin.messages / nodes:.0f} | {begin.bytes / nodes / 1000:.1f} | {begin.seconds:.2f}"
            lines.append(
                f"| {nodes} | {longest or nodes - 1} | {begin.rounds} | {shown} |"
                f" {after.messages}, {after.bytes / 1000:.1f} |"
            )
    text = "\n".join(lines)
    print(text)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in describe("1").items())
    (OUTPUT / "vectors.md").write_text(f"# What nodes tell each other of paths\n\n{text}\n\n{about}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
