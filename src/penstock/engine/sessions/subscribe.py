"""SUBSCRIBE and UNSUBSCRIBE: the index, the shared groups, and the retained messages that a subscription brings."""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from penstock.engine.contracts import client_contracts, subscribers
from penstock.engine.events import entrances
from penstock.engine.events.plan import Group
from penstock.engine.federation.state import Withdrawal
from penstock.engine.matching.predicates import Predicates
from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.refusal import MAX_NAME_LENGTH, Outcome, problem_of_name
from penstock.engine.sessions.session import Replay, Session, Subscribed, key_of
from penstock.engine.statements import bindings, filter_policies
from penstock.engine.trust import feedback
from penstock.language.condition import Condition, all_of, make_condition
from penstock.language.errors import ConditionError
from penstock.language.statements.statement import Message
from penstock.language.types import ANYTHING, RecordType
from penstock.model.errors import PolicyError, TopicError
from penstock.model.topic import Filter, covers, overlaps, parse_filter
from penstock.policy.statements.advertisement import Scope
from penstock.policy.statements.statement import Policy
from penstock.wire.errors import WireError
from penstock.wire.packet import Suback, Subscribe, Unsuback, Unsubscribe
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason

_WISHES = ("where", "name", "scope", "policy", "contract")
_SCOPES: dict[str | None, Scope] = {"global": "global", "local": "local"}
_AT_ONCE = 40
"""Retained messages that follow a SUBSCRIBE at once; the others come in later turns."""
_PIECE = 8
"""Filters of one packet that are handled before other connections may have their turn."""
_PARSED = 200
"""Filters of one packet that are parsed before that."""
_REMOVED = 50
"""Subscriptions that are removed with their session; those of a session with more, in later turns."""
_WHERE = "where"
"""The key of the conditional subscriptions of a filter in the index."""


def subscribe(node: Node, session: Session, packet: Subscribe, now: float) -> Iterator[None]:
    """Take the subscriptions, answer, then send what is retained; yield after each piece of the work."""
    identifier = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    wishes = _Wishes.of(packet.properties)
    reasons: list[int] = []
    texts: list[str] = []
    filters: list[Filter] = []
    yield from _parse_all([subscription.filter for subscription in packet.subscriptions], filters)
    # [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1] [MQTT311-3.8.4-4]
    for filter, subscription in zip(filters, packet.subscriptions, strict=True):
        if reasons and not len(reasons) % _PIECE:
            yield
        key = key_of(filter.text, wishes.name)
        condition = _refusal(node, session, filter, key) or wishes.condition(node, session, filter)
        policy = wishes.made_policy(node, session, Message.SUBSCRIPTION)
        contract = wishes.made_contract(node, session, filter, key)
        refused = next((outcome for outcome in (condition, policy, contract) if isinstance(outcome, Outcome)), None)
        subscribed, problem = None, ""
        brought: client_contracts.BroughtContract | None = None
        if refused is None:
            assert not isinstance(condition, Outcome)
            assert not isinstance(policy, Outcome)
            assert not isinstance(contract, Outcome)
            brought = contract
            # [MQTT-3.2.2-10]
            qos = min(subscription.qos, node.limits.max_qos)
            is_bridge = session.connection.is_bridge
            no_local = subscription.no_local or (is_bridge and filter.group is None)  # [MQTT-3.8.3-4]
            options = (no_local, subscription.retain_as_published or is_bridge, identifier)
            asked = (wishes.name, wishes.where, wishes.scope)
            subscribed = Subscribed(session, filter.text, qos, *options, *asked, policy=policy)
            subscribed.condition = condition
            problem = filter_policies.nothing_to_trim(policy, condition)
            problem = problem or filter_policies.insert_subscription(node, subscribed, filter.filter, now)
            refused = Outcome(Reason.NOT_AUTHORIZED, problem) if problem else None
        if refused is not None or subscribed is None:
            assert refused is not None
            reason, text = refused
            node.deny("subscribe denied", session, filter.text, text)
            texts.append(filter_policies.REFUSED if problem else text)
        else:
            reason = Reason(subscribed.qos)
            previous = session.subscriptions.get(key)
            is_new = previous is None
            subscribed.since = previous.since if previous is not None and _is_same(previous, subscribed) else now
            add(node, subscribed, filter)
            if node.trust.ratings is not None:
                feedback.subscribed(node, subscribed)
            node.ledger.subscription(session, key, subscribed)
            client_contracts.subscribed(node, subscribed, brought, now)
            handling = subscription.retain_handling
            # [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.8.4-4] [MQTT311-3.3.1-6] [MQTT311-3.8.4-3]
            if filter.group is None and (handling == 0 or (handling == 1 and is_new)):  # [MQTT-3.3.1-9] to -11
                begin_replay(node, subscribed, filter, now)
        # [MQTT311-3.9.3-2]
        reasons.append(0x80 if session.version == 4 and reason >= 0x80 else reason)
    answer = Suback(packet.packet_id, tuple(reasons))
    outbox.push_answer(node, session, answer, "; ".join(texts))  # [MQTT-3.8.4-1]
    if session.replays:
        entrances.replay(node, session, now, _AT_ONCE)


