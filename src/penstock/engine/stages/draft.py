"""A plan in the making."""

from typing import Protocol

from penstock.engine.events.passage import DeliveryStep, EventStep
from penstock.engine.events.plan import PASS, Group, Plan, Plans, WaitingPlace
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.model.verdict import Verdict
from penstock.policy.statements.judging import Bound


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
        "withheld",
    )
    is_observed = False
    """An observer plans in the place of stages (`ask`)."""

    def __init__(self, node: Node, topic: str, plans: Plans, waits: WaitingPlace | None = None) -> None:
        self.node = node
        self.waits = waits
        """The place where the event has waited; None: it has just come."""
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
        self.withheld: list[tuple[Session, Verdict]] = []
        """For the journal: sessions that subscribe, and may not have any event of the topic from the link."""
        self.groups: list[Group] = []
        self.onlookers: list[Watch] = []
        self.predicates: list[Predicates[Subscribed]] = []
        self.statements: tuple[Bound, ...] = ()
        self.plan: Plan | None = None
        """The result of the draft. The stages after the one that sets it are not asked."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the stages so far on every event."""
        return PASS if self.plan is None else self.plan.verdict

    def ask(self, stage: Stage) -> None:
        """Let a stage plan its part."""
        stage.plan(self)

    def for_each_event(self, step: EventStep, is_for_plain: bool = True) -> None:
        """Leave something to be done for each event.

        `is_for_plain`: also for a packet that is nothing but topic and payload, towards sessions that take its bytes.
        """
        self.steps.append(step)
        if is_for_plain:
            self.passes_bytes = False

    def for_each_delivery(self, step: DeliveryStep, is_for_plain: bool = True) -> None:
        """Leave something to be done for each delivery."""
        self.delivery_steps.append(step)
        if is_for_plain:
            self.passes_bytes = False

    def suppress(self, verdict: Verdict) -> None:
        """Let no event of this topic pass."""
        self.plan = Plan(verdict)

    def end_with(self, step: EventStep) -> None:
        """Leave the event to monitors: what they yield goes on by plans of its own."""
        self.steps.append(step)
        self.is_open = self.is_edited = True

    def end_link_part(self) -> None:
        """Begin the part of the plan that depends on the topic only."""
        self.link_steps, self.steps = tuple(self.steps), []
        self.passes_bytes = not self.delivery_steps
