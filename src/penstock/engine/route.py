"""Stage 6, route: may an event from this link's type go on to that link's type? (brokering §4.1)"""

from typing import TYPE_CHECKING

from penstock.engine.plan import Draft
from penstock.engine.session import Session

if TYPE_CHECKING:
    from penstock.engine.node import Node


def plan(draft: Draft) -> None:
    """Leave out the links that the brokering table closes, and the one that the event came by."""
    link = draft.link
    if link.is_own:
        return
    allows, source = draft.node.table.allows, link.link_type
    draft.matched = [
        found
        for found in draft.matched
        if allows(source, found.session.notify_type)
        and (link.neighbour is None or found.session.neighbour != link.neighbour)  # brokering §5.3 T-Broker: z != x
    ]
    draft.onlookers = [
        one for one in draft.onlookers if allows(source, one.link.type) and one.link.target != link.neighbour
    ]


def may_pass(node: "Node", link_type: str, session: Session) -> bool:
    """Whether an event that came by a link of this type may go on to this session."""
    return not link_type or node.table.allows(link_type, session.notify_type)
