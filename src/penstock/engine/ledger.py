"""The ledger: everything that must become durable, as values.

The engine fills a `Changes`, and the broker's store writes it in one transaction. The last value for a key wins, so a
value that comes and goes between two commits never reaches the disk.
"""

from typing import Any, NamedTuple

import msgspec

from penstock.engine.contracts.held import CollectedWindow, HeldEvent
from penstock.engine.sessions.refusal import RefusedPublish
from penstock.engine.sessions.session import Outgoing, PolicyRevision, Session, StoredEvent, Subscribed
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.policy.capsules.machine import Key
from penstock.policy.monitors.monitor import State
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.tokens.token import Token
from penstock.policy.trust.rating import Evidence


class Withheld(msgspec.Struct, frozen=True):
    """The metrics of an edge node or device that a reader does not have."""

    metrics: dict[str, bytes]
    """Those that it may get back: by name, as they were last reported."""
    unborn: tuple[str, ...]
    late: bool = False
    """Its last birth or death was withheld because of the time."""


class Persisted(NamedTuple):
    """A message that a policy wants kept for good."""

    time: float
    collection: str
    policy: str
    topic: str
    payload: bytes


class Changes:
    """The writes of one transaction."""

    __slots__ = (
        "advertisements",
        "brought",
        "capsules",
        "deliveries",
        "dropped_deliveries",
        "dropped_messages",
        "dropped_persisted",
        "dropped_sessions",
        "evidence",
        "held",
        "messages",
        "monitors",
        "moving",
        "persisted",
        "received",
        "refused",
        "retained",
        "revision",
        "rights",
        "sessions",
        "standings",
        "subscriptions",
        "tokens",
        "updated",
        "windows",
    )

    def __init__(self) -> None:
        self.sessions: dict[int, Session] = {}
        self.dropped_sessions: list[int] = []
        self.subscriptions: dict[tuple[int, str], Subscribed | None] = {}
        self.advertisements: dict[tuple[int, str], ProducerAdvertisement | None] = {}
        self.brought: dict[tuple[int, str], bytes | None] = {}
        """Contracts of sessions, as JSON."""
        self.held: dict[int, HeldEvent | None] = {}
        """Events that contracts hold back; `windows` has those that are collected."""
        self.windows: dict[tuple[int, bytes], CollectedWindow] = {}
        self.capsules: dict[tuple[str, Key], Any] = {}
        """By capsule and key, what it remembers; None: nothing more."""
        self.retained: dict[str, Event | None] = {}
        self.messages: dict[int, Event] = {}
        self.dropped_messages: list[int] = []
        self.deliveries: dict[int, Outgoing] = {}
        self.updated: dict[int, Outgoing] = {}
        self.dropped_deliveries: list[int] = []
        self.received: dict[tuple[int, int], bool] = {}
        self.refused: dict[tuple[int, int], RefusedPublish | None] = {}
        self.monitors: dict[tuple[str, str, str], State] = {}
        self.moving: dict[int, bytes] = {}
        """Sessions between two nodes, as JSON; empty: no longer."""
        self.standings: dict[tuple[int, str], Withheld | None] = {}
        self.persisted: dict[int, Persisted] = {}
        self.dropped_persisted = 0
        """The number of oldest messages to remove."""
        self.rights: dict[str, tuple[float, str | None]] = {}
        """By node, its access list and since when it is in force."""
        self.revision: PolicyRevision | None = None
        """The policies by which events are judged; None: the same as before."""
        self.evidence: dict[str, Evidence] = {}
        """By neighbour, what is held of it."""
        self.tokens: dict[str, Token | None] = {}
        """By digest, tokens that events have which may wait for a neighbour."""

    def __bool__(self) -> bool:
        return bool(
            self.deliveries
            or self.dropped_deliveries
            or self.updated
            or self.received
            or self.refused
            or self.monitors
            or self.moving
            or self.standings
            or self.revision is not None
            or self.rights
            or self.persisted
            or self.evidence
            or self.tokens
            or self.retained
            or self.messages
            or self.dropped_messages
            or self.subscriptions
            or self.advertisements
            or self.brought
            or self.held
            or self.windows
            or self.capsules
            or self.sessions
            or self.dropped_sessions
        )


