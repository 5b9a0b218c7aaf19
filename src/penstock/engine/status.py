"""A node as operators see it: its links and clients, what they have exchanged, what it keeps, what monitors are at."""

from collections.abc import Iterator

import msgspec

from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.placing import SureSuppression

MAX_STATE_LENGTH = 500
"""Characters of a monitor's state that are shown."""


class MonitorPortrait(msgspec.Struct, frozen=True):
    """A monitor on a link, in the state that it is in."""

    name: str
    source: str
    target: str
    state: str


class ClientPortrait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client that has a session here; its two links have the types that it publishes and is notified by."""

    entity: str
    """Its name in the domain; its client id if it has none there."""
    client_id: str
    user: str | None
    up: bool
    publish_type: str
    notify_type: str
    took: int
    """Packets from it."""
    gave: int
    """Packets to it."""
    denied: int
    """The count of its refusals, and of events that it subscribes to and the brokering table withholds."""
    waiting: int
    """Messages that wait for it."""
    subscriptions: int
    has_token: bool = False


class PastPortrait(msgspec.Struct, frozen=True):
    """The totals of a client's sessions that have ended."""

    entity: str
    took: int
    gave: int
    denied: int


class LinkPortrait(msgspec.Struct, frozen=True):
    """The connection with a neighbour, seen from this node."""

    neighbour: str
    foreign: bool
    up: bool
    type: str
    """Of what comes in; what goes out has `back`."""
    back: str
    took: int
    gave: int
    denied: int
    waiting: int


class NodePortrait(msgspec.Struct, frozen=True):
    """All of it."""

    node: str
    links: tuple[LinkPortrait, ...]
    clients: tuple[ClientPortrait, ...]
    monitors: tuple[MonitorPortrait, ...]
    retained: int
    situations: tuple[str, ...]
    """Those of contracts that are open."""
    past: tuple[PastPortrait, ...] = ()


class SubscriptionPortrait(msgspec.Struct, frozen=True):
    """A subscription of a client, or what a neighbour wants."""

    node: str
    entity: str
    client_id: str
    filter: str
    qos: int
    where: str
    """The condition that its client gave; empty if none."""


def portrait(node: Node, now: float, with_clients: bool = True, with_content: bool = True) -> NodePortrait:
    """Return the node's status now; it may be long, and states of Python monitors may show messages' content."""
    return NodePortrait(
        node.name,
        tuple(_link(node, name, session) for name, session in node.federation.neighbours.items()),
        tuple(_client(session) for session in node.sessions.values() if session.neighbour is None)
        if with_clients
        else (),
        tuple(
            portrait for watch in node.monitors.watches.values() for portrait in _monitors(node, watch, with_content)
        ),
        len(node.retained),
        tuple(sorted(node.contracts.open_at(now))) if node.contracts is not None else (),
        tuple(PastPortrait(name, *counts) for name, counts in node.sessions.past.items()) if with_clients else (),
    )


def subscriptions(node: Node, most: int) -> Iterator[SubscriptionPortrait]:
    """Return the subscriptions, at most so many."""
    for session in list(node.sessions.values()):
        for subscribed in list(session.subscriptions.values()):
            if most <= 0:
                return
            most -= 1
            name = session.neighbour or session.place.entity
            yield SubscriptionPortrait(
                node.name, name, session.client_id, subscribed.filter, subscribed.qos, subscribed.asked
            )


def _link(node: Node, name: str, session: Session) -> LinkPortrait:
    return LinkPortrait(
        name,
        name in node.ensemble.foreign,
        session.outlet is not None,
        session.place.publish_type,
        session.place.notify_type,
        session.took,
        session.gave,
        session.denied,
        session.outbox.waiting() + len(session.outbox.inflight),
    )


def _client(session: Session) -> ClientPortrait:
    return ClientPortrait(
        session.place.entity,
        session.client_id,
        session.subject.user,
        session.outlet is not None,
        session.place.publish_type,
        session.place.notify_type,
        session.took,
        session.gave,
        session.denied,
        session.outbox.waiting() + len(session.outbox.inflight),
        len(session.subscriptions),
        session.trust.token is not None,
    )


def _monitors(node: Node, watch: Watch, with_content: bool) -> Iterator[MonitorPortrait]:
    """Return the monitors whose state on a link is this node's; if both ends ask one, both have its state."""
    first = watch.placing.done if watch.link.target == node.name else 0  # those before are the other end's
    for monitor, state in list(zip(watch.monitors, watch.states, strict=True))[first:]:
        if isinstance(monitor, SureSuppression):
            continue
        shown = f"{state}"[:MAX_STATE_LENGTH] if with_content or isinstance(monitor, Automaton) else "…"
        yield MonitorPortrait(monitor.name, watch.link.source, watch.link.target, shown)
