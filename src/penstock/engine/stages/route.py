"""Stage 6, route: may an event from this link's type go on to that link's type? (brokering §4.1)"""

from typing import TYPE_CHECKING

from penstock.engine.events.plan import Draft, LinkClass
from penstock.engine.sessions.session import Session
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.engine.node import Node


def plan(draft: Draft) -> None:
    """Leave out the links that the brokering table closes, and the one that the event came by."""
    node, link = draft.node, draft.link
    if link.is_own:
        return
    matched = draft.matched
    draft.matched = [found for found in matched if is_open(node, link, found.session)]
    if len(draft.matched) < len(matched):
        draft.closed = tuple(dict.fromkeys(one.session for one in matched if is_closed(node, link, one.session)))
    draft.onlookers = [
        one
        for one in draft.onlookers
        if node.table.allows(link.link_type, one.link.type) and one.link.target != link.neighbour
    ]


def is_open(node: "Node", link: LinkClass, session: Session) -> bool:
    """Whether what came by such a link may go on to this session."""
    return link.is_own or (
        node.table.allows(link.link_type, session.notify_type)
        and (link.neighbour is None or session.neighbour != link.neighbour)  # brokering §5.3 T-Broker: z != x
    )


def is_closed(node: "Node", link: LinkClass, session: Session) -> bool:
    """Whether it is the brokering table that says no."""
    return not link.is_own and not node.table.allows(link.link_type, session.notify_type)


def may_pass(node: "Node", link_type: str, session: Session) -> bool:
    """Whether an event that came by a link of this type may go on to this session."""
    return not link_type or node.table.allows(link_type, session.notify_type)


def may_have(node: "Node", event: Event, session: Session) -> bool:
    """Whether rights and brokering table, as they are now, let this session have the event."""
    rights = session.rights
    return (rights is None or rights.may_read(event.topic)) and may_pass(node, event.link_type, session)
