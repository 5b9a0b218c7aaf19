"""Duplicate removal where nodes are joined in a cycle: a receiver gets an event by the first of its ways.

Each way is judged by itself, so that an event which may not go on from one link may still do so from another.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.engine.node import Node

MOST_REMEMBERED = 20_000
"""Events; the oldest are forgotten first."""


def told_apart(outputs: tuple[Event, ...]) -> tuple[Event, ...]:
    """Number a monitor's outputs for one event: two that are equal are still two."""
    if len(outputs) < 2 or not outputs[0].id:
        return outputs
    return tuple(one._replace(id=f"{one.id}.{place}") if place else one for place, one in enumerate(outputs))


def arriving(node: "Node", event: Event, told: str, now: float) -> Event:
    """Return the event with its id, where nodes are joined in a cycle: `told` by a neighbour, else a new one."""
    node.once.arrives()
    return event._replace(id=told or node.once.name(node.name, now))


class Once:
    """The recent notifications by receiver. An event that comes to this node once more is another arrival of it."""

    __slots__ = ("_arrival", "_notified", "_numbered")

    def __init__(self) -> None:
        self._arrival = 0
        self._numbered = 0
        self._notified: dict[tuple[str, str, bytes], dict[Hashable, int]] = {}

    def arrives(self) -> None:
        """Begin an arrival; monitors' outputs belong to the same one."""
        self._arrival += 1

    def name(self, node: str, now: float) -> str:
        """Return an id for an event that begins here; after a restart time has gone on."""
        self._numbered += 1
        return f"{node}.{int(now * 1000):x}.{self._numbered:x}"

    def is_first(self, event: Event, receiver: Hashable) -> bool:
        """Return True if the receiver has not had the event by an earlier arrival."""
        key = (event.id, event.topic, event.payload)
        receivers = self._notified.get(key)
        if receivers is None:
            if len(self._notified) >= MOST_REMEMBERED:
                del self._notified[next(iter(self._notified))]
            receivers = self._notified[key] = {}
        return receivers.setdefault(receiver, self._arrival) == self._arrival
