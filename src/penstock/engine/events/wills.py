"""Wills of sessions: left with a CONNECT, published when the connection is gone."""

from penstock.engine.events import link_plans
from penstock.engine.events.ingress import policy_refused, travelling
from penstock.engine.events.passage import Passage
from penstock.engine.node import Node
from penstock.engine.sessions import placement, session_rights
from penstock.engine.sessions.session import Session, Will
from penstock.engine.sparkplug import births
from penstock.engine.stages import admit, runner
from penstock.engine.trust import client_tokens
from penstock.model.event import Event
from penstock.model.subject import Subject
from penstock.model.verdict import Effect, Verdict
from penstock.wire.packet import Connect


def left(node: Node, packet: Connect, session: Session) -> Will | None:
    """Return the will that a CONNECT leaves with its session."""
    will = packet.will
    if will is None:
        return None
    properties = will.properties
    event = Event(
        will.topic,
        will.payload,
        will.qos,
        # [MQTT-3.1.2-14] [MQTT-3.1.2-15] [MQTT-3.1.3-10] [MQTT311-3.1.2-16] [MQTT311-3.1.2-17]
        will.retain,
        travelling(node, session, properties),
        None,
        session.client_id,
        session.subject.user,
    )
    return Will(event, properties.will_delay or 0, properties.message_expiry)


def refused(node: Node, packet: Connect, who: Subject) -> str:
    """Return the reason why a client may not attach a policy to its will; empty if it may, or does not."""
    entry = placement.entry_of(node, who)
    if packet.will is None or entry is None or not packet.will.properties.user_properties:
        return ""
    probe = Session(0, who, packet.version)
    probe.place.entity, probe.rights = entry.name, session_rights.rights_of(node, who.client_id, who.user)
    why = policy_refused(node, probe, packet.will.properties)
    return f"will: {why}" if why else ""


def publish(node: Node, session: Session, now: float) -> None:
    """Publish the will, once."""  # [MQTT-3.1.2-8], [MQTT-3.1.2-10]
    will, session.connection.will = session.connection.will, None
    if will is None:
        return
    expires = None if will.lifetime is None else now + will.lifetime
    plans, carried = link_plans.plans_of(node, session), client_tokens.carry(node, session)
    token = carried.digest if carried is not None else ""
    event = will.event._replace(
        expires=expires, link_type=session.place.publish_type, token=token
    )  # as now, as for its plan
    event = births.dated(node, event, now)
    gone = _why_gone(node, session)
    if gone:
        runner.record_refused(
            Passage(node, plans, event, session, now), Verdict("admit", Effect.SUPPRESS, "will", gone)
        )
        node.deny("publish denied", session, event.topic, f"will: {gone}")
        return
    runner.publish_own(node, plans, event, session, now)


def _why_gone(node: Node, session: Session) -> str:
    """Return why a client that has left a will could not connect any more; empty if it could."""
    if placement.entry_of(node, session.subject) is None:
        return "the domain no longer lists this client here"
    admission = node.admission
    is_known = admit.is_known(session.subject, admission.passwords, admission.unchecked)
    return "" if is_known or session.trust.token is not None else "the user is no longer known"
