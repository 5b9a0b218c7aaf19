"""Plans: for a link and a topic, what remains to be done with an event once everything fixed has been decided.

A plan is compiled by the stages (`stages/runner.py`) when a topic is first seen, and thrown away when a subscription
that concerns the topic comes or goes. It has two parts. The first belongs to a class of links: the steps of the stages
up to edit. The second, in `rest`, belongs to the topic: whom the event goes to, and the steps of the stages from match
on. Links of different classes share it, and so do topics with the same outcome. Where only topic and link decide there
are no steps: then the plan is a list of sessions that take the packet's own bytes.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from penstock.engine.events.link_class import LinkPlans
from penstock.engine.journal_rows import Note
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements.course import Courses
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.judging import Bound

Step = Callable[[Any], Any]
"""A step for an event or a delivery: an `EventStep` or a `DeliveryStep` of `passage.py`. A passage has the node, and
the node has plans, so plans do not name it.
"""
Steps = tuple[tuple[Step, ...], tuple[Step, ...]]
"""The steps for each event, and those for each delivery. Nearly all plans of a node have the same, and share them."""


class Target:
    """One session that gets an event, by one or several of its subscriptions: one copy, with all their identifiers."""

    __slots__ = (
        "courses",
        "ids",
        "is_judged",
        "no_local",
        "own",
        "qos",
        "retain_as_published",
        "session",
        "subscriptions",
    )

    def __init__(self, subscriptions: list[Subscribed]) -> None:
        self.session = subscriptions[0].session
        self.subscriptions = tuple(subscriptions)
        self.is_judged = bool(self.session.place.policies) or any(
            subscription.policy is not None for subscription in subscriptions
        )
        """True if policies apply to what goes to it by these."""
        self.courses: Courses = {}
        """The cache of how they apply."""
        self.qos = max(subscription.qos for subscription in subscriptions)  # [MQTT-3.3.4-2]
        self.ids = tuple(
            subscription.identifier for subscription in subscriptions if subscription.identifier
        )  # [MQTT-3.3.4-3], [MQTT-3.3.4-4]
        self.no_local = any(subscription.no_local for subscription in subscriptions)
        """Some of the subscriptions are not for the session's own events; for these, `own` stands for the others."""
        others = (
            [subscription for subscription in subscriptions if not subscription.no_local] if self.no_local else None
        )
        self.own = Target(others) if others else None
        self.retain_as_published = any(subscription.retain_as_published for subscription in subscriptions)

    def is_direct(self) -> bool:
        """True if a QoS 0 packet can be passed on to it as it is."""
        return self.session.connection.plain and not self.ids and not self.no_local and not self.is_judged


class Group:
    """The members of one shared subscription, served in turn."""

    __slots__ = ("filter", "members", "name", "turn")

    def __init__(self, name: str, filter: str) -> None:
        self.name = name
        self.filter = filter
        self.members: list[Subscribed] = []
        self.turn = 0

    def choose(self, may_have: Callable[[Subscribed], bool]) -> Target | None:
        """Return the next member that may have the event, preferring one that can take it now."""
        choice = self.peek(may_have)
        if choice is None:
            return None
        member, self.turn = choice
        return Target([member])

    def peek(self, may_have: Callable[[Subscribed], bool]) -> tuple[Subscribed, int] | None:
        """Return the member that would be chosen, and the turn after that."""
        second: Subscribed | None = None
        count = len(self.members)
        for step in range(count):
            member = self.members[(self.turn + step) % count]
            session = member.session
            if not may_have(member):
                continue
            if session.open and not session.outbox.waiting() and session.outbox.quota > 0:
                return member, (self.turn + step + 1) % count
            if second is None or (second.session.outlet is None and session.outlet is not None):
                second = member
        return None if second is None else (second, (self.turn + 1) % count)


class Unresolved(NamedTuple):
    """The part of a plan where content decides too: for each event, a plan is made of this and of the predicates that
    the event satisfies.
    """

    predicates: tuple[Predicates[Subscribed], ...]
    """The conditional subscriptions."""
    matched: tuple[Subscribed, ...]
    """The subscriptions that are sure already; as are the `onlookers`."""
    onlookers: tuple[Watch, ...]


