"""Passages, deliveries and drafts that collect the stages' verdicts for `explain`."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.events.plan import Plans, Target
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
from penstock.model.verdict import Verdict

_NOBODY = Session(0, Subject("", None, "", ""), 5)


class ExplainedPassage(Passage):
    """A passage that is explained."""

    def __init__(self, came: Arrival, link: LinkClass, event: Event, now: float, weighed: WeighedToken) -> None:
        super().__init__(came.node, Plans(link, {}), event, came.session or came.stand_in, now)
        self.arrival = came
        self.weighed = weighed
        self.verdicts: list[Verdict] = []
        """The verdicts on the event, wherever it goes."""
        self.asked: ExplainedJudging | None = None
        self.decisions: list[Decision] = []

    def decide(self, link: Link | None, verdicts: Iterable[Verdict], outputs: Iterable[Event] = ()) -> Decision:
        """Return the decision about one link."""
        came = self.arrival
        return Decision(came.node.name, came.link, came.event, link, tuple(verdicts), tuple(outputs))


class ExplainedDelivery(Delivery):
    """A delivery that is explained: what is said of the link that it goes by is gathered from all deliveries by it."""

    __slots__ = ("candidate", "link", "matched", "outputs", "verdicts")

    def __init__(self, link: Link, target: Target | None, event: Event, verdicts: list[Verdict]) -> None:
        session = _NOBODY if target is None else target.session
        super().__init__(session, event, event.qos, event.retain, ())
        self.target = target
        self.link = link
        self.verdicts = verdicts
        self.outputs: list[Event] = []
        self.candidate: Candidate | None = None
        """All that the link leads to; None: a member of a group."""
        self.matched: Verdict | None = None
        """Of a member of a group, what the stage match says."""

    def say(self, *verdicts: Verdict) -> None:
        """Add what a stage says, once."""
        self.verdicts += [verdict for verdict in verdicts if verdict not in self.verdicts]

    def copy(self, target: Target, event: Event) -> "ExplainedDelivery":
        """Return the delivery of what a monitor has made of the event."""
        delivery = ExplainedDelivery(self.link, target, event, self.verdicts)
        delivery.passage, delivery.outputs, delivery.candidate, delivery.matched = (
            self.passage,
            self.outputs,
            self.candidate,
            self.matched,
        )
        return delivery


class ObservedDraft(Draft):
    """The draft of an observed event: every stage has a step, also where topic and link decide."""

    __slots__ = ("_planners",)
    is_observed = True

    def __init__(self, node: Node, topic: str, plans: Plans, planners: Mapping[Stage, Callable[[Draft], None]]) -> None:
        super().__init__(node, topic, plans)
        self._planners = planners

    def ask(self, stage: Stage) -> None:
        planner = self._planners.get(stage)
        if planner is not None:
            planner(self)
            return
        steps, delivery_steps = len(self.steps), len(self.delivery_steps)
        stage.plan(self)
        self.steps[steps:] = [partial(_told, step) for step in self.steps[steps:]]
        self.delivery_steps[delivery_steps:] = [
            partial(_told_of, step) for step in self.delivery_steps[delivery_steps:]
        ]


def _told(step: Callable[[Passage], Verdict | Outputs | None], passage: Passage) -> Verdict | Outputs | None:
    """Run the step of a stage that has nothing else to tell than its verdict."""
    answer = step(passage)
    assert isinstance(passage, ExplainedPassage)
    if isinstance(answer, Verdict):
        passage.verdicts.append(answer)
    return answer


def _told_of(
    step: Callable[[Delivery], Verdict | list[Delivery] | None], delivery: Delivery
) -> Verdict | list[Delivery] | None:
    answer = step(delivery)
    assert isinstance(delivery, ExplainedDelivery)
    if isinstance(answer, Verdict):
        delivery.say(answer)
    return answer
