"""Stage 10, emit: out to the subscribers, within their windows, in order, and after what must be durable is."""

from collections import deque
from typing import TYPE_CHECKING

from penstock.engine import again, carrying, edit, match, project, release, release_wait, route, travel
from penstock.engine.edit import Watch
from penstock.engine.plan import Draft, Group, Plan, Target
from penstock.engine.render import Forms, mark_duplicate, packet_parts
from penstock.engine.session import Delivery, Kept, Session, Subscribed
from penstock.model.event import Event
from penstock.model.verdict import Verdict
from penstock.policy.judging import Bound
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import PUBREC, PUBREL, Pubrel
from penstock.wire.reason import Reason
from penstock.wire.session import DONE, OFFERED, RELEASED, SENDER, START

if TYPE_CHECKING:
    from penstock.engine.node import Node


MOST_DEFERRED_BYTES = 64 * 2**20
"""Bytes that wait for the store before QoS 0 messages behind them are dropped."""
STEP_BYTES = 256 * 1024
"""Bytes of what waits that a session is sent in one turn: only when they are written shows whether its client reads."""


def plan(draft: Draft) -> None:
    """Sort the matched subscriptions into targets, and find those that take a packet's own bytes."""
    groups, onlookers = tuple(draft.groups), tuple(draft.onlookers)
    telling = _telling(draft)
    if draft.predicates:
        plan = Plan(draft.verdict)
        plan.predicates, plan.matched = tuple(draft.predicates), tuple(draft.matched)
        plan.groups, plan.onlookers, plan.statements = groups, onlookers, draft.statements
    else:
        known = draft.node.interned
        about = (draft.is_projected, draft.statements, telling)
        plan = known_plan(known, draft.verdict, draft.matched, groups, onlookers, *about)
    draft.plans.routes[draft.topic] = draft.plan = plan


def _telling(draft: Draft) -> tuple[Session, ...]:
    """The neighbours that must be told with each event which token it has."""
    node = draft.node
    if node.tokens is None:
        return ()
    digest = carrying.outgoing(node, draft.link)
    sessions = dict.fromkeys(one.session for one in draft.matched if one.session.tokens is not None)
    return tuple(session for session in sessions if not carrying.bind(node, session, draft.topic, digest))


def known_plan(
    known: dict[tuple[object, ...], Plan],
    verdict: Verdict,
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: tuple[Watch, ...],
    is_projected: bool = False,
    statements: tuple[Bound, ...] = (),
    telling: tuple[Session, ...] = (),
) -> Plan:
    """The plan for these subscriptions, of those that are known; it is made if it is not there."""
    key = (*matched, is_projected, *groups, *onlookers, *statements, *telling)
    plan = known.get(key)
    if plan is None:
        plan = known[key] = _make_plan(verdict, matched, groups, onlookers, telling)
        plan.simple = plan.simple and not is_projected and not statements
        plan.statements = statements
        plan.key = key
    return plan


def _make_plan(
    verdict: Verdict,
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: tuple[Watch, ...],
    telling: tuple[Session, ...],
) -> Plan:
    of_session: dict[int, list[Subscribed]] = {}
    for subscribed in matched:
        of_session.setdefault(subscribed.session.id, []).append(subscribed)
    targets = [_target(found) for found in of_session.values()]
    plan = Plan(verdict)
    plan.groups = groups
    plan.watched = _watched(onlookers, targets)
    if plan.watched:
        targets = [target for target in targets if target.session.watch_out is None]
    plan.targets = tuple(targets)
    direct = [target.session for target in targets if target.is_direct() and target.session not in telling]
    plan.direct4 = tuple(session for session in direct if session.version == 4)
    plan.direct5 = tuple(session for session in direct if session.version == 5)
    plan.simple = len(direct) == len(targets) and not plan.groups and not plan.watched
    return plan


