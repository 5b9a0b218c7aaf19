"""The judging of one event by policy statements, in each direction that it goes."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from penstock.engine.contracts import privacy, release_decision
from penstock.engine.events import publishers, user_properties
from penstock.engine.events.plan import Target
from penstock.engine.federation.wants import owner
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements import bindings, side_effects
from penstock.engine.statements.applicability import bounds_for, came_from, is_node, points
from penstock.engine.statements.context import SessionParty, here
from penstock.engine.statements.course import Course, Courses, asked_by
from penstock.engine.statements.facts import Facts, RecordingHere
from penstock.language.condition import Condition
from penstock.language.statements.statement import Matching, Message, Verb
from penstock.language.tree import XPath, walk
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.copies import Copy, PublicationCopy, paths_read
from penstock.policy.statements.judging import ATTACHED, Bound, Here, Judgement, MessageParty, attach, judge
from penstock.policy.statements.judging import run as run_rules
from penstock.policy.statements.statement import Policy, blinded


class JudgedCopy(Judgement):
    """A copy that goes to a session. Facts that few policies ask for are computed on demand."""

    released: Event | None = None
    """The part of a private event that the session is shown: its own policies are asked about that."""

    def __init__(self, judging: "Judging", session: Session | None) -> None:
        self.copy = PublicationCopy(judging.event, judging.content)
        self._judging = judging
        self._session = session

    @property
    def here(self) -> Here:  # type: ignore[override]
        return self._judging.here

    @property
    def sender(self) -> MessageParty | None:  # type: ignore[override]
        on = self._judging
        return None if on.sender is None else SessionParty(on.node, on.sender, on.now, on.facts, is_sender=True)

    @property
    def receiver(self) -> MessageParty | None:  # type: ignore[override]
        on = self._judging
        return None if self._session is None else SessionParty(on.node, self._session, on.now, on.facts)


class Judging:
    """One event, and what policies make of it in each direction."""

    verdict: Verdict | None = None
    """The verdict that stops it everywhere, if any."""
    plain: Forms | None = None
    """The event as it is, for those to whom it goes unchanged."""
    _here: Here | None = None
    before: tuple[Verdict, ...] = ()
    """The verdicts of rules before matching; and whose they may be."""
    _asked_before: tuple[Bound, ...] = ()
    _attached: tuple[Bound, ...] = ()
    _associated: tuple[Bound, ...] = ()
    is_for_all = False
    """It has policies that act wherever it goes."""
    _has_more = False
    """Copies depend on more than the policies of subscriptions."""
    _may_make: int | None = None
    """The number of events that policies may still make because of it."""
    _last: object = None
    """The key of the copy that was asked for last."""
    _apart: frozenset[object] = frozenset()
    """Keys of copies that more comes of than a copy: for each receiver again."""

    def __init__(
        self,
        node: Node,
        event: Event,
        sender: Session | None,
        now: float,
        statements: Sequence[Bound] = (),
        at: Here | None = None,
    ) -> None:
        """Begin to judge an event; `at`: the node as policies see it, if not as it is now."""
        self.node = node
        self.event = event
        self.sender = sender
        self.now = now
        self.facts = Facts() if node.recorder is not None else None
        """The facts that policies asked of the node, where there is a journal."""
        self.content = node.ensemble.reader.read(event)
        self._came = came_from(node, sender)
        self._forms: dict[object, Forms | None] = {}
        self._counting: dict[object, tuple[int, ...]] = {}
        """Of copies for which not all subscriptions count, the places of those that do."""
        if at is not None:
            self._here = at if self.facts is None else RecordingHere.on(at, self.facts)
        if not statements and user_properties.RESERVED_BYTES not in event.properties:
            return
        texts = user_properties.told(event, user_properties.POLICY)
        try:
            attached = [Bound(bindings.readable(text), ATTACHED) for text in texts]
        except PolicyError as error:
            self.verdict = Verdict("judge", Effect.SUPPRESS, ATTACHED, str(error))
            return
        if any(bound.owner for bound in statements):
            publisher = publishers.publisher_of(node, event)
            by = "" if publisher is None else owner(publisher.node, publisher.client_id)
            statements = [bound for bound in statements if bound.owner in ("", by)]
        if any(bound.is_strange for bound in statements) and self._is_private:
            known = frozenset(bound.policy for bound in attached)
            statements = [_blind(bound, known) if bound.is_strange else bound for bound in statements]
        self._begin(attached, statements)

    def _begin(self, attached: list[Bound], statements: Sequence[Bound]) -> None:
        """Apply the rules before matching; then find the other policies, and those attached to the event."""
        before = [bound for bound in statements if bound.policy.has_before]
        if before or any(bound.policy.has_before for bound in attached):
            self._judge_before((*attached, *before))
            if self.verdict is not None:
                return
        matching = [
            bound for bound in statements if (bound.is_strange and self._is_private) or bound.matches(self.content)
        ]
        given = [bound._replace(carrier=None) for bound in matching if bound.carrier is Message.PUBLICATION]
        associated = [bound for bound in matching if bound.carrier is not Message.PUBLICATION]
        self._attached = attach((*attached, *given), associated)
        self._associated = tuple(associated)
        self.is_for_all = self._has_more = bool(self._attached or self._associated)
        texts = [bound.policy.text for bound in self._attached]
        if texts != [bound.policy.text for bound in attached]:
            add = [(user_properties.POLICY, text) for text in texts]
            self.event = user_properties.having(self.event, None, add, without=user_properties.POLICY)

    def _judge_before(self, policies: Sequence[Bound]) -> None:
        judgement = JudgedCopy(self, None)
        judge(judgement, Verb.FORWARD, came_from(self.node, self.sender), policies, Matching.BEFORE)
        self._take_effects(judgement)
        self.before, self._asked_before = tuple(judgement.verdicts), tuple(policies)
        if judgement.blocked:
            self.verdict = judgement.verdicts[-1]
            return
        changed = self._changed(judgement)
        if changed is not self.event:
            self.event = changed
            self.content = self.node.ensemble.reader.read(changed)

    @property
    def kept(self) -> Event:
        """The event to retain: with the policies that would be gone with a client's advertisements."""
        there = user_properties.told(self.event, user_properties.POLICY)
        texts = (bound.policy.text for bound in self._associated if not bound.is_given)
        add = [(user_properties.POLICY, text) for text in texts if text not in there]
        return user_properties.having(self.event, None, add) if add else self.event

    def forms(self, session: Session, subscribed: Sequence[Subscribed], known: Courses | None = None) -> Forms | None:
        """Return the event as it goes to a session for these subscriptions, if at all; `known` caches their courses."""
        course = None if known is None else known.get(self._came)
        if course is None or course.ensemble is not self.node.ensemble:
            course = self._course(session, subscribed, known)
        is_apart = self._has_more or course.key is None or (course.mine and self._is_private)
        key = self._key(course, session, subscribed) if is_apart else course.key
        self._last = key
        if key in self._forms:
            return self._forms[key]
        judgement = self._judged(session, subscribed, course)
        if judgement.effects:
            self._take_effects(judgement)
            self._apart |= {key}
            self._has_more = True
            key = self._last = (session.id, *subscribed)
        forms = self._forms[key] = None if judgement.blocked else self._shown(self._changed(judgement))
        if judgement.counting is not None:
            self._counting[key] = judgement.counting
        return forms

    def counting(self, target: Target) -> Target:
        """Return the target for which the forms were asked for last, with only the subscriptions that still count."""
        left = self._counting.get(self._last)
        return target if left is None else Target([target.subscriptions[at] for at in left])

    def _shown(self, event: Event) -> Forms:
        if event is not self.event:
            return Forms(event, self.now)
        if self.plain is None:
            self.plain = Forms(event, self.now)
        return self.plain

    def _course(self, session: Session, subscribed: Sequence[Subscribed], known: Courses | None = None) -> Course:
        """Return the course of what goes to a session. It is added to `known`."""
        own = bounds_for(session, self.event.topic, subscribed, self.content)
        course = Course(self.node.ensemble, own, points(self.node, self.sender, session), subscribed)
        if known is not None and not session.place.policies:  # what the domain gives depends on topic and content
            known[self._came] = course
        return course

    def _key(self, course: Course, session: Session, subscribed: Sequence[Subscribed]) -> tuple[object, ...]:
        """Return the key that equal copies share."""
        key = None if course.mine and self._is_private else course.key
        if key is not None and (self._attached or self._associated):
            if all(bound.policy.is_shared for bound in (*self._attached, *self._associated)):
                key = (*key, *asked_by(subscribed))
            else:
                key = None
        return (session.id, *subscribed) if key is None or key in self._apart else key

    def flooded(self) -> Iterable[Session]:
        """Yield the neighbours that get it although they have not asked."""
        bounds = (*self._attached, *self._associated)
        if not any("FloodMessage" in bound.policy.uses() for bound in bounds):
            return
        for name, session in self.node.federation.neighbours.items():
            if name in self.node.ensemble.overlays and session is not self.sender and name not in self.event.path:
                judgement = JudgedCopy(self, session)
                judge(judgement, Verb.FORWARD, points(self.node, self.sender, session), bounds, Matching.AFTER)
                if judgement.flooded and not judgement.blocked:
                    yield session

    def explained(self, session: Session, subscribed: Sequence[Subscribed]) -> tuple[Event | None, tuple[Verdict, ...]]:
        """Return the copies for a session and each rule's verdict, without side effects."""
        judgement = self._judged(session, subscribed, self._course(session, subscribed))
        event = None if judgement.blocked else self._changed(judgement)
        return event, tuple(judgement.verdicts)

    def bounds_of_all(self, session: Session, subscribed: Sequence[Subscribed]) -> tuple[Bound, ...]:
        """Return the policies that may have a say in what goes to a session by these of its subscriptions."""
        return (*self.bounds, *bounds_for(session, self.event.topic, subscribed, self.content))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The policies that may have a say in it, whoever gets it."""
        return (*self._asked_before, *self._attached, *self._associated)

    @cached_property
    def _is_private(self) -> bool:
        return privacy.is_private(self.node, self.event)

    def _judged(self, session: Session, subscribed: Sequence[Subscribed], course: Course) -> JudgedCopy:
        judgement = JudgedCopy(self, session)
        judgement.asked = course.asked
        mine = course.mine
        if self._has_more or course.given:
            self._judge_first(judgement, session, subscribed, course)
            if judgement.blocked:
                return judgement
            attached = {bound.policy for bound in self._attached}
            mine = tuple(pair for pair in mine if pair[0].policy not in attached)
            if judgement.copy.hidden:
                mine = tuple(pair for pair in mine if not _asks_hidden(pair[0], judgement.copy))
            if mine:
                judgement.copy.settle()
        own: Sequence[Bound] = course.own
        if course.mine and self._is_private:
            own = [bound for bound in own if bound.is_given]
            mine = () if is_node(self.node, session) else mine  # only the consumer's node knows what it is shown
            if mine and not self._release(judgement, session):
                return judgement
        judgement.may_only_block = _is_kept_beyond(self.event, session)
        run_rules(judgement, mine)
        if course.attaches:
            on = attach(self._attached, [bound for bound in own if not _asks_hidden(bound, judgement.copy)])
            judgement.attached = None if on == self._attached else on
        return judgement

    def _release(self, judgement: JudgedCopy, session: Session) -> bool:
        """Go on with what contracts show the session, so that its own policies tell it nothing of the rest; if any."""
        released, why = release_decision.at_once(self.node, session, self._changed(judgement), self.now)
        judgement.note(why)
        if released is None:
            judgement.blocked = why.rule or why.stage
            return False
        judgement.released = released
        judgement.copy = PublicationCopy(released, self.node.ensemble.reader.read(released))
        return True

    def _judge_first(
        self, judgement: Judgement, session: Session, subscribed: Sequence[Subscribed], course: Course
    ) -> None:
        """Ask the publisher's policies and the domain's: a reader must not be able to ask for what these take out."""
        policies = (*self._attached, *self._associated)
        judge(judgement, Verb.FORWARD, course.where, policies, Matching.AFTER)
        if not judgement.blocked:
            run_rules(judgement, course.given)
        if not judgement.copy.hidden or not subscribed or judgement.blocked or _is_kept_beyond(self.event, session):
            return
        left = _counting(subscribed, judgement.copy)
        if not left:
            judgement.blocked = ATTACHED
            reason = "what its subscriptions ask for is taken out"
            judgement.note(Verdict("judge", Effect.SUPPRESS, ATTACHED, reason))
        elif len(left) < len(subscribed):
            judgement.counting = left

    @property
    def here(self) -> Here:
        """The node, as policies see it."""
        if self._here is None:
            context = here(self.node, self.now)
            self._here = context if self.facts is None else RecordingHere.on(context, self.facts)
        return self._here

    def _changed(self, judgement: JudgedCopy) -> Event:
        copy, event = judgement.copy, judgement.released or self.event
        assert isinstance(copy, PublicationCopy)
        if not copy.is_changed and judgement.attached is None:
            return event
        event = Event._make((event.topic, copy.payload, *event[2:]))
        if judgement.attached is not None:
            add = [*copy.beside, *((user_properties.POLICY, bound.policy.text) for bound in judgement.attached)]
            return user_properties.having(event, copy.content_type, add, without=user_properties.POLICY)
        if copy.content_type is None and not copy.beside:
            return event
        return user_properties.having(event, copy.content_type, copy.beside)

    def _take_effects(self, judgement: Judgement) -> None:
        if judgement.effects:
            effects = (effect for _, effect in judgement.effects)
            if self._may_make is None:
                self._may_make = side_effects.may_make(self.event)
            about = (self.sender, self.now, self._may_make, self.event)
            self._may_make = side_effects.take_effects(self.node, effects, *about)


def _blind(bound: Bound, attached: frozenset[Policy]) -> Bound:
    """Return a policy as it may be asked about a private event that its setter may not see."""
    # Attached ones were asked where it was published, where everybody has only policies for its own.
    policy = blinded(bound.policy, attached)
    name = bound.name if policy == bound.policy else f"{bound.name}, which asks for private content"
    return bound._replace(policy=policy, name=name)


def _is_kept_beyond(event: Event, session: Session) -> bool:
    """Return True if a neighbour retains it for all its subscribers: no single one of them may change it."""
    return event.retain and session.neighbour is not None


def _asks_hidden(bound: Bound, copy: Copy) -> bool:
    return bound.condition is not None and is_hidden(bound.condition, copy)


def _counting(subscribed: Sequence[Subscribed], copy: Copy) -> tuple[int, ...]:
    """Return the places of subscriptions that still count: if one asks for what was taken out, it would reveal it."""
    conditions = enumerate(subscription.condition for subscription in subscribed)
    return tuple(at for at, condition in conditions if condition is None or not is_hidden(condition, copy))


def is_hidden(condition: Condition, copy: Copy) -> bool:
    """Return True if a condition asks, or may ask, for something that was taken out."""
    if not copy.hidden:
        return False
    if any(isinstance(node, XPath) for node, _ in walk(condition.tree)):
        return True
    return any(map(copy.hidden.has, paths_read(condition.tree)))
