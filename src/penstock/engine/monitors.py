"""The monitors of a node: on each link that has any, with their states."""

from copy import deepcopy

from penstock.model.link import Link
from penstock.policy.monitors.monitor import Monitor, MonitorError, State
from penstock.policy.monitors.placing import Placing

ALL_HERE = Placing()
"""The monitors of a link of a client or a foreign broker: the node at its other end asks them all."""


class Watch:
    """The monitors of one link, in order, with the state of each."""

    __slots__ = ("failures", "key", "link", "monitors", "placing", "states", "stopped")

    def __init__(
        self, link: Link, monitors: tuple[Monitor, ...], stored: dict[str, State], placing: Placing = ALL_HERE
    ) -> None:
        self.link = link
        self.monitors = monitors
        self.placing = placing
        self.failures: list[str] = []
        """Monitors that could not go on in a state or be closed, until `tell_failures` says it."""
        self.states: list[State] = [self._begin(monitor, stored) for monitor in monitors]
        self.stopped = ("", "")
        """The monitor that last suppressed an event, and its reason."""
        self.key = self._key()
        """The states that a plan can depend on: those of automata. A Python monitor is asked every time."""

    def take(self, monitors: tuple[Monitor, ...], placing: Placing | None) -> None:
        """Set the monitors; one of the same name continues in the earlier one's state."""
        states = {monitor.name: state for monitor, state in zip(self.monitors, self.states, strict=True)}
        for monitor in self.monitors:
            if monitor.name not in {other.name for other in monitors}:
                self.close(monitor, states[monitor.name])
        self.monitors, self.placing = monitors, placing or ALL_HERE
        self.states = [self._begin(monitor, states) for monitor in monitors]
        self.key = self._key()

    def close(self, monitor: Monitor, state: State) -> None:
        """Close a monitor that is no longer on this link, ignoring its errors."""
        try:
            monitor.close(state)
        except MonitorError as error:
            self.failures.append(str(error))

    def move(self, place: int, state: State) -> None:
        """Set the state of the monitor at this place."""
        self.states[place] = state
        self.key = self._key()

    def copy(self) -> "Watch":
        """Return a copy in the same states, which can move on without effects."""
        twin = Watch(self.link, (), {})
        twin.monitors, twin.states, twin.key = self.monitors, deepcopy(self.states), self.key
        twin.placing = self.placing
        return twin

    @property
    def ends(self) -> tuple[str, str]:
        """The link, as the key of its monitors."""
        return self.link.source, self.link.target

    def alphabet(self) -> tuple[str, ...]:
        """Return filters of the topics that its monitors must see, whether or not anybody subscribes to them."""
        return tuple(dict.fromkeys(filter for monitor in self.monitors for filter in monitor.alphabet()))

    def _key(self) -> tuple[str | None, ...]:
        return tuple(state if isinstance(state, str) else None for state in self.states)

    def _begin(self, monitor: Monitor, states: dict[str, State]) -> State:
        """Return the state to continue in; a monitor that fails begins anew, so that no reload stops half-way."""
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
