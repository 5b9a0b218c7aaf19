"""Subscribers beyond links: who has subscribed there to what may be private (contracts §2.2).

A want says which topics somebody beyond a link asks for, but not who: one stands for many. So where privacy may be
asked, nodes also tell each other who subscribes, with what it has shown at its node: as wants with a `consumer`, which
match no event. By these a node knows, before an event leaves by a link, whether anybody beyond may have it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from penstock.engine.contracts.state import shown_by
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.model.errors import UNREADABLE
from penstock.model.topic import intersection
from penstock.policy.contracts.contract import Subject
from penstock.policy.contracts.contract_set import effective_wants
from penstock.policy.statements.assignments import Statements

WHOEVER = "*"
"""In place of a subscriber: those beyond have subscribed locally, so that only their own nodes know them."""
_NAME = "\1"
"""Begins the name of what is kept of such a want: no name of a subscription, and no condition, has it."""
GLOBAL = "\2"
"""Ends the name of what is kept of a want that is told over every link."""
_MAX_KNOWN = 65_536


class Receiver(NamedTuple):
    """A client that may get an event, here or beyond a link."""

    client: str
    shown: Subject = ()
    """The attributes that it has shown at its node."""


def here(session: Session, now: float) -> Receiver:
    """Return the client of a session at this node."""
    return Receiver(session.place.entity, shown_by(session, now))


def written(receiver: Receiver) -> str:
    """Return a receiver as wants name it."""
    shown = [[name, *sorted(values)] for name, values in receiver.shown]
    return msgspec.json.encode([[receiver.client], *shown]).decode()


@lru_cache(maxsize=_MAX_KNOWN)
def read(text: str) -> Receiver | None:
    """Return the receiver that a want names; None if that cannot be read: then nobody is there."""
    try:
        client, *shown = msgspec.json.decode(text, type=list[list[str]])
        return Receiver(client[0], tuple((name, frozenset(values)) for name, *values in shown))
    except (*UNREADABLE, ValueError, IndexError):
        return None


def name_of(consumer: str, is_global: bool = False) -> str:
    """Return the name, among what a neighbour has told, of a subscriber beyond it."""
    return _NAME + consumer + (GLOBAL if is_global else "")


def consumer_in(name: str) -> str:
    """Return the subscriber in such a name; empty if it is the name of a subscription."""
    return name[1:].removesuffix(GLOBAL) if name.startswith(_NAME) else ""


def filters(node: Node, session: Session, filter: str) -> Iterator[str]:
    """Yield the part of a client's subscription about which other nodes are told whose it is: where contracts speak of
    the client, or a policy in XACML of everybody. What monitors and statements make is as private on any topic.
    """
    state = node.contracts
    if state is None or not state.contracts.is_private:
        return
    contracts, client = state.contracts, session.place.entity
    given = (*contracts.consuming(client), *session.declared.consumes.values())
    asked = [want.filter for contract in given for want in effective_wants(contract)]
    if contracts.privacy:
        asked += (
            ["#"]
            if node.ensemble.has_monitors or node.ensemble.statements != Statements()
            else [policy.filter for policy in contracts.privacy]
        )
    if "#" in asked:
        yield filter
        return
    yield from dict.fromkeys(both for wide in dict.fromkeys(asked) for both in intersection(filter, wide))


def keep(node: Node, subscribed: Subscribed) -> None:
    """Keep what a neighbour has told of a subscriber beyond it."""
    session = subscribed.session
    session.federation.subscribers[subscribed.key] = subscribed
    node.subscriptions.beyond.add(subscribed.filter, (session.id, subscribed.name), subscribed)
    _changed(node, subscribed)


def remove(node: Node, session: Session, key: str) -> None:
    """Forget a subscriber beyond a neighbour."""
    subscribed = session.federation.subscribers.pop(key, None)
    if subscribed is not None:
        node.subscriptions.beyond.remove(subscribed.filter, (session.id, subscribed.name))
        node.ledger.subscription(session, key, None)
        _changed(node, subscribed)


def _changed(node: Node, subscribed: Subscribed) -> None:
    node.federation.news.subscription(subscribed.session, subscribed.key)
    if node.contracts is not None:
        node.contracts.forget_beyond()


def tell_again(node: Node, session: Session) -> None:
    """Have other nodes told anew who a client is: what it has shown, or its contracts, have changed."""
    if node.contracts is not None and session.neighbour is None:
        for key in session.subscriptions:
            node.federation.news.subscription(session, key)


def beyond(node: Node, session: Session, topic: str) -> tuple[str, ...]:
    """Return the subscribers beyond a neighbour, as wants name them, whose subscriptions match a topic."""
    state = node.contracts
    assert state is not None
    known = state.subscribers.get((session.id, topic))
    if known is None:
        if len(state.subscribers) >= _MAX_KNOWN:
            state.subscribers.clear()
        matched = (entry for entry in node.subscriptions.beyond.match(topic) if entry.session is session)
        known = tuple(dict.fromkeys(consumer_in(entry.name) for entry in matched))
        state.subscribers[session.id, topic] = known
    return known
