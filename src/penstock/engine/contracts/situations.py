"""Situations at a node: events of their sources open and close them.

There is one place where that is done, the node of the source; it tells the others by an event of its own.
"""

import msgspec

from penstock.engine.contracts import situation_audit
from penstock.engine.contracts.registry import recorded
from penstock.engine.contracts.state import CONSUMER, SITUATION, ContractState, hear
from penstock.engine.events import link_plans
from penstock.engine.events.passage import Passage
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import UNREADABLE
from penstock.model.event import Event
from penstock.policy.contracts import situation
from penstock.policy.contracts.situation import OpenSituation, SituationChange


class SituationAnnouncement(msgspec.Struct, frozen=True):
    """A node's announcement of a situation."""

    since: float
    until: float
    by: str


def restore(node: Node, now: float) -> None:
    """Reopen situations from before a restart that are not over, from their retained announcements."""
    if node.contracts is not None:
        for topic, event in node.retained.match(f"{SITUATION}+"):
            name = topic.removeprefix(SITUATION)
            situation_audit.refused(node, None, name, _hear(node.contracts, name, event.payload, now))
        for topic, event in node.retained.match(f"{CONSUMER}+"):
            hear(node.contracts, topic, event.payload)


def run(passage: Passage) -> None:
    """Let an event that goes on open and close situations, and tell other nodes first."""
    node = passage.node
    for announcement in look(node, passage.event, passage.sender, passage.now):
        passage.publish_first(link_plans.own_plans(node), announcement)


def look(node: Node, event: Event, sender: Session | None, now: float) -> tuple[Event, ...]:
    """Open or close situations by an event; return the announcements for other nodes."""
    state = node.contracts
    if state is None:
        return ()
    if event.topic.startswith((SITUATION, CONSUMER)):
        if sender is not None and sender.neighbour in node.ensemble.nodes:
            if event.topic.startswith(SITUATION):
                name, before = event.topic.removeprefix(SITUATION), state.open
                situation_audit.refused(node, sender, name, _hear(state, name, event.payload, now))
                situation_audit.heard(node, sender, name, before, now)
            else:
                hear(state, event.topic, event.payload)
        return ()
    if not state.contracts.situations or sender is None or sender.neighbour is not None:
        return ()
    content, now = node.ensemble.reader.read(event), recorded(now)
    stepped = situation.step(state.contracts.situations, state.open, event.topic, sender.place.entity, content, now)
    state.open = stepped.open
    situation_audit.tell(node, sender, event.topic, stepped.notices, now)
    changed = (notice.situation for notice in stepped.notices if notice.change is not SituationChange.REFUSED)
    return tuple(tell(state, name) for name in dict.fromkeys(changed))


def tell(state: ContractState, name: str) -> Event:
    """Return the announcement of a situation for other nodes. It is retained, for those that come later."""
    opened = state.open.get(name)
    payload = b"" if opened is None else msgspec.json.encode(SituationAnnouncement(*opened))
    return Event(SITUATION + name, payload or b"null", 1, True)


def _hear(state: ContractState, name: str, payload: bytes, now: float) -> str:
    """Take an announcement by another node, or by this one before a restart; return why it does not count, or empty.

    A situation that is open already keeps its end.
    """
    try:
        announcement = msgspec.json.decode(payload, type=SituationAnnouncement | None)
    except UNREADABLE as error:
        return f"what is told cannot be read: {error}"
    known = next((candidate for candidate in state.contracts.situations if candidate.name == name), None)
    if known is None:
        return "" if announcement is None else "there is no such situation here"
    left = {other: opened for other, opened in state.open.items() if other != name}
    if announcement is None or announcement.until <= now:
        state.open = left
        return ""
    counted = situation.counts(known, OpenSituation(announcement.since, announcement.until, announcement.by), now)
    if isinstance(counted, str):
        return counted
    state.open = {**left, name: counted}
    return ""


def expire(node: Node, now: float) -> None:
    """End situations whose time is over."""
    state = node.contracts
    assert state is not None
    left, notices = situation.current(state.open, now)
    state.open = left
    situation_audit.tell(node, None, "", notices, now)