def begin_replay(node: Node, subscribed: Subscribed, filter: Filter, now: float) -> None:
    """Have the subscription sent what is retained, in later turns; an earlier replay of it begins anew."""
    if node.retained.may_match(filter.filter):
        session = subscribed.session
        replay = Replay(subscribed, node.retained.walk(filter.filter), node.retained.number, now)
        session.replays = session.replays or {}  # not the empty one that all share
        session.replays.pop(subscribed.key, None)
        session.replays[subscribed.key] = replay


def replay_again(node: Node, session: Session, wanted: str, now: float) -> None:
    """Have a session sent again what is retained on the topics of a filter and it has subscribed to."""
    for subscribed in session.subscriptions.values():
        if covers(wanted, subscribed.filter):
            begin_replay(node, subscribed, parse_filter(subscribed.filter), now)
    if session.replays:
        node.sessions.go_on(session)


def unsubscribe(node: Node, session: Session, packet: Unsubscribe, now: float) -> Iterator[None]:
    """Drop the subscriptions and answer; yield after each piece of the work."""
    reasons: list[int] = []
    # [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2]
    wishes = _Wishes.of(packet.properties)
    policy = wishes.made_policy(node, session, Message.UNSUBSCRIPTION)
    text = wishes.problem
    filters: list[Filter] = []
    yield from _parse_all(packet.filters, filters)
    for filter in filters:
        if reasons and not len(reasons) % _PIECE:
            yield
        if wishes.problem:
            reasons.append(Reason.IMPLEMENTATION_SPECIFIC_ERROR)
            continue
        if isinstance(policy, Outcome):
            reason, text = policy
            node.deny("unsubscribe denied", session, filter.text, text)
            reasons.append(reason)
            continue
        key = key_of(filter.text, wishes.name)
        known = session.subscriptions.get(key)
        if known is not None:
            attached, text = filter_policies.attached_to_withdrawal(policy)
            bounds = (*filter_policies.of_subscription(session, known), *attached)
            what = (session, filter.filter, known.condition, bounds, text)
            filter_policies.taken_back(node, (session, key), Withdrawal(Message.UNSUBSCRIPTION, *what), now)
        existed = remove(node, session, key)
        reasons.append(Reason.SUCCESS if existed else Reason.NO_SUBSCRIPTION_EXISTED)
    # [MQTT-3.10.4-4] [MQTT-3.10.4-5]
    answer = Unsuback(packet.packet_id, tuple(reasons) if session.version == 5 else ())
    outbox.push_answer(node, session, answer, text)


def add(node: Node, subscribed: Subscribed, filter: Filter) -> None:
    """Put a subscription into the index; one with the same filter and name is replaced."""  # [MQTT-3.8.4-3]
    session, key, place = subscribed.session, subscribed.key, _place(subscribed)
    subscribed.also = _narrowing(session, filter)
    previous = session.subscriptions.get(key)
    if previous is not None and not _alike(previous, subscribed):
        _take_out(node, previous, filter)
        previous = None
    session.subscriptions[key] = subscribed
    if subscribed.policy is not None:
        node.statements.note_preceding(session)
    node.federation.news.subscription(session, key)
    if filter.group is not None:
        group = node.subscriptions.groups.get((filter.group, filter.filter))
        if group is None:
            group = node.subscriptions.groups[filter.group, filter.filter] = Group(filter.group, filter.filter)
            node.subscriptions.index.add(filter.filter, f"$share/{filter.group}", group)
        if previous is not None:
            group.members[group.members.index(previous)] = subscribed
        else:
            group.members.append(subscribed)
    elif subscribed.condition is not None:
        predicates = node.subscriptions.predicates.get(filter.filter)
        if predicates is not None:  # the plans that look into it are still right
            predicates.add(place, subscribed.condition, subscribed)
            node.plans.resolved.clear()
            return
        predicates = node.subscriptions.predicates[filter.filter] = Predicates()
        predicates.add(place, subscribed.condition, subscribed)
        node.subscriptions.index.add(filter.filter, _WHERE, predicates)
    else:
        node.subscriptions.index.add(filter.filter, place, subscribed)
    node.plans.forget(filter)


