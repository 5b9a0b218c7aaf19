"""Plans: for a link and a topic, what remains to be done with an event once everything fixed has been decided.

A plan is compiled by the stages of `path.STAGES` when a topic is first seen, and thrown away when a subscription that
concerns the topic comes or goes. Topics with the same outcome share one plan.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.matching.predicates import Predicates
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements.applicability import Courses
from penstock.engine.trust.tokens import Passing
from penstock.language.condition import Condition
from penstock.model.verdict import Effect, Verdict
from penstock.policy.access.acl import Rights
from penstock.policy.access.brokering import DEFAULT_TYPE
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.statements.advertisement import Claim
from penstock.policy.statements.judging import Bound
from penstock.policy.tokens.rights import TokenRights

if TYPE_CHECKING:
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
    is_pruned: bool = False
    """What its publisher may not write has been taken out."""
    claims: tuple[Claim, ...] = ()
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


class Demand(NamedTuple):
    """What content must be for the event to be as its producer's advertisements say, by one of their claims."""

    rule: str
    conditions: tuple[Condition, ...]
    """One of these must hold; without any, nothing is advertised on the topic."""


class Plan:
    """What is left to do for an event on a topic."""

    __slots__ = (
        "closed",
        "conforms",
        "direct4",
        "direct5",
        "edited",
        "groups",
        "key",
        "matched",
        "note",
        "onlookers",
        "predicates",
        "pruned",
        "simple",
        "statements",
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
        self.edited = False
        """The link's monitor must be asked about each event; then nothing below is set."""
        self.pruned = False
        """Each event must be looked at for what its publisher may not write; then the plan for pruned events counts."""
        self.conforms: tuple[Demand, ...] = ()
        """To be asked of each event; if it keeps them, the plan without advertisements counts, and this is empty."""
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

    def retire(self) -> None:
        """No longer valid. It lets go of its sessions: a topic may name it long after they are gone."""
        self.valid = False
        self.key = self.targets = self.groups = self.watched = self.direct4 = self.direct5 = ()
        self.predicates = self.matched = self.onlookers = self.closed = ()


_PASS = Verdict("admit", Effect.PASS)


class Plans:
    """The plans of one class of links: those whose events are treated alike."""

    __slots__ = ("__weakref__", "conformed", "key", "known", "pruned", "routes")

    def __init__(self, key: LinkClass, routes: dict[str, Plan]) -> None:
        self.key = key
        self.routes = routes
        """By topic, what matching and routing found; shared by all classes that these cannot tell apart."""
        self.known: dict[bytes, Plan] = {}
        self.pruned: Plans | None = None
        """The plans for what has been pruned."""
        self.conformed: Plans | None = None
        """The plans for what is found to keep its producer's advertisements."""


class Draft:
    """A plan in the making: each stage adds its part."""

    __slots__ = (
        "closed",
        "groups",
        "is_projected",
        "link",
        "matched",
        "node",
        "onlookers",
        "plan",
        "plans",
        "predicates",
        "statements",
        "topic",
        "verdict",
    )

    def __init__(self, node: "Node", topic: str, plans: Plans) -> None:
        self.node = node
        self.topic = topic
        self.plans = plans
        self.link = plans.key
        self.verdict = _PASS
        self.is_projected = False
        """What of an event goes out depends on who gets it."""
        self.matched: list[Subscribed] = []
        self.closed: tuple[Session, ...] = ()
        self.groups: list[Group] = []
        self.onlookers: list[Watch] = []
        self.predicates: list[Predicates[Subscribed]] = []
        self.statements: tuple[Bound, ...] = ()
        self.plan: Plan | None = None
