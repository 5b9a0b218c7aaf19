"""What a store holds, and what a node has that a store should hold, in a form that can be compared."""

from dataclasses import dataclass, field

from penstock.broker.store.store import Store
from penstock.domain import LimitSettings
from penstock.engine.node import Node
from penstock.engine.sessions.session import Outgoing, Session
from penstock.model.event import Event
from penstock.wire.session import WAITING


@dataclass(frozen=True)
class Stored:
    """One delivery on disk."""

    payload: bytes
    state: int
    packet_id: int


@dataclass(frozen=True)
class Disk:
    """What the last commit left."""

    sessions: frozenset[str] = frozenset()
    subscriptions: frozenset[tuple[str, str]] = frozenset()
    received: frozenset[tuple[str, int]] = frozenset()
    deliveries: dict[str, list[Stored]] = field(default_factory=dict)

    def payloads(self, client_id: str) -> set[bytes]:
        return {one.payload for one in self.deliveries.get(client_id, [])}

    def offered(self, client_id: str) -> set[tuple[bytes, int]]:
        return {(one.payload, one.packet_id) for one in self.deliveries.get(client_id, []) if one.state != WAITING}

    def state_of(self, client_id: str, packet_id: int) -> int | None:
        found = [one.state for one in self.deliveries.get(client_id, []) if one.packet_id == packet_id]
        return found[0] if found else None


def read_disk(store: Store) -> Disk:
    """All that is committed, read with a node of its own."""
    node = load(store)
    sessions = node.sessions
    return Disk(
        frozenset(sessions),
        frozenset((name, text) for name, one in sessions.items() for text in one.subscriptions),
        frozenset((name, packet_id) for name, one in sessions.items() for packet_id in one.received or ()),
        {
            name: [Stored(d.event.payload, d.state, d.packet_id) for d in _deliveries(one)]
            for name, one in sessions.items()
        },
    )


def load(store: Store, now: float = 0.0) -> Node:
    """A node as it is when it starts with this store."""
    node = Node("test", LimitSettings(), lambda: "made", durable=True)
    store.load(node, now)
    return node


def durable_state(node: Node) -> object:
    """All of a node that must survive it."""
    return (
        {name: _session(one) for name, one in node.sessions.items() if one.durable},
        {topic: _event(event) for topic, event in node.retained.match("#")},
    )


def _session(session: Session) -> object:
    will = session.connection.will
    return {
        "id": session.id,
        "user": session.subject.user,
        "version": session.version,
        "expiry": session.connection.expiry,
        "will": None if will is None else (_event(will.event), will.event.retain, will.delay, will.lifetime),
        "subscriptions": {
            key: (
                (one.qos, one.no_local, one.retain_as_published, one.identifier),
                (one.asked, one.condition, one.scope, one.policy),
            )
            for key, one in session.subscriptions.items()
        },
        "advertisements": dict(session.declared.advertisements),
        "inflight": [(packet_id, _delivery(one)) for packet_id, one in session.outbox.inflight.items()],
        "queue": [_delivery(one) for one in session.outbox.queue or ()],
        "received": set(session.received or ()),
        "refused": dict(session.refused or {}),
    }


def _deliveries(session: Session) -> list[Outgoing]:
    return [*session.outbox.inflight.values(), *(session.outbox.queue or ())]


def _delivery(one: Outgoing) -> object:
    return one.row, one.state, one.packet_id, one.qos, one.retain, one.ids, _event(one.event)


def _event(event: Event) -> object:
    whence = event.origin, event.user, event.link_type, event.path, event.token
    return event.topic, event.payload, event.qos, event.properties, event.expires, whence
