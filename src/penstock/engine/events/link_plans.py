"""The plans that the events of a link follow."""

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Plans
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements import bindings
from penstock.engine.trust import client_tokens
from penstock.engine.trust.tokens import TokenHandling


def plans_of(node: Node, session: Session) -> Plans:
    """Return the plans that this session's publications follow; sessions that are alike share them."""
    plans: Plans | None = session.plans
    watch = session.place.watch_in
    if plans is None or (watch is not None and plans.key.states is not watch.key):
        link = LinkClass(
            session.rights,
            session.place.publish_type,
            session.neighbour,
            claims=session.declared.claims,
            statements=bindings.bounds_of(node, session),
        )
        if session.trust.token is not None and node.trust.tokens is not None and node.federation.neighbours:
            carried = client_tokens.carry(node, session)
            assert carried is not None
            link = link._replace(token=TokenHandling(carried.digest, carried.digest, carried.claims.publish))
        if watch is not None:
            link = link._replace(monitors=watch.monitors, states=watch.key)
        plans = session.plans = node.plans.of(link)
        if watch is not None and plans.key.states == watch.key:
            watch.key = plans.key.states  # the same object, so that the next look is quick
    return plans


def own_plans(node: Node) -> Plans:
    """Return the plans for what the node says itself."""
    plans = node.plans.own
    if plans is None:
        statements = bindings.own_bounds(node)
        link = LinkClass(is_admitted=True, is_own=True, statements=statements)
        plans = node.plans.own = node.plans.of(link)
    return plans


def plans_of_made(node: Node, link_type: str) -> Plans:
    """Return the plans for what policies make because of something that came by a link of this type."""
    statements = bindings.own_bounds(node)
    return node.plans.of(LinkClass(None, link_type, is_admitted=True, statements=statements))


def plans_with(node: Node, plans: Plans, token: TokenHandling) -> Plans:
    """Return the plans for events that have this token."""
    return node.plans.of(plans.key._replace(token=token))


def plans_after_edit(node: Node, session: Session, token: TokenHandling | None = None) -> Plans:
    """Return the plans for what a monitor on this session's link has made; `token`: what the event came with."""
    plans: Plans | None = session.edited_plans
    if plans is None or plans.key.token != token:
        link = LinkClass(
            None,
            session.place.publish_type,
            session.neighbour,
            is_admitted=True,
            statements=bindings.bounds_of(node, session),
            token=token,
        )
        plans = session.edited_plans = node.plans.of(link)
    return plans


def forget_link(node: Node, session: Session) -> None:
    """Forget what is accepted of a neighbour."""
    if session.trust.tokens is not None:
        session.trust.tokens.forget()
    if session.plans is not None:
        session.plans.known.clear()
    session.plans = session.edited_plans = None
