"""A session that comes from another node: what it is, put together here as a store's is at a start."""

from collections import deque
from typing import Any

import msgspec

from penstock.engine.contracts import client_contracts
from penstock.engine.events.passage import Delivery
from penstock.engine.mobility import messages, receive, search
from penstock.engine.mobility.state import Handed, Moving, Taken
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions import advertise, lifecycle, outbox, placement, session_rights, subscribe
from penstock.engine.sessions.session import NEVER, Session, Subscribed
from penstock.engine.statements import filter_policies, review
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.model.errors import TopicError
from penstock.model.event import Event
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter
from penstock.policy.monitors.monitor import MonitorError
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.wire.codec import encode
from penstock.wire.packet import Pubrel
from penstock.wire.session import RELEASED


def take(node: Node, neighbour: Session, handed: Handed, now: float) -> None:
    """Take a part of a session that a neighbour hands over; with the last one, serve its client."""
    moves, name = node.federation.moves, neighbour.neighbour or ""
    held = node.sessions.get(handed.client)
    under_way = None if held is None else held.connection.moving
    if held is not None and under_way is not None and not under_way.is_arriving and under_way.neighbour == name:
        # the two have crossed, and the newer one stays: both nodes know which that is
        if (held.connection.began, node.name) < (handed.began, name):
            if handed.is_last and handed.client in moves.searches:
                messages.say_in_turn(node, neighbour, moves.searches[handed.client].ask, now)
            return
        receive.end_move(node, held, under_way)
        moves.leaving.discard(handed.client)
        lifecycle.schedule(node, held)
        under_way = None
    if held is not None and under_way is not None and (not under_way.is_arriving or under_way.neighbour != name):
        under_way.pending.append((name, handed))  # one at a time
        node.ledger.moving(held)
        return
    if handed.is_first:
        _begin(node, name, handed, now)
    session = node.sessions.get(handed.client)
    moving = None if session is None else session.connection.moving
    if session is not None and moving is not None and moving.is_arriving and moving.neighbour == name:
        _add(node, session, handed, now)
    if handed.is_last:
        messages.say_in_turn(node, neighbour, Taken(handed.client), now)
        moves.ready.setdefault(name, {})[handed.client] = None
        search.answered(node, handed.client, name, is_found=True)


def _begin(node: Node, name: str, handed: Handed, now: float) -> None:
    """Make the session, or join what comes to the one that its client has here already."""
    session = node.sessions.get(handed.client)
    is_new = session is None
    if node.federation.moves.cleaned.get(handed.client, 0.0) > handed.began:
        return  # its client wants nothing of it
    if session is None:
        session = _make(node, handed, now)
        if session is None:
            return
    elif session.place.entity != handed.entity or session.subject.user != handed.user:
        return
    else:
        _add_released(node, session, handed)
    session.connection.moving = Moving(name, is_arriving=True, is_new=is_new)
    session.outbox.behind = session.outbox.behind or deque()
    node.ledger.moving(session)


def _make(node: Node, handed: Handed, now: float) -> Session | None:
    """Make a session as it was at the other node; None if its client may not be here."""
    wanted = node.federation.moves.searches.get(handed.client)
    subject = None if wanted is None else wanted.subject
    if subject is None:
        shown = node.ensemble.shown(node.name, handed.entity, handed.client)
        subject = shown and Subject(handed.client, handed.user, "", shown.listener, shown.certificate)
    entry = None if subject is None else placement.entry_of(node, subject)
    if (
        subject is None
        or entry is None
        or not entry.homes
        or (entry.name, subject.user) != (handed.entity, handed.user)
    ):
        node.notice("session dropped", None, "", f"client `{handed.client}` may not be at this node")
        return None
    node.sessions.last_id += 1
    session = Session(node.sessions.last_id, subject, handed.version)
    node.sessions[handed.client] = session
    connection = session.connection
    connection.expiry = lifecycle.bounded_expiry(node, NEVER if handed.expiry < 0 else handed.expiry)
    connection.began, connection.ended = handed.began, now
    session.durable = node.ledger.durable and connection.expiry > 0
    session.since = now
    session.rights = session_rights.rights_for(node, session)
    session.trust.bound = frozenset(handed.bound)
    placement.settle_in(node, session)
    lifecycle.schedule(node, session)
    if session.durable:
        node.ledger.session(session)
    session.outbox.last_id = handed.last_id
    _add_released(node, session, handed)
    for packet_id in handed.received:
        session.received = session.received or set()
        session.received.add(packet_id)
        node.ledger.received(session, packet_id, True)
    _go_on(node, session.place.watch_in, handed.monitors_in)
    _go_on(node, session.place.watch_out, handed.monitors_out)
    return session


