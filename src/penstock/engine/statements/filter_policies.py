"""Stage judge for subscriptions and advertisements: as they come into a node's tables, and as they go on to neighbours.

A policy that is attached to one acts wherever that goes. A policy of an advertisement acts on the subscriptions that
meet it: on their way to where the advertisement came from, or if that is here, on all their ways. What a policy wants
done besides, such as a publication, is done once for a message at a node, not once for each way.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.engine.federation.state import OwnOffer
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements import side_effects
from penstock.engine.statements.advertised_policies import meeting
from penstock.engine.statements.applicability import is_outside, points
from penstock.engine.statements.context import SessionParty, here
from penstock.engine.statements.state import Advertised
from penstock.language.condition import Condition
from penstock.language.statements.statement import Matching, Message, Point, Statement, Verb
from penstock.model.topic import overlaps, parse_filter
from penstock.policy.statements.copies import FilterCopy, paths_read
from penstock.policy.statements.judging import ATTACHED, Bound, Judgement, attach, judge
from penstock.policy.statements.statement import Policy, compile_statement

NOW = 0.0
"""Filters are not forwarded at a time of their own: how long that took cannot be asked."""
REFUSED = "a policy does not let it in"
"""The answer to a client whose subscription is refused. The policy and the reason are for the log: they may be of
somebody whom the client must not know of.
"""


class Filtered(NamedTuple):
    """A filter as a policy lets it go on."""

    condition: Condition | None
    policy: str
    """The policies that go with it."""
    is_changed: bool = False
    is_flooded: bool = False


# --- subscriptions


def nothing_to_trim(policy: Policy | None, condition: Condition | None) -> str:
    """Return why a policy cannot belong to a filter that asks for no attributes; empty if it can."""
    if policy is None or "TrimAttributes" not in policy.uses() or paths_read(condition.tree if condition else None):
        return ""
    return "policy: `TrimAttributes()` leaves what the condition asks for, and there is none that asks for attributes"


def insert_subscription(node: Node, subscribed: Subscribed, filter: str, now: float) -> str:
    """Return why policies refuse a subscription; empty if they let it into the tables."""
    session = subscribed.session
    node.statements.acted.pop((session.id, subscribed.key), None)
    policies = _policies(node, subscribed, filter)
    if not policies:
        return ""
    where = _arriving(node, session)
    judgement = _judgement(node, Message.SUBSCRIPTION, FilterCopy(filter, subscribed.condition), session, None, now)
    bounds = [advertised.bound for advertised in policies]
    judge(judgement, Verb.INSERT, where, bounds, Matching.BEFORE)
    if not judgement.uninserted:
        judge(judgement, Verb.INSERT, where, bounds, Matching.AFTER)
    _act(node, judgement, session, (session.id, subscribed.key), Verb.INSERT, now)
    if not judgement.uninserted:
        _towards_here(node, subscribed, filter, policies, now)
    return _reason(judgement) if judgement.uninserted else ""


def _towards_here(node: Node, subscribed: Subscribed, filter: str, policies: list[Advertised], now: float) -> None:
    """Apply policies' side effects; advertisers that are clients here are not told of subscriptions."""
    session = subscribed.session
    for bound, source in policies:
        if bound.carrier is not Message.ADVERTISEMENT or (source is not None and source.neighbour is not None):
            continue
        copy = FilterCopy(filter, subscribed.condition)
        judgement = _judgement(node, Message.SUBSCRIPTION, copy, session, source, now)
        judge(judgement, Verb.FORWARD, _arriving(node, session), [bound], Matching.AFTER)
        _act(node, judgement, session, (session.id, subscribed.key), Verb.FORWARD, now)


def forward_subscription(node: Node, subscribed: Subscribed, filter: str, neighbour: Session) -> Filtered | None:
    """Return the want that announces a subscription to a neighbour; None if it stays here."""
    session = subscribed.session
    policies = [
        Advertised(bound, source)
        for bound, source in _policies(node, subscribed, filter)
        if source is None or source is neighbour or source.neighbour is None
    ]
    # A client must not make other nodes look for what the domain withholds from it.
    own = subscribed.policy if not session.place.policies else None
    if not policies:
        return Filtered(subscribed.condition, "" if own is None else own.text)
    bounds = [advertised.bound for advertised in policies]
    attached = [Bound(own, ATTACHED)] if own is not None else []
    associated = [bound for bound in bounds if bound.carrier is Message.ADVERTISEMENT]
    inherited = attach(attached, associated, Message.SUBSCRIPTION)
    bounds = [*inherited, *(bound for bound in bounds if bound.carrier is not None)]
    where = points(node, session, neighbour)
    copy = FilterCopy(filter, subscribed.condition)
    judgement = _judgement(node, Message.SUBSCRIPTION, copy, session, neighbour, NOW)
    judge(judgement, Verb.FORWARD, where, bounds, Matching.BEFORE)
    if not judgement.blocked:
        judge(judgement, Verb.FORWARD, where, bounds, Matching.AFTER)
    _act(node, judgement, session, (session.id, subscribed.key), Verb.FORWARD, node.runtime.clock())
    if judgement.blocked:
        return None
    return _filtered(judgement, _merged([bound.policy for bound in inherited]))


