"""A node's state about sessions: sessions and their timers, subscriptions, and the monitors on their links."""

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from penstock.engine.events.plan import Group
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.sessions.session import Session, Subscribed
from penstock.model.topic_tree import FilterIndex
from penstock.policy.monitors.monitor import State

MAX_RESUMED = 20
"""Sessions that go on in one turn; the others follow in the next ones."""
MAX_STEPS = 200
"""Steps of other work in one turn, such as the end of a session, or the removal of a subscription."""


class Timers:
    """For each session at most one time, the next at which to look at it."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[float, Session]] = {}
        self._heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._next)

    def set(self, when: float, session: Session) -> None:
        """Have the session looked at then, and not at the time that was set before."""
        self._next[session.id] = when, session
        heapq.heappush(self._heap, (when, session.id))
        # Times that no longer hold stay in the heap until they come; they must not become the most of it.
        if len(self._heap) > 2 * len(self._next) + 64:
            self._heap = [(at, number) for number, (at, _) in self._next.items()]
            heapq.heapify(self._heap)

    def cancel(self, session: Session) -> None:
        self._next.pop(session.id, None)

    def due(self, now: float) -> Iterator[Session]:
        """Take out all whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            when, number = heapq.heappop(self._heap)
            at, session = self._next.get(number, (None, None))
            if at == when and session is not None:
                del self._next[number]
                yield session


class Sessions(dict[str, Session]):
    """The sessions of a node, by client id."""

    def __init__(self) -> None:
        super().__init__()
        self.last_id = 0
        """The number of the session that was made last."""
        self.connected = 0
        self.timers = Timers()
        self.past: dict[str, tuple[int, int, int]] = {}
        """By client of the domain, what its sessions that have ended took, gave and were denied."""
        self.replaying: dict[int, Session] = {}
        """Sessions with more to be sent in the next turn; and in `lagging` those that wait for the store first."""
        self.lagging: dict[int, Session] = {}
        self.ending: dict[int, Session] = {}
        """Sessions that have ended, with subscriptions that are still in the index: nothing goes to them."""
        self.undone: deque[Iterator[None]] = deque()
        """Work that is too much for one turn, in steps."""

    def go_on(self, session: Session) -> None:
        """Schedule the session to send more: in the next turn, or after the store has what was sent now."""
        (self.lagging if session.connection.held else self.replaying)[session.id] = session

    def take_unfinished(self) -> list[Session]:
        """Return the next that have more to be sent; they are no longer noted."""
        self.replaying.update(self.lagging)
        self.lagging = {}
        return [self.replaying.pop(number) for number in list(islice(self.replaying, MAX_RESUMED))]

    def do_some(self) -> None:
        """Do some steps of the work that is left; more if there is much of it, so that it does not grow."""
        steps = MAX_STEPS * (1 + len(self.undone) // 10)
        while self.undone and steps:
            work = self.undone[0]
            for _ in islice(work, steps):
                steps -= 1
            if steps:
                self.undone.popleft()


ROOM_FOR_NODES = 4_096
"""Bytes that a packet between nodes may be larger than a client's: nodes add what must travel with an event."""


def max_packet_size(limit: int, neighbour: str | None) -> int:
    """Return the size of packets that a node takes from a client, or from a neighbour."""
    return limit if neighbour is None else limit + ROOM_FOR_NODES


class Subscriptions:
    """The subscriptions at a node."""

    __slots__ = ("beyond", "groups", "index", "predicates")

    def __init__(self) -> None:
        self.index: FilterIndex[Subscribed | Group | Watch | Predicates[Subscribed]] = FilterIndex()
        self.groups: dict[tuple[str, str], Group] = {}
        """Shared subscriptions, by name and filter."""
        self.predicates: dict[str, Predicates[Subscribed]] = {}
        """By filter, the subscriptions that ask for content."""
        self.beyond: FilterIndex[Subscribed] = FilterIndex()
        """Subscribers beyond neighbours, where privacy may be asked (`contracts/subscribers.py`)."""


class Monitors:
    """The monitors of a node, by link."""

    __slots__ = ("notified", "onlookers", "stored", "watches")

    def __init__(self) -> None:
        self.watches: dict[tuple[str, str], Watch] = {}
        """The monitors of each link that has any, with their states."""
        self.onlookers: dict[tuple[str, str], tuple[str, ...]] = {}
        """Of these, the links out of this node whose monitors must see more than is notified: filters by link."""
        self.notified: dict[tuple[str, str], list[Session]] = {}
        """And the sessions that are notified over them."""
        self.stored: dict[tuple[str, str, str], State] = {}
        """States of monitors from an earlier run, by link and name."""
