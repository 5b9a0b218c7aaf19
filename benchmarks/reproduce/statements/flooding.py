"""Fig. 25 and 26: 200 advertisements at a node with ten neighbours, some of them with the flooding policy of Fig. 8."""

from __future__ import annotations

import json
import time
from functools import partial
from itertools import count
from statistics import median
from typing import Any, NamedTuple

from benchmarks.matching.workload import WORKLOADS
from benchmarks.reproduce.statements.inside import added, empty, interleaved, subscription, unsubscription
from benchmarks.reproduce.statements.policies import EVERYTHING, FLOODING
from benchmarks.reproduce.statements.tracing import has_policy
from penstock.domain import Domain, ensemble
from penstock.engine.connections.host import Host
from penstock.engine.connections.inbound import Inbound
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages.admit import Door
from penstock.engine.statements import filter_policies
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Publish

SHARES = (0, 25, 50, 75, 100)
NEIGHBOURS = 10
ADVERTISEMENTS = 200
ADVERTISERS = 20
SUBSCRIPTIONS = 200
"""The number of existing subscriptions; as many come and go in each round."""
PUBLICATIONS = 1_000
TOPIC = "t"
WORKLOAD = WORKLOADS[0]


class Cost(NamedTuple):
    """The processor time of one publication or subscription, in seconds."""

    share: int
    """Advertisements with policies, in per cent."""
    seconds: float
    added: float
    """The additional time compared with no policies."""
    judging: float = 0.0
    """The part of it for judging, the actions included, without messages to neighbours that would not be sent
    otherwise."""


class _Hub:
    """A node with neighbours and advertisements, all of it in this process."""

    def __init__(self, share: int, subscriptions: int) -> None:
        neighbours = [f"n{number}" for number in range(NEIGHBOURS)]
        domain_settings: dict[str, Any] = {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("main", *neighbours)},
            "links": [{"between": [name, "main"], "forward": "routed"} for name in neighbours],
            "brokering": {"default": "default", "types": ["default"]},
            "statements": {"grants": [EVERYTHING]},
        }
        domain = Domain.model_validate(domain_settings)
        self.played = Rehearsal(domain, ensemble(domain))
        self.node = self.played.nodes["main"]
        self.advertisers = [self._connect(f"advertiser{number}") for number in range(ADVERTISERS)]
        self.reader = self._connect("reader")
        for number in range(ADVERTISEMENTS):
            advertisement = {"name": str(number), "filter": TOPIC, "where": f"class == 'class-{number}'"}
            if has_policy(number, share):
                advertisement["policy"] = FLOODING
            self._say(self.advertisers[number % ADVERTISERS], advertisement)
        self.texts = [
            " && ".join(map(str, predicates_)) for predicates_ in WORKLOAD.subscriptions(1_000)[: 2 * subscriptions]
        ]
        for number, where in enumerate(self.texts[:subscriptions]):
            self.reader.receive(subscription(TOPIC, number, where))
        self._settle()

    def _connect(self, name: str) -> Inbound:
        end = Inbound(Host(self.node, lambda: self.played.now), Door("here", "main/0", True))
        end.receive(encode(Connect(name, 5), 5))
        return end

    def _say(self, advertiser: Inbound, advertisement: dict[str, str]) -> None:
        advertiser.receive(
            encode(Publish("$penstock/advertise", json.dumps(advertisement).encode(), 1, packet_id=1), 5)
        )

    def _settle(self) -> None:
        self.played.assembly.turn(self.node)
        self.played.run()

    def packets(self, number: int) -> list[tuple[Inbound, bytes]]:
        """Publications, and who advertises each."""
        times = []
        for payload in WORKLOAD.publications(number):
            kind = int(json.loads(payload)["class"].removeprefix("class-"))
            times.append((self.advertisers[kind % ADVERTISERS], encode(Publish(TOPIC, payload), 5)))
        return times

    def publish(self, packets: list[tuple[Inbound, bytes]]) -> float:
        began = time.process_time()
        for end, packet in packets:
            end.receive(packet)
        seconds = time.process_time() - began
        empty(self.node)
        return seconds / len(packets)

    def insert(self, numbers: count[int]) -> float:
        """Subscribe, and tell neighbours of it; then all of it is taken back."""
        half = len(self.texts) // 2
        base = next(numbers) * half
        packets = [subscription(TOPIC, base + place, where) for place, where in enumerate(self.texts[half:], half)]
        began = time.process_time()
        for packet in packets:
            self.reader.receive(packet)
            self.played.assembly.now += 1.0
            self.played.assembly.turn(self.node)
        seconds = time.process_time() - began
        self.played.run()
        for place in range(half, 2 * half):
            self.reader.receive(unsubscription(TOPIC, base + place))
        self._settle()
        return seconds / len(packets)

    def judge(self) -> float:
        """Judge the subscriptions that there are, as it is done when they are inserted and told to each neighbour."""
        subscriptions_ = list(self.node.sessions["reader"].subscriptions.values())
        neighbours = list(self.node.federation.neighbours.values())
        began = time.process_time()
        for subscribed in subscriptions_:
            filter_policies.insert_subscription(self.node, subscribed, TOPIC, self.played.now)
            for neighbour in neighbours:
                filter_policies.forward_subscription(self.node, subscribed, TOPIC, neighbour)
        return (time.process_time() - began) / len(subscriptions_)


def measure(
    rounds: int, publications: int = PUBLICATIONS, subscriptions: int = SUBSCRIPTIONS
) -> tuple[list[Cost], list[Cost]]:
    """Fig. 25, and Fig. 26."""
    hubs = [_Hub(share, subscriptions) for share in SHARES]
    published = interleaved([partial(hub.publish, hub.packets(publications)) for hub in hubs], rounds)
    works = [partial(hub.insert, count(1)) for hub in hubs] + [hub.judge for hub in hubs]
    times = interleaved(works, max(3, rounds // 4))
    inserted, judged = times[: len(hubs)], times[len(hubs) :]
    costs = [
        cost._replace(judging=added(predicates_, judged[0]))
        for cost, predicates_ in zip(_costs(inserted), judged, strict=True)
    ]
    return _costs(published), costs


def _costs(times: list[list[float]]) -> list[Cost]:
    return [
        Cost(share, median(predicates_), added(predicates_, times[0]))
        for share, predicates_ in zip(SHARES, times, strict=True)
    ]
