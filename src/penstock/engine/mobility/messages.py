"""Messages between nodes about sessions that change their node.

Some are said at once, others in their turn (`say_in_turn`): these go through the neighbour's window and queue, so they
are in the store, arrive once, and keep their place among the events that go the same way.
"""

import msgspec

from penstock.engine.events.passage import Delivery
from penstock.engine.mobility.state import TOPIC, Message, Ready
from penstock.engine.node import Node
from penstock.engine.sessions import outbox, window
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.model.event import Event
from penstock.wire.codec import encode
from penstock.wire.packet import Publish


def say(node: Node, neighbour: Session, message: Message) -> None:
    """Tell a connected neighbour something at once; if the link breaks, it may be lost."""
    outbox.push(node, neighbour, encode(Publish(TOPIC, msgspec.json.encode(message)), 5))


def say_in_turn(node: Node, neighbour: Session, message: Message, now: float) -> None:
    """Tell a neighbour something behind all events that go to it, and before those that follow."""
    event = Event(TOPIC, msgspec.json.encode(message), 2)
    delivery = Delivery(neighbour, event, 2, False, ())
    window.send_or_queue(node, delivery, Forms(event, now))


def tell_ready(node: Node, neighbour: Session) -> None:
    """Tell a neighbour which clients' wants it has been told by now."""
    ready, name = node.federation.moves.ready, neighbour.neighbour or ""
    exchange = node.federation.exchanges.get(neighbour.id)
    if name in ready and exchange is not None and exchange.has_asked:
        for client in ready.pop(name):
            say(node, neighbour, Ready(client))
