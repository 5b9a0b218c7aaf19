"""Plans: for a link and a topic, what remains to be done with an event once everything fixed has been decided.

A plan is compiled by the stages (`stages/runner.py`) when a topic is first seen, and thrown away when a subscription
that concerns the topic comes or goes. It has two parts. The first belongs to a class of links: the steps of the stages
up to edit. The second, in `rest`, belongs to the topic: whom the event goes to, and the steps of the stages from match
on. Links of different classes share it, and so do topics with the same outcome. Where only topic and link decide there
are no steps: then the plan is a list of sessions that take the packet's own bytes.
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.matching.predicates import Predicates
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements.applicability import Courses
from penstock.engine.trust.tokens import Passing
from penstock.model.verdict import Effect, Verdict
from penstock.policy.access.acl import Rights
from penstock.policy.access.brokering import DEFAULT_TYPE
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.statements.advertisement import AdvertisementSet
from penstock.policy.statements.judging import Bound
from penstock.policy.tokens.rights import TokenRights

if TYPE_CHECKING:
    from penstock.engine.events.passage import DeliveryStep, EventStep
    from penstock.engine.node import Node
    from penstock.engine.recorder import Note
    from penstock.engine.stages.edit import Watch


class LinkClass(NamedTuple):
    """All that a plan depends on besides the topic. Links that are equal in this share their plans."""

    rights: Rights | TokenRights | None = None
    link_type: str = DEFAULT_TYPE
    neighbour: str | None = None
    """The node or foreign broker it comes from: to where it came from, an event does not go back."""
    monitors: tuple[Monitor, ...] = ()
    states: tuple[str | None, ...] = ()
    """The monitors' states, where what they do can depend on it."""
    is_admitted: bool = False
    """Admission and monitors are behind it: an event of the node itself, or what a monitor made."""
    is_own: bool = False
    """An event of the node itself, which is told to everybody who may read it."""
    claims: tuple[AdvertisementSet, ...] = ()
    """What binds its producer: each must be kept."""
    statements: tuple[Bound, ...] = ()
    """The policies of its advertisements, and those that the domain gives it."""
    token: Passing | None = None
    """The authorisation token that its events have; None: none that neighbours must be told."""


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
        self.is_judged = bool(self.session.policies) or any(one.policy is not None for one in subscriptions)
        """What goes to it by these has policies."""
        self.courses: Courses = {}
        """How they apply, as far as it is known."""
        self.qos = max(one.qos for one in subscriptions)  # [MQTT-3.3.4-2]
        self.ids = tuple(one.identifier for one in subscriptions if one.identifier)  # [MQTT-3.3.4-3], [MQTT-3.3.4-4]
        self.no_local = any(one.no_local for one in subscriptions)
        """Some of the subscriptions are not for the session's own events; for these, `own` stands for the others."""
        others = [one for one in subscriptions if not one.no_local] if self.no_local else None
        self.own = Target(others) if others else None
        self.retain_as_published = any(one.retain_as_published for one in subscriptions)

    def is_direct(self) -> bool:
        """A QoS 0 packet can be passed on to it as it is."""
        return self.session.plain and not self.ids and not self.no_local and not self.is_judged


class Group:
    """The members of one shared subscription, served in turn."""

    __slots__ = ("filter", "members", "name", "turn")

    def __init__(self, name: str, filter: str) -> None:
        self.name = name
        self.filter = filter
        self.members: list[Subscribed] = []
        self.turn = 0

    def choose(self, may_have: Callable[[Subscribed], bool]) -> Target | None:
        """The next member that may have the event; one that can take it now goes before one that cannot."""
        found = self.peek(may_have)
        if found is None:
            return None
        member, self.turn = found
        return Target([member])

    def peek(self, may_have: Callable[[Subscribed], bool]) -> tuple[Subscribed, int] | None:
        """Who would be chosen, and whose turn it would be then."""
        second: Subscribed | None = None
        count = len(self.members)
        for step in range(count):
            member = self.members[(self.turn + step) % count]
            session = member.session
            if not may_have(member):
                continue
            if session.open and not session.waiting() and session.quota > 0:
                return member, (self.turn + step + 1) % count
            if second is None or (second.session.outlet is None and session.outlet is not None):
                second = member
        return None if second is None else (second, (self.turn + 1) % count)


