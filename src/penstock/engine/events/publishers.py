"""The publishers of events that have waited: who they are, where they published, and which way the event came here, as
the domain has it now.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec

from penstock.domain.compile.ensemble import Ensemble
from penstock.domain.compile.entries import ClientEntry
from penstock.engine.events import user_properties
from penstock.engine.federation.wants import neighbour_in
from penstock.engine.journal_rows import Source
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder
from penstock.engine.sessions.session import Outgoing, Session
from penstock.model.errors import UNREADABLE
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.access.acl import Rights
from penstock.policy.contracts.contract import advertisement
from penstock.policy.monitors.protocol import UNLISTED


class Publisher(NamedTuple):
    """The client or foreign broker that published an event, and the node that it published to."""

    node: str
    client_id: str
    user: str | None
    statements: str
    """A digest of the policy statements by which that node judged the event; and of the monitors then."""
    monitors: str


def publisher_of(node: Node, event: Event) -> Publisher | None:
    """Return the publisher of an event; None: a node itself, or it is not known."""
    if not event.origin:
        return None
    if neighbour_in(event.origin) in node.ensemble.nodes:
        texts = user_properties.told(event, user_properties.PUBLISHER)
        try:
            return msgspec.json.decode(texts[-1], type=Publisher) if texts else None
        except UNREADABLE:
            return Publisher("", event.origin, None, "", "")  # nobody that the domain lists
    return Publisher(node.name, event.origin, event.user, *present_digests(node))


def present_digests(node: Node) -> tuple[str, str]:
    """Return what stands for the policy statements and monitors of now with events that travel."""
    return node.revision.statements[:_DIGITS], node.revision.monitors[:_DIGITS]


_DIGITS = 16


def carried(node: Node, event: Event) -> Event:
    """Return an event for another node, where it may wait, with its publisher."""
    is_from_node = any(hop in node.ensemble.nodes for hop in event.path)
    publisher = None if is_from_node else publisher_of(node, event)
    return event if publisher is None else published(event, publisher)


def published(event: Event, publisher: Publisher) -> Event:
    """Return the event with its publisher."""
    text = msgspec.json.encode(publisher).decode()
    return user_properties.having(event, None, ((user_properties.PUBLISHER, text),))


def entry_of(node: Node, publisher: Publisher) -> ClientEntry | None:
    """Return the publisher's place in the domain. How a client came in is known only here, while its session lasts."""
    neighbour = neighbour_in(publisher.client_id)
    if publisher.node not in node.ensemble.nodes:
        return None
    if neighbour is not None:
        return neighbour_entry(node.ensemble, publisher.node, neighbour)
    session = node.sessions.get(publisher.client_id) if publisher.node == node.name else None
    if session is None or session.subject.user != publisher.user:
        return node.ensemble.publisher(publisher.node, publisher.client_id, publisher.user)
    subject = session.subject
    return node.ensemble.client(node.name, subject.client_id, subject.user, subject.listener, subject.certificate)


def counted(node: Node, session: Session, event: Event) -> str:
    """Return the publisher that counts for a mean which a session gets; empty: it is the same client, or not known."""
    publisher, place = publisher_of(node, event), session.place
    if publisher is None:
        return ""
    entry = entry_of(node, publisher)
    name = _proven(node, publisher.node, entry, publisher.user)
    return name if name != _proven(node, node.name, place.entry, session.subject.user) else ""


def _proven(node: Node, at: str, entry: ClientEntry | None, user: str | None) -> str:
    """Return the name of a client, by which it counts; all that have proven none are one."""
    if entry is not None and entry.listed:
        return entry.name
    return f"user:{user}" if user and at not in node.ensemble.takes_any_user else UNLISTED


def neighbour_entry(whole: Ensemble, node: str, name: str) -> ClientEntry | None:
    """Return the entry of a neighbour. A foreign broker with producer contracts may publish nothing else."""
    inwards, outwards = whole.links.get((name, node)), whole.links.get((node, name))
    if inwards is None or outwards is None:
        return None
    producers = whole.contracts.producers if whole.contracts is not None and name in whole.foreign else ()
    advertises = tuple(advertisement(contract) for contract in producers if name in contract.producers)
    return ClientEntry(name, inwards.type, outwards.type, advertises=advertises)


def rights_of(node: Node, publisher: Publisher) -> Rights | None:
    """Return what the access list of its node lets a publisher do; None: everything."""
    acl = node.admission.acl
    if publisher.node != node.name:
        known = node.federation.rights.get(publisher.node)
        acl = None if known is None else known.acl
    is_client = neighbour_in(publisher.client_id) is None
    return acl.rights(publisher.client_id, publisher.user) if acl is not None and is_client else None


