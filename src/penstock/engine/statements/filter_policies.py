"""Stage judge for subscriptions and advertisements: as they come into a node's tables, and as they go on to neighbours.

A policy that is attached to one acts wherever that goes. A policy of an advertisement acts on the subscriptions that
meet it: on their way to where the advertisement came from, or if that is here, on all their ways. What a policy wants
done besides, such as a publication, is done once for a message at a node, not once for each way.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.engine.federation.state import OwnOffer, Source, Withdrawal
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements import side_effects
from penstock.engine.statements.advertised_policies import meeting
from penstock.engine.statements.applicability import came_from, is_outside, points
from penstock.engine.statements.context import SessionParty, here
from penstock.engine.statements.state import Advertised
from penstock.language.condition import Condition
from penstock.language.statements.statement import Matching, Message, Point, Statement, Verb
from penstock.model.topic import overlaps, parse_filter
from penstock.policy.statements.copies import FilterCopy, paths_read
from penstock.policy.statements.judging import ATTACHED, Bound, Judgement, applicable, attach, judge
from penstock.policy.statements.judging import run as run_rules
from penstock.policy.statements.statement import Policy, compile_statement, part_about

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
    first, policies = _policies(node, subscribed, filter)
    if not first and not policies:
        return ""
    judgement = _judgement(node, Message.SUBSCRIPTION, FilterCopy(filter, subscribed.condition), session, None, now)
    _judge(judgement, Verb.INSERT, _arriving(node, session), _bounds(first), _bounds(policies))
    _act(node, judgement, session, (session.id, subscribed.key), Verb.INSERT, now)
    if not judgement.uninserted:
        _towards_here(node, subscribed, filter, (first, policies), now)
    return _reason(judgement) if judgement.uninserted else ""


def _towards_here(
    node: Node, subscribed: Subscribed, filter: str, policies: tuple[list[Advertised], list[Advertised]], now: float
) -> None:
    """Apply policies' side effects; advertisers that are clients here are not told of subscriptions."""
    session = subscribed.session
    here_first, here_after = ([each for each in some if _is_from_here(each)] for some in policies)
    for source in dict.fromkeys(each.source for each in (*here_first, *here_after)):
        copy = FilterCopy(filter, subscribed.condition)
        judgement = _judgement(node, Message.SUBSCRIPTION, copy, session, source, now)
        about = ([each.bound for each in some if each.source is source] for some in (here_first, here_after))
        _judge(judgement, Verb.FORWARD, _arriving(node, session), *about)
        _act(node, judgement, session, (session.id, subscribed.key), Verb.FORWARD, now)


def _is_from_here(advertised: Advertised) -> bool:
    """Return True if it is of an advertisement that a client here has made, the node, or the domain for one here."""
    source = advertised.source
    return advertised.bound.carrier is Message.ADVERTISEMENT and (source is None or source.neighbour is None)


def forward_subscription(node: Node, subscribed: Subscribed, filter: str, neighbour: Session) -> Filtered | None:
    """Return the want that announces a subscription to a neighbour; None if it stays here."""
    session = subscribed.session
    first, policies = (
        [each for each in some if each.source is None or each.source is neighbour or each.source.neighbour is None]
        for some in _policies(node, subscribed, filter)
    )
    # A client must not make other nodes look for what the domain withholds from it.
    own = subscribed.policy if not session.place.policies else None
    given = list(given_to(subscribed, filter))
    if not first and not policies:
        return Filtered(subscribed.condition, _merged([own], given))
    attached = [Bound(own, ATTACHED)] if own is not None else []
    inherited = attach([*attached, *given], _associated(policies), Message.SUBSCRIPTION)
    copy = FilterCopy(filter, subscribed.condition)
    judgement = _judgement(node, Message.SUBSCRIPTION, copy, session, neighbour, NOW)
    where = points(node, session, neighbour)
    _judge(judgement, Verb.FORWARD, where, _bounds(first), [*inherited, *_associated(policies)])
    _act(node, judgement, session, (session.id, subscribed.key), Verb.FORWARD, node.runtime.clock())
    if judgement.blocked:
        return None
    return _filtered(judgement, _merged([], inherited))