def end(node: Node, session: Session) -> None:
    """Remove the subscriptions of a session that has ended. Many are removed in later turns: from now on, nothing goes
    to it and no plan names it.
    """
    removal = _removal(node, session)
    if len(session.subscriptions) + len(session.federation.subscribers) <= _REMOVED:
        deque(removal, 0)
        return
    node.sessions.ending[session.id] = session
    node.plans.forget_all()
    node.sessions.undone.append(removal)


def _removal(node: Node, session: Session) -> Iterator[None]:
    for key in list(session.subscriptions):
        remove(node, session, key)
        yield
    for key in list(session.federation.subscribers):
        subscribers.remove(node, session, key)
        yield
    node.sessions.ending.pop(session.id, None)


def remove(node: Node, session: Session, key: str) -> bool:
    """Take a subscription out of the index; whether it was there."""
    # [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-3]
    subscribed = session.subscriptions.pop(key, None)
    if subscribed is None:
        return False
    node.statements.acted.pop((session.id, key), None)
    client_contracts.unsubscribed(node, session, key)
    _take_out(node, subscribed, parse_filter(subscribed.filter))
    if session.replays:
        session.replays.pop(key, None)
    node.ledger.subscription(session, key, None)
    node.federation.news.subscription(session, key)
    return True


def _place(subscribed: Subscribed) -> Hashable:
    """Return what distinguishes it from others with the same filter."""
    return (subscribed.session.id, subscribed.name) if subscribed.name else subscribed.session.id


def _is_same(subscribed: Subscribed, other: Subscribed) -> bool:
    """Return True if both are for the same events."""
    return (subscribed.asked, subscribed.policy, subscribed.no_local) == (other.asked, other.policy, other.no_local)


def _alike(subscribed: Subscribed, other: Subscribed) -> bool:
    """Return True if both belong to the same part of the index, so that one replaces the other there."""
    return (subscribed.condition is None) == (other.condition is None) or subscribed.filter.startswith("$share/")


def _take_out(node: Node, subscribed: Subscribed, filter: Filter) -> None:
    place = _place(subscribed)
    if filter.group is not None:
        group = node.subscriptions.groups[filter.group, filter.filter]
        group.members.remove(subscribed)
        if not group.members:
            del node.subscriptions.groups[filter.group, filter.filter]
            node.subscriptions.index.remove(filter.filter, f"$share/{filter.group}")
    elif subscribed.condition is not None:
        predicates = node.subscriptions.predicates[filter.filter]
        predicates.remove(place)
        if predicates:  # the plans that look into it are still right
            node.plans.resolved.clear()
            return
        del node.subscriptions.predicates[filter.filter]
        node.subscriptions.index.remove(filter.filter, _WHERE)
    else:
        node.subscriptions.index.remove(filter.filter, place)
    if subscribed.session.id not in node.sessions.ending:  # else no plan names it
        node.plans.forget(filter)


def renew(node: Node, session: Session) -> None:
    """Update what the domain adds to the session's subscriptions."""
    for subscribed in list(session.subscriptions.values()):
        filter = parse_filter(subscribed.filter)
        condition = condition_of(node, session, filter, subscribed.asked)
        if condition != subscribed.condition or subscribed.also != _narrowing(session, filter):
            _take_out(node, subscribed, filter)
            del session.subscriptions[subscribed.key]
            subscribed.condition = condition
            add(node, subscribed, filter)


def condition_of(
    node: Node, session: Session, filter: Filter, asked: str, declared: RecordType = ANYTHING
) -> Condition | None:
    """Return the condition of a subscription: its client's and the domain's for the client."""
    conditions: list[Condition] = []
    if asked:
        conditions.append(_plain_condition(asked) if declared is ANYTHING else make_condition(asked, declared))
    conditions += [condition for wide, condition in session.place.where if covers(wide, filter.filter)]
    return all_of(conditions) if conditions else None


_plain_condition = lru_cache(maxsize=16)(make_condition)
"""A packet with many filters has one condition."""


def _narrowing(session: Session, filter: Filter) -> tuple[tuple[str, Condition], ...]:
    """Return the domain's conditions for the client on some topics of the filter, but not on all."""
    return tuple(
        (topics, condition)
        for topics, condition in session.place.where
        if overlaps(topics, filter.filter) and not covers(topics, filter.filter)
    )


