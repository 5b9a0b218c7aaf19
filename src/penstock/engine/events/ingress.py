"""An incoming publication: from the packet to an event, on its way, and the answer to its sender."""

from collections.abc import Callable
from hashlib import blake2b

from penstock.engine.contracts import client_contracts, privacy
from penstock.engine.events import dedup, entrances, link_plans, user_properties
from penstock.engine.events.passage import Passage
from penstock.engine.events.plan import Plans
from penstock.engine.federation import overlay, write_rights
from penstock.engine.federation.messages import INTEREST
from penstock.engine.mobility import receive as moving
from penstock.engine.mobility.state import TOPIC as MOVE
from penstock.engine.node import Node
from penstock.engine.sessions import advertise, connack, outbox
from penstock.engine.sessions.refusal import MAX_REASON_LENGTH, Outcome, RefusedPublish
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import births
from penstock.engine.stages import runner
from penstock.engine.statements import bindings
from penstock.engine.statements.applicability import is_node
from penstock.engine.trust import (
    announcements,
    client_tokens,
    evidence,
    feedback,
    publication_proofs,
    token_exchange,
)
from penstock.language.statements.statement import Message
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.kinds import PUBCOMP, PUBLISH, PUBREC, PUBREL
from penstock.wire.packet import Puback, Pubcomp, Publish, Pubrec
from penstock.wire.properties import MAX_USER_PROPERTIES, NO_PROPERTIES, Properties, encode_properties
from penstock.wire.reason import Reason
from penstock.wire.session import FREE, HELD, RECEIVER

MAX_ATTACHED_POLICIES = 4
"""Policies that a client may attach to one publication."""

_CONTROL = advertise.TOPICS | feedback.TOPICS | client_contracts.TOPICS
"""Handlers of clients' control messages."""
_FROM_NODES: dict[str, Callable[[Node, Session, bytes, float], Verdict | None]] = {
    INTEREST: overlay.take_interest,
    announcements.TOPIC: token_exchange.receive,
    write_rights.TOPIC: write_rights.take,
    MOVE: moving.take,
}
"""Handlers of control messages between nodes, which are no events."""
_ANSWERS: dict[int, type[Pubrec] | type[Pubcomp]] = {PUBREC: Pubrec, PUBCOMP: Pubcomp}


def receive(node: Node, session: Session, packet: Publish, now: float, raw: bytes = b"") -> None:
    """Handle one PUBLISH from a client; `raw`: its bytes, if they are at hand."""
    node.stats.received += 1
    limits = node.limits
    if packet.qos > limits.max_qos:
        raise WireError(Reason.QOS_NOT_SUPPORTED, f"QoS {packet.qos} is not supported")  # [MQTT-3.2.2-11]
    if packet.retain and not limits.retain:
        raise WireError(Reason.RETAIN_NOT_SUPPORTED, "retained messages are not supported")  # [MQTT-3.2.2-14]
    if packet.properties.subscription_ids:
        raise WireError(Reason.PROTOCOL_ERROR, "a client's PUBLISH has a subscription identifier")  # [MQTT-3.3.4-6]
    if session.neighbour in node.ensemble.foreign:
        packet = user_properties.from_outside(packet)
    topic = packet.topic if packet.properties.topic_alias is None else _resolve_alias(node, session, packet)
    if packet.qos and session.refused and _is_refused_again(node, session, topic, packet):
        return
    if packet.qos and session.received:
        if _is_repeated(node, session, packet):
            return
        _check_window(node, session)
    if topic in _FROM_NODES and session.neighbour in node.ensemble.nodes:  # a foreign broker is none
        refusal = _FROM_NODES[topic](node, session, packet.payload, now)
        if refusal is not None:
            plans = link_plans.plans_of(node, session)
            event = _event(node, session, topic, packet, now, plans)
            runner.record_refused(Passage(node, plans, event, session, now), refusal)
        if packet.qos:
            _answer(node, session, topic, packet, runner.DONE)
        return
    plans = link_plans.plans_of(node, session)
    if session.trust.tokens is not None:
        digest = token_exchange.came_with(session, topic, packet.properties)
        plans = token_exchange.plans_for(node, session, digest, now)
    event = _event(node, session, topic, packet, now, plans)
    if session.trust.tokens is not None:
        _look(node, session, event, packet, plans, now)
    if packet.properties.user_properties and node.ensemble.uncached_groups:
        event = event._replace(properties=event.properties + publication_proofs.found(node, session, topic, packet))
    if node.recorder is not None and raw and packet.properties is NO_PROPERTIES:
        node.recorder.came = event, raw
    if node.ensemble.is_cyclic:
        id = user_properties.id_of(packet.properties) if session.neighbour is not None else ""
        event = dedup.arriving(node, event, id, now)
    refused = policy_refused(node, session, packet.properties) if packet.properties.user_properties else ""
    if refused:
        births.end(node, event)
        runner.record_refused(
            Passage(node, plans, event, session, now), Verdict("admit", Effect.SUPPRESS, "property", refused)
        )
        node.deny("publish denied", session, topic, refused)
        outcome = Outcome(Reason.NOT_AUTHORIZED, refused)
    elif (
        packet.properties.user_properties
        and session.neighbour in node.ensemble.nodes
        and (moved := moving.moved_in(packet.properties.user_properties))
    ):
        verdict = runner.find_plan(node, plans, topic.encode()).verdict
        if verdict.stage != "admit" or verdict.effect is not Effect.SUPPRESS:
            moving.take_moved(node, session, event, moved, now)
        outcome = runner.DONE
    elif session.neighbour is None and topic in _CONTROL:
        outcome = _control(node, session, event, now)
    elif event.retain and _is_known_replay(node, session, packet, event):
        outcome = runner.DONE
    else:
        outcome = runner.run_within_budget(Passage(node, plans, event, session, now))
    if packet.qos:
        _answer(node, session, topic, packet, outcome)
    if node.statements.made:
        entrances.publish_made(node, now)