def _policies(node: Node, subscribed: Subscribed, filter: str) -> tuple[list[Advertised], list[Advertised]]:
    """Return the policies that may concern a subscription: with rules before it is matched with the conditions of
    advertisements, and with rules after that.
    """
    own = []
    if subscribed.policy is not None and subscribed.policy.concerns(Message.SUBSCRIPTION):
        own.append(Advertised(Bound(subscribed.policy, f"{subscribed.session.place.entity}: {filter}"), None))
    given = (bound for bound in given_to(subscribed, filter) if bound.policy.concerns(Message.SUBSCRIPTION))
    own += (Advertised(bound, None) for bound in given)
    first, met = (
        [each for each in meeting(node, filter, condition) if each.source is not subscribed.session]
        for condition in (None, subscribed.condition)
    )
    return [each for each in (*own, *first) if each.bound.policy.has_before], [*own, *met]


def given_to(subscribed: Subscribed, filter: str) -> Iterator[Bound]:
    """Yield the policies that the domain gives to a subscription: their rules about itself, not about publications."""
    for given in subscribed.session.place.policies:
        policy = part_about(given.policy, _OF_SUBSCRIPTION) if overlaps(given.filter, filter) else None
        if policy is not None:
            yield Bound(policy, given.name, filter, subscribed.condition)


_OF_SUBSCRIPTION = frozenset({Message.SUBSCRIPTION, Message.UNSUBSCRIPTION})
_OF_ADVERTISEMENT = frozenset({Message.ADVERTISEMENT, Message.UNADVERTISEMENT})


# --- advertisements


def policy_of_advertisement(node: Node, client: str, filter: str, policy: Policy | None) -> Policy | None:
    """Return the policy of a client's advertisement, with the rules that the domain gives it about itself."""
    return merged_policy([policy] if policy is not None else [], given_to_advertisement(node, client, filter))


def given_to_advertisement(node: Node, client: str, filter: str) -> list[Bound]:
    """Return the policies that the domain gives to a client's advertisements, with their rules about these."""
    parts = (
        (given.name, part_about(given.policy, _OF_ADVERTISEMENT))
        for given in node.ensemble.statements.of(client, Message.ADVERTISEMENT)
        if overlaps(given.filter, filter)
    )
    return [Bound(policy, name) for name, policy in parts if policy is not None]


def insert_advertisement(
    node: Node, session: Session, filter: str, condition: Condition | None, policy: Policy | None, now: float
) -> str:
    """Return why policies refuse an advertisement; empty if they let it into the tables."""
    bounds = [Bound(policy, ATTACHED)] if policy is not None else []
    if session.neighbour is None:
        bounds += given_to_advertisement(node, session.place.entity, filter)
    bounds = [bound for bound in bounds if bound.policy.concerns(Message.ADVERTISEMENT)]
    if not bounds:
        return ""
    judgement = _judgement(node, Message.ADVERTISEMENT, FilterCopy(filter, condition), session, None, now)
    _judge(judgement, Verb.INSERT, _arriving(node, session), bounds, bounds)
    side_effects.take_effects(node, (effect for _, effect in judgement.effects), session, now)
    return _reason(judgement) if judgement.uninserted else ""


def forward_advertisement(node: Node, known: OwnOffer, neighbour: Session) -> Filtered | None:
    """Return the offer that announces an advertisement to a neighbour; None if it stays here."""
    policy, source = known.policy, known.session
    if policy is None or not policy.concerns(Message.ADVERTISEMENT):
        return Filtered(known.condition, "" if policy is None else policy.text)
    copy = FilterCopy(known.offer.filter, known.condition)
    judgement = _judgement(node, Message.ADVERTISEMENT, copy, source, neighbour, NOW)
    bounds = [Bound(policy, ATTACHED)]
    _judge(judgement, Verb.FORWARD, points(node, source, neighbour), bounds, bounds)
    _act(node, judgement, source, ("offer", known.offer.id), Verb.FORWARD, node.runtime.clock())
    return None if judgement.blocked else _filtered(judgement, policy.text)


# --- withdrawals


