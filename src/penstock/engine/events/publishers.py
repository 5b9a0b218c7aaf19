"""The publishers of events that have waited: who they are, as the domain has it now."""

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.events import user_properties
from penstock.engine.journal_rows import Source
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder
from penstock.engine.sessions.session import Outgoing
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict


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


def record_withdrawn(node: Node, waiting: Outgoing, now: float, reason: str) -> None:
    """Tell the journal, if there is one, that what was queued for a session, and is recorded as sent, was not sent."""
    if node.recorder is not None:
        verdict = Verdict("emit", Effect.SUPPRESS, "", reason)
        _record(node, node.recorder, waiting, waiting.event, now, node.recorder.rows.withdrawn, verdict)


def record_changed(node: Node, waiting: Outgoing, left: Event, now: float, is_first: bool) -> None:
    """Tell the journal, if there is one, what policies have left of an event that waited; `is_first`: it was queued and
    has not been sent before.
    """
    if node.recorder is not None:
        if is_first:
            record_withdrawn(node, waiting, now, _CHANGED.reason)
        _record(node, node.recorder, waiting, left, now, node.recorder.rows.sent, _CHANGED)


_CHANGED = Verdict("emit", Effect.PASS, "", "policies have changed while it waited")


def _record(
    node: Node, recorder: Recorder, waiting: Outgoing, event: Event, now: float, rows: list[int], verdict: Verdict
) -> None:
    if not event.topic.startswith("$SYS/"):
        recorder.show(user_properties.for_clients(event), waiting.session, waiting.qos)
        recorder.forms_end(source_of(node, event), now, rows, verdict)


def source_of(node: Node, event: Event) -> Source:
    """Return where an event came from, for the journal; one without origin from the node itself."""
    if not event.origin:
        return Source("", None, node.name, event.link_type, None, 5, 5)
    session = node.sessions.get(event.origin)
    entry = entry_of(node, event) if session is None or session.neighbour is None else None
    entity = entry.name if entry is not None else session.place.entity if session is not None else event.origin
    neighbour = session.neighbour if session is not None else None
    return Source(event.origin, event.user, entity, event.link_type, neighbour, 5, 5)
