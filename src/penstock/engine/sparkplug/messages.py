"""Sparkplug at a node: what messages say, who asks for them, and what is known of edge nodes and devices."""

from penstock.domain import ClientEntry
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.state import Actor
from penstock.model.sparkplug.metric import Record
from penstock.model.subject import Subject
from penstock.model.values import Timestamp


def actor_of(node: Node, session: Session) -> Actor | None:
    """Return the session as a subject; None for a node of the domain, which sees all and judges by itself."""
    place = session.place
    if place.actor is None and session.neighbour not in node.ensemble.nodes:
        place.actor = make_actor(session.subject, place.entry, place.entity)
    return place.actor


def renew(node: Node, session: Session) -> None:
    """Renew the session's subject and policies; what it has received stays."""
    if session.place.actor is not None:
        reader, session.place.actor = session.place.actor.reader, None
        actor = actor_of(node, session)
        if actor is not None:
            actor.reader = reader
            _forget_owed(node, actor)


def _forget_owed(node: Node, actor: Actor) -> None:
    """Let a reader be owed no message of an edge node, device or host that no policy lets it read any more."""
    if node.sparkplug is None:
        return
    for speaker in tuple(actor.reader.late):
        life = node.sparkplug.windows.lives.get(speaker)
        if life is not None and not node.sparkplug.access.candidates(actor.ids, life.topic, "read"):
            actor.reader.late.discard(speaker)


def ask_windows(node: Node, session: Session, now: float) -> None:
    """Have a session that is back, or whose policies have changed, asked about what the time may show it now."""
    actor, sparkplug = session.place.actor, node.sparkplug
    if actor is None or sparkplug is None or not sparkplug.access.is_timed:
        return
    owing = (str(source) for source, standing in actor.reader.standings.items() if standing.withheld)
    for speaker in {*actor.reader.late, *owing}:
        sparkplug.windows.ask(now, session.id, session, speaker)


def make_actor(subject: Subject, entry: ClientEntry | None, name: str) -> Actor:
    """Whoever shows this much, as a subject of access policies; `entry` is what the domain knows it as."""
    ids = [f"client:{subject.client_id}"]
    groups: tuple[str, ...] = ()
    edge, attributes = "", dict[str, bool | int | float | str]()
    if entry is not None and entry.listed:
        ids.append(f"client:{entry.name}")
        groups, edge, attributes = entry.groups, entry.edge, dict(entry.attributes)
    if subject.user:
        ids.append(f"user:{subject.user}")
    ids += [f"group:{group}" for group in groups]
    if edge:
        ids.append(f"edge:{edge}")
    record: Record = {
        "client": subject.client_id,
        "name": name,
        "user": subject.user,
        "groups": list(groups),
        "edge": edge,
        "attributes": attributes,
    }
    return Actor(tuple(dict.fromkeys(ids)), record, edge)


def moment(now: float) -> Timestamp:
    """Return a time of the node's clock, as conditions see it."""
    return Timestamp(int(now * 1000) * 1_000_000)
