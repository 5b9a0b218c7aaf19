"""The publishers of events that have waited: who they are, as the domain has it now."""

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.journal_rows import Source
from penstock.engine.node import Node
from penstock.model.event import Event


def is_neighbour(node: Node, event: Event) -> bool:
    """Return True if an event came from a neighbour."""
    session = node.sessions.get(event.origin)
    return session is not None and session.neighbour is not None


def entry_of(node: Node, event: Event) -> ClientEntry | None:
    """Return the publisher's place in the domain. How a client came in is known only while its session lasts."""
    session = node.sessions.get(event.origin)
    if session is None or session.subject.user != event.user:
        return node.ensemble.publisher(node.name, event.origin, event.user)
    subject = session.subject
    return node.ensemble.client(node.name, subject.client_id, subject.user, subject.listener, subject.certificate)


def has_monitors(node: Node, entry: ClientEntry) -> bool:
    """Return True if the link by which a client publishes has monitors."""
    inwards, _ = entry.links(node.name)
    return bool(node.ensemble.monitors(inwards))


def source_of(node: Node, event: Event) -> Source:
    """Return where an event came from, for the journal."""
    session = node.sessions.get(event.origin)
    entry = entry_of(node, event) if session is None or session.neighbour is None else None
    entity = entry.name if entry is not None else session.place.entity if session is not None else event.origin
    neighbour = session.neighbour if session is not None else None
    return Source(event.origin, event.user, entity, event.link_type, neighbour, 5, 5)