def _target(found: list[Subscribed]) -> Target:
    if len(found) > 1:
        return Target(found)
    subscribed = found[0]
    if subscribed.target is None:
        subscribed.target = Target(found)
    return subscribed.target


def _watched(onlookers: tuple[Watch, ...], targets: list[Target]) -> tuple[tuple[Watch, tuple[Target, ...]], ...]:
    behind: dict[Watch, list[Target]] = {watch: [] for watch in onlookers}
    for target in targets:
        if target.session.watch_out is not None:
            behind.setdefault(target.session.watch_out, []).append(target)
    return tuple((watch, tuple(found)) for watch, found in behind.items())


# --- bytes to a session


def push(node: "Node", session: Session, packet: bytes) -> None:
    """A packet that must arrive, behind whatever the session already waits for."""
    if session.open:
        if not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
    elif session.outlet is None:
        return
    elif session.held:
        node.ledger.defer(session, packet)
    else:
        session.backlog += len(packet)
        session.buffer.append(packet)


def push_lossy(node: "Node", session: Session, packet: bytes) -> None:
    """A QoS 0 message, counted as sent: dropped if the client is away, or if too much waits already."""
    if session.outlet is None:
        node.stats.sent -= 1
        return
    slow = session.blocked and session.backlog > node.limits.outbox_bytes
    if slow or (session.held and node.ledger.deferred_bytes > MOST_DEFERRED_BYTES):
        node.stats.sent -= 1
        node.stats.dropped += 1
        if not session.overflowing:
            session.overflowing = True
            cause = "the client does not read" if slow else "the store is behind"
            node.notice("slow", session, "", f"QoS 0 messages are dropped: {cause}")
        return
    push(node, session, packet)


def push_durable(node: "Node", session: Session, packet: bytes) -> None:
    """A packet that may leave only when every change so far is in the store."""
    if not node.ledger.durable:
        push(node, session, packet)
    elif session.outlet is not None:
        session.open = False
        node.ledger.defer(session, packet)


def hand_out(node: "Node", now: float) -> None:
    """Send what was held back until now by contracts, as far as they still release it; it is already what its receivers
    may see.
    """
    for _, session, event in node.later.take(node, now):
        wanted = match.wanting(node, event, session)
        if wanted and may_have(node, event, session) and release_wait.may_go(node, event, session, now):
            target = Target(wanted)
            deliver(node, session, min(event.qos, target.qos), False, target.ids, Forms(event, now), None)


def release_deferred(node: "Node", deferred: list[tuple[Session, object, bytes]]) -> None:
    """The store has what these packets waited for."""
    for session, outlet, packet in deferred:
        if session.outlet is not outlet:
            continue
        if session.blocked:
            session.backlog += len(packet)
        elif not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
        session.held -= 1
        if not session.held:
            session.open = not session.blocked


def flush(node: "Node") -> None:
    """Hand what sessions have to say to their outlets."""
    dirty, node.dirty = node.dirty, []
    for session in dirty:
        if session.outlet is not None and session.buffer:
            session.outlet.send(session.buffer)


# --- messages to a session


def notify(
    node: "Node", session: Session, qos: int, retain: bool, ids: tuple[int, ...], forms: Forms, kept: Kept | None
) -> tuple[bool, Kept | None]:
    """Deliver to one session alone, through the monitors of its link: whether anything was sent, and its place in the
    store, to be shared.
    """
    if session.watch_out is None:
        return True, deliver(node, session, qos, retain, ids, forms, kept)
    made = edit.run(node, session.watch_out, forms.event, forms.now)
    outputs = [event for event in made if may_have(node, event, session)]
    for event in outputs:
        deliver(node, session, min(qos, event.qos), retain and event.retain, ids, Forms(event, forms.now), None)
    return bool(outputs), kept


