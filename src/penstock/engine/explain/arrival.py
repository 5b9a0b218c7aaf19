"""An event to be explained, as it comes to its first node: from a client, connected or not, or a neighbour."""

from dataclasses import dataclass

from penstock.engine.events import user_properties
from penstock.engine.explain.judging import with_policy
from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.messages import actor_of, make_actor
from penstock.engine.sparkplug.state import Actor
from penstock.engine.trust import publication_proofs
from penstock.language.errors import StatementError
from penstock.model.errors import PenstockError
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.policy.access.acl import Rights
from penstock.policy.statements.advertisement import AdvertisementSet, claims
from penstock.policy.tokens.rights import TokenRights
from penstock.wire.errors import PacketError
from penstock.wire.properties import Properties


class ExplainError(PenstockError):
    """A question that makes no sense: somebody who is not there."""


def hypothetical(
    topic: str, payload: bytes, qos: int = 0, retain: bool = False, content_type: str = "", policy: str = ""
) -> Event:
    """Return an event to ask about; raise `ExplainError` for an unsendable content type or a malformed policy."""
    try:
        properties = user_properties.travelling(Properties(content_type=content_type)) if content_type else b""
        properties += with_policy(policy) if policy else b""
    except PacketError as error:
        raise ExplainError(f"content type: {error}") from None
    except StatementError as error:
        raise ExplainError(f"policy: {error}") from None
    return Event(topic, payload, qos, retain, properties)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event that comes to a node by a link."""

    node: Node
    link: Link
    event: Event
    session: Session | None
    """The session of the sender, if connected or known."""
    rights: Rights | TokenRights | None
    claims: tuple[AdvertisementSet, ...] = ()
    actor: Actor | None = None
    """Its sender as a subject of access policies; None: a node of the domain."""
    stand_in: Session | None = None
    """A sender that is not connected, as it would be."""

    @property
    def neighbour(self) -> str | None:
        return self.session.neighbour if self.session is not None else None


def arrival(node: Node, entity: str, event: Event) -> Arrival:
    """Return the event as it would come from a client, a neighbour or a foreign broker; raise `ExplainError`."""
    session = _session(node, entity)
    if session is not None:
        return arrived(node, session, event)
    subject = node.ensemble.shown(node.name, entity) or Subject(entity, None, "", f"{node.name}/0")
    entry = node.ensemble.client(node.name, subject.client_id, subject.user, subject.listener, subject.certificate)
    if entry is None:
        raise ExplainError(f"`{entity}` has no place at node `{node.name}`")
    link, _ = entry.links(node.name)
    actor = make_actor(subject, entry, link.source)
    stand_in = Session(-1, subject, 5)
    stand_in.place.entity, stand_in.place.entry = entry.name, entry
    rights, bound = rights_of(node, stand_in), claims((), entry.advertises)
    stand_in.rights = rights
    return Arrival(node, link, _arriving(node, subject, link, event, ()), None, rights, bound, actor, stand_in)


def arrived(node: Node, session: Session, event: Event) -> Arrival:
    """Return the event as it comes from a session."""
    link = Link(session.place.entity, node.name, session.place.publish_type)
    if session.neighbour in node.ensemble.foreign:
        event = user_properties.for_clients(event)  # a foreign broker attaches no policies
    if node.ensemble.uncached_groups:
        event = event._replace(properties=event.properties + publication_proofs.vouched(node, session))
    path = (session.neighbour,) if session.neighbour is not None else ()
    arriving, rights = _arriving(node, session.subject, link, event, path), rights_of(node, session)
    return Arrival(node, link, arriving, session, rights, session.declared.claims, actor_of(node, session))


def _arriving(node: Node, subject: Subject, link: Link, event: Event, path: tuple[str, ...]) -> Event:
    arriving = event._replace(origin=subject.client_id, user=subject.user, link_type=link.type, path=path)
    return arriving._replace(id="explained") if node.ensemble.is_cyclic else arriving


def rights_of(node: Node, session: Session) -> Rights | TokenRights | None:
    """Return the rights of a client: by the token it has shown or, if it is not here, by those it would be granted."""
    granted = granted_rights(node, session)
    if granted is None:
        return session.rights if session.rights is not None else session_rights.rights_for(node, session)
    return TokenRights(*granted, session_rights.rights_of(node, session.client_id, session.subject.user))


def granted_rights(node: Node, session: Session) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the rights that an absent client without a token would be granted; None if tokens do not decide."""
    is_here = session.outlet is not None or session.trust.token is not None or session.neighbour is not None
    return None if node.trust.tokens is None or is_here else node.trust.tokens.settings.granted(holder_of(session))


def holder_of(session: Session) -> str:
    """Return the holder of the token that a client would be granted."""
    entry = session.place.entry
    return entry.name if entry is not None and entry.listed else session.subject.user or session.client_id


def _session(node: Node, entity: str) -> Session | None:
    """Return the session of an entity, or of a client that is known only by its client id."""
    if entity in node.federation.neighbours:
        return node.federation.neighbours[entity]
    by_name = (session for session in node.sessions.values() if session.place.entity == entity)
    return next(by_name, node.sessions.get(entity))
