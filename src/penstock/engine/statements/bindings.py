"""The policies for a session's publications, and those that its client may set."""

from collections.abc import Iterable

from penstock.engine.federation.wants import is_of_client, owner_in
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements.applicability import as_bound
from penstock.language.errors import StatementError
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.policy.statements.assignments import AssignedPolicy
from penstock.policy.statements.judging import Bound
from penstock.policy.statements.statement import Policy, make_policy, policy_on


def bounds_of(node: Node, session: Session) -> tuple[Bound, ...]:
    """Return the policies for what a session publishes: the domain's, and those of what it advertises or announced."""
    bounds = list(own_bounds(node) if session.neighbour is not None else given_bounds(node, session.place.entity))
    if session.neighbour is None:
        for _, advertised in sorted(session.declared.advertisements.items()):
            if advertised.policy is not None:
                name = f"{session.place.entity}: {advertised.name}"
                where = (advertised.filter, advertised.condition)
                bounds.append(Bound(advertised.policy, name, *where, Message.ADVERTISEMENT))
    for id, offered in sorted(session.federation.offers.items()):
        if offered.policy is not None:
            about = (offered.offer.filter, offered.condition, Message.ADVERTISEMENT)
            bounds.append(Bound(offered.policy, id, *about, is_strange=is_of_client(id), owner=owner_in(id)))
    return tuple(bound for bound in bounds if bound.policy.concerns(Message.PUBLICATION))


def given_bounds(node: Node, client: str) -> tuple[Bound, ...]:
    """Return the domain's policies for what a client publishes here."""
    kinds = (Message.PUBLICATION, Message.ADVERTISEMENT)
    bounds = [as_bound(policy) for kind in kinds for policy in node.ensemble.statements.of(client, kind)]
    return (*own_bounds(node), *(bound for bound in bounds if bound.policy.concerns(Message.PUBLICATION)))


def own_bounds(node: Node) -> tuple[Bound, ...]:
    """Return the policies for the node's own events."""
    return tuple(as_bound(policy) for policy in own(node) if policy.policy.concerns(Message.PUBLICATION))


def own(node: Node) -> tuple[AssignedPolicy, ...]:
    """Return the policies of what the node advertises itself."""
    return node.ensemble.statements.at(node.name)


def readable(text: str) -> Policy:
    """Parse a policy that travels with a message; raise `PolicyError`."""
    try:
        return make_policy(text)
    except StatementError as error:
        raise PolicyError(str(error)) from None


def settable(node: Node, session: Session, text: str, carrier: Message, filter: str = "") -> Policy | str:
    """Return the policy that a client wants to set, or why it may not. The text is read only if it may set one.
    `filter`: of the advertisement that it is for.
    """
    if not node.ensemble.statements.may_set(session.place.entity, carrier):
        return f"policy: {node.ensemble.statements.none_of(session.place.entity, carrier)}"
    try:
        policy = policy_on(make_policy(text), carrier)
    except (StatementError, PolicyError) as error:
        return f"policy: {error}"
    refused = why_not(node, session, policy, carrier, filter)
    return f"policy: {refused}" if refused else policy


def why_not(node: Node, session: Session, policy: Policy, carrier: Message, filter: str = "") -> str:
    """Return why a client may not set a policy; empty if it may."""
    rights, statements, client = session.rights, node.ensemble.statements, session.place.entity
    is_about_others = carrier is Message.ADVERTISEMENT and policy.concerns(Message.SUBSCRIPTION)
    if is_about_others and not statements.may_judge_others(client, filter):
        return f"`{client}` may not set policies about what others subscribe to in `{filter}`: no grant says `others`"
    denied = next((topic for topic in _topics(policy) if rights is not None and not rights.may_write(topic)), None)
    refused = f"`{client}` may not publish on `{denied}`" if denied is not None else ""
    return statements.why_not(client, carrier, policy) or refused


def _topics(policy: Policy) -> Iterable[str]:
    """Yield the topics that a policy publishes on, but for those of meta-events."""
    for act in policy.acts():
        if act.element.name == "Publish" and len(act.arguments) > 1:
            yield str(act.arguments[1])