class Plan:
    """What is left to do for an event on a topic."""

    __slots__ = (
        "closed",
        "delivery_steps",
        "direct4",
        "direct5",
        "edited",
        "groups",
        "is_open",
        "key",
        "matched",
        "note",
        "onlookers",
        "predicates",
        "rest",
        "simple",
        "statements",
        "steps",
        "targets",
        "valid",
        "verdict",
        "watched",
    )

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.valid = True
        self.note: Note | None = None
        """What the journal says of all its events, if there is one."""
        self.steps: tuple[EventStep, ...] = ()
        """What is to be done for each event, in the order of the stages."""
        self.rest: Plan | None = None
        """The plan to go on with after these steps; None: they are the last, or edit yields events with own plans."""
        self.delivery_steps: tuple[DeliveryStep, ...] = ()
        """What is to be done for each delivery, in the order of the stages."""
        self.edited = False
        """The only step is to ask the link's monitors."""
        self.is_open = False
        """Content or monitors decide what becomes of an event."""
        self.predicates: tuple[Predicates[Subscribed], ...] = ()
        """Conditional subscriptions to look in for each event, whose plan is then made of what they and the event are;
        `matched` and `onlookers` are what is sure already.
        """
        self.matched: tuple[Subscribed, ...] = ()
        self.onlookers: tuple[Watch, ...] = ()
        self.key: tuple[object, ...] = ()
        self.statements: tuple[Bound, ...] = ()
        """Policies of advertisements on the topic."""
        self.targets: tuple[Target, ...] = ()
        self.groups: tuple[Group, ...] = ()
        self.watched: tuple[tuple[Watch, tuple[Target, ...]], ...] = ()
        """Links with monitors, and the targets behind each: none where only the monitor looks on."""
        self.closed: tuple[Session, ...] = ()
        """Those that ask for it and do not get it, because the brokering table closes their links."""
        # For QoS 0: sessions that take the packet's own bytes, by protocol version.
        self.direct4: tuple[Session, ...] = ()
        self.direct5: tuple[Session, ...] = ()
        self.simple = False
        """All targets are in `direct4` or `direct5`, and there is nothing else to do."""

    @property
    def has_receivers(self) -> bool:
        """Whether anybody asks for the event."""
        return bool(self.targets or self.groups or any(targets for _, targets in self.watched))

    def retire(self) -> None:
        """No longer valid. It lets go of its sessions: a topic may name it long after they are gone."""
        self.valid = False
        self.rest = None
        self.key = self.targets = self.groups = self.watched = self.direct4 = self.direct5 = ()
        self.predicates = self.matched = self.onlookers = self.closed = ()


PASS = Verdict("admit", Effect.PASS)


class Plans:
    """The plans of one class of links: those whose events are treated alike."""

    __slots__ = ("__weakref__", "key", "known", "routes")

    def __init__(self, key: LinkClass, routes: dict[str, Plan]) -> None:
        self.key = key
        self.routes = routes
        """By topic, what matching and routing found; shared by all classes that these cannot tell apart."""
        self.known: dict[bytes, Plan] = {}


class Waits(Enum):
    """Where an event may have waited. It is asked about again when it leaves."""

    RETAINED = "retained"
    DELAYED = "delayed"
    QUEUED = "queued"
    RESENT = "resent"
    """Sent before, and not acknowledged."""

    @property
    def is_rechecked(self) -> bool:
        """Whether it only has to be asked about: it has been through the stages already."""
        return self in (Waits.QUEUED, Waits.RESENT)


class Stage(Protocol):
    """One step of an event's way: a module in `stages/`."""

    __name__: str
    """Its last part is the name of the stage."""

    def plan(self, draft: "Draft") -> None:
        """Decide all that topic and link can decide; leave the rest as steps for each event or each delivery."""


