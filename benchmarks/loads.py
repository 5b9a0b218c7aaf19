"""The loads, as data: who publishes what to whom, and for how long."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.brokers import DURABLE, VOLATILE, Broker
from benchmarks.frames import PublishLayout

PAYLOAD_SIZE = 175
SUBSCRIBERS = 14
TOPICS_EACH = 7


@dataclass(frozen=True, slots=True)
class Seconds:
    """A phase that ends after a time, whatever is in flight."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Publishes:
    """A phase that ends when this many messages have been published and all their copies received."""

    count: int


Amount = Seconds | Publishes


@dataclass(frozen=True, slots=True)
class MessageLoad:
    """Publishers and subscribers.

    Each of `filters` is one subscriber's subscriptions; each message on one of `topics` satisfies those of
    exactly `copies` subscribers. Publishers send `burst` messages at a time; without a `rate`, flat out with
    at most `window` copies on their way; with one, that many messages a second in all, spread evenly.
    """

    name: str
    title: str
    brokers: tuple[Broker, ...]
    publishers: int
    filters: tuple[tuple[str, ...], ...]
    topics: tuple[str, ...]
    copies: int
    burst: int
    window: int
    warm_up: Amount
    measured: Amount
    qos: int = 0
    rate: float | None = None
    stall: float = 3.0
    """Seconds without any delivery after which what is on its way counts as lost."""

    @property
    def layout(self) -> PublishLayout:
        """The one form of this load's PUBLISH packets."""
        return PublishLayout(len(self.topics[0]), PAYLOAD_SIZE, self.qos)

    def bursts(self, publisher: int) -> list[tuple[bytes, ...]]:
        """The publications of one publisher, repeated: its share of the topics, a burst at a time."""
        layout = self.layout
        starts = range(publisher * self.burst, len(self.topics), self.publishers * self.burst)
        own = [self.topics[start : start + self.burst] for start in starts]
        return [layout.burst(topics, 1 + at * self.burst) for at, topics in enumerate(own)]


@dataclass(frozen=True, slots=True)
class IdleLoad:
    """Connections that say nothing but a PINGREQ each; the memory they take."""

    name: str
    title: str
    brokers: tuple[Broker, ...]
    connections: int
    hold: float


Load = MessageLoad | IdleLoad


def _own_topics(subscriber: int) -> tuple[str, ...]:
    """The topics of one subscriber of the brokering paper's load."""
    return tuple(f"plant/area{subscriber:02}/value{at}" for at in range(TOPICS_EACH))


OWN_TOPICS = tuple(_own_topics(each) for each in range(SUBSCRIBERS))
# In turn over the subscribers, so that messages sent together are not one subscriber's batch.
IN_TURN = tuple(OWN_TOPICS[who][at] for at in range(TOPICS_EACH) for who in range(SUBSCRIBERS))


def _bursts(name: str, title: str, brokers: tuple[Broker, ...], qos: int) -> MessageLoad:
    # At QoS 1 and 2 few enough for each subscriber's share to stay below the brokers' in-flight limits.
    publishers, outstanding = 4, 2 if qos else 4
    return MessageLoad(
        name=name,
        title=title,
        brokers=brokers,
        publishers=publishers,
        filters=OWN_TOPICS,
        topics=IN_TURN * publishers * outstanding,
        copies=1,
        burst=len(IN_TURN),
        window=publishers * outstanding * len(IN_TURN),
        warm_up=Seconds(1.0),
        measured=Seconds(4.0),
        qos=qos,
    )


def _slow_publishers(publishers: int = 2000) -> MessageLoad:
    """Ten messages a second from each of many publishers."""
    return MessageLoad(
        name="slow",
        title=f"{publishers:,} publishers, 10 msg/s each, to {SUBSCRIBERS} subscribers",
        brokers=VOLATILE,
        publishers=publishers,
        filters=OWN_TOPICS,
        topics=tuple(IN_TURN[at % len(IN_TURN)] for at in range(publishers)),
        copies=1,
        burst=1,
        window=20_000,
        warm_up=Seconds(1.5),
        measured=Seconds(5.0),
        rate=publishers * 10.0,
    )


