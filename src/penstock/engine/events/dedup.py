"""Duplicate removal where nodes are joined in a cycle: a receiver gets an event by the first way that leads to it.

Each way is judged by itself: what policies stop on one way may still come by another. So a receiver has had an event
when it was sent or queued, or a contract keeps it for later, or the monitors on the link to it have seen it: these see
an event once.
"""

from penstock.engine.events.passage import Delivery
from penstock.engine.node import Node
from penstock.model.event import Event


def told_apart(outputs: tuple[Event, ...]) -> tuple[Event, ...]:
    """Number a monitor's outputs for one event: two that are equal are still two."""
    if len(outputs) < 2 or not outputs[0].id:
        return outputs
    return tuple(
        output._replace(id=f"{output.id}.{place}") if place else output for place, output in enumerate(outputs)
    )


def taken(delivery: Delivery) -> None:
    """Remember that the receiver has had the event: by other ways it does not get it."""
    event = delivery.passage.event
    if event.id and delivery.receiver is not None:
        delivery.passage.node.once.note(event, delivery.receiver)


def arriving(node: Node, event: Event, id: str, now: float) -> Event:
    """Return the event with its id, where nodes are joined in a cycle: `told` by a neighbour, else a new one."""
    node.once.arrives()
    return event._replace(id=id or node.once.name(node.name, now))
