"""The notifications that devices may get for given publications: over all interleavings, or in one run.

The publications of one device happen in the order in which they are given; those of different devices, and the work of
the system between them, in any order that the schema's the ordering leaves open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.errors import PenstockError

from .rules import Notification, StateTransition, process, t_publish
from .schema import Schema
from .state import SystemState, initial, select
from .task import AnnotatedTask

MAX_STATES = 200_000
MAX_STEPS = 100_000


class ExplorationError(PenstockError):
    """A system that is too large to explore, or never comes to rest."""


class DevicePublication(NamedTuple):
    """An event that a device publishes at a broker."""

    device: str
    broker: str
    topic: str


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The notifications of all devices in one run, for each device in their order."""

    histories: tuple[tuple[str, tuple[Notification, ...]], ...] = ()
    """By device, sorted; without devices that were not notified."""

    def of(self, device: str) -> tuple[Notification, ...]:
        return dict(self.histories).get(device, ())

    def topics(self, device: str) -> tuple[str, ...]:
        return tuple(notification.topic for notification in self.of(device))

    def after(self, notifications: Iterable[Notification]) -> "RunOutcome":
        """Return this outcome, with these notifications before it."""
        histories = dict(self.histories)
        for notification in reversed(tuple(notifications)):
            histories[notification.device] = (notification, *histories.get(notification.device, ()))
        return RunOutcome(tuple(sorted(histories.items())))


class Configuration(NamedTuple):
    """A state of the system, and the publications that are still pending."""

    state: SystemState
    pending: tuple[DevicePublication, ...]


Option = DevicePublication | AnnotatedTask
"""A possible next step: a publication by T-Publish, or a task by its own rule."""
Choose = Callable[[Sequence[Option]], Option]


def options(schema: Schema, now: Configuration) -> list[Option]:
    """Return the possible next steps: tasks in the order of their generation, then publications in the given order."""
    first_of: dict[str, DevicePublication] = {}
    for publication in now.pending:
        first_of.setdefault(publication.device, publication)
    tasks = sorted(select(schema, now.state.wl), key=lambda alpha: (alpha.t_gen, str(alpha)))
    return [*tasks, *first_of.values()]


def take(schema: Schema, now: Configuration, option: Option) -> tuple[StateTransition, Configuration]:
    """Apply the chosen option."""
    if isinstance(option, AnnotatedTask):
        step = process(schema, now.state, option)
        return step, now._replace(state=step.state)
    step = t_publish(schema, now.state, option.device, option.broker, option.topic)
    at = now.pending.index(option)
    return step, Configuration(step.state, now.pending[:at] + now.pending[at + 1 :])


def run(
    schema: Schema, publications: Iterable[DevicePublication], choose: Choose
) -> tuple[tuple[StateTransition, ...], RunOutcome]:
    """Run until all is published and no task is left; `choose` decides what the ordering leaves open."""
    now, trace = Configuration(initial(schema), tuple(publications)), list[StateTransition]()
    while alternatives := options(schema, now):
        if len(trace) == MAX_STEPS:
            raise ExplorationError(f"not at rest after {MAX_STEPS} steps")
        step, now = take(schema, now, choose(alternatives))
        trace.append(step)
    return tuple(trace), RunOutcome().after(notification for step in trace for notification in step.notifications)


def work_first(alternatives: Sequence[Option]) -> Option:
    """Choose for `run` the task that was generated first; the next publication when no task is left."""
    return alternatives[0]


def explore(
    schema: Schema, publications: Iterable[DevicePublication], max_states: int = MAX_STATES
) -> frozenset[RunOutcome]:
    """Return every outcome that some interleaving has.

    A system in which an event may travel forever (brokers joined in a cycle) raises `ExplorationError`, and so does
    one with more than `max_states` configurations.
    """
    start = _timeless(schema, Configuration(initial(schema), tuple(publications)))
    outcomes: dict[Configuration, frozenset[RunOutcome]] = {}
    open_steps: dict[Configuration, list[tuple[StateTransition, Configuration]]] = {}
    waiting: list[tuple[Configuration, Iterator[Configuration]]] = []

    def enter(now: Configuration) -> None:
        if len(outcomes) + len(open_steps) >= max_states:
            raise ExplorationError(f"more than {max_states} configurations")
        steps = [take(schema, now, option) for option in options(schema, now)]
        open_steps[now] = [(step, _timeless(schema, after)) for step, after in steps]
        waiting.append((now, iter([after for _, after in open_steps[now]])))

    enter(start)
    while waiting:
        now, successors = waiting[-1]
        after = next(successors, None)
        if after is None:
            waiting.pop()
            outcomes[now] = _united(open_steps.pop(now), outcomes)
        elif after in open_steps:
            tasks = ", ".join(sorted(str(alpha.task) for alpha in after.state.wl))
            raise ExplorationError(f"an event may travel forever: {tasks}")
        elif after not in outcomes:
            enter(after)
    return outcomes[start]


def histories(outcomes: Iterable[RunOutcome], device: str) -> frozenset[tuple[str, ...]]:
    """Return the sequences of topics that one device may be notified of."""
    return frozenset(outcome.topics(device) for outcome in outcomes)


def _united(
    steps: list[tuple[StateTransition, Configuration]], outcomes: dict[Configuration, frozenset[RunOutcome]]
) -> frozenset[RunOutcome]:
    """Return the outcomes of a configuration from its successors'; without successors it is the empty outcome."""
    if not steps:
        return frozenset({RunOutcome()})
    return frozenset(rest.after(step.notifications) for step, after in steps for rest in outcomes[after])


def _timeless(schema: Schema, now: Configuration) -> Configuration:
    """Return the configuration with only the timestamps that the ordering compares; its successors are the same."""
    wl = schema.ordering.forget(now.state.wl)
    t = 1 + max((time for alpha in wl for time in (alpha.t_gen, alpha.t_pub)), default=-1)
    return now._replace(state=SystemState(t, now.state.st, wl))
