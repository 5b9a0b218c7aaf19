"""An event on its way through one node: what the steps of the stages are given, and what they answer."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.events.plan import Plan, Plans
from penstock.engine.sessions.session import Delivery, Session
from penstock.model.event import Event
from penstock.model.verdict import Verdict

if TYPE_CHECKING:
    from penstock.engine.node import Node
    from penstock.engine.sessions.render import Forms
    from penstock.engine.stages.judge import Judging


class Packet(NamedTuple):
    """The bytes that brought an event, where all they say is topic and payload."""

    data: bytes
    version: int
    after_topic: int


class Passage:
    """One event at one node. A step may put another event in its place."""

    __slots__ = (
        "came",
        "event",
        "first",
        "forms",
        "is_replay",
        "judging",
        "node",
        "now",
        "observer",
        "packet",
        "plan",
        "plans",
        "sender",
        "shaped",
    )

    def __init__(
        self,
        node: "Node",
        plans: Plans,
        event: Event,
        sender: Session | None,
        now: float,
        packet: Packet | None = None,
    ) -> None:
        self.node = node
        self.plans = plans
        self.event = event
        self.sender = sender
        """Who sent it here; None: the node itself."""
        self.now = now
        self.packet = packet
        self.came = event
        """The event as the journal has it: before policy statements have changed it."""
        self.plan: Plan | None = None
        """The plan that it follows; a step may put one that content decided on in its place."""
        self.judging: Judging | None = None
        """What policy statements make of it in each direction; None: none has been asked."""
        self.forms: Forms | None = None
        """The event as it goes to those for whom nothing changes it."""
        self.shaped: dict[tuple[int, Event], tuple[Forms, ...]] | None = None
        """What the monitors of links out have made of it, so that those behind one link share one answer."""
        self.is_replay = False
        """It is a retained event: a neighbour is told so, and that it is nothing new."""
        self.observer: Observer | None = None
        """Who wants to know why, in a run that has no effects; None: this is a real one."""
        self.first: list[tuple[Plans, Event]] | None = None
        """What the node itself publishes because of it, before it goes on."""

    def replace(self, event: Event) -> None:
        """Put another event in the place of this one."""
        self.event = self.came = event

    def publish_first(self, plans: Plans, event: Event) -> None:
        """Have the node publish an event before this one goes on."""
        if self.first is None:
            self.first = []
        self.first.append((plans, event))


class Observer(Protocol):
    """Explains a run of the stages. Its drafts have steps that tell what they find, in place of those that act."""

    def stopped(self, passage: Passage, verdict: Verdict) -> None:
        """Take note of an event that goes no further."""

    def outputs(self, passage: Passage, events: tuple[Event, ...]) -> Iterable[Passage]:
        """Return the passages of what monitors have made of an event."""

    def deliveries(self, passage: Passage) -> Iterable[Delivery]:
        """Return the deliveries to everybody whom the event might concern."""


class Outputs(NamedTuple):
    """What the stage edit has made of an event: each goes on by a plan of its own."""

    events: tuple[Event, ...]


EventStep = Callable[[Passage], "Verdict | Outputs | None"]
"""What a stage does with an event: None, it goes on; a verdict, it does not; outputs, these go on in its place."""
DeliveryStep = Callable[[Delivery], "Verdict | list[Delivery] | None"]
"""The same towards one receiver; deliveries go on in the place of the one that was asked about."""
