"""Traffic rates of links, from counters that nodes report every second or so."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from penstock.broker.http.answers.status import NodeState

SECONDS = 5.0
"""Seconds over which rates are averaged, so that bursts do not flicker."""

Key = tuple[str, str, str]
"""A node; `link`, `client` or `node`; the neighbour or client it is about, empty for the node itself."""


class LinkCounters(NamedTuple):
    """A node's counters of one neighbour or client; of several sessions of a client, their sum."""

    up: bool
    received: int
    sent: int
    denied: int
    waiting: int
    publish_type: str
    notify_type: str


class Rate(NamedTuple):
    """Rates per second, as the node sees them."""

    received: float = 0.0
    sent: float = 0.0
    denied: float = 0.0


class _Moment(NamedTuple):
    at: float
    source: object
    """The object that the counters were read from."""
    flows: Mapping[str, LinkCounters]


class Rates:
    """The counters of the last seconds."""

    def __init__(self) -> None:
        self._past: dict[tuple[str, str], deque[_Moment]] = {}

    def record(self, states: Mapping[str, NodeState], at: Mapping[str, float]) -> None:
        """Record the states of nodes, each at its own time; clients only if they were asked for again."""
        for name, state in states.items():
            for kind, read in _READ.items():
                source = state.portrait.clients if kind == "client" else state
                self._record(name, kind, source, at[name], partial(read, state))
        for name, kind in list(self._past):
            if name not in states:
                del self._past[name, kind]

    def _record(
        self, node: str, kind: str, source: object, at: float, read: Callable[[], dict[str, LinkCounters]]
    ) -> None:
        past = self._past.setdefault((node, kind), deque())
        if past and (past[-1].at == at or past[-1].source is source):
            return
        past.append(_Moment(at, source, read()))
        while len(past) > 2 and at - past[1].at >= SECONDS:
            past.popleft()

    def flow(self, key: Key) -> LinkCounters | None:
        """Return the last counters, or None."""
        past = self._past.get(key[:2])
        return past[-1].flows.get(key[2]) if past else None

    def rate(self, key: Key) -> Rate:
        """Return the rate over the last seconds; zero if there was not time enough, or the counters have restarted."""
        past, new = self._past.get(key[:2]), self.flow(key)
        if past is None or new is None:
            return Rate()
        for moment in past:
            old, seconds = moment.flows.get(key[2]), past[-1].at - moment.at
            if old is not None and seconds > 0 and new.received >= old.received and new.sent >= old.sent:
                received, sent = new.received - old.received, new.sent - old.sent
                return Rate(received / seconds, sent / seconds, max(0, new.denied - old.denied) / seconds)
        return Rate()


def _whole(state: NodeState) -> dict[str, LinkCounters]:
    return {"": LinkCounters(True, state.counters.received, state.counters.sent, state.counters.denied, 0, "", "")}


def _links(state: NodeState) -> dict[str, LinkCounters]:
    return {
        link.neighbour: LinkCounters(link.up, link.took, link.gave, link.denied, link.waiting, link.type, link.back)
        for link in state.portrait.links
    }


def _clients(state: NodeState) -> dict[str, LinkCounters]:
    by_name: dict[str, LinkCounters] = {}
    for client in state.portrait.clients:
        numbers = (client.took, client.gave, client.denied, client.waiting)
        flow = LinkCounters(client.up, *numbers, client.publish_type, client.notify_type)
        before = by_name.get(client.entity)
        by_name[client.entity] = flow if before is None else _sum(before, flow)
    for past in state.portrait.past:  # counts continue from session to session
        before = by_name.get(past.entity, LinkCounters(False, 0, 0, 0, 0, "", ""))
        by_name[past.entity] = _sum(before, LinkCounters(False, past.took, past.gave, past.denied, 0, "", ""))
    return by_name


def _sum(counters: LinkCounters, other: LinkCounters) -> LinkCounters:
    received, sent = counters.received + other.received, counters.sent + other.sent
    denied, waiting = counters.denied + other.denied, counters.waiting + other.waiting
    return counters._replace(up=counters.up or other.up, received=received, sent=sent, denied=denied, waiting=waiting)


_READ = {"node": _whole, "link": _links, "client": _clients}
