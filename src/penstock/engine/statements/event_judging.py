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
from penstock.engine.statements.context import here
from penstock.engine.statements.course import Course, Courses, asked_by
from penstock.engine.statements.facts import Facts, RecordingHere
from penstock.engine.statements.judged_copy import (
    JudgedCopy,
    Satisfies,
    asks_hidden,
    blind,
    has_own_first,
    is_about_hidden,
    is_kept_beyond,
    satisfies_as_it_is,
)
from penstock.language.statements.statement import Matching, Message, Point, Verb
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.copies import Hidden, PublicationCopy
from penstock.policy.statements.judging import ATTACHED, Bound, Here, Judgement, Rules, applicable, attach, judge
from penstock.policy.statements.judging import run as run_rules
from penstock.policy.statements.statement import CompiledRule

MATCHING = "matching"
"""The rule in verdicts that a subscription is not satisfied after rules before matching."""


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
    _on_ways: tuple[Bound, ...] = ()
    """Those of them with rules that are asked on each way."""
    _attached_here: tuple[Bound, ...] = ()
    """Of those attached, the ones that were not when it came: their rules before matching are still to be asked."""
    is_late = False
    """It has rules before matching that are asked on each way, so that subscriptions are asked only after these."""
    _is_flooded = False
    """A rule before matching sends it to all neighbours."""
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
    _private: bool | None = None
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
        satisfies: Satisfies = satisfies_as_it_is,
    ) -> None:
        """Begin to judge an event; `at`: the node as policies see it, if not as it is now."""
        self._satisfies = satisfies
        self.node = node
        self.event = event
        self.sender = sender
        self.now = now
        self.facts = Facts() if node.recorder is not None else None
        """The facts that policies asked of the node, where there is a journal."""
        self.content = node.ensemble.reader.read(event)
        self._came = came_from(node, sender)
        self._forms: dict[object, Forms | None] = {}
        self._why: dict[object, Verdict] = {}
        """For the journal: why copies are blocked, or other than the event."""
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
            statements = [blind(bound, known) if bound.is_strange else bound for bound in statements]
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
        known = (*attached, *given)
        self._attached_here = tuple(
            bound for bound in self._attached if bound.policy.precedes_matching and bound not in known
        )
        self._on_ways = tuple(
            bound
            for bound in self._asked_before
            if (bound.carrier is not None or bound in self._attached)
            and any(self._is_for_ways(rule) for rule in bound.policy.rules)
        )
        self.is_late = bool(self._attached_here or self._on_ways)
        self.is_for_all = self._has_more = bool(self._attached or self._associated or self.is_late)
        texts = [bound.policy.text for bound in self._attached]
        if texts != [bound.policy.text for bound in attached]:
            add = [(user_properties.POLICY, text) for text in texts]
            self.event = user_properties.having(self.event, None, add, without=user_properties.POLICY)

    def _judge_before(self, policies: Sequence[Bound]) -> None:
        judgement = JudgedCopy(self, None)
        judge(judgement, Verb.FORWARD, came_from(self.node, self.sender), policies, Matching.BEFORE)
        self._take_effects(judgement)
        self.before, self._asked_before = tuple(judgement.verdicts), tuple(policies)
        self._is_flooded = judgement.flooded
        if judgement.blocked:
            self.verdict = judgement.verdicts[-1]
            return
        changed = self._changed(judgement)
        if changed is not self.event:
            self.event = changed
            self.content = self.node.ensemble.reader.read(changed)

    def _is_for_ways(self, rule: CompiledRule) -> bool:
        """Return True if a rule is asked on each way, as it was not asked once for all when the event came."""
        return rule.is_before_matching and rule.points.isdisjoint(self._came)

    def _first(self, where: frozenset[Point]) -> Rules:
        """Return the rules before matching of policies that act on every way, for a way."""
        if not self.is_late:
            return ()
        asked = applicable(Message.PUBLICATION, Verb.FORWARD, where, self._on_ways, Matching.BEFORE)
        left = ((bound, tuple(each for each in rules if self._is_for_ways(each[1]))) for bound, rules in asked)
        new = applicable(Message.PUBLICATION, Verb.FORWARD, where, self._attached_here, Matching.BEFORE)
        return (*left, *new)

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
        has_own = course.mine or course.mine_first
        is_apart = self._has_more or course.key is None or (has_own and self._is_private)
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
        if self.facts is not None and (forms is None or forms is not self.plain):
            self._why[key] = _summary(judgement)
        if judgement.counting is not None:
            self._counting[key] = judgement.counting
        return forms

    def counting(self, target: Target) -> Target:
        """Return the target for which the forms were asked for last, with only the subscriptions that still count."""
        left = self._counting.get(self._last)
        return target if left is None else Target([target.subscriptions[at] for at in left])

    def why(self) -> Verdict:
        """Return why the forms that were asked for last are none, or other than the event."""
        return self._why.get(self._last, BLOCKED)

    def _shown(self, event: Event) -> Forms:
        if event is not self.event:
            return Forms(event, self.now)
        if self.plain is None:
            self.plain = Forms(event, self.now)
        return self.plain

    def _course(self, session: Session, subscribed: Sequence[Subscribed], known: Courses | None = None) -> Course:
        """Return the course of what goes to a session. It is added to `known`."""
        own = bounds_for(session, self.event.topic, subscribed, self.content)
        first: Sequence[Bound] = ()
        if any(given.policy.precedes_matching for given in session.place.policies):
            given = bounds_for(session, self.event.topic, subscribed, None)
            first = [bound for bound in given if bound.is_given and bound.policy.precedes_matching]
        course = Course(self.node.ensemble, own, first, points(self.node, self.sender, session), subscribed)
        if known is not None and not session.place.policies:  # what the domain gives depends on topic and content
            known[self._came] = course
        return course

    def _key(self, course: Course, session: Session, subscribed: Sequence[Subscribed]) -> tuple[object, ...]:
        """Return the key that equal copies share."""
        key = None if self.is_late or (course.mine and self._is_private) else course.key
        if key is not None and (self._attached or self._associated):
            if all(bound.policy.is_shared for bound in (*self._attached, *self._associated)):
                key = (*key, *asked_by(subscribed))
            else:
                key = None
        return (session.id, *subscribed) if key is None or key in self._apart else key

    def flooded(self) -> Iterable[Session]:
        """Yield the neighbours that get it although they have not asked."""
        bounds = (*self._attached, *self._associated)
        if not self._is_flooded and not any("FloodMessage" in bound.policy.uses() for bound in self.bounds):
            return
        for name, session in self.node.federation.neighbours.items():
            if name in self.node.ensemble.overlays and session is not self.sender and name not in self.event.path:
                where = points(self.node, self.sender, session)
                judgement = JudgedCopy(self, session)
                run_rules(judgement, self._first(where))
                if not judgement.blocked:
                    self._go_on_with(judgement, self._changed(judgement))
                    judge(judgement, Verb.FORWARD, where, bounds, Matching.AFTER)
                if (judgement.flooded or self._is_flooded) and not judgement.blocked:
                    yield session

    @cached_property
    def _flooded_to(self) -> frozenset[int]:
        return frozenset(session.id for session in self.flooded())

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

    @property
    def _is_private(self) -> bool:
        if self._private is None:  # each event is asked: a cached property would take a lock
            self._private = privacy.is_private(self.node, self.event)
        return self._private

    def _judged(self, session: Session, subscribed: Sequence[Subscribed], course: Course) -> JudgedCopy:
        judgement = JudgedCopy(self, session)
        judgement.asked = course.asked
        left: Sequence[int] = range(len(subscribed))
        if self.is_late or course.given_first:
            run_rules(judgement, (*self._first(course.where), *course.given_first))
            if judgement.blocked:
                return judgement
            self._go_on_with(judgement, self._changed(judgement))
            left = self._satisfied(judgement, session, subscribed, left, is_own=False)
            if judgement.blocked:
                return judgement
        if self._has_more or course.given:
            left = self._judge_first(judgement, session, subscribed, left, course)
            if judgement.blocked:
                return judgement
        self._judge_own(judgement, session, subscribed, left, course)
        return judgement

    def _judge_own(
        self,
        judgement: JudgedCopy,
        session: Session,
        subscribed: Sequence[Subscribed],
        left: Sequence[int],
        course: Course,
    ) -> None:
        """Apply the policies of who subscribes to what is left for it."""
        has_own = bool(course.mine or course.mine_first)
        is_private = has_own and self._is_private
        is_asked = not is_private or not is_node(self.node, session)  # its own node knows what it is shown
        if is_private and is_asked and not self._release(judgement, session):
            return
        judgement.may_only_block = is_kept_beyond(self.event, session)
        if course.mine_first:
            if is_asked:
                self._run_own(judgement, course.mine_first)
            if not judgement.blocked:
                left = self._satisfied(judgement, session, subscribed, left, is_own=True)
            if judgement.blocked:
                return
        if len(left) < len(subscribed):
            judgement.counting = tuple(left) or None
            if self.is_late or course.given_first or course.mine_first:
                course = self._course(session, [subscribed[at] for at in left])
                judgement.asked = course.asked
        if is_asked:
            self._run_own(judgement, course.mine)
        if course.attaches:
            own = course.own if not is_private else [bound for bound in course.own if bound.is_given]
            on = attach(self._attached, [bound for bound in own if not asks_hidden(bound, judgement.copy)])
            judgement.attached = None if on == self._attached else on

    def _run_own(self, judgement: JudgedCopy, rules: Rules) -> None:
        """Apply rules of who subscribes: to what it may see, and not those that travel with the event already."""
        if self._attached or judgement.copy.hidden:
            attached = {bound.policy for bound in self._attached}
            rules = tuple(
                pair for pair in rules if pair[0].policy not in attached and not asks_hidden(pair[0], judgement.copy)
            )
        if not rules:
            return
        judgement.copy.settle()
        hidden, judgement.copy.hidden = judgement.copy.hidden, Hidden()
        run_rules(judgement, rules)
        judgement.copy.hidden = hidden  # what it takes out itself is not hidden from it

    def _satisfied(
        self,
        judgement: JudgedCopy,
        session: Session,
        subscribed: Sequence[Subscribed],
        left: Sequence[int],
        is_own: bool,
    ) -> Sequence[int]:
        """Return the places of subscriptions that an event satisfies after rules before matching, of those left.
        `is_own`: those whose own policies have such rules are asked, or the others.
        """
        copy = judgement.copy
        assert isinstance(copy, PublicationCopy)
        payload, content_type = copy.unconverted()
        event = judgement.event._replace(payload=payload)
        if content_type is not None:
            event = user_properties.having(event, content_type, ())
        satisfied = [
            at
            for at in left
            if has_own_first(subscribed[at]) is not is_own
            or self._satisfies(self.node, event, subscribed[at], self.now)
        ]
        if left and not satisfied and session.id not in self._flooded_to:
            judgement.blocked = MATCHING
            reason = "its subscriptions are not satisfied by what rules before matching leave"
            judgement.note(Verdict("judge", Effect.SUPPRESS, MATCHING, reason))
        return satisfied

    def _go_on_with(self, judgement: JudgedCopy, event: Event) -> None:
        """Go on with another event: conditions are asked about that."""
        if event is not judgement.event:
            judgement.event = event
            judgement.copy = PublicationCopy(event, self.node.ensemble.reader.read(event))

    def _release(self, judgement: JudgedCopy, session: Session) -> bool:
        """Go on with what contracts show the session, so that its own policies tell it nothing of the rest; if any."""
        released, why = release_decision.at_once(self.node, session, self._changed(judgement), self.now)
        judgement.note(why)
        if released is None:
            judgement.blocked = why.rule or why.stage
            return False
        judgement.event = released
        judgement.copy = PublicationCopy(released, self.node.ensemble.reader.read(released))
        return True

    def _judge_first(
        self,
        judgement: Judgement,
        session: Session,
        subscribed: Sequence[Subscribed],
        left: Sequence[int],
        course: Course,
    ) -> Sequence[int]:
        """Ask the publisher's policies and the domain's: a reader must not be able to ask for what these take out.
        Return the places of the subscriptions that still count.
        """
        policies = (*self._attached, *self._associated)
        judge(judgement, Verb.FORWARD, course.where, policies, Matching.AFTER)
        if not judgement.blocked:
            run_rules(judgement, course.given)
        if not judgement.copy.hidden or not left or judgement.blocked or is_kept_beyond(self.event, session):
            return left
        left = [at for at in left if not is_about_hidden(subscribed[at], judgement.copy)]
        if not left:
            judgement.blocked = ATTACHED
            reason = "what its subscriptions ask for is taken out"
            judgement.note(Verdict("judge", Effect.SUPPRESS, ATTACHED, reason))
        return left

    @property
    def here(self) -> Here:
        """The node, as policies see it."""
        if self._here is None:
            context = here(self.node, self.now)
            self._here = context if self.facts is None else RecordingHere.on(context, self.facts)
        return self._here

    def _changed(self, judgement: JudgedCopy) -> Event:
        copy, event = judgement.copy, judgement.event
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


BLOCKED = Verdict("judge", Effect.SUPPRESS)


def _summary(judgement: JudgedCopy) -> Verdict:
    """Return what the rules that were applied have done, as one verdict."""
    verdicts = judgement.verdicts
    if judgement.blocked:
        return verdicts[-1]._replace(effect=Effect.SUPPRESS) if verdicts else BLOCKED
    rules = dict.fromkeys(verdict.rule for verdict in verdicts)
    reasons = dict.fromkeys(verdict.reason for verdict in verdicts)
    return Verdict("judge", Effect.REPLACE, ", ".join(rules), "; ".join(reasons))
