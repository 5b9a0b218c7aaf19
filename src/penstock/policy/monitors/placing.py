"""The places of the monitors on a link between nodes: the node that sends, the one that receives, or both.

What must not leave is stopped before it leaves (brokering §7.3.2), and a node does not rely on its neighbour for what
must not come in. A monitor that only selects is asked at both ends: what it has let pass, it lets pass again. One that
changes events must act once: the sending node marks what it has sent through it, and the receiving node goes on with
the monitors after it.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, NamedTuple

from penstock.model.event import Event
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor, State

Side = Literal["departure", "arrival"]
"""An end of a link: the node that events leave, or the one where they arrive."""


class Placing(NamedTuple):
    """The places of the monitors on one link between nodes."""

    sending: tuple[Monitor, ...] = ()
    """Those that the sending node asks, in order."""
    done: int = 0
    """So many of the link's monitors, from the first, are not asked again about an event that has the mark."""
    mark: str = ""
    """The mark of an event that the sending node has put through these; empty: there are none."""
    marks_all: bool = False
    """An event that they have left as it was is marked too: one of them has a state."""

    def is_plausible(self, monitors: tuple[Monitor, ...], event: Event) -> bool:
        """Return False if no event can have come out of these monitors as this one: then the mark is not true."""
        for monitor in reversed(monitors[: self.done]):
            if monitor.may_make(event.topic):
                return True
            if not monitor.may_pass(event):
                return False
        return True


def place(monitors: Iterable[tuple[Monitor, Side | None]], source: str, target: str) -> Placing:
    """Return the places of a link's monitors, each with the end of the link that it is to be asked at, if one is named.

    The sending node asks them up to the first that it cannot ask. If that is one with states that changes events, the
    sending node still suppresses what it suppresses whatever its state.
    """
    sending: list[Monitor] = []
    done = 0
    marks_all = False
    for monitor, side in monitors:
        if side == "arrival":
            break
        if side is None and not monitor.is_selector and not monitor.is_stateless:
            sending.append(SureSuppression(monitor))
            break
        sending.append(monitor)
        if side == "departure" or not monitor.is_selector:
            done, marks_all = len(sending), marks_all or not monitor.is_stateless
    if not any(map(_may_stop, sending)):
        return Placing()  # asking where it arrives is enough
    shown = [repr(monitor.states if isinstance(monitor, Automaton) else monitor.name) for monitor in sending[:done]]
    digest = blake2b(repr(shown).encode(), digest_size=12).hexdigest()
    return Placing(tuple(sending), done, f"{source}>{target} {digest}" if done else "", marks_all)


def _may_stop(monitor: Monitor) -> bool:
    """Return False if a monitor that the sending node asks lets everything pass as it is, in each state."""
    if isinstance(monitor, SureSuppression):
        return monitor.knows_states
    if not isinstance(monitor, Automaton) or not monitor.is_selector:
        return True
    return any(
        state.edges[-1].filter != "*" or any(not edge.action.outputs for edge in state.edges)
        for state in monitor.states
    )


class SureSuppression:
    """The part of a monitor that needs no state: it suppresses what the monitor suppresses in every state."""

    is_selector = is_stateless = True

    def __init__(self, monitor: Monitor) -> None:
        self.name = monitor.name
        self.knows_states = isinstance(monitor, Automaton)
        """False of a Python class: only its steps can tell."""
        self._monitor = monitor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SureSuppression) and self._monitor == other._monitor

    def __hash__(self) -> int:
        return hash((SureSuppression, self.name))

    def start(self) -> State:
        return None

    def resume(self, stored: State) -> State:
        return None

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        return state, () if self._monitor.always(event.topic) is False else (event,)

    def steady(self, state: State, topic: str) -> bool | None:
        return self.always(topic)

    def always(self, topic: str) -> bool | None:
        return self._monitor.always(topic) is not False

    def may_pass(self, event: Event) -> bool:
        return self.always(event.topic) is True

    def may_make(self, topic: str) -> bool:
        return False

    def alphabet(self) -> tuple[str, ...]:
        return ()

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        return (topic_filter,)

    def why(self, state: State, events: tuple[Event, ...]) -> str:
        return "in every state" if any(not self.always(event.topic) for event in events) else ""

    def close(self, state: State) -> None:
        """Do nothing: it holds nothing."""
