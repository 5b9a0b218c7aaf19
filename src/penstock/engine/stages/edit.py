"""Stage 4, edit: what does the link's execution monitor make of the event? (brokering §4.2)"""

from copy import deepcopy
from typing import TYPE_CHECKING

from penstock.engine.contracts import privacy
from penstock.engine.events.passage import Outputs, Passage
from penstock.engine.events.plan import Draft
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.monitors.monitor import MAX_OUTPUTS, Monitor, MonitorError, State

if TYPE_CHECKING:
    from penstock.engine.node import Node
    from penstock.engine.sessions.session import Session


class Watch:
    """The monitors of one link, in order, with the state of each."""

    __slots__ = ("failures", "key", "link", "monitors", "said", "sessions", "states")

    def __init__(self, link: Link, monitors: tuple[Monitor, ...], stored: dict[str, State]) -> None:
        self.link = link
        self.monitors = monitors
        self.failures: list[str] = []
        """Monitors that could not go on in a state or be closed, until `tell_failures` says it."""
        self.states: list[State] = [self._begin(monitor, stored) for monitor in monitors]
        self.said = ""
        """What conditions had to do with the event that was suppressed last."""
        self.sessions: list[Session] = []
        """Those that are notified over the link, if it is one to a client or a foreign broker."""
        self.key = self._key()
        """The states that a plan can depend on: those of automata. A Python monitor is asked every time."""

    def take(self, monitors: tuple[Monitor, ...]) -> None:
        """Other monitors from now on; one of the same name goes on in the state that the earlier one was in."""
        states = {monitor.name: state for monitor, state in zip(self.monitors, self.states, strict=True)}
        for monitor in self.monitors:
            if monitor.name not in {other.name for other in monitors}:
                self.close(monitor, states[monitor.name])
        self.monitors = monitors
        self.states = [self._begin(monitor, states) for monitor in monitors]
        self.key = self._key()

    def close(self, monitor: Monitor, state: State) -> None:
        """The monitor is not on this link any more, whatever it says to that."""
        try:
            monitor.close(state)
        except MonitorError as error:
            self.failures.append(str(error))

    def move(self, place: int, state: State) -> None:
        """The monitor at this place is in another state now."""
        self.states[place] = state
        self.key = self._key()

    def copy(self) -> "Watch":
        """The same in the same states, to be moved on without consequences."""
        twin = Watch(self.link, (), {})
        twin.monitors, twin.states, twin.key = self.monitors, deepcopy(self.states), self.key
        twin.sessions = self.sessions
        return twin

    def alphabet(self) -> tuple[str, ...]:
        """Filters of what its monitors must see, whether or not anybody subscribes to it."""
        return tuple(dict.fromkeys(filter for monitor in self.monitors for filter in monitor.alphabet()))

    def _key(self) -> tuple[str | None, ...]:
        return tuple(state if isinstance(state, str) else None for state in self.states)

    def _begin(self, monitor: Monitor, states: dict[str, State]) -> State:
        """The state it goes on in; one that fails at that begins anew, so that no reload ends half-way."""
        if monitor.name in states:
            try:
                return monitor.resume(states[monitor.name])
            except MonitorError as error:
                self.failures.append(f"{error}; it begins anew")
        try:
            return monitor.start()
        except MonitorError as error:
            self.failures.append(str(error))
            return None


def tell_failures(node: "Node", watch: Watch) -> None:
    """Report what went wrong when the link's monitors began or ended."""
    for text in watch.failures:
        node.notice("monitor failed", None, "", f"link {watch.link}: {text}")
        node.stats.monitor_errors += 1
    watch.failures.clear()


def plan(draft: Draft) -> None:
    """Where the state does not change and the event stays as it is, a monitor costs nothing."""
    if not draft.link.monitors:
        return
    for monitor, state in zip(draft.link.monitors, draft.link.states, strict=True):
        steady = monitor.steady(state, draft.topic)
        if steady is None:
            draft.end_with(run)
            return
        if not steady:
            reason = f"monitor `{monitor.name}` suppresses `{draft.topic}` in state `{state}`"
            draft.suppress(Verdict("edit", Effect.SUPPRESS, monitor.name, reason))
            return


def run(passage: Passage) -> Verdict | Outputs:
    """Put the event through the monitors of the link that it came by."""
    assert passage.sender is not None  # only links have monitors
    watch = passage.sender.watch_in
    assert watch is not None
    outputs = run_monitors(passage.node, watch, passage.event, passage.now)
    return Outputs(outputs) if outputs else _suppressed(watch)


def _suppressed(watch: Watch) -> Verdict:
    """Return what is said of an event of which a link's monitors made nothing."""
    names = [monitor.name for monitor in watch.monitors]
    why = f": {watch.said}" if watch.said else ""
    said = ", ".join(f"`{name}`" for name in names)
    return Verdict("edit", Effect.SUPPRESS, ", ".join(names), f"suppressed by monitor {said}{why}")


def run_monitors(node: "Node", watch: Watch, event: Event, now: float) -> tuple[Event, ...]:
    """Put the event through the monitors of a link, in order."""
    events: tuple[Event, ...] = (event,)
    for place in range(len(watch.monitors)):
        events = ask(node, watch, place, events, now)
    return events


def ask(node: "Node", watch: Watch, place: int, events: tuple[Event, ...], now: float) -> tuple[Event, ...]:
    """What one of the link's monitors makes of these events. One that fails suppresses, and is reported."""
    if len(events) == 1:
        return _step(node, watch, place, events[0], now)
    made = tuple(output for each in events for output in _step(node, watch, place, each, now))
    if len(made) <= MAX_OUTPUTS:
        return made
    _report(node, watch, events[0], f"monitor `{watch.monitors[place].name}`: more than {MAX_OUTPUTS} events of one")
    return ()


def _step(node: "Node", watch: Watch, place: int, event: Event, now: float) -> tuple[Event, ...]:
    before = watch.states[place]
    monitor = watch.monitors[place]
    try:
        state, outputs = monitor.step(before, event, now)
    except MonitorError as error:
        _report(node, watch, event, str(error))
        watch.said = ""
        return ()
    if not outputs:
        watch.said = monitor.why(before, (event,))
    if state is not before and state != before:
        watch.move(place, state)
        node.ledger.monitor(watch.link, monitor.name, state)
    return outputs if node.contracts is None else tuple(privacy.inheriting(node, event, one) for one in outputs)


def _report(node: "Node", watch: Watch, event: Event, text: str) -> None:
    node.notice("monitor failed", None, event.topic, f"link {watch.link}: {text}")
    node.stats.monitor_errors += 1