class Ledger:
    """Keeps the present `Changes`, and the packets that may leave only after they are written."""

    def __init__(self, durable: bool) -> None:
        self.durable = durable
        self.changes = Changes()
        self.deferred: list[tuple[Session, object, bytes]] = []
        self.deferred_bytes = 0
        self._row = 0
        self._message = 0
        self._persisted = 0
        self.persisted = 0
        """The number of messages that policies have had kept."""

    def defer(self, session: Session, packet: bytes) -> None:
        """Hold a packet back until all changes so far are written."""
        session.connection.held += 1
        self.deferred.append((session, session.outlet, packet))
        self.deferred_bytes += len(packet)

    def start_after(self, row: int, message: int) -> None:
        """Number new rows after those that the store already has."""
        self._row = row
        self._message = message

    def keep(self, delivery: Outgoing, kept: StoredEvent | None) -> StoredEvent:
        """Record a delivery; deliveries of the same event share one `Kept`."""
        if kept is None or not kept.references:  # a delivery that was settled at once has taken it out again
            self._message += 1
            kept = StoredEvent(self._message, delivery.event)
            self.changes.messages[kept.id] = kept.event
        self._row += 1
        delivery.row = self._row
        delivery.kept = kept
        kept.references += 1
        self.changes.deliveries[delivery.row] = delivery
        return kept

    def moved(self, delivery: Outgoing) -> None:
        """Store a delivery's changed state or packet identifier."""
        if delivery.row and delivery.row not in self.changes.deliveries:
            self.changes.updated[delivery.row] = delivery

    def settle(self, delivery: Outgoing) -> None:
        """Remove a finished delivery, whatever the outcome."""
        row, kept = delivery.row, delivery.kept
        if not row or kept is None:
            return
        changes = self.changes
        if changes.deliveries.pop(row, None) is None:
            changes.updated.pop(row, None)
            changes.dropped_deliveries.append(row)
        delivery.row = 0
        self._let_go(kept)

    def replaced(self, delivery: Outgoing) -> None:
        """Store another event for a delivery; its place among the others stays."""
        if not delivery.row or delivery.kept is None:
            return
        self._let_go(delivery.kept)
        self._message += 1
        delivery.kept = StoredEvent(self._message, delivery.event)
        delivery.kept.references = 1
        self.changes.messages[self._message] = delivery.event
        self.moved(delivery)

    def _let_go(self, kept: StoredEvent) -> None:
        kept.references -= 1
        if kept.references == 0 and self.changes.messages.pop(kept.id, None) is None:
            self.changes.dropped_messages.append(kept.id)

    def session(self, session: Session) -> None:
        """Store a session that is durable or has a will."""
        if self.durable:
            self.changes.sessions[session.id] = session
            session.connection.is_stored = True

    def drop_session(self, session: Session) -> None:
        """Remove a session, if it is stored, with all that the store has of it."""
        if session.connection.is_stored:
            self.changes.sessions.pop(session.id, None)
            self.changes.dropped_sessions.append(session.id)
            session.connection.is_stored = False

    def moving(self, session: Session) -> None:
        """Store whether a session goes to another node, or comes from it."""
        if session.durable:
            moving = session.connection.moving
            self.changes.moving[session.id] = b"" if moving is None else msgspec.json.encode(moving)

    def subscription(self, session: Session, key: str, subscribed: Subscribed | None) -> None:
        if session.durable:
            self.changes.subscriptions[session.id, key] = subscribed

    def advertisement(self, session: Session, name: str, advertised: ProducerAdvertisement | None) -> None:
        if session.durable:
            self.changes.advertisements[session.id, name] = advertised

    def brought(self, session: Session, name: str, contract: msgspec.Struct | None) -> None:
        """Store or remove a session's contract."""
        if session.durable:
            self.changes.brought[session.id, name] = None if contract is None else msgspec.json.encode(contract)

    def held(self, session: Session, number: int, held: HeldEvent | None) -> None:
        """Store or remove an event that contracts hold back for a session."""
        if session.durable:
            self.changes.held[number] = held

    def collected(self, session: Session, window: CollectedWindow) -> None:
        """Store a session's window; an empty one is deleted."""
        if session.durable:
            self.changes.windows[session.id, msgspec.json.encode(window.about)] = window

    def capsule(self, name: str, key: Key, value: Any) -> None:
        """Store or remove something that a capsule of this node remembers."""
        if self.durable:
            self.changes.capsules[name, key] = value

    def received(self, session: Session, packet_id: int, held: bool) -> None:
        if session.durable:
            self.changes.received[session.id, packet_id] = held

    def refused(self, session: Session, packet_id: int, refused: RefusedPublish | None) -> None:
        """Store or remove a session's QoS 2 message that was refused."""
        if session.durable:
            self.changes.refused[session.id, packet_id] = refused

    def standing(self, session: Session, source: str, withheld: Withheld | None) -> None:
        """Store which metrics of an edge node or device a reader does not have."""
        if session.durable:
            self.changes.standings[session.id, source] = withheld

    def persisted_before(self, last: int, count: int) -> None:
        """Set the number of persisted messages in the store, and the last one's number."""
        self._persisted, self.persisted = last, count

    def persist(self, row: Persisted, most: int) -> bool:
        """Store a message for a policy; return True if older ones, above `most`, have to be removed."""
        if not self.durable:
            return False
        self._persisted += 1
        self.changes.persisted[self._persisted] = row
        too_many = max(0, self.persisted + 1 - most)
        self.persisted += 1 - too_many
        self.changes.dropped_persisted += too_many
        return too_many > 0

    def revision(self, revision: PolicyRevision) -> None:
        """Store the policies by which events are judged from now on."""
        if self.durable:
            self.changes.revision = revision

    def rights(self, name: str, at: float, text: str | None) -> None:
        """Store the access list of a node."""
        if self.durable:
            self.changes.rights[name] = at, text

    def evidence(self, neighbour: str, evidence: Evidence) -> None:
        """Store the evidence about a neighbour."""
        if self.durable:
            self.changes.evidence[neighbour] = evidence

    def token(self, token: Token) -> None:
        """Store a token that waiting events may have."""
        if self.durable:
            self.changes.tokens[token.digest] = token

    def token_gone(self, digest: str) -> None:
        if self.durable:
            self.changes.tokens[digest] = None

    def monitor(self, link: Link, name: str, state: State) -> None:
        """Store the state of a monitor on a link."""
        if self.durable:
            self.changes.monitors[link.source, link.target, name] = state

    def retained(self, topic: str, event: Event | None) -> None:
        if self.durable:
            self.changes.retained[topic] = event

    def take(self) -> tuple[Changes, list[tuple[Session, object, bytes]]]:
        """Return the changes to write now, and the packets that wait for just these."""
        taken = self.changes, self.deferred
        self.changes = Changes()
        self.deferred = []
        self.deferred_bytes = 0
        return taken
