"""Duplicate removal where nodes are joined in a cycle: a receiver gets an event by the first way that leads to it.

Each way is judged by itself: what policies stop on one way may still come by another. So a receiver has had an event
when it was sent or queued, or a contract keeps it for later, or the monitors on the link to it have seen it: these see
an event once. A foreign broker removes no duplicates: nodes tell each other which they have served, and know an event
again that one brings back.
"""

from collections.abc import Hashable
from hashlib import blake2b

from penstock.engine.events import user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.events.state import Broker, Dedup
from penstock.engine.node import Node
from penstock.model.event import Event


def told_apart(outputs: tuple[Event, ...]) -> tuple[Event, ...]:
    """Number a monitor's outputs for one event: two that are equal are still two."""
    if len(outputs) < 2 or not outputs[0].id:
        return outputs
    return tuple(
        output._replace(id=f"{output.id}.{place}") if place else output for place, output in enumerate(outputs)
    )


def has_had(once: Dedup, delivery: Delivery) -> bool:
    """Return True if the receiver has had the event by another way, or before a foreign broker brought it back."""
    event, broker = delivery.passage.event, _broker(delivery)
    before = user_properties.echoes(event)
    if broker is not None and (
        len(before) >= user_properties.MAX_ECHOES or broker.name in user_properties.told(event, user_properties.SERVED)
    ):
        return True
    forms = [event, *(event._replace(id=id) for id in before)]
    if delivery.passage.node.ensemble.brokers:
        forms += [_brought_back(event, id) for id in (event.id, *before)]
    receivers = [receiver for receiver in (delivery.receiver, broker) if receiver is not None]
    return any(once.has_had(form, receiver) for receiver in receivers for form in forms)


def taken(once: Dedup, delivery: Delivery) -> None:
    """Remember that the receiver has had the event: by other ways it does not get it."""
    if delivery.receiver is not None:
        _note(once, delivery.passage.event, delivery.receiver)


def sent(once: Dedup, delivery: Delivery) -> None:
    """Remember the same of an event that was sent or queued."""
    taken(once, delivery)
    broker = _broker(delivery) if delivery.session.neighbour is not None else None
    if broker is not None:
        _note(once, delivery.passage.event, broker)


def _note(once: Dedup, event: Event, receiver: Hashable) -> None:
    if event.id:
        once.note(event, receiver)
        for id in user_properties.echoes(event):
            once.note(_brought_back(event, id), receiver)


def _brought_back(event: Event, id: str) -> Event:
    """Return what stands for an event that a foreign broker says to be one of the domain: so it is if all is equal."""
    beside = user_properties.for_clients(event).properties + bytes((event.retain,))
    return event._replace(id=f"{id} {blake2b(beside, digest_size=12).hexdigest()}")


def with_served(once: Dedup, delivery: Delivery, event: Event) -> Event:
    """Return what goes to another node with the foreign brokers that it need not serve any more."""
    if not delivery.passage.node.ensemble.shared_brokers:
        return event
    known = user_properties.told(event, user_properties.SERVED)
    more = [name for name in once.served(delivery.passage.event) if name not in known]
    return user_properties.having(event, None, [(user_properties.SERVED, name) for name in more]) if more else event


def _broker(delivery: Delivery) -> Broker | None:
    """Return the foreign broker that an event is on its way to."""
    name = delivery.passage.node.ensemble.brokers.get(delivery.session.neighbour or "")
    return None if name is None else Broker(name)


def arriving(node: Node, event: Event, id: str, now: float) -> Event:
    """Return the event with its id, where nodes are joined in a cycle: `told` by a neighbour, else a new one."""
    node.once.arrives()
    return event._replace(id=id or node.once.name(node.name, now))
