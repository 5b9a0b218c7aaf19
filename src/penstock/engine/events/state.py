"""A node's state about events: retained messages, and plans."""

from collections.abc import Hashable, Iterator
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Plan, Plans, Steps
from penstock.model.event import Event
from penstock.model.topic import Filter
from penstock.model.topic_tree import TopicTree


class Retained(TopicTree[Event]):
    """Retained messages, one for each topic, and when they expire."""

    __slots__ = ("due", "number", "numbers", "size")

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        """The number of messages that have been retained so far."""
        self.numbers: dict[str, int] = {}
        """By topic, the number of its message."""
        self.size = 0
        """Bytes of all of them."""
        self.due: list[tuple[float, str]] = []
        """A heap."""

    def hold(self, event: Event) -> None:
        """Have the event as its topic's retained one."""
        before = self.get(event.topic)
        self.size += event.size() - (0 if before is None else before.size())
        self.number += 1
        self.numbers[event.topic] = self.number
        self.set(event.topic, event)
        if event.expires is not None:
            heappush(self.due, (event.expires, event.topic))

    def amend(self, event: Event) -> None:
        """Have the topic's retained event with other properties: it stays the same message."""
        before = self.get(event.topic)
        self.size += event.size() - (0 if before is None else before.size())
        self.set(event.topic, event)

    def pop(self, text: str) -> Event | None:
        event = super().pop(text)
        if event is not None:
            self.size -= event.size()
            del self.numbers[text]
        return event

    def expired(self, now: float) -> Iterator[str]:
        """Yield the topics whose retained message is over."""  # [MQTT-3.3.2-5]
        while self.due and self.due[0][0] <= now:
            _, topic = heappop(self.due)
            event = self.get(topic)
            if event is not None and event.expires is not None and event.expires <= now:
                yield topic


MAX_SEARCHED = 400_000
"""Topics that are looked through in a turn; beyond it, to make all plans again is less work."""
MAX_SWEPT = 4_000


class PlanCache:
    """The plans of a node, by class of links and topic, until a subscription or a policy comes or goes."""

    __slots__ = ("by_class", "discarded", "interned", "own", "planned", "resolved", "routes", "searched", "steps")

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
        self.searched = 0
        """Topics that were looked through in this turn for those that a changed subscription concerns."""
        self.discarded: list[dict[Any, Any]] = []
        """Plans that are forgotten and still take memory: to free many at once would stop the node."""

    def of(self, link: LinkClass) -> Plans:
        """Return the plans of a class of links; all links of the class share them."""
        plans = self.by_class.get(link)
        if plans is None:
            plans = self.by_class[link] = Plans(link, self._routes_of(link))
        return plans

    def _routes_of(self, link: LinkClass) -> dict[str, Plan]:
        goes = "" if link.token is None else link.token.goes
        return self.routes.setdefault((link.link_type, link.neighbour, link.is_own, link.statements, goes), {})

    def forget(self, filter: Filter) -> None:
        """Forget the plans of topics that a changed subscription may concern."""
        self.resolved.clear()
        prefix = filter.prefix.rstrip("/")  # `a/#` also matches `a`
        if filter.is_wild:
            self.searched += sum(map(len, self.routes.values()))
            if self.searched > MAX_SEARCHED:
                self.forget_all()
        for routes in self.routes.values():
            if not filter.is_wild:
                self._invalidate(routes.pop(filter.filter, None))
                continue
            for topic in [topic for topic in routes if topic.startswith(prefix)]:
                self._invalidate(routes.pop(topic))

    def forget_all(self) -> None:
        """Forget all plans: rights may have changed, or what a session can take."""
        self.discarded += (*self.routes.values(), self.interned, self.resolved, self.steps)
        self.routes, self.interned, self.resolved, self.steps = {}, {}, {}, {}
        for plans in list(self.by_class.values()):
            self.discarded.append(plans.known)
            plans.known, plans.routes = {}, self._routes_of(plans.key)
        self.planned = 0

    def sweep(self) -> None:
        """Free some of what is forgotten, once a turn."""
        self.searched, left = 0, MAX_SWEPT
        while self.discarded and left:
            entries = self.discarded[-1]
            while entries and left:
                entries.popitem()
                left -= 1
            if not entries:
                self.discarded.pop()

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