class Plan:
    """The steps that are left for an event on a topic."""

    __slots__ = (
        "closed",
        "delivery_steps",
        "direct4",
        "direct5",
        "edited",
        "groups",
        "is_open",
        "key",
        "note",
        "rest",
        "simple",
        "statements",
        "steps",
        "targets",
        "unresolved",
        "valid",
        "verdict",
        "watched",
        "withheld",
    )

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.valid = True
        self.note: Note | None = None
        """The journal's note for all its events, if there is a journal."""
        self.steps: tuple[Step, ...] = ()
        """The steps for each event, in the order of the stages."""
        self.rest: Plan | None = None
        """The plan to go on with after these steps; None: they are the last, or edit yields events with own plans."""
        self.delivery_steps: tuple[Step, ...] = ()
        """The steps for each delivery, in the order of the stages."""
        self.edited = False
        """The only step is to ask the link's monitors."""
        self.is_open = False
        """Content or monitors decide what becomes of an event."""
        self.unresolved: Unresolved | None = None
        self.key: tuple[object, ...] = ()
        self.statements: tuple[Bound, ...] = ()
        """Policies of advertisements on the topic."""
        self.targets: tuple[Target, ...] = ()
        self.groups: tuple[Group, ...] = ()
        self.watched: tuple[tuple[Watch, tuple[Target, ...]], ...] = ()
        """Links with monitors, and the targets behind each: none where only the monitor looks on."""
        self.closed: tuple[Session, ...] = ()
        """Those that ask for it and do not get it, because the brokering table closes their links."""
        self.withheld: tuple[tuple[Session, Verdict], ...] = ()
        """For the journal: those that ask for it and may not have it, and why."""
        # For QoS 0: sessions that take the packet's own bytes, by protocol version.
        self.direct4: tuple[Session, ...] = ()
        self.direct5: tuple[Session, ...] = ()
        self.simple = False
        """All targets are in `direct4` or `direct5`, and there is nothing else to do."""

    @property
    def has_receivers(self) -> bool:
        """True if anybody subscribes to the event."""
        return bool(self.targets or self.groups or any(targets for _, targets in self.watched))

    def retire(self) -> None:
        """Invalidate the plan, and release its sessions: a topic may name it long after they are gone."""
        self.valid = False
        self.rest = self.unresolved = None
        self.key = self.targets = self.groups = self.watched = self.direct4 = self.direct5 = self.closed = ()
        self.withheld = ()


PASS = Verdict("admit", Effect.PASS)


Plans = LinkPlans[Plan]
"""The plans of one class of links."""


class WaitingPlace(Enum):
    """A place where an event may have waited. It is judged again when it leaves."""

    RETAINED = "retained"
    DELAYED = "delayed"
    QUEUED = "queued"
    RESENT = "resent"
    """Sent before, and not acknowledged."""

    @property
    def is_rechecked(self) -> bool:
        """True if it only has to be checked again: it has been through the stages."""
        return self in (WaitingPlace.QUEUED, WaitingPlace.RESENT)


# --- plans that topics share


def interned_plan(
    known: dict[tuple[object, ...], Plan],
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: tuple[Watch, ...],
    steps: Steps,
    statements: tuple[Bound, ...],
    closed: tuple[Session, ...],
    withheld: tuple[tuple[Session, Verdict], ...],
    telling: tuple[Session, ...] = (),
    passes_bytes: bool = True,
) -> Plan:
    """Return the plan for these subscriptions, of those that are known; make it if it is not there.

    `telling` are neighbours that must be told with each event which token it has.
    """
    key = (*matched, passes_bytes, *groups, *onlookers, *statements, *telling, steps, *closed, *withheld)
    plan = known.get(key)
    if plan is None:
        plan = known[key] = _make_plan(matched, groups, onlookers, telling)
        plan.simple = plan.simple and passes_bytes and not statements
        plan.steps, plan.delivery_steps = steps
        plan.statements, plan.closed, plan.withheld, plan.key = statements, closed, withheld, key
    return plan


def _make_plan(
    matched: list[Subscribed], groups: tuple[Group, ...], onlookers: tuple[Watch, ...], telling: tuple[Session, ...]
) -> Plan:
    of_session: dict[int, list[Subscribed]] = {}
    for subscribed in matched:
        of_session.setdefault(subscribed.session.id, []).append(subscribed)
    targets: list[Target] = []
    behind: dict[Watch, list[Target]] = {watch: [] for watch in onlookers}
    direct4: list[Session] = []
    direct5: list[Session] = []
    is_simple = not groups
    for subscriptions in of_session.values():
        target = _target(subscriptions)
        session = target.session
        watch = session.place.watch_out
        if watch is not None:
            behind.setdefault(watch, []).append(target)
            continue
        targets.append(target)
        if target.is_direct() and session not in telling:
            (direct4 if session.version == 4 else direct5).append(session)
        else:
            is_simple = False
    plan = Plan(PASS)
    plan.groups = groups
    plan.targets = tuple(targets)
    plan.direct4, plan.direct5 = tuple(direct4), tuple(direct5)
    plan.simple = is_simple and not behind
    if behind:
        plan.watched = tuple((watch, tuple(sessions)) for watch, sessions in behind.items())
    return plan


def _target(subscriptions: list[Subscribed]) -> Target:
    if len(subscriptions) > 1:
        return Target(subscriptions)
    subscribed = subscriptions[0]
    target = subscribed.target
    if not isinstance(target, Target):
        target = subscribed.target = Target(subscriptions)
    return target
