"""How much goes over links, from counters that nodes tell every second or so."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from penstock.broker.http.answers.status import NodeState

SECONDS = 5.0
"""Rates are means over so long: what comes in bursts does not flicker."""

Key = tuple[str, str, str]
"""A node; `link`, `client` or `node`; the neighbour or client that it tells of, empty if it is of itself."""


class Flow(NamedTuple):
    """What a node tells of one neighbour or client; of several sessions of a client, their sum."""

    up: bool
    took: int
    gave: int
    denied: int
    waiting: int
    publish_type: str
    notify_type: str


class Rate(NamedTuple):
    """A second, as the node sees it."""

    took: float = 0.0
    gave: float = 0.0
    denied: float = 0.0


class _Moment(NamedTuple):
    at: float
    told: object
    """What the flows were read from."""
    flows: Mapping[str, Flow]


class Rates:
    """The last seconds of counters."""

    def __init__(self) -> None:
        self._past: dict[tuple[str, str], deque[_Moment]] = {}

    def note(self, states: Mapping[str, NodeState], at: Mapping[str, float]) -> None:
        """What nodes have told, each at its own time. Many clients are asked for less often than the rest: then they
        come as they were, and are no news.
        """
        for name, state in states.items():
            for kind, read in _READ.items():
                told = state.portrait.clients if kind == "client" else state
                self._note(name, kind, told, at[name], partial(read, state))
        for name, kind in list(self._past):
            if name not in states:
                del self._past[name, kind]

    def _note(self, node: str, kind: str, told: object, at: float, read: Callable[[], dict[str, Flow]]) -> None:
        past = self._past.setdefault((node, kind), deque())
        if past and (past[-1].at == at or past[-1].told is told):
            return
        past.append(_Moment(at, told, read()))
        while len(past) > 2 and at - past[1].at >= SECONDS:
            past.popleft()

    def flow(self, key: Key) -> Flow | None:
        """What was told last; None if nothing was."""
        past = self._past.get(key[:2])
        return past[-1].flows.get(key[2]) if past else None

    def of(self, key: Key) -> Rate:
        """Over the last seconds; nothing if there was not time enough, or the counters have begun anew."""
        past, new = self._past.get(key[:2]), self.flow(key)
        if past is None or new is None:
            return Rate()
        for one in past:
            old, seconds = one.flows.get(key[2]), past[-1].at - one.at
            if old is not None and seconds > 0 and new.took >= old.took and new.gave >= old.gave:
                denied = max(0, new.denied - old.denied)
                return Rate((new.took - old.took) / seconds, (new.gave - old.gave) / seconds, denied / seconds)
        return Rate()


def _whole(state: NodeState) -> dict[str, Flow]:
    return {"": Flow(True, state.counters.received, state.counters.sent, state.counters.denied, 0, "", "")}


def _links(state: NodeState) -> dict[str, Flow]:
    return {
        one.neighbour: Flow(one.up, one.took, one.gave, one.denied, one.waiting, one.type, one.back)
        for one in state.portrait.links
    }


def _clients(state: NodeState) -> dict[str, Flow]:
    found: dict[str, Flow] = {}
    for one in state.portrait.clients:
        flow = Flow(one.up, one.took, one.gave, one.denied, one.waiting, one.publish_type, one.notify_type)
        before = found.get(one.entity)
        found[one.entity] = flow if before is None else _sum(before, flow)
    for past in state.portrait.past:  # counts go on from session to session
        before = found.get(past.entity, Flow(False, 0, 0, 0, 0, "", ""))
        found[past.entity] = _sum(before, Flow(False, past.took, past.gave, past.denied, 0, "", ""))
    return found


def _sum(one: Flow, other: Flow) -> Flow:
    return Flow(
        one.up or other.up,
        one.took + other.took,
        one.gave + other.gave,
        one.denied + other.denied,
        one.waiting + other.waiting,
        one.publish_type,
        one.notify_type,
    )


_READ = {"node": _whole, "link": _links, "client": _clients}
