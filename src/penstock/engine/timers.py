"""What is to happen later: sessions that expire, wills that are delayed."""

import heapq
from collections.abc import Iterator

from penstock.engine.session import Session


class Timers:
    """Sessions to look at again, by time. An entry may be out of date: whoever takes it checks the session."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Session]] = []
        self._count = 0

    def add(self, when: float, session: Session) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, session))

    def due(self, now: float) -> Iterator[Session]:
        """Take out all whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]
