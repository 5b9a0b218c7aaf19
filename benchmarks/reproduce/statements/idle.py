"""The cost of statements where none of them matches: a domain without any, beside one with many for other messages.

The same publications go to nodes that differ only in this, in one process and in turn.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.matching.workload import WORKLOADS
from benchmarks.reproduce.statements.inside import connect, interleaved, make_node, subscription, take_all
from benchmarks.reproduce.statements.policies import TRACING
from penstock.engine.connections.inbound import Inbound
from penstock.engine.node import Node
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

SUBSCRIPTIONS = 1_000
SUBSCRIBERS = 50
PUBLICATIONS = 1_000
MATCHES = 2
"""The subscribers of a publication that goes by topic; by content there are as many on average."""
WORKLOAD = WORKLOADS[0]
NONE, AGAIN, OTHERS, UNMATCHED = (
    "no statements",
    "no statements, again",
    "policies on other topics",
    "policies on this topic whose conditions do not hold",
)
PLAIN, BY_CONTENT = "by topic", "by content"


class Cost(NamedTuple):
    """The processor time of one publication, in seconds, and beside that without statements."""

    load: str
    statements: str
    seconds: float
    ratio: float


def measure(rounds: int, publications: int = PUBLICATIONS) -> list[Cost]:
    """Publications that go by topic alone, and by content; without statements, and with some that match nothing."""
    payloads = WORKLOAD.publications(publications)
    costs = []
    for load in (PLAIN, BY_CONTENT):
        packets = [encode(Publish("t", payload), 5) for payload in payloads]
        cases = (NONE, AGAIN, OTHERS, UNMATCHED) if load == BY_CONTENT else (NONE, AGAIN, OTHERS)
        times = interleaved([partial(take_all, *_filled(load, case), packets) for case in cases], rounds)
        for case, times_ in zip(cases, times, strict=True):
            ratio = median(with_statements / other for with_statements, other in zip(times_, times[0], strict=True))
            costs.append(Cost(load, case, median(times_), ratio))
    return costs


def _filled(load: str, case: str) -> tuple[Node, Inbound]:
    """A node with the same subscriptions in all cases, some of which have policies in some."""
    applied = {"policy": "tracing", "to": "publication", "of": "*", "filter": "other/#"}
    statements = {"policies": {"tracing": TRACING}, "apply": [applied]}
    node = make_node(None if case in (NONE, AGAIN) else statements)
    publisher = connect(node, "publisher")
    readers = [connect(node, f"reader{number}") for number in range(SUBSCRIBERS)]
    for number, times_ in enumerate(WORKLOAD.subscriptions(SUBSCRIPTIONS)):
        reader, where = readers[number % SUBSCRIBERS], " && ".join(map(str, times_))
        reader.receive(subscription("u", number, where, TRACING if case == OTHERS else ""))
        if load == BY_CONTENT:
            reader.receive(subscription("t", number, where))
            never = f"{where} && e == {number}"
            reader.receive(subscription("t", SUBSCRIPTIONS + number, never, TRACING if case == UNMATCHED else ""))
        elif number < MATCHES:
            reader.receive(subscription("t", number))
    return node, publisher