def policy_refused(node: Node, session: Session, properties: Properties) -> str:
    """Return why one may not publish with these user properties, a policy above all; empty if it may."""
    if session.neighbour is not None:
        if is_node(node, session) or len(properties.user_properties) <= MAX_USER_PROPERTIES:
            return ""
        return f"more than {MAX_USER_PROPERTIES} user properties on one publication"
    for name, _ in properties.user_properties:
        if name in user_properties.OF_NODES:
            return f"user property `{name}` is for nodes only"
    if sum(name == user_properties.POLICY for name, _ in properties.user_properties) > MAX_ATTACHED_POLICIES:
        return f"policy: more than {MAX_ATTACHED_POLICIES} policies on one publication"
    for name, text in properties.user_properties:
        if name == user_properties.POLICY:
            policy = bindings.settable(node, session, text, Message.PUBLICATION)
            if isinstance(policy, str):
                return policy
    return ""


def _control(node: Node, session: Session, event: Event, now: float) -> Outcome:
    """Handle a client's control message; a refusal is recorded as for any topic."""
    plans = link_plans.plans_of(node, session)
    verdict = advertise.judge(node, plans.key, event.topic)
    if verdict.effect is not Effect.SUPPRESS and event.topic in feedback.TOPICS:
        outcome, rating = feedback.receive(node, session, event, now)
        runner.record_refused(Passage(node, plans, event, session, now), rating)
        if rating.effect is Effect.SUPPRESS:
            node.deny("feedback denied", session, event.topic, rating.reason)
        return outcome
    if verdict.effect is not Effect.SUPPRESS and event.topic in client_contracts.TOPICS:
        return client_contracts.receive(node, session, event.payload, now)
    if verdict.effect is not Effect.SUPPRESS:
        return advertise.receive(node, session, event.topic, event.payload, now)
    runner.record_refused(Passage(node, plans, event, session, now), verdict)
    node.deny("advertise denied", session, event.topic, verdict.reason)
    return Outcome(Reason.NOT_AUTHORIZED, verdict.reason)


def _event(node: Node, session: Session, topic: str, packet: Publish, now: float, plans: Plans) -> Event:
    return Event(
        topic,
        packet.payload,
        packet.qos,
        packet.retain,
        # [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]
        travelling(node, session, packet.properties),
        None if packet.properties.message_expiry is None else now + packet.properties.message_expiry,
        session.client_id,
        session.subject.user,
        session.place.publish_type,
        user_properties.path_of(session.neighbour, packet.properties) if session.neighbour is not None else (),
        "",
        plans.key.token.goes if plans.key.token is not None else _token_of(node, session) if packet.qos else "",
    )