def cause_of(event: Event) -> str | None:
    """Return the topic that the publisher of an event used, if monitors have made another event of it."""
    causes = user_properties.told(event, user_properties.CAUSE)
    return causes[0] if causes else None


HIDDEN = "#"
"""Begins a cause whose topic stays where it was published; then comes since when the access list there holds."""


def hide_cause(node: Node, event: Event) -> Event:
    """Return what leaves for another node without the topic of which monitors have made it. What a foreign broker has
    sent keeps it, since `in` may come to deny it; so does a certificate, whose own topic says it.
    """
    cause, publisher = cause_of(event), publisher_of(node, event)
    if cause is None or cause.startswith(HIDDEN) or event.topic.endswith(cause) or publisher is None:
        return event
    if neighbour_in(publisher.client_id) is not None:
        return event
    hidden = ((user_properties.CAUSE, f"{HIDDEN}{_list_since(node, publisher)}"),)
    return user_properties.having(event, None, hidden, without=user_properties.CAUSE)


def is_same_list(node: Node, cause: str, publisher: Publisher) -> bool:
    """Return whether the access list by which an event with a hidden cause was published still holds."""
    return cause == f"{HIDDEN}{_list_since(node, publisher)}"


def _list_since(node: Node, publisher: Publisher) -> float | None:
    known = node.federation.rights.get(publisher.node)
    return None if known is None else known.at


def made(output: Event, cause: Event) -> Event:
    """Return what a monitor has made of an event, with the topic of its cause."""
    if output is cause or user_properties.told(output, user_properties.CAUSE):
        return output
    return user_properties.having(output, None, ((user_properties.CAUSE, cause.topic),))


def way_of(node: Node, event: Event, publisher: Publisher | None, entry: ClientEntry | None) -> Iterator[Link | None]:
    """Yield the links by which an event came here; None for one that the domain no longer has."""
    if publisher is not None and entry is not None:
        yield entry.links(publisher.node)[0]
    begin = publisher.node if publisher is not None else event.path[0] if event.path else node.name
    is_told = begin in event.path
    nodes = (*event.path[event.path.index(begin) :], node.name) if is_told else node.ensemble.way(begin, node.name)
    for ends in pairwise(nodes):
        yield node.ensemble.links.get(ends)


Withheld = tuple[Event, dict[Verdict, list[str]]]
"""An event, and by verdict from whom it was withheld."""


def record_withdrawn(node: Node, waiting: Outgoing, now: float, reason: str, withheld: Withheld | None = None) -> None:
    """Tell the journal, if there is one, that what was queued for a session, and is recorded as sent, was not sent."""
    if node.recorder is not None:
        verdict = Verdict("emit", Effect.SUPPRESS, "", reason)
        _record(node, node.recorder, waiting, waiting.event, now, node.recorder.rows.withdrawn, verdict, withheld)


def record_changed(node: Node, waiting: Outgoing, left: Event, now: float, is_first: bool) -> None:
    """Tell the journal, if there is one, what policies have left of an event that waited; `is_first`: it was queued and
    has not been sent before.
    """
    if node.recorder is not None:
        if is_first:
            record_withdrawn(node, waiting, now, _CHANGED.reason)
        _record(node, node.recorder, waiting, left, now, node.recorder.rows.sent, _CHANGED)


def record_arrived(node: Node, waiting: Outgoing, now: float) -> None:
    """Tell the journal, if there is one, that an event waits here for a session which has come from another node."""
    if node.recorder is not None:
        _record(node, node.recorder, waiting, waiting.event, now, node.recorder.rows.sent, _ARRIVED)


_ARRIVED = Verdict("emit", Effect.PASS, "", "its receiver has come from another node")
_CHANGED = Verdict("emit", Effect.PASS, "", "policies have changed while it waited")


def _record(
    node: Node,
    recorder: Recorder,
    waiting: Outgoing,
    event: Event,
    now: float,
    rows: list[int],
    verdict: Verdict,
    withheld: Withheld | None = None,
) -> None:
    if not event.topic.startswith("$SYS/"):
        recorder.show(user_properties.for_record(event), waiting.session, waiting.qos)
        recorder.forms_end(source_of(node, event), now, rows, verdict, withheld)


def source_of(node: Node, event: Event) -> Source:
    """Return where an event came from, for the journal; one without origin from the node itself."""
    if not event.origin:
        return Source("", None, node.name, event.link_type, None, 5, 5)
    session = node.sessions.get(event.origin)
    is_client = session is None or session.neighbour is None
    entry = entry_of(node, Publisher(node.name, event.origin, event.user, "", "")) if is_client else None
    entity = entry.name if entry is not None else session.place.entity if session is not None else event.origin
    neighbour = session.neighbour if session is not None else None
    return Source(event.origin, event.user, entity, event.link_type, neighbour, 5, 5)