def taken_back(node: Node, source: Source | str, withdrawal: Withdrawal, now: float) -> None:
    """Apply the policies of a subscription or advertisement that is taken back, as that comes; note them, so that they
    are asked again as it goes on.
    """
    message, session, filter, condition, policies, _ = withdrawal
    bounds = tuple(bound for bound in policies if bound.policy.concerns(message))
    if not bounds:
        return
    judgement = _judgement(node, message, FilterCopy(filter, condition), session, None, now)
    _judge(judgement, Verb.INSERT, _arriving(node, session), bounds, bounds)
    _judge(judgement, Verb.FORWARD, came_from(node, session), bounds, bounds)
    side_effects.take_effects(node, (effect for _, effect in judgement.effects), session, now)
    node.statements.acted.pop(("withdrawn", source), None)
    if node.federation.neighbours:
        node.federation.news.withdrawals[source] = withdrawal._replace(policies=bounds)


def forward_withdrawal(node: Node, withdrawal: Withdrawal, neighbour: Session, source: Source | str) -> None:
    """Apply the policies of what is taken back, as it goes on to a neighbour: those rules that were not for where it
    came from. Once for a message at a node.
    """
    message, session, filter, condition, policies, _ = withdrawal
    came = came_from(node, session)
    rules = applicable(message, Verb.FORWARD, points(node, session, neighbour), policies, Matching.BEFORE)
    rules += applicable(message, Verb.FORWARD, points(node, session, neighbour), policies, Matching.AFTER)
    left = ((bound, tuple(each for each in some if each[1].points.isdisjoint(came))) for bound, some in rules)
    judgement = _judgement(node, message, FilterCopy(filter, condition), session, neighbour, NOW)
    run_rules(judgement, tuple(left))
    _act(node, judgement, session, ("withdrawn", source), Verb.FORWARD, node.runtime.clock())


def attached_to_withdrawal(policy: Policy | None) -> tuple[list[Bound], str]:
    """Return the policy that is attached to a withdrawal, as it is applied, and as it goes on."""
    return ([], "") if policy is None else ([Bound(policy, ATTACHED)], policy.text)


def of_subscription(session: Session, subscribed: Subscribed) -> Iterator[Bound]:
    """Yield the policies of a subscription, its client's and the domain's."""
    filter = parse_filter(subscribed.filter).filter
    if subscribed.policy is not None:
        name = f"{session.place.entity}: {filter}"
        yield Bound(subscribed.policy, name, filter, subscribed.condition, Message.SUBSCRIPTION)
    for bound in given_to(subscribed, filter):
        yield bound._replace(carrier=Message.SUBSCRIPTION)


# --- shared


def _arriving(node: Node, session: Session | None) -> frozenset[Point]:
    """Return the points of a message that has come to be put into the tables."""
    return frozenset({Point.INGRESS if is_outside(node, session) else Point.ROUTING})


def _judge(
    judgement: Judgement, verb: Verb, where: frozenset[Point], first: Iterable[Bound], policies: Iterable[Bound]
) -> None:
    """Apply rules before matching; then, unless these stop the message, those after it."""
    judge(judgement, verb, where, first, Matching.BEFORE)
    if not judgement.blocked and not judgement.uninserted:
        judge(judgement, verb, where, policies, Matching.AFTER)


def _bounds(advertised: Iterable[Advertised]) -> list[Bound]:
    return [each.bound for each in advertised]


def _associated(advertised: Iterable[Advertised]) -> list[Bound]:
    return [each.bound for each in advertised if each.bound.carrier is Message.ADVERTISEMENT]


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


def _merged(policies: Iterable[Policy | None], bounds: Iterable[Bound]) -> str:
    """Merge several policies into one text."""
    policy = merged_policy((policy for policy in policies if policy is not None), bounds)
    return "" if policy is None else policy.text


def merged_policy(policies: Iterable[Policy], bounds: Iterable[Bound]) -> Policy | None:
    """Merge several policies into one."""
    each = list(dict.fromkeys((*policies, *(bound.policy for bound in bounds))))
    if len(each) <= 1:
        return each[0] if each else None
    return compile_statement(Statement(tuple(rule for policy in each for rule in policy.statement.rules)))


def _reason(judgement: Judgement) -> str:
    reason = judgement.verdicts[-1].reason if judgement.verdicts else ""
    return f"policy `{judgement.uninserted}` does not let it in: {reason}"


def name_with_policy(where: str, policy: str) -> str:
    """Return the name that distinguishes a neighbour's subscription from others with the same filter."""
    return f"{where}\0{policy}" if policy else where