def _policies(node: Node, subscribed: Subscribed, filter: str) -> list[Advertised]:
    """Return the policies that may concern a subscription."""
    policies = []
    if subscribed.policy is not None and subscribed.policy.concerns(Message.SUBSCRIPTION):
        policies.append(Advertised(Bound(subscribed.policy, f"{subscribed.session.place.entity}: {filter}"), None))
    for given in subscribed.session.place.policies:
        if given.policy.concerns(Message.SUBSCRIPTION) and overlaps(given.filter, filter):
            policies.append(Advertised(Bound(given.policy, given.name, filter, subscribed.condition), None))
    met = meeting(node, filter, subscribed.condition)
    policies += (advertised for advertised in met if advertised.source is not subscribed.session)
    return policies


# --- advertisements


def insert_advertisement(
    node: Node, session: Session, filter: str, condition: Condition | None, policy: Policy | None, now: float
) -> str:
    """Return why its policy refuses an advertisement; empty if it lets it into the tables."""
    if policy is None or not policy.concerns(Message.ADVERTISEMENT):
        return ""
    judgement = _judgement(node, Message.ADVERTISEMENT, FilterCopy(filter, condition), session, None, now)
    bounds = [Bound(policy, ATTACHED)]
    for matching in Matching:
        judge(judgement, Verb.INSERT, _arriving(node, session), bounds, matching)
    side_effects.take_effects(node, (effect for _, effect in judgement.effects), session, now)
    return _reason(judgement) if judgement.uninserted else ""


def forward_advertisement(node: Node, known: OwnOffer, neighbour: Session) -> Filtered | None:
    """Return the offer that announces an advertisement to a neighbour; None if it stays here."""
    policy, source = known.policy, known.session
    if policy is None or not policy.concerns(Message.ADVERTISEMENT):
        return Filtered(known.condition, "" if policy is None else policy.text)
    copy = FilterCopy(known.offer.filter, known.condition)
    judgement = _judgement(node, Message.ADVERTISEMENT, copy, source, neighbour, NOW)
    for matching in Matching:
        judge(judgement, Verb.FORWARD, points(node, source, neighbour), [Bound(policy, ATTACHED)], matching)
    _act(node, judgement, source, ("offer", known.offer.id), Verb.FORWARD, node.runtime.clock())
    return None if judgement.blocked else _filtered(judgement, policy.text)


# --- withdrawals


def taken_back(
    node: Node,
    session: Session,
    message: Message,
    filter: str,
    condition: Condition | None,
    policies: Iterable[Bound],
    now: float,
) -> None:
    """Apply the policies' side effects of a withdrawn subscription or advertisement."""
    bounds = [bound for bound in policies if bound.policy.concerns(message)]
    if not bounds:
        return
    judgement = _judgement(node, message, FilterCopy(filter, condition), session, None, now)
    for verb in (Verb.INSERT, Verb.FORWARD):
        for matching in Matching:
            judge(judgement, verb, _arriving(node, session), bounds, matching)
    side_effects.take_effects(node, (effect for _, effect in judgement.effects), session, now)


def of_subscription(session: Session, subscribed: Subscribed) -> Iterator[Bound]:
    """Yield the policies of a subscription, its client's and the domain's."""
    filter = parse_filter(subscribed.filter).filter
    if subscribed.policy is not None:
        name = f"{session.place.entity}: {filter}"
        yield Bound(subscribed.policy, name, filter, subscribed.condition, Message.SUBSCRIPTION)
    for given in session.place.policies:
        if overlaps(given.filter, filter):
            yield Bound(given.policy, given.name, filter, subscribed.condition, Message.SUBSCRIPTION)


# --- shared


def _arriving(node: Node, session: Session | None) -> frozenset[Point]:
    """Return the points of a message that has come to be put into the tables."""
    return frozenset({Point.INGRESS if is_outside(node, session) else Point.ROUTING})


def _judgement(
    node: Node, message: Message, copy: FilterCopy, sender: Session | None, receiver: Session | None, now: float
) -> Judgement:
    at = now or node.runtime.clock()
    sending, receiving = (None if party is None else SessionParty(node, party, at) for party in (sender, receiver))
    return Judgement(message, copy, here(node, at), sending, receiving)


def _act(
    node: Node, judgement: Judgement, session: Session | None, key: tuple[object, ...], verb: Verb, now: float
) -> None:
    """Do what policies want done besides, but for what was done for this message already."""
    if not judgement.effects:
        return
    acted = node.statements.acted.setdefault(key, set())
    effects = [effect for bound, effect in judgement.effects if (verb, bound) not in acted]
    acted.update((verb, bound) for bound, _ in judgement.effects)
    side_effects.take_effects(node, effects, session, now)


def _filtered(judgement: Judgement, policy: str) -> Filtered:
    copy = judgement.copy
    assert isinstance(copy, FilterCopy)
    return Filtered(copy.condition, policy, copy.is_changed, judgement.flooded)


def _merged(policies: list[Policy]) -> str:
    """Merge several policies into one text."""
    if not policies:
        return ""
    rules = tuple(rule for policy in policies for rule in policy.statement.rules)
    return policies[0].text if len(policies) == 1 else compile_statement(Statement(rules)).text


def _reason(judgement: Judgement) -> str:
    reason = judgement.verdicts[-1].reason if judgement.verdicts else ""
    return f"policy `{judgement.uninserted}` does not let it in: {reason}"


def name_with_policy(where: str, policy: str) -> str:
    """Return the name that distinguishes a neighbour's subscription from others with the same filter."""
    return f"{where}\0{policy}" if policy else where
