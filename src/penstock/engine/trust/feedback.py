"""Clients' feedback on the events that they received: good or bad, sent to their own node.

It becomes evidence about the neighbour that sent the event (trust §II-C). Who may rate is said in the domain; one
message counts once for each who rates it, and one client's word about one neighbour only so often.

An operator can also set what the node holds of its neighbours.
"""

from collections.abc import Collection, Iterator

import msgspec

from penstock.domain.schema.trust import FeedbackSettings
from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.refusal import Outcome
from penstock.engine.sessions.render import read_plain
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import satisfaction
from penstock.engine.statements.facts import EvidenceNote
from penstock.engine.trust.evidence import add_evidence, set_evidence
from penstock.model.errors import UNREADABLE, PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect, Verdict
from penstock.policy.trust.rating import Evidence
from penstock.wire.reason import Reason

FEEDBACK = "$penstock/feedback"
EVIDENCE = "$penstock/evidence"
TOPICS = frozenset({FEEDBACK, EVIDENCE})
MAX_EVIDENCE = 1e9


class RatingPayload(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/feedback`."""

    topic: str
    good: bool
    payload: str
    """Of the message, in hexadecimal its SHA-256: what a subscriber can tell without sending the message back."""


class EvidencePayload(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/evidence`: what the node is to hold of a neighbour."""

    neighbour: str
    good: float
    bad: float
    at: float


def receive(node: Node, session: Session, event: Event, now: float) -> tuple[Outcome, Verdict]:
    """Take a client's rating or an operator's evidence; return the answer and the journal's entry."""
    done = _set(node, session, event.payload, now) if event.topic == EVIDENCE else _rate(node, session, event, now)
    if isinstance(done, Outcome):
        return done, Verdict("admit", Effect.SUPPRESS, "feedback", done.text)
    if node.recorder is not None:
        node.recorder.saw(done, is_before=True)
    word = "good" if done.good else "bad"
    return Outcome(Reason.SUCCESS), Verdict("admit", Effect.PASS, "feedback", f"evidence: `{done.neighbour}` {word}")


def _rate(node: Node, session: Session, event: Event, now: float) -> Outcome | EvidenceNote:
    trust = node.ensemble.trust
    if node.trust.ratings is None or trust is None or trust.feedback is None:
        return Outcome(Reason.NOT_AUTHORIZED, "this node takes no feedback")
    name = who(node, session) or session.client_id
    if not _may_rate(node, session, trust.feedback):
        return Outcome(Reason.NOT_AUTHORIZED, f"client `{name}` is not one of those who may rate")
    try:
        rating = msgspec.json.decode(event.payload, type=RatingPayload)
    except UNREADABLE as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"not a rating: {error}")
    if not _may_have_had(session, rating.topic):
        return Outcome(Reason.NOT_AUTHORIZED, f"client `{name}` does not receive `{rating.topic:.80}`")
    neighbour = _sender(node, session, rating)
    if neighbour is None:
        reason = f"no such message on `{rating.topic:.80}` has come from a neighbour lately"
        return Outcome(Reason.UNSPECIFIED_ERROR, reason)
    message, rater = (rating.topic, rating.payload), _rater(node, session, trust.feedback.from_)
    refused = node.trust.feedback.judge(trust.feedback, rater, neighbour, message, rating.good, now)
    if refused is not None:
        code = Reason.QUOTA_EXCEEDED if refused.is_too_much else Reason.NO_MATCHING_SUBSCRIBERS
        return Outcome(code, refused.reason)
    add_evidence(node, neighbour, rating.good, "feedback", now)
    return EvidenceNote(neighbour, rating.good, "feedback")


def who(node: Node, session: Session) -> str:
    """Return the proven identity behind a rating; empty for a client that is not listed and has not authenticated."""
    if session.place.entry is not None and session.place.entry.listed:
        return session.place.entry.name
    return _shown(node, session)


def _shown(node: Node, session: Session) -> str:
    """Return the name that a client has proven: by a token, a certificate or a password."""
    if session.trust.token is not None:
        return session.trust.token.token.claims.subject.name
    is_user = session.subject.certificate is not None or node.admission.passwords is not None
    return session.subject.user or "" if is_user else ""


def _rater(node: Node, session: Session, may: Collection[str]) -> str:
    """Return the rater to count; unauthenticated clients that the domain does not name may be one, and count as one."""
    name = who(node, session)
    return name if name in may or _shown(node, session) else ""


def _may_rate(node: Node, session: Session, settings: FeedbackSettings) -> bool:
    return "*" in settings.from_ or who(node, session) in settings.from_


def subscribed(node: Node, subscription: Subscribed) -> None:
    """Note the subscription of a client that may rate: earlier events were not for it."""
    feedback = node.ensemble.trust.feedback if node.ensemble.trust is not None else None
    if feedback is not None and _may_rate(node, subscription.session, feedback):
        for session in node.federation.neighbours.values():
            if session.trust.tokens is not None and session.trust.tokens.history is not None:
                session.trust.tokens.history.append(subscription)


def _set(node: Node, session: Session, payload: bytes, now: float) -> Outcome | EvidenceNote:
    trust = node.ensemble.trust
    if node.trust.ratings is None or trust is None or who(node, session) not in trust.operators:
        name = who(node, session) or session.client_id
        return Outcome(Reason.NOT_AUTHORIZED, f"client `{name}` may not set what this node holds")
    try:
        evidence = msgspec.json.decode(payload, type=EvidencePayload)
        held = Evidence(evidence.good, evidence.bad, min(evidence.at, now))
        if max(held.good, held.bad) > MAX_EVIDENCE:
            raise PolicyError(f"more than {MAX_EVIDENCE:g}")
        if held.at < 0:
            raise PolicyError(f"as of `{held.at:g}`, which is before 1970")
    except (*UNREADABLE, PolicyError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"not evidence: {error}")
    if evidence.neighbour not in node.federation.neighbours or evidence.neighbour not in node.ensemble.nodes:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"`{evidence.neighbour:.80}` is not a neighbour of this node")
    set_evidence(node, evidence.neighbour, held)
    node.notice("evidence set", session, "", f"`{evidence.neighbour}`: good {held.good:g}, bad {held.bad:g}")
    return EvidenceNote(evidence.neighbour, True, "operator", (held.good, held.bad, held.at))


def _may_have_had(session: Session, topic: str) -> bool:
    """Return True if messages of a topic go to the client: it subscribes to it, and may read it."""
    return (session.rights is None or session.rights.may_read(topic)) and any(_to(session, topic))


def _to(session: Session, topic: str) -> Iterator[Subscribed]:
    """Yield the subscriptions of a session to a topic."""
    for subscription in session.subscriptions.values():
        if matches(parse_filter(subscription.filter).filter, topic):
            yield subscription


def _sender(node: Node, rater: Session, rating: RatingPayload) -> str | None:
    """Return the neighbour from which a message was accepted that has gone to the rater."""
    for name, session in node.federation.neighbours.items():
        link = session.trust.tokens
        mine = {id(subscription): subscription for subscription in _to(rater, rating.topic)}
        for entry in reversed(link.history or ()) if link is not None else ():
            if isinstance(entry, Subscribed):
                mine.pop(id(entry), None)
                continue
            assert isinstance(entry, Event | bytes)
            event = entry if isinstance(entry, Event) else Event(*read_plain(entry))
            if event.topic == rating.topic and user_properties.digest_of(event.payload) == rating.payload:
                return name if any(satisfaction.satisfies(node, event, each) for each in mine.values()) else None
    return None
