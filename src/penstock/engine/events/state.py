"""A node's state about events: retained messages, and plans."""

from collections.abc import Hashable, Iterator
from hashlib import blake2b
from heapq import heappop, heappush
from typing import NamedTuple
from weakref import WeakValueDictionary

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Plan, Plans, Steps
from penstock.model.event import Event
from penstock.model.topic import Filter
from penstock.model.topic_tree import TopicTree


class Retained(TopicTree[Event]):
    """Retained messages, one for each topic, and when they expire."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        super().__init__()
        self.due: list[tuple[float, str]] = []
        """A heap."""

    def hold(self, event: Event) -> None:
        """Have the event as its topic's retained one."""
        self.set(event.topic, event)
        if event.expires is not None:
            heappush(self.due, (event.expires, event.topic))

    def expired(self, now: float) -> Iterator[str]:
        """Yield the topics whose retained message is over."""  # [MQTT-3.3.2-5]
        while self.due and self.due[0][0] <= now:
            _, topic = heappop(self.due)
            event = self.get(topic)
            if event is not None and event.expires is not None and event.expires <= now:
                yield topic


class PlanCache:
    """The plans of a node, by class of links and topic, until a subscription or a policy comes or goes."""

    __slots__ = ("by_class", "interned", "own", "planned", "resolved", "routes", "steps")

    def __init__(self) -> None:
        self.by_class: WeakValueDictionary[LinkClass, Plans] = WeakValueDictionary()
        """Kept by the sessions that use them, so that those of clients long gone do not gather."""
        self.own: Plans | None = None
        """For what the node says itself."""
        self.routes: dict[tuple[object, ...], dict[str, Plan]] = {}
        """The results of matching and routing by topic, for each kind of source that they can tell apart."""
        self.planned = 0
        self.interned: dict[tuple[object, ...], Plan] = {}
        """Plans by what they are made of, so that topics share them; in `resolved` those that content decided on."""
        self.resolved: dict[tuple[object, ...], Plan] = {}
        self.steps: dict[Steps, Steps] = {}
        """Steps of plans, each once."""

    def of(self, link: LinkClass) -> Plans:
        """Return the plans of a class of links; all links of the class share them."""
        plans = self.by_class.get(link)
        if plans is None:
            goes = "" if link.token is None else link.token.goes
            routes = self.routes.setdefault((link.link_type, link.neighbour, link.is_own, link.statements, goes), {})
            plans = self.by_class[link] = Plans(link, routes)
        return plans

    def forget(self, filter: Filter) -> None:
        """Forget the plans of topics that a changed subscription may concern."""
        self.resolved.clear()
        prefix = filter.prefix.rstrip("/")  # `a/#` also matches `a`
        for routes in self.routes.values():
            if not filter.is_wild:
                self._invalidate(routes.pop(filter.filter, None))
                continue
            for topic in [topic for topic in routes if topic.startswith(prefix)]:
                self._invalidate(routes.pop(topic))

    def forget_all(self) -> None:
        """Forget all plans: rights may have changed, or what a session can take."""
        for plans in self.by_class.values():
            plans.known.clear()
        used = {id(plans.routes) for plans in self.by_class.values()}
        self.routes = {key: routes for key, routes in self.routes.items() if id(routes) in used}
        for routes in self.routes.values():
            routes.clear()
        self.interned.clear()
        self.resolved.clear()
        self.steps.clear()
        self.planned = 0

    def begin_anew(self) -> None:
        """Forget all plans and link classes."""
        self.forget_all()
        self.by_class.clear()
        self.own = None

    def _invalidate(self, plan: Plan | None) -> None:
        if plan is not None:
            self.interned.pop(plan.key, None)
            plan.retire()


class Broker(NamedTuple):
    """A foreign broker as the receiver of an event, by the first of its names."""

    name: str


MAX_REMEMBERED = 20_000
"""Events; the oldest are forgotten first."""


class Dedup:
    """The recent notifications by receiver. An event that comes to this node once more is another arrival of it."""

    __slots__ = ("_arrival", "_laps", "_notified", "_numbered")

    def __init__(self) -> None:
        self._arrival = 0
        self._numbered = 0
        self._notified: dict[tuple[str, str, bytes], dict[Hashable, int]] = {}
        self._laps: dict[tuple[str, bytes, str], tuple[float, int]] = {}

    def arrives(self) -> None:
        """Begin an arrival; monitors' outputs belong to the same one."""
        self._arrival += 1

    def name(self, node: str, now: float) -> str:
        """Return an id for an event that begins here; after a restart time has gone on. It tells nothing else."""
        self._numbered += 1
        return blake2b(f"{node} {now} {self._numbered}".encode(), digest_size=12).hexdigest()

    def has_had(self, event: Event, receiver: Hashable) -> bool:
        """Return True if the receiver has had the event by an earlier arrival; a foreign broker, under any name."""
        receivers = self._notified.get((event.id, event.topic, event.payload))
        if receivers is None or receiver not in receivers:
            return False
        return isinstance(receiver, Broker) or receivers[receiver] != self._arrival

    def laps(self, event: Event, broker: str, now: float) -> int:
        """Count an event from one foreign broker to another; return how many that are equal went there in a second."""
        key = (event.topic, event.payload, broker)
        since, count = self._laps.pop(key, (now, 0))
        if now - since >= 1:
            since, count = now, 0
        if len(self._laps) >= MAX_REMEMBERED:
            del self._laps[next(iter(self._laps))]
        self._laps[key] = since, count + 1
        return count + 1

    def served(self, event: Event) -> tuple[str, ...]:
        """Return the foreign brokers that have had the event from here."""
        receivers = self._notified.get((event.id, event.topic, event.payload), ())
        return tuple(receiver.name for receiver in receivers if isinstance(receiver, Broker))

    def note(self, event: Event, receiver: Hashable) -> None:
        """Remember that the receiver has had the event."""
        key = (event.id, event.topic, event.payload)
        receivers = self._notified.get(key)
        if receivers is None:
            if len(self._notified) >= MAX_REMEMBERED:
                del self._notified[next(iter(self._notified))]
            receivers = self._notified[key] = {}
        receivers[receiver] = self._arrival
