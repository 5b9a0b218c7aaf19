"""Passages, deliveries and drafts that collect the stages' verdicts for `explain`."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.events.plan import PASS, Plan, Plans, Target
from penstock.engine.explain.arrival import Arrival
from penstock.engine.explain.judging import ExplainedJudging
from penstock.engine.explain.matching import Candidate
from penstock.engine.explain.tokens import WeighedToken
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages.draft import Draft, Stage
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.model.verdict import Effect, Verdict

_NOBODY = Session(0, Subject("", None, "", ""), 5)


class _Explained:
    """Something of which stages say verdicts."""

    __slots__ = ()
    verdicts: list[Verdict]

    def say(self, *verdicts: Verdict) -> Verdict | None:
        """Add what a stage says, once; return the last of it if that ends the way."""
        self.verdicts += [verdict for verdict in verdicts if verdict not in self.verdicts]
        return verdicts[-1] if verdicts and verdicts[-1].effect is Effect.SUPPRESS else None


class ExplainedPassage(Passage, _Explained):
    """A passage that is explained."""

    judging: ExplainedJudging
    """The judging by policy statements, from stage match on."""

    def __init__(self, came: Arrival, link: LinkClass, event: Event, now: float, weighed: WeighedToken) -> None:
        super().__init__(came.node, Plans(link, {}), event, came.session or came.stand_in, now)
        self.arrival = came
        self.weighed = weighed
        self.verdicts: list[Verdict] = []
        """The verdicts on the event, wherever it goes."""
        self.decisions: list[Decision] = []

    def decide(self, link: Link | None, verdicts: Iterable[Verdict], outputs: Iterable[Event] = ()) -> Decision:
        """Return the decision about one link."""
        came = self.arrival
        return Decision(came.node.name, came.link, came.event, link, tuple(verdicts), tuple(outputs))


class ExplainedDelivery(Delivery, _Explained):
    """A delivery that is explained: what is said of the link that it goes by is gathered from all deliveries by it."""

    __slots__ = ("candidate", "link", "matched", "outputs", "verdicts")
    passage: ExplainedPassage

    def __init__(
        self,
        passage: ExplainedPassage,
        link: Link,
        target: Target | None,
        verdicts: list[Verdict],
        outputs: list[Event],
    ) -> None:
        session, event = _NOBODY if target is None else target.session, passage.event
        super().__init__(session, event, event.qos, event.retain, (), passage, target)
        self.link = link
        self.verdicts = verdicts
        self.outputs = outputs
        self.candidate: Candidate | None = None
        """All that the link leads to; None: a member of a group."""
        self.matched: Verdict | None = None
        """Of a member of a group, what the stage match says."""

    def copy(self, target: Target, event: Event) -> "ExplainedDelivery":
        """Return the delivery of what a monitor has made of the event."""
        delivery = ExplainedDelivery(self.passage, self.link, target, self.verdicts, self.outputs)
        delivery.event, delivery.qos, delivery.retain = event, event.qos, event.retain
        delivery.candidate, delivery.matched, delivery.receiver = self.candidate, self.matched, self.receiver
        return delivery


EventStep = Callable[[ExplainedPassage], Verdict | Outputs | None] | None
DeliveryStep = Callable[[ExplainedDelivery], Verdict | list[Delivery] | None] | None
Steps = Mapping[str, tuple[EventStep, DeliveryStep]]
"""By the name of a stage, the steps that explain it: for each event, and for each delivery."""


class ObservedDraft(Draft):
    """The draft of an observed event: every stage has a step, also where topic and link decide."""

    __slots__ = ("_explaining",)
    is_observed = True

    def __init__(self, node: Node, topic: str, plans: Plans, explaining: Steps) -> None:
        super().__init__(node, topic, plans)
        self._explaining = explaining

    def ask(self, stage: Stage) -> None:
        """Add the steps that explain a stage; of one that has none, its own, whose verdicts are gathered."""
        name = stage.__name__.rpartition(".")[2]
        if name == "match":
            self.end_link_part()
        steps: list[Any] = self.steps
        delivery_steps: list[Any] = self.delivery_steps
        if name in self._explaining:
            for known, step in zip((steps, delivery_steps), self._explaining[name], strict=True):
                known += [step] if step is not None else []
        else:
            before, delivery_before = len(steps), len(delivery_steps)
            stage.plan(self)
            steps[before:] = [partial(_told, step) for step in steps[before:]]
            delivery_steps[delivery_before:] = [partial(_told, step) for step in delivery_steps[delivery_before:]]
        if name == "emit":
            self.plan = Plan(PASS)
            self.plan.steps, self.plan.delivery_steps = tuple(self.steps), tuple(self.delivery_steps)


def _told(step: Callable[[Any], Any], about: ExplainedPassage | ExplainedDelivery) -> Any:
    """Run the step of a stage that has nothing else to tell than its verdict."""
    answer = step(about)
    if isinstance(answer, Verdict):
        about.say(answer)
    return answer
