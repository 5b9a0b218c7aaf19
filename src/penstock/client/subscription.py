"""Events on their way from the connection to the program: what waits, and what must be acknowledged."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from penstock.client.event import Event

Qos = Literal[0, 1]
Scope = Literal["global", "local"]


@dataclass(slots=True, eq=False)
class Receipt:
    """A message that must be acknowledged, and how many subscriptions have yet to hand it out."""

    mid: int
    holders: int


class Receipts:
    """Acknowledges messages once they are handed out, in the order in which they came."""  # [MQTT-4.6.0-2]

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._open: deque[Receipt] = deque()

    def add(self, mid: int, holders: int) -> Receipt:
        receipt = Receipt(mid, holders)
        self._open.append(receipt)
        self._settle()
        return receipt

    def hand_out(self, receipt: Receipt) -> None:
        """Count that one of the subscriptions that held the message has handed it out."""
        receipt.holders -= 1
        self._settle()

    def forget(self) -> None:
        """Drop all receipts: the connection is gone, and nothing can be acknowledged."""
        self._open.clear()

    def _settle(self) -> None:
        while self._open and not self._open[0].holders:
            self._acknowledge(self._open.popleft().mid)


@dataclass(eq=False)
class Subscription:
    """One subscription and its events: `async for event in subscription`.

    Several tasks may take events from it: each event goes to one of them. The loop ends when the subscription is given
    up or the client leaves. If the connection is lost for good, or the node no longer grants the subscription, it
    raises the error after the events that had already come.
    """

    filter: str
    name: str
    where: str | None
    scope: Scope | None
    qos: Qos
    identifier: int
    _room: int
    _receipts: Receipts
    policy: str | None = None
    contract: str | None = None
    """The contract for it, as JSON."""
    dropped: int = 0
    """Number of events of QoS 0 that were dropped because there was no room."""

    def __post_init__(self) -> None:
        self._waiting: deque[tuple[Event, Receipt | None]] = deque()
        self._changed = asyncio.Event()
        self._is_over = False
        self._end: Exception | None = None

    @property
    def waiting(self) -> int:
        """Return how many events have come and are not taken yet."""
        return len(self._waiting)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._end is not None:
                raise self._end
            if self._is_over:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event, receipt = self._waiting.popleft()
        if receipt is not None:
            self._receipts.hand_out(receipt)
        return event

    # --- for the client

    def put(self, event: Event, receipt: Receipt | None) -> None:
        """Add an event. Without a receipt it is dropped if there is no room; the node limits the others."""
        if receipt is None and len(self._waiting) >= self._room:
            self.dropped += 1
            return
        self._waiting.append((event, receipt))
        self._changed.set()

    def resume(self) -> None:
        """Drop what was not acknowledged: the node sends it again."""
        self._waiting = deque(item for item in self._waiting if item[1] is None)

    def begin_again(self) -> None:
        """Forget what was acknowledged: the node has lost the session."""
        self._waiting = deque((event, None) for event, _ in self._waiting)

    def close(self) -> None:
        """End it now; waiting events are dropped."""
        self._is_over = True
        for _, receipt in self._waiting:
            if receipt is not None:
                self._receipts.hand_out(receipt)
        self._waiting.clear()
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """End it with an error, after the waiting events."""
        self._end = error
        self._changed.set()