def _token_of(node: Node, session: Session) -> str:
    """Return the token of what may wait at a node without neighbours, so that a revocation withdraws it."""
    if session.trust.token is None or node.federation.neighbours:
        return ""
    carried = client_tokens.carry(node, session)
    return "" if carried is None else carried.digest


def _look(node: Node, session: Session, event: Event, packet: Publish, plans: Plans, now: float) -> None:
    """Look at an event from a neighbour as evidence, if it is accepted; if there is nothing to look for, the next ones
    on its topic are passed on without a look at their token, until what was found of this one ends.
    """
    link, raw = session.trust.tokens, event.topic.encode()
    assert link is not None
    plan = runner.find_plan(node, plans, raw)
    is_accepted = plan.verdict.effect is not Effect.SUPPRESS or plan.verdict.stage != "admit"
    if evidence.looks_at(node, session, event.topic):
        if is_accepted and not _is_known_replay(node, session, packet, event):
            evidence.look(node, session, event, now)
    elif packet.properties is NO_PROPERTIES:
        link_plans.plans_of(node, session).known[raw] = plan
    if link.history is not None and is_accepted:
        # Of several ways, clients get the event by the first that is accepted.
        id = user_properties.id_of(packet.properties) if node.ensemble.is_cyclic else ""
        if node.trust.feedback.is_first(event._replace(id=id)):
            link.history.append(event)


def travelling(node: Node, session: Session, properties: Properties) -> bytes:
    """Return the properties that travel with a session's event, with the policies that it may attach."""
    if properties is NO_PROPERTIES:
        return b""
    if is_node(node, session):
        return user_properties.travelling(properties, is_node=True)
    kept = user_properties.travelling(properties)
    for name, text in properties.user_properties:
        if name == user_properties.POLICY and session.neighbour is None:  # it has the right, or the event goes nowhere
            kept += encode_properties(Properties(user_properties=((name, text),)))
        if name == user_properties.ECHO and session.neighbour is not None:
            kept += encode_properties(Properties(user_properties=((name, text),)))
    return kept


def _is_known_replay(node: Node, session: Session, packet: Publish, event: Event) -> bool:
    """Return True for a neighbour's replay, after a link comes up, of a message that is retained here already.

    A foreign broker does not mark it. In MQTT 3.1.1 the retain flag itself says so, as live messages never have it.
    """
    if session.neighbour is None or not event.retain:
        return False
    if session.version == 5 and not user_properties.is_replay(packet.properties):
        return False
    kept = node.retained.get(event.topic)
    if kept is None:
        return False
    is_same = kept.payload == event.payload and kept.properties == event.properties
    return is_same or privacy.is_for_nobody_new(node, kept, event)


def release(node: Node, session: Session, packet_id: int) -> None:
    """Handle a PUBREL: the identifier is free again."""
    forget_refused(node, session, packet_id)  # a client that has come back with MQTT 3.1.1 got a plain PUBREC
    held = _state(session, packet_id)
    state, answer = RECEIVER[held, PUBREL]
    if state != held and session.received is not None:
        # [MQTT-4.3.3-12]
        session.received.discard(packet_id)
        node.ledger.received(session, packet_id, False)
    reason = Reason.SUCCESS if held == HELD else Reason.PACKET_IDENTIFIER_NOT_FOUND
    # After the store: a reused identifier must not be mistaken for a repetition.
    outbox.push_durable(node, session, encode(_ANSWERS[answer](packet_id, reason), session.version))


def _resolve_alias(node: Node, session: Session, packet: Publish) -> str:
    alias = packet.properties.topic_alias
    assert alias is not None
    if alias > node.limits.topic_alias_maximum:  # [MQTT-3.2.2-17], [MQTT-3.3.2-9]
        raise WireError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias} is over the maximum")
    if session.connection.aliases_in is None:
        session.connection.aliases_in = {}
    # [MQTT-3.3.2-12]
    if packet.topic:
        session.connection.aliases_in[alias] = packet.topic
        return packet.topic
    topic = session.connection.aliases_in.get(alias)
    if topic is None:
        raise WireError(Reason.PROTOCOL_ERROR, f"topic alias {alias} is not known")
    return topic


