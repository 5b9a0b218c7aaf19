"""Relative network speeds: partial orders on annotated tasks, to give to a schema.

What an ordering leaves open is nondeterministic. Each of these comes with a way to forget what it does not compare, so
that `explore` knows a configuration again that differs only in that.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .task import AnnotatedTask, BrokerTask, TransmitTask

WorkList = frozenset[AnnotatedTask]


class Ordering(NamedTuple):
    """A strict partial order on annotated tasks."""

    name: str
    precedes: Callable[[AnnotatedTask, AnnotatedTask], bool]
    """True if the first must be processed before the second; timestamps are compared only with one another."""
    forget: Callable[[WorkList], WorkList]
    """The same tasks with other timestamps, for which, and for whatever comes of them, `precedes` says the same."""

    def __str__(self) -> str:
        return self.name


def _ranks(times: Iterable[int]) -> dict[int, int]:
    return {time: rank for rank, time in enumerate(sorted(set(times)))}


def _numbered(tasks: Iterable[tuple[TransmitTask | BrokerTask, int]]) -> WorkList:
    """Tasks with a time of publication; those that are now the same are told apart by a number."""
    return frozenset(
        AnnotatedTask(task, number, time) for (task, time), count in Counter(tasks).items() for number in range(count)
    )


def _forget_times(wl: WorkList) -> WorkList:
    return _numbered((alpha.task, 0) for alpha in wl)


def _forget_generations(wl: WorkList) -> WorkList:
    rank = _ranks(alpha.t_pub for alpha in wl)
    return _numbered((alpha.task, rank[alpha.t_pub]) for alpha in wl)


def _forget_publications(wl: WorkList) -> WorkList:
    rank = _ranks(alpha.t_gen for alpha in wl)
    return frozenset(AnnotatedTask(alpha.task, rank[alpha.t_gen], 0) for alpha in wl)


def _forget_other_links(wl: WorkList) -> WorkList:
    links = {alpha.task[:2] for alpha in wl}
    lanes = (frozenset(alpha for alpha in wl if alpha.task[:2] == link) for link in links)
    return frozenset(alpha for lane in lanes for alpha in _forget_publications(lane))


def _on_one_link(first: AnnotatedTask, second: AnnotatedTask) -> bool:
    if first.task[:2] != second.task[:2]:
        return False
    return (isinstance(first.task, TransmitTask), first.t_gen) < (isinstance(second.task, TransmitTask), second.t_gen)


unordered = Ordering("unordered", lambda first, second: False, _forget_times)
"""Nothing is known about speeds: any task may be next."""

fifo = Ordering("fifo", lambda first, second: first.t_gen < second.t_gen, _forget_publications)
"""All speeds are equal: what was generated first is processed first."""

by_publication = Ordering("by_publication", lambda first, second: first.t_pub < second.t_pub, _forget_generations)
"""All that one publication leads to is done before what a later one leads to."""

in_order_links = Ordering("in_order_links", _on_one_link, _forget_other_links)
"""Each link keeps the order of its events, as a TCP connection does; nothing is known of one link and another.

A broker passes on what it received through a link before it takes the next event from that link.
"""
