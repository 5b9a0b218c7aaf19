"""Events that contracts delay, and windows of events of which only the mean is delivered.

Both are bounded for each session, end with it, and are kept in the store for sessions that outlive their connection, so
that what was acknowledged is not lost. When their time has come, they are held against contracts as they are then.
"""

from heapq import heappop, heappush

import msgspec

from penstock.domain import LimitSettings
from penstock.engine.contracts.held import CollectedWindow, HeldEvent, WindowKey
from penstock.engine.ledger import Ledger
from penstock.engine.sessions.session import Session
from penstock.model.errors import ContentError
from penstock.model.quality import moment
from penstock.policy.contracts.aggregate import MeanWindow
from penstock.policy.quality.carriage import read_properties, write_properties

MAX_WINDOWS = 256
"""Times that are being collected for one session: one for each topic and rule."""


class StoredWindow(msgspec.Struct, frozen=True):
    """A window as the store has it."""

    number: int
    numbers: list[tuple[float, ...]]
    qualities: list[list[str]]
    left_out: int
    expires: float | None = None
    publishers: list[str] = []


class Later:
    """All that a node holds back."""

    __slots__ = ("_count", "_heap", "_ledger", "_of", "_sizes", "held", "windows")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._heap: list[tuple[float, int]] = []
        self._count = 0
        self._of: dict[int, set[int]] = {}
        self._sizes: dict[int, int] = {}
        self.held: dict[int, HeldEvent] = {}
        self.windows: dict[tuple[int, WindowKey], CollectedWindow] = {}

    def __len__(self) -> int:
        return len(self.held)

    def put(self, limits: LimitSettings, held: HeldEvent, number: int = 0) -> bool:
        """Hold an event back; whether there is room. `number`: as the store has it."""
        at, session, event, _ = held
        mine = self._of.setdefault(session.id, set())
        size = self._sizes.get(session.id, 0)
        if len(mine) >= (session.outbox.queue_limit or limits.queued_messages) or size >= limits.queued_bytes:
            return False
        self._count = max(self._count + 1, number)
        number = number or self._count
        self.held[number] = held
        mine.add(number)
        self._sizes[session.id] = size + event.size()
        heappush(self._heap, (at, number))
        if event.qos:
            self._ledger.held(session, number, held)
        return True

    def take(self, now: float) -> list[HeldEvent]:
        """Remove and return the events that are due."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            _, number = heappop(self._heap)
            held = self.held.get(number)
            if held is not None:
                due.append(held)
                self._drop(number, held)
        return due

    def _drop(self, number: int, held: HeldEvent) -> None:
        del self.held[number]
        self._of[held.session.id].discard(number)
        self._sizes[held.session.id] -= held.event.size()
        self._ledger.held(held.session, number, None)

    def of(self, session: Session) -> list[HeldEvent]:
        """Return what is held for a session, the earliest first."""
        return sorted((self.held[number] for number in self._of.get(session.id, ())), key=lambda held: held.at)

    def remove(self, held: HeldEvent) -> None:
        """Remove what is held."""
        number = next(number for number in self._of[held.session.id] if self.held[number] is held)
        self._drop(number, held)

    def forget(self, session: Session) -> None:
        """Discard what is held for a session that ends."""
        for number in list(self._of.get(session.id, ())):
            self._drop(number, self.held[number])
        self._of.pop(session.id, None)
        self._sizes.pop(session.id, None)
        self._close_all(session)

    def begin_anew(self, session: Session, now: float) -> None:
        """Discard the session's windows: the rules for it have changed, so none of them would be complete."""
        session.since = max(session.since, now)
        self._close_all(session)

    def _close_all(self, session: Session) -> None:
        for key in [key for key in self.windows if key[0] == session.id]:
            self.close(key)

    def has_room(self, session: Session, about: WindowKey) -> bool:
        """Return True if one more window can be collected for a session."""
        key = (session.id, about)
        return key in self.windows or sum(session_id == session.id for session_id, _ in self.windows) < MAX_WINDOWS

    def collect(self, window: CollectedWindow) -> None:
        self.windows[window.session.id, window.about] = window
        self._ledger.collected(window.session, window)

    def close(self, key: tuple[int, WindowKey]) -> None:
        gone = self.windows.pop(key, None)
        if gone is not None:
            self._ledger.collected(gone.session, gone._replace(window=MeanWindow(gone.window.number)))


def write_window(window: MeanWindow) -> bytes:
    """Encode a window for the store."""
    numbers = [numbers for numbers, _ in window.inputs]
    qualities = [[text for _, text in write_properties(quality)] for _, quality in window.inputs]
    about = (window.left_out, window.expires, sorted(window.publishers))
    return msgspec.json.encode(StoredWindow(window.number, numbers, qualities, *about))


def read_window(data: bytes, now: float) -> MeanWindow:
    """Decode a window of the store; raise `ContentError`."""
    try:
        stored = msgspec.json.decode(data, type=StoredWindow)
    except msgspec.MsgspecError as error:
        raise ContentError(str(error)) from None
    qualities = [read_properties([("q", text) for text in texts], moment(now), "q") for texts in stored.qualities]
    inputs = tuple(zip(map(tuple, stored.numbers), qualities, strict=True))
    return MeanWindow(stored.number, inputs, stored.left_out, stored.expires, frozenset(stored.publishers))
