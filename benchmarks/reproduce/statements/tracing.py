"""Fig. 23 and 24: 1,000 subscriptions, some of them with tracing policies; publications, and new subscriptions."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.matching.workload import WORKLOADS
from benchmarks.reproduce.statements.inside import (
    added,
    connect,
    empty,
    interleaved,
    make_node,
    subscription,
    take_all,
    unsubscription,
)
from benchmarks.reproduce.statements.policies import NOTHING, TRACING
from penstock.engine.matching.predicates import Predicates
from penstock.engine.sessions.session import Subscribed
from penstock.model.content.content import Content, Format
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

SHARES = (0, 25, 50, 75, 100)
SUBSCRIPTIONS = 1_000
PUBLICATIONS = 1_000
SUBSCRIBERS = 50
TOPIC = "t"
"""The subscriptions of all classes: the class is an attribute, as in the paper."""
WORKLOAD = WORKLOADS[0]


class Split(NamedTuple):
    """The parts of the processor time of one publication, in seconds."""

    share: int
    """Subscriptions with policies, in per cent."""
    match: float
    other: float
    framework: float
    """The additional time of a policy that is found and asked, and does nothing."""
    action: float
    """The additional time of the action: with the writing of its copies, which are other than the publication."""

    @property
    def total(self) -> float:
        return self.match + self.other + self.framework + self.action


class Insertion(NamedTuple):
    """The processor time of one subscription, in seconds, and what of it policies are the reason of."""

    share: int
    total: float
    policies: float


class Filled:
    """A node with subscriptions, some of them with a policy."""

    def __init__(self, share: int, policy: str = TRACING, subscriptions: int = SUBSCRIPTIONS) -> None:
        self.node = make_node({})
        self.publisher = connect(self.node, "publisher")
        self.readers = [connect(self.node, f"reader{number}") for number in range(SUBSCRIBERS)]
        self.texts = [" && ".join(map(str, predicates_)) for predicates_ in WORKLOAD.subscriptions(subscriptions)]
        for number, where in enumerate(self.texts):
            policy_text = policy if has_policy(number, share) else ""
            self.readers[number % SUBSCRIBERS].receive(subscription(TOPIC, number, where, policy_text))
        empty(self.node)

    def predicates(self) -> Predicates[Subscribed]:
        """Return the index in which the node finds subscriptions by content."""
        return next(
            filled_ for filled_ in self.node.subscriptions.index.match(TOPIC) if isinstance(filled_, Predicates)
        )


def has_policy(number: int, share: int) -> bool:
    """Return whether a subscription has a policy: evenly spread."""
    return number * share // 100 != (number + 1) * share // 100


def publications(rounds: int, count: int = PUBLICATIONS, subscriptions: int = SUBSCRIPTIONS) -> list[Split]:
    """Fig. 23."""
    payloads = WORKLOAD.publications(count)
    packets = [encode(Publish(TOPIC, payload), 5) for payload in payloads]
    contents = [Content(payload, Format.JSON) for payload in payloads]
    acting, idle = ([Filled(share, policy, subscriptions) for share in SHARES] for policy in (TRACING, NOTHING))
    works = [partial(take_all, filled.node, filled.publisher, packets) for filled in (*acting, *idle)]
    times = interleaved([*works, partial(_match, acting[0].predicates(), contents)], rounds)
    matching = median(times.pop())
    totals, without_action = times[: len(SHARES)], times[len(SHARES) :]
    other = median(totals[0]) - matching
    return [
        Split(share, matching, other, added(before, without_action[0]), added(total, before))
        for share, total, before in zip(SHARES, totals, without_action, strict=True)
    ]


def _match(predicates: Predicates[Subscribed], contents: list[Content]) -> float:
    began = time.process_time()
    for content in contents:
        predicates.match(content)
    return (time.process_time() - began) / len(contents)


def subscriptions(rounds: int, count: int = SUBSCRIPTIONS) -> list[Insertion]:
    """Fig. 24: new subscriptions, taken back after each round."""
    times = interleaved([partial(_insert, Filled(share, subscriptions=count), share) for share in SHARES], rounds)
    return [
        Insertion(share, median(predicates_), added(predicates_, times[0]))
        for share, predicates_ in zip(SHARES, times, strict=True)
    ]


def _insert(filled: Filled, share: int) -> float:
    packets = [
        subscription(TOPIC, number, where, TRACING if has_policy(number, share) else "")
        for number, where in enumerate(filled.texts)
    ]
    for number in range(len(packets)):
        filled.readers[number % SUBSCRIBERS].receive(unsubscription(TOPIC, number))
    empty(filled.node)
    began = time.process_time()
    for number, packet in enumerate(packets):
        filled.readers[number % SUBSCRIBERS].receive(packet)
    seconds = time.process_time() - began
    empty(filled.node)
    return seconds / len(packets)
