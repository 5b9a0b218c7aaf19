"""The policies of advertisements that are known at a node and have something to say of subscriptions: which of them one
meets is asked for each subscription and each neighbour, so they are indexed as advertisements are.
"""

from collections.abc import Iterator

from penstock.engine.federation.wants import owner_in
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements.state import Advertised, AdvertisedPolicies
from penstock.language.condition import Condition
from penstock.language.statements.statement import Message
from penstock.policy.statements.assignments import AssignedPolicy
from penstock.policy.statements.judging import Bound


def meeting(node: Node, filter: str, condition: Condition | None) -> Iterator[Advertised]:
    """Return the policies of advertisements that a subscription meets at a node."""
    known = node.statements.advertised
    if known is None or known.ensemble is not node.ensemble:
        known = node.statements.advertised = AdvertisedPolicies(node.ensemble, list(_all(node)))
    return known.meeting(filter, condition)


def _all(node: Node) -> Iterator[Advertised]:
    for given in node.ensemble.statements.given:
        is_here = given.to is Message.ADVERTISEMENT and (node.name in given.nodes or _is_here(node, given))
        if is_here and given.policy.concerns(Message.SUBSCRIPTION):
            yield Advertised(Bound(given.policy, given.name, given.filter, given.condition, given.to), None)
    for session in node.statements.with_policies.values():
        for advertised in session.declared.advertisements.values():
            if advertised.policy is not None and advertised.policy.concerns(Message.SUBSCRIPTION):
                name, where = f"{session.place.entity}: {advertised.name}", (advertised.filter, advertised.condition)
                yield Advertised(Bound(advertised.policy, name, *where, Message.ADVERTISEMENT), session)
        for id, offered in session.federation.offers.items():
            if offered.policy is not None and offered.policy.concerns(Message.SUBSCRIPTION) and not owner_in(id):
                where = (offered.offer.filter, offered.condition)
                yield Advertised(Bound(offered.policy, id, *where, Message.ADVERTISEMENT), session)


def _is_here(node: Node, given: AssignedPolicy) -> bool:
    if given.nodes:
        return False
    return given.clients is None or any(entry.name in given.clients for entry in node.ensemble.listed(node.name))


def note(node: Node, session: Session) -> None:
    """Update whether a session's advertisements have policies, which is looked up often."""
    policies = [advertised.policy for advertised in session.declared.advertisements.values()]
    policies += (offered.policy for offered in session.federation.offers.values())
    has = any(policy is not None for policy in policies)
    before = node.statements.with_policies.pop(session.id, None)
    if has:
        node.statements.with_policies[session.id] = session
    if has or before is not None:
        node.statements.advertised = None
        session.plans = session.edited_plans = None
        node.federation.news.everything()