class _Wishes(NamedTuple):
    """The wishes in the user properties of a SUBSCRIBE, for all subscriptions in it."""

    name: str = ""
    where: str = ""
    scope: Scope | None = None
    policy: str = ""
    contract: str = ""
    problem: str = ""

    @classmethod
    def of(cls, properties: Properties) -> "_Wishes":
        if not properties.user_properties:
            return cls()
        pairs = [pair for pair in properties.user_properties if pair[0] in _WISHES]
        mistaken = next((key for key, _ in properties.user_properties if key not in _WISHES and _means(key)), None)
        if mistaken is not None:  # not understood, it would be a subscription to more than was asked for
            return cls(problem=f"user property {mistaken!r} is not known: is `{_means(mistaken)}` meant?")
        wishes = dict(pairs)
        if len(wishes) < len(pairs):
            return cls(problem=f"more than one of {', '.join(f'`{name}`' for name in _WISHES)}")
        name, scope = wishes.get("name", ""), wishes.get("scope")
        if scope is not None and scope not in ("global", "local"):
            return cls(problem=f"scope {scope[:MAX_NAME_LENGTH]!r} is neither `global` nor `local`")
        if wishes.get("where") == "":  # no condition would be more than was asked for
            return cls(problem="condition: expected a condition, there is nothing")
        problem = problem_of_name(name)
        if wishes.get("policy") == "":
            return cls(problem="policy: expected a policy statement, there is nothing")
        if wishes.get("contract") == "":
            return cls(problem="contract: expected a contract, there is nothing")
        if problem:
            return cls(problem=problem)
        return cls(
            name, wishes.get("where", ""), _SCOPES.get(scope), wishes.get("policy", ""), wishes.get("contract", "")
        )

    def made_contract(
        self, node: Node, session: Session, filter: Filter, key: str
    ) -> client_contracts.BroughtContract | Outcome | None:
        """Return the client's guarantees for the subscription, or the reason why it is refused."""
        if not self.contract:
            return None
        refused = client_contracts.why_not(node, session)
        if refused:
            return Outcome(Reason.NOT_AUTHORIZED, refused)
        try:
            return client_contracts.with_subscription(node, session, filter, key, self.contract, self.scope)
        except PolicyError as error:
            return Outcome(Reason.IMPLEMENTATION_SPECIFIC_ERROR, f"contract: {error}")

    def made_policy(self, node: Node, session: Session, carrier: Message) -> Policy | Outcome | None:
        """Return the policy, or why there is none."""
        if not self.policy:
            return None
        policy = bindings.settable(node, session, self.policy, carrier)
        return Outcome(Reason.NOT_AUTHORIZED, policy) if isinstance(policy, str) else policy

    def condition(self, node: Node, session: Session, filter: Filter) -> Condition | Outcome | None:
        """Return the condition of a subscription to this filter, or why there is none."""
        if self.problem:
            return Outcome(Reason.IMPLEMENTATION_SPECIFIC_ERROR, self.problem)
        try:
            return condition_of(node, session, filter, self.where, node.ensemble.declared(filter.filter))
        except ConditionError as error:
            return Outcome(Reason.IMPLEMENTATION_SPECIFIC_ERROR, f"condition: {error}")


def _means(key: str) -> str | None:
    """Return the wish that a misspelt name means: other case, blanks around it, or two letters exchanged."""
    plain = key.strip().lower()
    exchanged = (plain[:at] + plain[at + 1] + plain[at] + plain[at + 2 :] for at in range(len(plain) - 1))
    longest = max(map(len, _WISHES))
    return next((wish for wish in (plain, *exchanged) if wish in _WISHES), None) if len(plain) <= longest else None


def _parse_all(texts: Sequence[str], filters: list[Filter]) -> Iterator[None]:
    """Parse all filters of a packet, before anything is done about one of them; yield after each piece of the work."""
    for place, text in enumerate(texts, 1):
        try:
            filters.append(parse_filter(text))
        except TopicError as error:
            raise WireError(Reason.MALFORMED_PACKET, str(error)) from None  # [MQTT-4.7.1-1]
        if not place % _PARSED:
            yield


def _refusal(node: Node, session: Session, filter: Filter, key: str) -> Outcome | None:
    limits = node.limits
    if filter.filter.count("/") >= limits.topic_levels:
        return Outcome(Reason.TOPIC_FILTER_INVALID, f"filter has more than {limits.topic_levels} levels")
    if session.rights is not None and not session.rights.may_subscribe(filter.filter):
        return Outcome(Reason.NOT_AUTHORIZED, session.rights.why_subscribe(filter.filter))
    most = limits.subscriptions_per_client
    if len(session.subscriptions) >= most and key not in session.subscriptions:
        return Outcome(Reason.QUOTA_EXCEEDED, f"session has {most} subscriptions already")
    return None