def deliver(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    """Send the event, or queue it. Returns its place in the store, to be shared with its other deliveries."""
    if node.contracts is not None:
        released = release.show(node, session, forms, qos)
        if released is None:
            return kept
        if released is not forms:
            released.kept = _project(node, session, qos, retain, ids, released, released.kept)
            return kept
    return _project(node, session, qos, retain, ids, forms, kept)


def _project(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    if node.sparkplug is not None:
        shown = project.show(node, session, forms)
        if shown is None:
            return kept
        if shown is not forms:
            shown.kept = _deliver(node, session, qos, retain, ids, shown, shown.kept)
            return kept
    return _deliver(node, session, qos, retain, ids, forms, kept)


def _deliver(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    if session.neighbour is None or session.neighbour not in node.ensemble.overlays:
        if forms.has_reserved:
            event, forms = forms.event, forms.for_clients()
            marked = event if release_wait.MARKED in event.properties else None
            forms.kept = _send_or_queue(node, session, qos, retain, ids, forms, forms.kept, marked)
            return kept
    elif node.ensemble.is_cyclic:
        forms, kept = Forms(travel.with_path(forms.event, node.name), forms.now), None
    return _send_or_queue(node, session, qos, retain, ids, forms, kept)


def _send_or_queue(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
    marked: Event | None = None,
) -> Kept | None:
    """`marked`: what is kept as long as it waits, in place of what is sent."""
    if qos == 0:
        if session.outlet is None or not _is_ready(session):
            return kept
        if session.tokens is not None and not carrying.tell_token(node, session, forms.event):
            forms = Forms(carrying.with_token(node, forms.event), forms.now)
        if not _too_large(session, forms, qos, retain, ids):
            head, tail = _parts(session, forms.event, 0, retain, ids, forms.now, forms)
            node.stats.sent += 1
            push_lossy(node, session, head + tail)
        return kept
    delivery = Delivery(session, marked or forms.event, qos, retain, ids)
    sendable = session.quota > 0 and session.outlet is not None and not session.blocked and _is_ready(session)
    if sendable and not session.queue and not session.resend:
        if session.durable:
            kept = node.ledger.keep(delivery, kept)
        _transmit(node, delivery, forms.now, forms)
    elif _has_room(node, delivery):
        if session.durable:
            kept = node.ledger.keep(delivery, kept)
        if session.queue is None:
            session.queue = deque()
        session.queue.append(delivery)
        session.queued_bytes += delivery.event.size()
    return kept


def _is_ready(session: Session) -> bool:
    """Whether events may go to a session now: a neighbour must have shown the token that it was given first."""
    return session.tokens is None or session.tokens.is_registered


def _has_room(node: "Node", delivery: Delivery) -> bool:
    session, limits = delivery.session, node.limits
    most = session.queue_limit or limits.queued_messages
    if session.waiting() < most and session.queued_bytes < limits.queued_bytes:
        return True
    node.stats.dropped += 1
    if not session.overflowing:
        session.overflowing = True
        node.notice("full", session, delivery.event.topic, "the session's queue is full, new messages are dropped")
    return False


def pump(node: "Node", session: Session, now: float) -> None:
    """Send what waits, as far as the window allows; what is left goes on in a later turn, as the client reads."""
    if not _is_ready(session):
        return
    room = STEP_BYTES
    while session.resend and session.quota > 0 and room > 0 and not session.blocked:
        # [MQTT-4.3.3-7] [MQTT-4.8.2-4] [MQTT311-2.3.1-4] [MQTT311-4.6.0-1]
        delivery = session.resend.popleft()
        session.quota -= 1
        room -= delivery.event.size()
        _send(node, delivery, now, None, duplicate=True)
    queue = session.queue
    # [MQTT-3.3.4-10] [MQTT-4.9.0-2] [MQTT-4.9.0-3]
    while queue and session.quota > 0 and room > 0 and not session.blocked and not session.resend:
        delivery = queue.popleft()
        session.queued_bytes -= delivery.event.size()
        room -= delivery.event.size()
        expires = delivery.event.expires
        if expires is not None and expires <= now:  # [MQTT-3.3.2-5]
            node.stats.expired += 1
            node.ledger.settle(delivery)
        elif release_wait.MARKED in delivery.event.properties and not release_wait.may_go(
            node, delivery.event, session, now
        ):
            node.stats.dropped += 1
            node.ledger.settle(delivery)
        else:
            _transmit(node, delivery, now, None)
    if not queue:
        session.overflowing = False
    if room <= 0 and (queue or session.resend):
        node.go_on(session)


def judge_again(node: "Node", session: Session, now: float | None) -> None:
    """Policies may have changed: what waits and may no longer be said or read is dropped. What was sent is beyond
    recall.
    """
    queue = session.queue
    if not queue:
        return
    session.queue = deque()
    session.queued_bytes = 0
    for delivery in queue:
        still = _still(node, delivery, now)
        if still is None:
            node.ledger.settle(delivery)
            continue
        if still is not delivery.event:
            node.ledger.settle(delivery)
            delivery = Delivery(session, still, delivery.qos, delivery.retain, delivery.ids)
            if session.durable:
                node.ledger.keep(delivery, None)
        session.queue.append(delivery)
        session.queued_bytes += still.size()


def _still(node: "Node", delivery: Delivery, now: float | None) -> Event | None:
    """What of a message that waits may be read as things are now."""
    event, session = delivery.event, delivery.session
    is_said = session.watch_out is not None or again.may_say(node, event)  # a monitor may have made another of it
    if not (is_said and may_have(node, event, session) and match.is_wanted(node, event, session)):
        return None
    at = node.clock() if now is None else now
    left = again.still(node, event, session, at)
    left = None if left is None else release_wait.still(node, session, left, at)
    return None if left is None else project.judge_again(node, session, left, now)


def may_have(node: "Node", event: Event, session: Session) -> bool:
    """Whether rights and brokering table, as they are now, let this session have the event."""
    rights = session.rights
    return (rights is None or rights.may_read(event.topic)) and route.may_pass(node, event.link_type, session)


def withdraw(node: "Node", session: Session) -> None:
    """A client is back with other rights: what it has not acknowledged and may no longer have is not repeated."""
    for packet_id, delivery in list(session.inflight.items()):
        if delivery.state != RELEASED and not may_have(node, delivery.event, session):
            del session.inflight[packet_id]
            node.ledger.settle(delivery)


def resume(node: "Node", session: Session, now: float) -> None:
    """The client is back: repeat what it has not acknowledged, in order."""  # [MQTT-4.4.0-1], [MQTT-4.6.0-1]
    session.resend = deque()
    for packet_id, delivery in list(session.inflight.items()):
        if delivery.state == RELEASED:
            session.quota -= 1  # it has a place in the window until PUBCOMP, even if the window is smaller now
            push(node, session, encode(Pubrel(delivery.packet_id), session.version))
        elif _may_repeat(node, delivery, now):
            session.resend.append(delivery)
        else:
            del session.inflight[packet_id]
            node.ledger.settle(delivery)
    pump(node, session, now)


def _may_repeat(node: "Node", delivery: Delivery, now: float) -> bool:
    """Whether contracts still release what a client has perhaps not got."""
    event = delivery.event
    return release_wait.MARKED not in event.properties or release_wait.may_go(node, event, delivery.session, now)


def acknowledge(node: "Node", session: Session, kind: int, packet_id: int, reason: int, now: float) -> None:
    """A PUBACK, PUBREC or PUBCOMP has come."""
    delivery = session.inflight.get(packet_id)
    if delivery is None:
        if kind == PUBREC:
            push(node, session, encode(Pubrel(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), session.version))
        return
    step = SENDER.get((delivery.state, kind))
    if step is None:
        raise WireError(Reason.PROTOCOL_ERROR, f"wrong acknowledgement for packet identifier {packet_id}")
    state, reply = (DONE, 0) if reason >= 0x80 else step  # [MQTT-4.4.0-2]
    if session.resend and delivery in session.resend:  # acknowledged before it could be repeated
        session.resend.remove(delivery)
        session.quota -= 1
    if state == DONE:
        # [MQTT-4.8.2-6]
        del session.inflight[packet_id]
        node.ledger.settle(delivery)
        session.quota += 1
        if session.queue or session.resend:
            pump(node, session, now)
        return
    delivery.state = state
    if reply == PUBREL:
        packet = encode(Pubrel(packet_id), session.version)
        if session.durable:
            node.ledger.moved(delivery)
            push_durable(node, session, packet)
        else:
            push(node, session, packet)


def _transmit(node: "Node", delivery: Delivery, now: float, forms: Forms | None) -> None:
    session = delivery.session
    if session.maximum_packet_size:
        largest = forms = forms or Forms(delivery.event, now)
        if session.tokens is not None:
            largest = Forms(carrying.with_token(node, delivery.event), now)
        if _too_large(session, largest, delivery.qos, delivery.retain, delivery.ids):
            node.ledger.settle(delivery)  # [MQTT-3.1.2-25] as if it had been sent
            return
    # [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2]
    packet_id = session.next_id()
    delivery.packet_id = packet_id
    delivery.state = START[delivery.qos]
    session.inflight[packet_id] = delivery
    session.quota -= 1
    if session.durable:
        node.ledger.moved(delivery)
    _send(node, delivery, now, forms, duplicate=False)


def _send(node: "Node", delivery: Delivery, now: float, forms: Forms | None, duplicate: bool) -> None:
    session, event = delivery.session, delivery.event
    if release_wait.MARKED in event.properties:
        event = travel.for_clients(event)
    if session.tokens is not None and not carrying.tell_token(node, session, event):
        event, forms = carrying.with_token(node, event), None
    head, tail = _parts(session, event, delivery.qos, delivery.retain, delivery.ids, now, forms)
    packet = head + delivery.packet_id.to_bytes(2, "big") + tail
    if duplicate:
        packet = mark_duplicate(packet)  # [MQTT-3.3.1-1]
    node.stats.sent += 1
    # A QoS 2 packet identifier must survive a restart, or the peer could not tell the repetition from a new message.
    if delivery.state == OFFERED and session.durable:
        push_durable(node, session, packet)
    else:
        push(node, session, packet)


def _parts(
    session: Session,
    event: Event,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    now: float,
    forms: Forms | None,
) -> tuple[bytes, bytes]:
    """The packet before and after its identifier, with a topic alias where the client takes them."""
    aliases = session.aliases_out
    if aliases is not None:
        alias = aliases.get(event.topic, 0)
        known = alias != 0
        # The packet that introduces an alias must not be one that may be dropped: QoS 0 while something waits.
        if not known and (qos or session.open) and len(aliases) < session.alias_maximum:  # [MQTT-3.1.2-26]
            alias = len(aliases) + 1
        if alias:
            head, tail = packet_parts(event, session.version, qos, retain, ids, now, alias, known)
            if _fits(session, qos, head, tail):  # an alias is no reason not to send
                aliases[event.topic] = alias
                return head, tail
    if forms is None:
        return packet_parts(event, session.version, qos, retain, ids, now)
    return forms.parts(session.version, qos, retain, ids)


def _too_large(session: Session, forms: Forms, qos: int, retain: bool, ids: tuple[int, ...]) -> bool:
    """Whether the client's maximum packet size forbids it."""  # [MQTT-3.1.2-24]
    if not session.maximum_packet_size:
        return False
    return not _fits(session, qos, *forms.parts(session.version, qos, retain, ids))


def _fits(session: Session, qos: int, head: bytes, tail: bytes) -> bool:
    most = session.maximum_packet_size
    return not most or len(head) + (2 if qos else 0) + len(tail) <= most
