"""Duplicate removal where nodes are joined in a cycle: a receiver gets an event by the first of its ways.

Each way is judged by itself, so that an event which may not go on from one link may still do so from another.
"""

from penstock.engine.node import Node
from penstock.model.event import Event


def told_apart(outputs: tuple[Event, ...]) -> tuple[Event, ...]:
    """Number a monitor's outputs for one event: two that are equal are still two."""
    if len(outputs) < 2 or not outputs[0].id:
        return outputs
    return tuple(
        output._replace(id=f"{output.id}.{place}") if place else output for place, output in enumerate(outputs)
    )


def arriving(node: Node, event: Event, id: str, now: float) -> Event:
    """Return the event with its id, where nodes are joined in a cycle: `told` by a neighbour, else a new one."""
    node.once.arrives()
    return event._replace(id=id or node.once.name(node.name, now))