class Draft:
    """A plan in the making: each stage adds its part."""

    __slots__ = (
        "closed",
        "delivery_steps",
        "groups",
        "is_edited",
        "is_open",
        "link",
        "link_steps",
        "matched",
        "node",
        "onlookers",
        "passes_bytes",
        "plan",
        "plans",
        "predicates",
        "statements",
        "steps",
        "topic",
        "waits",
    )

    def __init__(self, node: "Node", topic: str, plans: Plans, waits: "Waits | None" = None) -> None:
        self.node = node
        self.waits = waits
        """Where the event has waited; None: it has just come."""
        self.topic = topic
        self.plans = plans
        self.link = plans.key
        self.link_steps: tuple[EventStep, ...] | None = None
        """The steps of the stages before match, once match has begun."""
        self.steps: list[EventStep] = []
        self.delivery_steps: list[DeliveryStep] = []
        self.is_open = self.is_edited = False
        self.passes_bytes = True
        """A packet's own bytes may be passed on: no step must be done for it."""
        self.matched: list[Subscribed] = []
        self.closed: tuple[Session, ...] = ()
        self.groups: list[Group] = []
        self.onlookers: list[Watch] = []
        self.predicates: list[Predicates[Subscribed]] = []
        self.statements: tuple[Bound, ...] = ()
        self.plan: Plan | None = None
        """What the draft has come to. The stages after the one that sets it are not asked."""

    @property
    def verdict(self) -> Verdict:
        """What the stages so far say of every event."""
        return PASS if self.plan is None else self.plan.verdict

    def ask(self, stage: "Stage") -> None:
        """Let a stage plan its part."""
        stage.plan(self)

    def for_each_event(self, step: "EventStep", is_for_plain: bool = True) -> None:
        """Leave something to be done for each event.

        `is_for_plain`: also for a packet that is nothing but topic and payload, towards sessions that take its bytes.
        """
        self.steps.append(step)
        self.passes_bytes = self.passes_bytes and not is_for_plain

    def for_each_delivery(self, step: "DeliveryStep", is_for_plain: bool = True) -> None:
        """Leave something to be done for each delivery."""
        self.delivery_steps.append(step)
        self.passes_bytes = self.passes_bytes and not is_for_plain

    def suppress(self, verdict: Verdict) -> None:
        """Let no event of this topic pass."""
        self.plan = Plan(verdict)

    def end_with(self, step: "EventStep") -> None:
        """Leave the event to monitors: what they yield goes on by plans of its own."""
        self.steps.append(step)
        self.is_open = self.is_edited = True

    def end_link_part(self) -> None:
        """Begin the part of the plan that depends on the topic only."""
        self.link_steps, self.steps = tuple(self.steps), []
        self.passes_bytes = not self.delivery_steps


# --- plans that topics share


def interned_plan(
    known: dict[tuple[object, ...], Plan],
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: "tuple[Watch, ...]",
    steps: "tuple[EventStep, ...]",
    delivery_steps: "tuple[DeliveryStep, ...]",
    statements: tuple[Bound, ...],
    closed: tuple[Session, ...],
    telling: tuple[Session, ...] = (),
    passes_bytes: bool = True,
) -> Plan:
    """Return the plan for these subscriptions, of those that are known; make it if it is not there.

    `telling` are neighbours that must be told with each event which token it has.
    """
    key = (*matched, passes_bytes, *groups, *onlookers, *statements, *telling, False, *closed, steps, delivery_steps)
    plan = known.get(key)
    if plan is None:
        plan = known[key] = _make_plan(matched, groups, onlookers, telling)
        plan.simple = plan.simple and passes_bytes and not statements
        plan.steps, plan.delivery_steps = steps, delivery_steps
        plan.statements, plan.closed, plan.key = statements, closed, key
    return plan


def _make_plan(
    matched: list[Subscribed], groups: tuple[Group, ...], onlookers: "tuple[Watch, ...]", telling: tuple[Session, ...]
) -> Plan:
    of_session: dict[int, list[Subscribed]] = {}
    for subscribed in matched:
        of_session.setdefault(subscribed.session.id, []).append(subscribed)
    targets = [_target(subscriptions) for subscriptions in of_session.values()]
    plan = Plan(PASS)
    plan.groups = groups
    plan.watched = _watched(onlookers, targets)
    if plan.watched:
        targets = [target for target in targets if target.session.watch_out is None]
    plan.targets = tuple(targets)
    direct = [target.session for target in targets if target.is_direct() and target.session not in telling]
    plan.direct4 = tuple(session for session in direct if session.version == 4)
    plan.direct5 = tuple(session for session in direct if session.version == 5)
    plan.simple = len(direct) == len(targets) and not plan.groups and not plan.watched
    return plan


def _target(subscriptions: list[Subscribed]) -> Target:
    if len(subscriptions) > 1:
        return Target(subscriptions)
    subscribed = subscriptions[0]
    if subscribed.target is None:
        subscribed.target = Target(subscriptions)
    return subscribed.target


def _watched(onlookers: "tuple[Watch, ...]", targets: list[Target]) -> "tuple[tuple[Watch, tuple[Target, ...]], ...]":
    behind: dict[Watch, list[Target]] = {watch: [] for watch in onlookers}
    for target in targets:
        if target.session.watch_out is not None:
            behind.setdefault(target.session.watch_out, []).append(target)
    return tuple((watch, tuple(found)) for watch, found in behind.items())
