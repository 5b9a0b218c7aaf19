"""An event on its way through one node: what the steps of the stages are given, and what they answer."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Protocol

from penstock.engine.events.plan import Plan, Plans, Target
from penstock.engine.journal_rows import Source
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Outgoing, Session
from penstock.engine.statements.event_judging import Judging
from penstock.model.event import Event
from penstock.model.verdict import Verdict
from penstock.wire.session import WAITING


class Packet(NamedTuple):
    """The bytes that brought an event, where all they say is topic and payload."""

    data: bytes
    version: int
    after_topic: int


_LET_GO: Any = None
"""Stands for the forms of a passage and the passage of a delivery while no stage runs: no step sees it."""


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
        "source",
        "withheld",
    )

    def __init__(
        self, node: Node, plans: Plans, event: Event, sender: Session | None, now: float, packet: Packet | None = None
    ) -> None:
        self.node = node
        self.plans = plans
        self.event = event
        self.sender = sender
        """The session that sent it here; None: the node itself."""
        self.now = now
        self.packet = packet
        self.came = event
        """The event as the journal has it: before policy statements have changed it."""
        self.plan: Plan | None = None
        """The plan that it follows; a step may put one that content decided on in its place."""
        self.judging: Judging | None = None
        """The judging by policy statements in each direction; None: none has been asked."""
        self.forms: Forms = _LET_GO
        """The event as it goes to those for whom nothing changes it."""
        self.shaped: dict[tuple[int, Event], tuple[Forms, ...]] | None = None
        """The outputs of the monitors of outgoing links, so that receivers behind one link share one answer."""
        self.is_replay = False
        """It is a retained event: a neighbour is told so, and that it is nothing new."""
        self.source: Source | None = None
        """Its publisher, for the journal, if that is not its sender: it has waited, or is the node's own."""
        self.observer: Observer | None = None
        """The observer of a run without effects; None: this is a real one."""
        self.first: list[tuple[Plans, Event]] | None = None
        """Events that the node itself publishes because of it, before it goes on."""
        self.withheld: dict[Verdict, list[str]] | None = None
        """For the journal: the receivers that policies keep it from, or some of it."""

    def withhold(self, session: Session, verdict: Verdict) -> None:
        """Have the journal, if there is one, record that policies keep the event, or some of it, from a session."""
        if self.node.recorder is None or self.observer is not None or (self.sender is None and self.source is None):
            return
        if self.withheld is None:
            self.withheld = {}
        self.withheld.setdefault(verdict, []).append(session.place.entity)

    def replace(self, event: Event) -> None:
        """Put another event in the place of this one."""
        self.event = self.came = event

    def publish_first(self, plans: Plans, event: Event) -> None:
        """Have the node publish an event before this one goes on."""
        if self.first is None:
            self.first = []
        self.first.append((plans, event))


class Delivery(Outgoing):
    """An event on its way to one session: through the stages, then, at QoS 1 and 2, until it is acknowledged."""

    __slots__ = ("forms", "is_echo", "is_planned", "passage", "receiver", "target", "watch")

    def __init__(
        self,
        session: Session,
        event: Event,
        qos: int,
        retain: bool,
        ids: tuple[int, ...],
        passage: Passage = _LET_GO,
        target: Target | None = None,
        forms: Forms = _LET_GO,
        receiver: Hashable = None,
        is_planned: bool = False,
    ) -> None:
        self.session = session
        self.event = event
        self.qos = qos
        self.retain = retain
        self.ids = ids
        self.state = WAITING
        self.packet_id = 0
        self.row = 0
        self.kept = None
        self.is_timed = False
        self.passage = passage
        """The event's way through this node. Only while the stages run: `wait` lets go of it and of the forms."""
        self.target = target
        """The subscriptions by which the session gets it."""
        self.forms = forms
        """The event as the stages so far have left it, with its packets."""
        self.watch: Watch | None = None
        """The monitors on the link to the session, which are still to be asked."""
        self.receiver = receiver
        """The receiver that gets the event once, by whichever way it comes; None: a neighbour, which removes
        duplicates itself.
        """
        self.is_planned = is_planned
        """The plan of the event names the session."""
        self.is_echo = False
        """Only the monitors see it: the session has published it and does not want its own events."""

    def show(self, forms: Forms) -> None:
        """Go on with another form of the event."""
        self.forms, self.event = forms, forms.event

    def retarget(self, target: Target, forms: Forms) -> None:
        """Go on with another form of the event, for these subscriptions of the session."""
        self.target = target
        self.forms, self.event = forms, forms.event
        self.qos = min(self.event.qos, target.qos)  # [MQTT-3.8.4-8]
        if self.passage is None or not self.passage.is_replay:  # [MQTT-3.3.1-8]
            self.retain = self.event.retain and target.retain_as_published  # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        self.ids = target.ids

    def wait(self) -> None:
        """Let go of all that only the stages need."""
        self.passage = self.forms = _LET_GO
        self.target = self.watch = None


class Observer(Protocol):
    """Explains a run of the stages. Its drafts have steps that tell what they find, in place of those that act."""

    def stopped(self, passage: Passage, verdict: Verdict) -> None:
        """Take note of an event that goes no further."""

    def outputs(self, passage: Passage, events: tuple[Event, ...]) -> Iterable[Passage]:
        """Return the passages of what monitors have made of an event."""

    def deliveries(self, passage: Passage) -> Iterable[Delivery]:
        """Return the deliveries to everybody whom the event might concern."""


class Outputs(NamedTuple):
    """The events that the stage edit made of one: each goes on by a plan of its own."""

    events: tuple[Event, ...]


EventStep = Callable[[Passage], "Verdict | Outputs | None"]
"""A step for an event. It returns None: the event goes on; a verdict: it stops; outputs: these go on in its place."""
DeliveryStep = Callable[[Delivery], "Verdict | list[Delivery] | None"]
"""The same towards one receiver; deliveries go on in the place of the one that was asked about."""
