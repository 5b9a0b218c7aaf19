"""A session's place in the ensemble: which entity it is, of what types its two links are, and what monitors them."""

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.events import publishers
from penstock.engine.monitors import ALL_HERE, Watch
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import beyond, messages
from penstock.engine.stages.edit import tell_failures
from penstock.language.statements.statement import Message
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter


def entry_of(node: Node, subject: Subject) -> ClientEntry | None:
    """Return the entry of a client at this node; None if it must not be here."""
    return node.ensemble.client(node.name, subject.client_id, subject.user, subject.listener, subject.certificate)


def why_not(node: Node, subject: Subject) -> str:
    """Return why a client has no entry at this node."""
    id = subject.client_id
    if not node.ensemble.may_have_id("", id):
        return f"client id `{id}` belongs to another client of the domain, or to this one at another node"
    return f"client `{id}` is not one that the domain lists here"


def is_same(node: Node, before: Subject, now: Subject) -> bool:
    """Return True if both are the same user at the same place in the ensemble.

    What waits in a session was for links of these types, and must not reach another one who uses the same client id.
    """
    entry = entry_of(node, before)
    return before.user == now.user and entry is not None and entry == entry_of(node, now)


def settle_in(node: Node, session: Session) -> bool:
    """Give the session its place by the ensemble as it is now; False if there is none for it."""
    if session.outbox.revision.number != node.revision.number:
        session.outbox.revision = node.revision
    entry = (
        entry_of(node, session.subject)
        if session.neighbour is None
        else publishers.neighbour_entry(node.ensemble, node.name, session.neighbour)
    )
    if entry is None:
        return False
    if (session.place.publish_type, session.place.notify_type) != (entry.publish, entry.notify):
        _stir(node, session)
    session.place.entity, session.place.entry = entry.name, entry
    messages.renew(node, session)
    beyond.renew(node, session)
    session.place.publish_type, session.place.notify_type = entry.publish, entry.notify
    session.place.where, session.declared.given = entry.where, entry.advertises
    policies = () if session.neighbour else node.ensemble.statements.of(entry.name, Message.SUBSCRIPTION)
    if policies != session.place.policies:
        session.place.policies = policies
        node.statements.note_preceding(session)
        for subscribed in session.subscriptions.values():
            subscribed.target = None
            node.plans.forget(parse_filter(subscribed.filter))
    inwards, outwards = entry.links(node.name)
    session.place.watch_in = watch(node, inwards)
    _part(node, session)
    session.place.watch_out = watch(node, outwards)
    if session.place.watch_out is not None:
        node.monitors.notified.setdefault(session.place.watch_out.ends, []).append(session)
    session.plans = session.edited_plans = session.place.source = None
    return True


def _stir(node: Node, session: Session) -> None:
    """Update plans and wants after the types of its links have changed."""
    if session.subscriptions or session.declared.advertisements or session.federation.offers:
        node.federation.news.everything()


def _part(node: Node, session: Session) -> None:
    behind = node.monitors.notified.get(session.place.watch_out.ends, []) if session.place.watch_out is not None else []
    if session.place.watch_out is not None and session in behind:
        behind.remove(session)
        if not behind:
            del node.monitors.notified[session.place.watch_out.ends]


def look_on(node: Node) -> None:
    """Let the monitors on links to clients and foreign brokers see what they must, whether or not it is subscribed to.

    A protocol's history does not wait until its last step has a subscriber.
    """
    wanted: dict[tuple[str, str], tuple[str, ...]] = {}
    for link in node.ensemble.links.values():
        if link.source == node.name and link.target not in node.ensemble.nodes:
            watched = watch(node, link)
            if watched is not None and watched.alphabet():
                wanted[link.source, link.target] = watched.alphabet()
    for ends, filters in node.monitors.onlookers.items():
        for text in filters:
            node.subscriptions.index.remove(text, ends)
    for ends, filters in wanted.items():
        for text in filters:
            node.subscriptions.index.add(text, ends, node.monitors.watches[ends])
    node.monitors.onlookers = wanted
    node.federation.news.everything()
    node.plans.forget_all()


def watch(node: Node, link: Link) -> Watch | None:
    """Return the monitors on a link with their states, or None if it has none."""
    ends = (link.source, link.target)
    known = node.monitors.watches.get(ends)
    if known is not None:
        return known if known.monitors else None
    watch = new_watch(node, link)
    if watch is not None:
        node.monitors.watches[ends] = watch
        tell_failures(node, watch)
    return watch


def new_watch(node: Node, link: Link) -> Watch | None:
    """Return the monitors on a link in their first states here: those of the store, else of the monitors."""
    monitors = node.ensemble.monitors_at(node.name, link)
    if not monitors:
        return None
    ends = (link.source, link.target)
    stored = {name: state for (source, target, name), state in node.monitors.stored.items() if (source, target) == ends}
    return Watch(link, monitors, stored, node.ensemble.placing(link) or ALL_HERE)


def leave(node: Node, session: Session) -> None:
    """Remove a session that has ended, and the monitors' states of a client that is not listed."""
    _part(node, session)
    if session.neighbour is not None:
        return
    if session.place.entity in node.ensemble.devices:
        took, gave, denied = node.sessions.past.get(session.place.entity, (0, 0, 0))
        node.sessions.past[session.place.entity] = (took + session.took, gave + session.gave, denied + session.denied)
        return
    for watched in (session.place.watch_in, session.place.watch_out):
        if watched is not None:
            node.monitors.watches.pop(watched.ends, None)
            for monitor, state in zip(watched.monitors, watched.states, strict=True):
                node.ledger.monitor(watched.link, monitor.name, None)
                watched.close(monitor, state)
            tell_failures(node, watched)
