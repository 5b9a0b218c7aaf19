"""Stage 7, judge: what do the policy statements of matched advertisements and subscriptions, and of the event, do?

The policies that are attached to an event act on every copy of it; those of advertisements on what comes by the link
that the advertisement came by; those of a subscription on the copy that goes to its session. `policy/judging.py`
applies them; here is what they are applied to, and what comes of it. Filters are judged in `judge_filters.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.engine import groups, travel
from penstock.engine.changes import Persisted
from penstock.engine.facts import Facts, Noted
from penstock.engine.plan import Draft
from penstock.engine.render import Forms
from penstock.engine.session import Session, Subscribed
from penstock.language.errors import StatementError
from penstock.language.statement import Attach, Matching, Message, Point, Verb
from penstock.model.content import Content, Unreadable
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.copies import Path, PublicationCopy, paths_read, touches
from penstock.policy.elements.element import Made, Obligation
from penstock.policy.given import Given
from penstock.policy.judging import EXCEPTION, Bound, Here, Judgement, judge
from penstock.policy.statement import Policy, compile_statement, make_policy, policy_on
from penstock.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from penstock.engine.node import Node

META = "$penstock/meta/"
"""Topics of meta-events; the class follows."""
MOST_MADE = 8
"""Policies that may make one event after the other: beyond, they are taken to go round in a circle."""
MOST_AT_ONCE = 1000
"""Events that policies may make because of one message."""
ATTACHED = "attached policy"


class Known(NamedTuple):
    """A session as somebody whom policies ask about."""

    node: "Node"
    session: Session
    now: float
    facts: Facts | None = None
    """Where it is noted what was asked, and in `is_sender` of whom."""
    is_sender: bool = False

    @property
    def name(self) -> str:
        return self.session.neighbour or self.session.entity

    def is_member(self, group: str) -> bool:
        answer = groups.is_member(self.node, self.session, group, self.now)
        if self.facts is not None:
            self.facts.answer(None if self.is_sender else self.name, group, answer)
        return answer


def here(node: "Node", now: float) -> Here:
    """The node as policies see it."""
    return Here(
        node.name,
        node.host,
        node.load,
        cache(lambda: max(0.0, node.clock() - now)),
        node.limits.max_packet_size,
        node.ledger.durable,
    )


def is_outside(node: "Node", session: Session | None) -> bool:
    """Whether a session is beyond the edge of the overlay: a client, a foreign broker, a node of another part."""
    if session is None or session.neighbour is None:
        return True
    overlays = node.ensemble.overlays
    return overlays.get(session.neighbour) != overlays.get(node.name)


def is_node(node: "Node", session: Session | None) -> bool:
    return session is not None and session.neighbour is not None and session.neighbour in node.ensemble.overlays


def came_from(node: "Node", sender: Session | None) -> frozenset[Point]:
    """Where a message is that has come by a link, as far as it is known before it goes on."""
    return _INGRESS if is_outside(node, sender) else _NOWHERE


def points(node: "Node", sender: Session | None, receiver: Session) -> frozenset[Point]:
    """Where a message is that goes from one to another (statements §3.4)."""
    found = came_from(node, sender)
    if is_outside(node, receiver):
        found |= _EGRESS
    return found | _ROUTING if is_node(node, receiver) else found


_NOWHERE: frozenset[Point] = frozenset()
_INGRESS, _EGRESS, _ROUTING = (frozenset({point}) for point in (Point.INGRESS, Point.EGRESS, Point.ROUTING))


# --- which policies there are


def plan(draft: Draft) -> None:
    """Find the policies of advertisements that may concern the topic; those of subscriptions are with these."""
    draft.statements = tuple(one for one in draft.link.statements if matches(one.filter, draft.topic))


def bounds_of(node: "Node", session: Session) -> tuple[Bound, ...]:
    """The policies that are for what a session publishes: given to it, and of its advertisements, or of those that a
    neighbour told of.
    """
    found = list(own_bounds(node) if session.neighbour is not None else given_bounds(node, session.entity))
    if session.neighbour is None:
        for _, advertised in sorted(session.advertisements.items()):
            if advertised.policy is not None:
                name = f"{session.entity}: {advertised.name}"
                where = (advertised.filter, advertised.condition)
                found.append(Bound(advertised.policy, name, *where, Message.ADVERTISEMENT))
    for id, offered in sorted(session.offers.items()):
        if offered.policy is not None:
            found.append(Bound(offered.policy, id, offered.offer.filter, offered.condition, Message.ADVERTISEMENT))
    return tuple(one for one in found if one.policy.concerns(Message.PUBLICATION))


def given_bounds(node: "Node", client: str) -> tuple[Bound, ...]:
    """Those that the domain gives to what a client publishes here."""
    kinds = (Message.PUBLICATION, Message.ADVERTISEMENT)
    found = [_bound(one) for kind in kinds for one in node.ensemble.statements.of(client, kind)]
    return (*own_bounds(node), *(one for one in found if one.policy.concerns(Message.PUBLICATION)))


def own_bounds(node: "Node") -> tuple[Bound, ...]:
    """Those for what the node says itself."""
    return tuple(_bound(one) for one in own(node) if one.policy.concerns(Message.PUBLICATION))


def own(node: "Node") -> tuple[Given, ...]:
    """The policies of what the node advertises itself."""
    return node.ensemble.statements.at(node.name)


def _bound(given: Given) -> Bound:
    return Bound(given.policy, given.name, given.filter, given.condition, given.to, is_given=True)


def readable(text: str) -> Policy:
    """A policy that travels with a message; raises `PolicyError`."""
    try:
        return make_policy(text)
    except StatementError as error:
        raise PolicyError(str(error)) from None


def settable(node: "Node", session: Session, text: str, carrier: Message) -> Policy | str:
    """The policy that a client wants to set, or why it may not."""
    try:
        policy = policy_on(make_policy(text), carrier)
    except (StatementError, PolicyError) as error:
        return f"policy: {error}"
    refused = why_not(node, session, policy, carrier)
    return f"policy: {refused}" if refused else policy


def why_not(node: "Node", session: Session, policy: Policy, carrier: Message) -> str:
    """Why a client may not set a policy; empty if it may."""
    denied = next((topic for topic in _topics(policy) if not _may_write(session, topic)), None)
    refused = f"`{session.entity}` may not publish on `{denied}`" if denied is not None else ""
    return node.ensemble.statements.why_not(session.entity, carrier, policy) or refused


def _topics(policy: Policy) -> Iterable[str]:
    """The topics that a policy publishes on, but for those of meta-events."""
    for act in policy.acts():
        if act.element.name == "Publish" and len(act.arguments) > 1:
            yield str(act.arguments[1])


def _may_write(session: Session, topic: str) -> bool:
    return session.rights is None or session.rights.may_write(topic)


# --- one event


class Judging:
    """One event, and what policies make of it in each direction."""

    def __init__(
        self,
        node: "Node",
        event: Event,
        sender: Session | None,
        now: float,
        statements: Sequence[Bound] = (),
        at: Here | None = None,
    ) -> None:
        """`at`: what policies see of the node, if that is not as it is now."""
        self.node = node
        self.event = event
        self.verdict: Verdict | None = None
        """Why it goes nowhere, if that is so."""
        self._sender = sender
        self._now = now
        self.facts = Facts() if node.recorder is not None else None
        """What policies asked of the node, where there is a journal."""
        self._here = at or here(node, now)
        if self.facts is not None:
            self._here = Noted.on(self._here, self.facts)
        self._forms: dict[object, Forms | None] = {}
        self._verdicts: tuple[Verdict, ...] = ()
        self._content = node.ensemble.reader.read(event)
        self._attached: tuple[Bound, ...] = ()
        self._associated: tuple[Bound, ...] = ()
        try:
            attached = [Bound(readable(text), ATTACHED) for text in travel.told(event, travel.POLICY)]
        except PolicyError as error:
            self.verdict = Verdict("judge", Effect.SUPPRESS, ATTACHED, str(error))
            return
        self._begin(attached, statements)

    def _begin(self, attached: list[Bound], statements: Sequence[Bound]) -> None:
        """Rules that come before matching; then which of the others are for it, and which are attached to it."""
        before = [one for one in statements if one.policy.has_before]
        if before or any(one.policy.has_before for one in attached):
            self._judge_before((*attached, *before))
            if self.verdict is not None:
                return
        found = [one for one in statements if one.matches(self._content)]
        given = [one._replace(carrier=None) for one in found if one.carrier is Message.PUBLICATION]
        associated = [one for one in found if one.carrier is not Message.PUBLICATION]
        self._attached = attach((*attached, *given), associated)
        self._associated = tuple(associated)
        texts = [one.policy.text for one in self._attached]
        if texts != [one.policy.text for one in attached]:
            add = [(travel.POLICY, text) for text in texts]
            self.event = travel.having(self.event, None, add, without=travel.POLICY)

    def _judge_before(self, policies: Sequence[Bound]) -> None:
        judgement = self._judgement(None)
        judge(judgement, Verb.FORWARD, came_from(self.node, self._sender), policies, Matching.BEFORE)
        self._take_effects(judgement)
        self._verdicts = tuple(judgement.verdicts)
        if judgement.blocked:
            self.verdict = judgement.verdicts[-1]
            return
        changed = self._changed(judgement)
        if changed is not self.event:
            self.event = changed
            self._content = self.node.ensemble.reader.read(changed)

    @property
    def kept(self) -> Event:
        """The event as it is retained: with the policies that would be gone with the advertisements of a client."""
        given = {one.name for one in self.node.ensemble.statements.given}
        add = [
            (travel.POLICY, one.policy.text)
            for one in self._associated
            if one.name not in given and one.policy.text not in travel.told(self.event, travel.POLICY)
        ]
        return travel.having(self.event, None, add) if add else self.event

    def forms(self, session: Session, subscribed: Sequence[Subscribed]) -> Forms | None:
        """The event as it goes to a session, for these of its subscriptions; None: it does not."""
        own = bounds_for(session, self.event.topic, subscribed, self._content)
        where = points(self.node, self._sender, session)
        is_shared = all(one.policy.is_shared for one in (*self._attached, *self._associated, *own))
        asked = () if not is_shared else tuple(one.condition for one in subscribed)
        key = (own, where, asked) if is_shared else session.id
        if key not in self._forms:
            event = self._towards(session, subscribed, own, where)
            self._forms[key] = None if event is None else Forms(event, self._now)
        return self._forms[key]

    def flooded(self) -> Iterable[Session]:
        """The neighbours that get it although they have not asked."""
        bounds = (*self._attached, *self._associated)
        if not any("FloodMessage" in one.policy.uses() for one in bounds):
            return
        for name, session in self.node.neighbours.items():
            if name in self.node.ensemble.overlays and session is not self._sender and name not in self.event.path:
                judgement = self._judgement(session)
                judge(judgement, Verb.FORWARD, points(self.node, self._sender, session), bounds, Matching.AFTER)
                if judgement.flooded and not judgement.blocked:
                    yield session

    def explained(self, session: Session, subscribed: Sequence[Subscribed]) -> tuple[Event | None, tuple[Verdict, ...]]:
        """What goes to a session, and what each rule says; nothing comes of it."""
        own = bounds_for(session, self.event.topic, subscribed, self._content)
        judgement = self._judged(session, subscribed, own, points(self.node, self._sender, session))
        event = None if judgement.blocked else self._changed(judgement)
        return event, (*self._verdicts, *judgement.verdicts)

    def _towards(
        self, session: Session, subscribed: Sequence[Subscribed], own: tuple[Bound, ...], where: frozenset[Point]
    ) -> Event | None:
        judgement = self._judged(session, subscribed, own, where)
        self._take_effects(judgement)
        return None if judgement.blocked else self._changed(judgement)

    def _judged(
        self, session: Session, subscribed: Sequence[Subscribed], own: tuple[Bound, ...], where: frozenset[Point]
    ) -> Judgement:
        """First the policies of who publishes, and the domain's: for what these take out, its reader must not be able
        to ask. Then those that the reader has set itself.
        """
        judgement = self._judgement(session)
        given = tuple(one for one in own if one.is_given)
        judgement.asked = _asked(subscribed, is_all=bool(given))
        policies = (*self._attached, *self._associated, *given)
        judge(judgement, Verb.FORWARD, where, policies, Matching.AFTER)
        if judgement.blocked:
            return judgement
        is_kept = self.event.retain and session.neighbour is not None
        if (
            judgement.copy.removed
            and subscribed
            and not is_kept
            and not self._still(subscribed, judgement.copy.removed)
        ):
            judgement.blocked = ATTACHED
            reason = "what its subscriptions ask for is taken out"
            judgement.verdicts.append(Verdict("judge", Effect.SUPPRESS, ATTACHED, reason))
            return judgement
        attached = {one.policy for one in self._attached}
        mine = [one for one in own if not one.is_given and one.policy not in attached]
        judge(judgement, Verb.FORWARD, where, mine, Matching.AFTER)
        on = attach(self._attached, own)
        judgement.attached = None if on == self._attached else on
        return judgement

    def _judgement(self, receiver: Session | None) -> Judgement:
        return Judgement(
            Message.PUBLICATION,
            PublicationCopy(self.event, self._content),
            self._here,
            None if self._sender is None else Known(self.node, self._sender, self._now, self.facts, is_sender=True),
            None if receiver is None else Known(self.node, receiver, self._now, self.facts),
        )

    def _still(self, subscribed: Sequence[Subscribed], removed: set[Path]) -> bool:
        """Whether one of the subscriptions is satisfied by what is left."""
        attributes = self._content.attributes
        if isinstance(attributes, Unreadable):
            return False
        left = _without(attributes, removed)
        for one in subscribed:
            condition = one.condition
            if condition is None or not touches(paths_read(condition.tree), removed):
                return True
            if condition.of(left, self._content) is True:
                return True
        return False

    def _changed(self, judgement: Judgement) -> Event:
        copy = judgement.copy
        assert isinstance(copy, PublicationCopy)
        if not copy.is_changed and judgement.attached is None:
            return self.event
        event = self.event._replace(payload=copy.payload)
        if judgement.attached is not None:
            texts = [(travel.POLICY, one.policy.text) for one in judgement.attached]
            return travel.having(event, copy.content_type, [*copy.beside, *texts], without=travel.POLICY)
        if copy.content_type is None and not copy.beside:
            return event
        return travel.having(event, copy.content_type, copy.beside)

    def _take_effects(self, judgement: Judgement) -> None:
        if judgement.effects:
            effects = (effect for _, effect in judgement.effects)
            take_effects(self.node, effects, self._sender, self._now, count_made(self.event))


def still(
    node: "Node", event: Event, session: Session, given: Sequence[Bound], subscribed: Sequence[Subscribed], now: float
) -> Event | None:
    """What was judged before, as the domain's policies for its publisher (`given`) and its reader are now: only what
    takes away counts.
    """
    content = node.ensemble.reader.read(event)
    said = [one for one in given if one.condition is None or one.condition.holds(content) is True]
    own = [one for one in bounds_for(session, event.topic, subscribed, content) if one.name in _names(session)]
    judgement = Judgement(
        Message.PUBLICATION,
        PublicationCopy(event, content),
        here(node, now),
        None,
        Known(node, session, now),
        is_again=True,
    )
    where = frozenset({Point.INGRESS, *points(node, None, session)})
    policies = [one._replace(carrier=None) if one.carrier is Message.PUBLICATION else one for one in said]
    judge(judgement, Verb.FORWARD, where, (*policies, *own), Matching.AFTER)
    if judgement.blocked:
        return None
    copy = judgement.copy
    return event._replace(payload=copy.payload) if isinstance(copy, PublicationCopy) and copy.is_changed else event


def _names(session: Session) -> frozenset[str]:
    return frozenset(one.name for one in session.policies)


def bounds_for(session: Session, topic: str, subscribed: Sequence[Subscribed], content: Content) -> tuple[Bound, ...]:
    """The policies for what goes to a session by these of its subscriptions: the domain's first, so that they are asked
    whatever the client's own do. An element that refers to a filter refers to the client's.
    """
    found = []
    for given in session.policies:
        if (
            matches(given.filter, topic)
            and given.policy.concerns(Message.PUBLICATION)
            and _bound(given).matches(content)
        ):
            asked = [one.condition for one in subscribed if one.condition is not None]
            condition = asked[0] if len(asked) == 1 else given.condition
            about = (given.filter, condition, Message.SUBSCRIPTION, True)
            found.append(Bound(given.policy, given.name, *about))
    own = [
        Bound(one.policy, f"{session.entity}: {one.filter}", one.filter, one.condition, Message.SUBSCRIPTION)
        for one in subscribed
        if one.policy is not None and one.policy.concerns(Message.PUBLICATION)
    ]
    return (*found, *sorted(own, key=_order))


def _asked(subscribed: Sequence[Subscribed], is_all: bool) -> frozenset[Path]:
    """The attributes that subscriptions ask for, of which the copy is trimmed to what all of them want."""
    asking = (one for one in subscribed if is_all or one.policy is not None)
    return frozenset(path for one in asking if one.condition is not None for path in paths_read(one.condition.tree))


def _order(bound: Bound) -> tuple[str, str, str]:
    return bound.filter, "" if bound.condition is None else bound.condition.text, bound.policy.text


def attach(
    attached: Sequence[Bound], associated: Iterable[Bound], about: Message = Message.PUBLICATION
) -> tuple[Bound, ...]:
    """What is attached to a message once the rules of the filters that it matches have been (statements §4.2)."""
    found = list(attached)
    for bound in associated:
        for rule in bound.policy.rules:
            if rule.message is not about or rule.attach is Attach.NEVER:
                continue
            one = Bound(compile_statement(rule.statement), ATTACHED)
            if any(one.policy == other.policy for other in found):
                continue
            if rule.attach is Attach.KEEP_EXISTING and found:
                continue
            if rule.attach is Attach.IF_YIELD and found:
                if not all(other.policy.yields for other in found):
                    continue
                found.clear()
            found.append(one)
    return tuple(found)


def _without(attributes: dict[str, object], removed: Iterable[Path]) -> dict[str, object]:
    left = dict(attributes)
    for path in removed:
        inner: object = left
        for step in path[:-1]:
            below = inner.get(step) if isinstance(inner, dict) else None
            if not isinstance(below, dict):
                break
            inner[step] = dict(below)  # type: ignore[index]
            inner = inner[step]  # type: ignore[index]
        else:
            if isinstance(inner, dict):
                inner.pop(path[-1], None)
    return left


# --- what comes of it


def count_made(event: Event) -> int:
    """How many policies in a row have made an event."""
    said = next(iter(travel.told(event, travel.MADE)), "0")
    return int(said) if said.isdecimal() and len(said) < 4 else MOST_MADE


def take_effects(
    node: "Node", effects: Iterable[Made | Obligation], sender: Session | None, now: float, made: int = 0
) -> None:
    """Have the node do what policies want done besides."""
    for effect in effects:
        if isinstance(effect, Made):
            _make(node, effect, sender, made)
        else:
            _oblige(node, effect, sender, now)


def _make(node: "Node", made: Made, sender: Session | None, before: int) -> None:
    kind = str(made.content.get("class", ""))
    topic = made.topic or f"{META}{kind}"
    if kind == EXCEPTION:
        node.notice("policy failed", sender, topic, f"{made.content['policy']}: {made.content['reason']}")
    if before >= MOST_MADE or len(node.made) >= MOST_AT_ONCE:
        why = "go round in a circle" if before >= MOST_MADE else "make too much of one message"
        node.notice("policy loop", sender, topic, f"policies {why}: `{topic}` is not published")
        return
    told = Properties(content_type="application/json", user_properties=((travel.MADE, str(before + 1)),))
    node.made.append((sender, Event(topic, msgspec.json.encode(made.content), 0, False, encode_properties(told))))


def _oblige(node: "Node", obligation: Obligation, sender: Session | None, now: float) -> None:
    if obligation.kind == "log":
        said = f"{obligation.about}: " if obligation.about else ""
        node.notice("policy log", sender, obligation.topic, f"{obligation.policy}: {said}{obligation.message}")
        return
    row = Persisted(now, obligation.about, obligation.policy, obligation.topic, obligation.payload)
    if node.ledger.persist(row, node.limits.persisted_messages) and not node.is_persisted_full:
        node.is_persisted_full = True
        reason = f"there are {node.limits.persisted_messages} persisted messages: the oldest are dropped from now on"
        node.notice("full", sender, obligation.topic, reason)


def drain(node: "Node", publish: Callable[[Session | None, Event], None]) -> None:
    """Publish what policies have made; what these events make in turn too."""
    if node.draining:
        return
    node.draining = True
    try:
        at = 0
        while at < len(node.made):
            publish(*node.made[at])
            at += 1
        node.made.clear()
    finally:
        node.draining = False
