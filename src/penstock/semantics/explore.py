"""What devices may be notified of, for given publications: over all interleavings, or in one run.

The publications of one device happen in the order in which they are given; those of different devices, and the work of
the system between them, in any order that the schema's the ordering leaves open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.errors import PenstockError

from .rules import Notification, Step, process, t_publish
from .schema import Schema
from .state import State, initial, select
from .task import Annotated

MOST_STATES = 200_000
MOST_STEPS = 100_000


class ExplorationError(PenstockError):
    """A system that is too large to explore, or never comes to rest."""


class Publication(NamedTuple):
    """An event that a device publishes at a broker."""

    device: str
    broker: str
    topic: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all devices were notified of in one run: each device's notifications, in their order."""

    histories: tuple[tuple[str, tuple[Notification, ...]], ...] = ()
    """By device, sorted; without devices that were not notified."""

    def of(self, device: str) -> tuple[Notification, ...]:
        return dict(self.histories).get(device, ())

    def topics(self, device: str) -> tuple[str, ...]:
        return tuple(notification.topic for notification in self.of(device))

    def after(self, notifications: Iterable[Notification]) -> "Outcome":
        """This outcome, with these notifications before it."""
        histories = dict(self.histories)
        for notification in reversed(tuple(notifications)):
            histories[notification.device] = (notification, *histories.get(notification.device, ()))
        return Outcome(tuple(sorted(histories.items())))


class Configuration(NamedTuple):
    """A state of the system, and what is yet to be published."""

    state: State
    pending: tuple[Publication, ...]


Option = Publication | Annotated
"""What can be next: a publication by T-Publish, or a task by the rule that is for it."""
Choose = Callable[[Sequence[Option]], Option]


def options(schema: Schema, now: Configuration) -> list[Option]:
    """What can be next: tasks, those generated first before others, then publications as they were given."""
    first_of: dict[str, Publication] = {}
    for publication in now.pending:
        first_of.setdefault(publication.device, publication)
    return [*sorted(select(schema, now.state.wl), key=_generation), *first_of.values()]


def _generation(alpha: Annotated) -> tuple[int, str]:
    return alpha.t_gen, str(alpha)


def take(schema: Schema, now: Configuration, option: Option) -> tuple[Step, Configuration]:
    """Do what was chosen."""
    if isinstance(option, Annotated):
        step = process(schema, now.state, option)
        return step, now._replace(state=step.state)
    step = t_publish(schema, now.state, option.device, option.broker, option.topic)
    at = now.pending.index(option)
    return step, Configuration(step.state, now.pending[:at] + now.pending[at + 1 :])


def run(schema: Schema, publications: Iterable[Publication], choose: Choose) -> tuple[tuple[Step, ...], Outcome]:
    """One run until all is published and nothing is left to do, `choose` deciding what the ordering leaves open."""
    now, trace = Configuration(initial(schema), tuple(publications)), list[Step]()
    while alternatives := options(schema, now):
        if len(trace) == MOST_STEPS:
            raise ExplorationError(f"not at rest after {MOST_STEPS} steps")
        step, now = take(schema, now, choose(alternatives))
        trace.append(step)
    return tuple(trace), Outcome().after(told for step in trace for told in step.notifications)


def work_first(alternatives: Sequence[Option]) -> Option:
    """A choice for `run`: what was generated first; the next publication, as given, when nothing is left to do."""
    return alternatives[0]


def explore(schema: Schema, publications: Iterable[Publication], most_states: int = MOST_STATES) -> frozenset[Outcome]:
    """Every outcome that some interleaving has.

    A system in which an event may travel for ever (brokers joined in a cycle) raises `ExplorationError`, and so does
    one with more than `most_states` configurations.
    """
    start = _timeless(schema, Configuration(initial(schema), tuple(publications)))
    outcomes: dict[Configuration, frozenset[Outcome]] = {}
    open_steps: dict[Configuration, list[tuple[Step, Configuration]]] = {}
    waiting: list[tuple[Configuration, Iterator[Configuration]]] = []

    def enter(now: Configuration) -> None:
        if len(outcomes) + len(open_steps) >= most_states:
            raise ExplorationError(f"more than {most_states} configurations")
        taken = [take(schema, now, option) for option in options(schema, now)]
        open_steps[now] = [(step, _timeless(schema, after)) for step, after in taken]
        waiting.append((now, iter([after for _, after in open_steps[now]])))

    enter(start)
    while waiting:
        now, successors = waiting[-1]
        after = next(successors, None)
        if after is None:
            waiting.pop()
            outcomes[now] = _united(open_steps.pop(now), outcomes)
        elif after in open_steps:
            raise ExplorationError(f"an event may travel for ever: {_tasks(after)}")
        elif after not in outcomes:
            enter(after)
    return outcomes[start]


def histories(outcomes: Iterable[Outcome], device: str) -> frozenset[tuple[str, ...]]:
    """The sequences of topics that one device may be notified of."""
    return frozenset(outcome.topics(device) for outcome in outcomes)


def _united(
    steps: list[tuple[Step, Configuration]], outcomes: dict[Configuration, frozenset[Outcome]]
) -> frozenset[Outcome]:
    """The outcomes of a configuration, from those of its successors; at rest there is one: nothing more happens."""
    if not steps:
        return frozenset({Outcome()})
    return frozenset(rest.after(step.notifications) for step, after in steps for rest in outcomes[after])


def _timeless(schema: Schema, now: Configuration) -> Configuration:
    """The same with timestamps that only say what the ordering compares: what can follow is the same."""
    wl = schema.ordering.forget(now.state.wl)
    t = 1 + max((time for alpha in wl for time in (alpha.t_gen, alpha.t_pub)), default=-1)
    return now._replace(state=State(t, now.state.st, wl))


def _tasks(now: Configuration) -> str:
    return ", ".join(sorted(str(alpha.task) for alpha in now.state.wl))