def _add_released(node: Node, session: Session, handed: Handed) -> None:
    """Add the QoS 2 messages that the client has, and of which only the PUBREL is to be repeated."""
    for packet_id in handed.released:
        if packet_id in session.outbox.inflight:
            continue
        delivery = Delivery(session, Event("", b"", 2), 2, False, ())
        delivery.packet_id, delivery.state, delivery.revision = packet_id, RELEASED, session.outbox.revision
        if session.durable:
            node.ledger.keep(delivery, None)
        session.outbox.inflight[packet_id] = delivery
        if session.outlet is not None:
            session.outbox.quota -= 1
            outbox.push_durable(node, session, encode(Pubrel(packet_id), session.version))


def _go_on(node: Node, watch: Watch | None, states: dict[str, msgspec.Raw]) -> None:
    """Let the monitors of a link go on from the states that those of the same names had at the other node."""
    for place, monitor in enumerate(() if watch is None else watch.monitors):
        if watch is None or monitor.name not in states:
            continue
        state: Any = msgspec.json.decode(states[monitor.name])
        try:
            watch.move(place, monitor.resume(state))
        except MonitorError as error:
            watch.failures.append(f"{error}; it begins anew")
            continue
        node.ledger.monitor(watch.link, monitor.name, state)


def _add(node: Node, session: Session, handed: Handed, now: float) -> None:
    """Add what a client has subscribed to, advertised and brought; what it has said here since counts before that."""
    for each in handed.subscriptions:
        own = each.policy
        options = (each.no_local, each.retain_as_published, each.identifier, each.name, each.where, each.scope)
        subscribed = Subscribed(session, each.filter, each.qos, *options)
        if subscribed.key in session.subscriptions:
            continue
        try:
            filter = parse_filter(each.filter)
            subscribed.condition = subscribe.condition_of(node, session, filter, each.where)
        except (ConditionError, TopicError) as error:
            node.notice("subscription dropped", session, each.filter, str(error))
            continue
        if not review.restore_subscription(node, subscribed, own):
            continue
        problem = filter_policies.insert_subscription(node, subscribed, filter.filter, now)
        if problem:
            node.deny("subscribe denied", session, each.filter, problem)
            continue
        subscribed.since = now
        subscribe.add(node, subscribed, filter)
        node.ledger.subscription(session, subscribed.key, subscribed)
        if each.is_replaying:
            subscribe.begin_replay(node, subscribed, filter, now)
    for advertised in handed.advertisements:
        if advertised.name in session.declared.advertisements:
            continue
        condition = make_condition(advertised.where) if advertised.where else None
        policy = review.restore_advertised(node, session, advertised.filter, advertised.policy)
        made = ProducerAdvertisement(advertised.name, advertised.filter, condition, advertised.scope, policy)
        session.declared.advertisements[advertised.name] = made
        node.ledger.advertisement(session, advertised.name, made)
        advertise.changed(node, session, advertised.name)
    for brought in handed.contracts:
        stored = msgspec.json.decode(brought.stored, type=client_contracts.Stored)
        client_contracts.take_over(node, session, brought.name, stored, now)
    review.take_away(node, session)
