"""Publications that prove by themselves that their sender is in a trust group: groups with `expiry: 0`.

A publication that leaves for a neighbour gets its proof when its bytes are made, so what was queued, retained or is
sent again proves itself on the connection by which it leaves. One that comes is checked at once. The result stays with
the event, as a user property that is never sent: with the id of the secret, so that it counts no longer than that.
"""

from hashlib import sha256
from math import ceil

from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust.state import Accepting, Claiming
from penstock.model.event import Event
from penstock.model.publication_proof import NO_PROOF, NOT_THIS_GROUP, PROOF, SentPublication
from penstock.wire.packet import Publish
from penstock.wire.properties import Properties, encode_properties

PROVEN = user_properties.PROVEN
UNPROVEN = "publication not proven"
"""The kind of a notice."""


def secrets_of(node: Node) -> dict[str, bytes]:
    """Return the secrets of the groups of this node that each publication has to prove."""
    secrets, uncached = node.trust.groups.secrets, node.ensemble.uncached_groups
    return {group: secrets[group] for group in uncached if group in secrets}


def may_carry(node: Node, session: Session) -> bool:
    """Return True if publications to a session carry proofs: a neighbour that is in such a group, as this node is."""
    uncached = node.ensemble.uncached_groups
    return any(session.neighbour in members and node.name in members for members in uncached.values())


def proving(node: Node, session: Session, event: Event, qos: int, retain: bool, now: float) -> Event:
    """Return an event as it leaves for a session, with its proof if that takes one, and without what it proved here."""
    if session.neighbour is None:
        return event
    event = user_properties.without_proven(event)
    state = session.trust.proving
    prover = state.prover if isinstance(state, Accepting | Claiming) else None
    if prover is None or not may_carry(node, session):
        return event
    proven = session.trust.proven  # who has proven nothing is shown nothing
    uncached = node.ensemble.uncached_groups
    secrets = {
        group: secret
        for group, secret in secrets_of(node).items()
        if group in proven and session.neighbour in uncached[group]
    }
    if not secrets:
        return event
    expiry = None if event.expires is None else max(0, ceil(event.expires - now))
    sent = _sent(event.topic, event.payload, qos, retain, expiry, user_properties.carried(event.properties))
    proof = encode_properties(Properties(user_properties=((PROOF, prover.prove(sent, secrets)),)))
    return event._replace(properties=event.properties + proof)


def found(node: Node, session: Session, topic: str, packet: Publish) -> bytes:
    """Check the proof of a publication that has come; return what it proves, or why not, as encoded properties."""
    state = session.trust.proving
    checker = state.checker if isinstance(state, Accepting | Claiming) else None
    secrets = secrets_of(node)
    if checker is None or not secrets:
        return b""
    findings = checker.check(as_sent(packet, topic), secrets)
    for group, why in findings.items():
        if why not in ("", NO_PROOF, NOT_THIS_GROUP):
            node.notice(UNPROVEN, session, topic, f"trust group `{group}`: a publication does not prove it: {why}")
    pairs = tuple(
        (PROVEN, f"{group} !{why}" if why else f"{group} {_id(secrets[group])}")
        for group, why in findings.items()
        if why != NO_PROOF
    )
    return encode_properties(Properties(user_properties=pairs)) if pairs else b""


def why_unproven(node: Node, event: Event, group: str) -> str:
    """Return why an event does not prove that its sender is in a group; empty if it does."""
    secret = node.trust.groups.secrets.get(group)
    if secret is None:
        return f"node `{node.name}` is not in the group"
    for value in user_properties.told(event, PROVEN):
        name, _, what = value.partition(" ")
        if name == group:
            if what.startswith("!"):
                return what[1:]
            return "" if what == _id(secret) else "it was proven by a secret that does not count any more"
    return NO_PROOF


def has_outlived(node: Node, event: Event) -> bool:
    """Return True if an event that waits has proven a group by a secret that does not count any more."""
    proven = (value.partition(" ") for value in user_properties.told(event, PROVEN))
    return any(
        not what.startswith("!") and (group not in node.ensemble.uncached_groups or why_unproven(node, event, group))
        for group, _, what in proven
    )


def vouched(node: Node, session: Session) -> bytes:
    """Return what an event would prove that a session sent now, for explanations."""
    secrets = secrets_of(node)
    pairs = tuple((PROVEN, f"{group} {_id(secrets[group])}") for group in session.trust.proven if group in secrets)
    return encode_properties(Properties(user_properties=pairs)) if pairs else b""


def as_sent(packet: Publish, topic: str) -> SentPublication:
    """Return what a PUBLISH on this topic proves."""
    properties = packet.properties
    return _sent(topic, packet.payload, packet.qos, packet.retain, properties.message_expiry, properties)


def _sent(
    topic: str, payload: bytes, qos: int, retain: bool, expiry: int | None, properties: Properties
) -> SentPublication:
    return SentPublication(
        topic,
        payload,
        qos,
        retain,
        expiry,
        properties.payload_format,
        properties.content_type,
        properties.response_topic,
        properties.correlation_data,
        properties.user_properties,
    )


def _id(secret: bytes) -> str:
    return sha256(b"penstock secret of proofs\0" + secret).hexdigest()[:16]
