"""How much goes over links, from counters that nodes tell every second or so."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.api.looking import NodeState

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
    sessions: int = 1


class Rate(NamedTuple):
    """A second, as the node sees it."""

    took: float = 0.0
    gave: float = 0.0
    denied: float = 0.0


class _Moment(NamedTuple):
    at: Mapping[str, float]
    flows: Mapping[Key, Flow]


class Rates:
    """The last seconds of counters."""

    def __init__(self) -> None:
        self._moments: deque[_Moment] = deque()

    def note(self, states: Mapping[str, NodeState], at: Mapping[str, float]) -> None:
        """What nodes have told, each at its own time."""
        now = max(at.values(), default=0.0)
        if self._moments and self._moments[-1].at == at:
            return
        self._moments.append(_Moment(dict(at), flows(states)))
        while len(self._moments) > 2 and now - max(self._moments[1].at.values(), default=0.0) >= SECONDS:
            self._moments.popleft()

    @property
    def flows(self) -> Mapping[Key, Flow]:
        """What was told last."""
        return self._moments[-1].flows if self._moments else {}

    def of(self, key: Key) -> Rate:
        """Over the last seconds; nothing if there was not time enough, or the counters have begun anew."""
        node, last = key[0], self._moments[-1] if self._moments else None
        if last is None or key not in last.flows:
            return Rate()
        new = last.flows[key]
        for one in self._moments:
            old, seconds = one.flows.get(key), last.at.get(node, 0.0) - one.at.get(node, float("inf"))
            if old is not None and seconds > 0 and new.took >= old.took and new.gave >= old.gave:
                denied = max(0, new.denied - old.denied)
                return Rate((new.took - old.took) / seconds, (new.gave - old.gave) / seconds, denied / seconds)
        return Rate()


def flows(states: Mapping[str, NodeState]) -> dict[Key, Flow]:
    """All that nodes tell of neighbours and clients."""
    found: dict[Key, Flow] = {}
    for name, state in states.items():
        all_ = state.counters
        found[name, "node", ""] = Flow(True, all_.received, all_.sent, all_.denied, 0, "", "")
        for link in state.portrait.links:
            found[name, "link", link.neighbour] = Flow(
                link.up, link.took, link.gave, link.denied, link.waiting, link.type, link.back
            )
        for one in state.portrait.clients:
            flow = Flow(one.up, one.took, one.gave, one.denied, one.waiting, one.publish_type, one.notify_type)
            before = found.get((name, "client", one.entity))
            found[name, "client", one.entity] = flow if before is None else _sum(before, flow)
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
        one.sessions + other.sessions,
    )