def _fan_out(subscribers: int = 1000) -> MessageLoad:
    """One publisher, everyone listens."""
    topic = "plant/everyone"
    return MessageLoad(
        name="fan-out",
        title=f"1 publisher to {subscribers:,} subscribers",
        brokers=VOLATILE,
        publishers=1,
        filters=((topic,),) * subscribers,
        topics=(topic,),
        copies=subscribers,
        burst=1,
        window=4 * subscribers,
        warm_up=Seconds(1.0),
        measured=Seconds(4.0),
    )


def _many_topics(name: str, title: str, warm_up: Publishes) -> MessageLoad:
    all_loads = [
        f"plant/s{site}/a{area}/d{device:02}/m{metric}"
        for site in range(10)
        for area in range(10)
        for device in range(100)
        for metric in range(10)
    ]
    random.Random(7).shuffle(all_loads)
    sites = tuple((f"plant/s{site}/#",) for site in range(10))
    areas = tuple((f"plant/+/a{area}/+/+",) for area in range(10))
    metrics = tuple(tuple(f"plant/+/+/d{device:02}/m{metric}" for device in range(100)) for metric in range(10))
    return MessageLoad(
        name=name,
        title=title,
        brokers=VOLATILE,
        publishers=4,
        filters=(*sites, *areas, *metrics),
        topics=tuple(all_loads),
        copies=3,
        burst=100,
        window=2400,
        warm_up=warm_up,
        measured=Publishes(len(all_loads)),
    )


def all_loads() -> tuple[Load, ...]:
    """Every load, in the order of the report."""
    shape = f"4 publishers in bursts to {SUBSCRIBERS} subscribers"
    return (
        _bursts("bursts", shape, VOLATILE, 0),
        _slow_publishers(),
        _bursts("qos1", f"{shape}, QoS 1, persistent sessions", DURABLE, 1),
        _bursts("qos2", f"{shape}, QoS 2, persistent sessions", DURABLE, 2),
        _fan_out(),
        _many_topics("topics", "100,000 topics, each for the first time, 1,020 wildcard filters", Publishes(0)),
        _many_topics("topics-again", "the same 100,000 topics a second time", Publishes(100_000)),
        IdleLoad("idle", "5,000 idle connections", VOLATILE, 5000, 3.0),
    )


def reduced(load: Load, broker: Broker) -> Load | None:
    """The load as this broker can bear it: as it is, smaller, or none. Smaller ones say so in their title."""
    if broker.family != "amqtt":
        return load
    if isinstance(load, IdleLoad):
        return replace(load, connections=1000, title="1,000 idle connections", hold=1.0)
    if load.name == "slow":
        return replace(_slow_publishers(100), measured=Seconds(2.0))
    if load.name == "topics":
        return replace(load, measured=Publishes(2_000), title="2,000 topics for the first time, 1,020 wildcard filters")
    if load.name == "topics-again":
        return None
    return replace(load, measured=Seconds(2.0))


def shortened(load: Load) -> Load:
    """The load for a quick look: same shape, less time, no figures to quote."""
    if isinstance(load, IdleLoad):
        return replace(load, hold=0.5)
    if isinstance(load.measured, Publishes):
        return load
    return replace(load, warm_up=Seconds(0.5), measured=Seconds(min(1.0, load.measured.seconds)))


def selected(names: Sequence[str]) -> tuple[Load, ...]:
    """The loads of these names; all of them for none."""
    loads = all_loads()
    known_names = {load.name for load in loads}
    for name in names:
        if name not in known_names:
            raise ValueError(f"no load `{name}`: there are {', '.join(load.name for load in loads)}")
    return tuple(load for load in loads if not names or load.name in names)
