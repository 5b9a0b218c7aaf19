"""The cost of the ACE set: a private publication at its producer's node, against consumers' contracts of the domain and
against those that have subscribed beyond a link.

    python -m benchmarks.reproduce.contracts.ace
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

TOPIC = "bob/location"
CASES = ((1, 1), (100, 1), (1_000, 1), (1_000, 10), (1_000, 100), (1_000, 1_000))
"""Contracts of the domain, and how many of them have a subscriber."""


class AceCost(NamedTuple):
    """Microseconds at the producer's node, and bytes on the link, for each publication."""

    microseconds: float
    bytes: float


def played(contracts: int, subscribers: int) -> Rehearsal:
    """A producer at one node, and consumers at the other, of whom some subscribe."""
    names = [f"consumer{at}" for at in range(contracts)]
    rule = {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}
    domain = Domain.model_validate(
        {
            "nodes": {"prod": {"listen": "127.0.0.1:1"}, "other": {"listen": "127.0.0.1:2"}},
            "links": [{"between": ["prod", "other"]}],
            "clients": {"bob": {"node": "prod"}, **{name: {"node": "other"} for name in names}},
            "contracts": {
                "producers": {"p": {"producer": "bob", "filter": "bob/#", "rules": {"r": rule}}},
                "consumers": {name: {"consumer": name, "purpose": "health", "wants": {}} for name in names},
            },
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.connect("bob")
    for name in names[:subscribers]:
        rehearsal.connect(name)
        rehearsal.subscribe(name, TOPIC)
    rehearsal.run()
    return rehearsal


def measure(rehearsal: Rehearsal, rounds: int, publications: int) -> AceCost:
    """Return the least of the rounds: other work on the machine only makes it longer."""
    near = rehearsal.assembly.connections["prod", "bob"].node_end
    wire = rehearsal.assembly.connections["prod", "other"].wires[0]
    packet = encode(Publish(TOPIC, b'{"lat": 48.9}'), 5)
    least = AceCost(float("inf"), 0.0)
    for _ in range(rounds):
        gc.disable()
        began = time.process_time()
        for _ in range(publications):
            rehearsal.assembly.now += 0.001
            near.receive(packet)
        spent = time.process_time() - began
        gc.enable()
        rehearsal.assembly.turn(rehearsal.nodes["prod"])
        sent = [data for _, data in wire._packets]
        assert len(sent) == publications, "each must cross the link"
        wire._packets.clear()
        least = min(least, AceCost(spent / publications * 1e6, sum(map(len, sent)) / publications))
    return least


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few publications")
    parser.add_argument("--only", nargs=2, type=int, metavar="N", help="contracts and subscribers of a single case")
    options = parser.parse_args(arguments)
    print("| contracts | with a subscriber | us a publication | us a subscriber | bytes on the link |")
    print("| --- | --- | --- | --- | --- |")
    for contracts, subscribers in [tuple(options.only)] if options.only else CASES:
        cost = measure(played(contracts, subscribers), 2 if options.quick else 5, 20 if options.quick else 100)
        each = cost.microseconds / subscribers
        print(f"| {contracts} | {subscribers} | {cost.microseconds:.0f} | {each:.1f} | {cost.bytes:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
