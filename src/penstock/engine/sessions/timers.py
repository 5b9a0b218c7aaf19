"""Timers: sessions that expire, wills that are delayed."""

import heapq
from collections.abc import Iterator

from penstock.engine.sessions.session import Session


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