def _state(session: Session, packet_id: int) -> int:
    return HELD if session.received is not None and packet_id in session.received else FREE


def _is_repeated(node: Node, session: Session, packet: Publish) -> bool:
    """Answer a QoS 2 PUBLISH again whose identifier is held, and do nothing else."""
    if packet.qos != 2 or _state(session, packet.packet_id) == FREE:
        return False
    _, answer = RECEIVER[HELD, PUBLISH]
    outbox.push_durable(node, session, encode(_ANSWERS[answer](packet.packet_id), session.version))
    return True


def _check_window(node: Node, session: Session) -> None:
    if (
        session.neighbour is None
        and session.version == 5
        and session.received
        and len(session.received) >= node.limits.receive_maximum
    ):
        text = f"more than {node.limits.receive_maximum} messages not acknowledged"
        raise WireError(Reason.RECEIVE_MAXIMUM_EXCEEDED, text)  # [MQTT-3.3.4-7]


def _is_refused_again(node: Node, session: Session, topic: str, packet: Publish) -> bool:
    """Answer again if this is a refused QoS 2 message that its sender repeats, as it has not seen the answer; what
    else uses the identifier is a new message. Nothing of the refused one counts twice: monitors, evidence, feedback.
    """
    assert session.refused is not None
    refused = session.refused.get(packet.packet_id)
    if refused is None:
        return False
    if packet.qos != 2 or not packet.dup or refused.digest != _digest(topic, packet.payload):
        forget_refused(node, session, packet.packet_id)
        return False
    session.refused[packet.packet_id] = session.refused.pop(packet.packet_id)  # the latest: the others have been seen
    reason = Reason.SUCCESS if session.version == 4 else refused.reason  # the session may have begun with MQTT 5
    outbox.push_answer(node, session, Pubrec(packet.packet_id, reason), refused.text)
    return True


def forget_refused(node: Node, session: Session, packet_id: int) -> None:
    """Forget a refused QoS 2 message, if there was one: its identifier is in use again, so its answer was seen."""
    if session.refused and session.refused.pop(packet_id, None) is not None:
        node.ledger.refused(session, packet_id, None)


def _remember_refused(node: Node, session: Session, packet_id: int, refused: RefusedPublish) -> None:
    """Remember as many as the sender may wait for answers to."""
    if session.refused is None:
        session.refused = {}
    while len(session.refused) >= connack.receive_maximum(node, session):
        forget_refused(node, session, next(iter(session.refused)))
    session.refused[packet_id] = refused
    node.ledger.refused(session, packet_id, refused)


def _digest(topic: str, payload: bytes) -> bytes:
    return blake2b(b"%b\0%b" % (topic.encode(), payload), digest_size=8).digest()


def _answer(node: Node, session: Session, topic: str, packet: Publish, outcome: Outcome) -> None:
    """PUBACK or PUBREC, once the store has the message."""
    # [MQTT-3.3.4-1], [MQTT-4.3.2-4], [MQTT-4.3.2-5], [MQTT-4.3.3-8]
    reason, text = outcome
    if session.version == 4:
        # [MQTT311-3.3.5-2]
        reason = Reason.SUCCESS  # 3.1.1 cannot say no; the sender must not repeat for ever
    if packet.qos == 1:
        answer: Puback | Pubrec = Puback(packet.packet_id, reason)
    else:
        if reason == Reason.NO_MATCHING_SUBSCRIBERS:
            reason = Reason.SUCCESS  # a PUBREC says only whether the message is taken, as Mosquitto's does
        state, _ = RECEIVER[FREE, PUBLISH]
        if state == HELD and reason < 0x80:  # [MQTT-4.3.3-9], [MQTT-4.3.3-13]
            if session.received is None:
                session.received = set()
            session.received.add(packet.packet_id)
            node.ledger.received(session, packet.packet_id, True)
        elif reason >= 0x80:
            refused = RefusedPublish(reason, text[:MAX_REASON_LENGTH], _digest(topic, packet.payload))
            _remember_refused(node, session, packet.packet_id, refused)
        answer = Pubrec(packet.packet_id, reason)
    outbox.push_answer(node, session, answer, text)
