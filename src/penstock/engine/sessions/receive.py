"""Hand a packet of an open connection to the part of the engine that it is for."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.engine.events import entrances, ingress
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle, outbox, session_flow, subscribe
from penstock.engine.sessions.session import Session
from penstock.engine.trust import group_proofs
from penstock.wire.codec import encode
from penstock.wire.kinds import PUBACK, PUBCOMP, PUBREC
from penstock.wire.packet import (
    Auth,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
)

_PINGRESP = encode(Pingresp(), 4)

_ACKNOWLEDGEMENTS: dict[type, int] = {Puback: PUBACK, Pubrec: PUBREC, Pubcomp: PUBCOMP}


def handle(node: Node, session: Session, packet: Packet, now: float, raw: bytes = b"") -> Iterator[None] | None:
    """Do what the packet asks for; raises `WireError`. After a DISCONNECT the caller closes the connection.

    Of a packet that may ask for much, return the work: it is done piece by piece, as the caller asks for the next.
    `raw` is the whole packet as it came, if the caller has it: a journal keeps it rather than make it again.
    """
    if isinstance(packet, Publish):
        ingress.receive(node, session, packet, now, raw)
        return None
    return _HANDLERS[type(packet)](node, session, packet, now)


def _acknowledged(node: Node, session: Session, packet: Puback | Pubrec | Pubcomp, now: float) -> None:
    session_flow.acknowledge(node, session, _ACKNOWLEDGEMENTS[type(packet)], packet.packet_id, packet.reason, now)
    if session.replays:
        entrances.replay(node, session, now)


def _pubrel(node: Node, session: Session, packet: Pubrel, now: float) -> None:
    ingress.release(node, session, packet.packet_id)


def _subscribe(node: Node, session: Session, packet: Subscribe, now: float) -> Iterator[None]:
    ingress.forget_refused(node, session, packet.packet_id)
    return subscribe.subscribe(node, session, packet, now)


def _unsubscribe(node: Node, session: Session, packet: Unsubscribe, now: float) -> Iterator[None]:
    ingress.forget_refused(node, session, packet.packet_id)
    return subscribe.unsubscribe(node, session, packet, now)


def _pingreq(node: Node, session: Session, packet: Pingreq, now: float) -> None:
    outbox.push(node, session, _PINGRESP)  # [MQTT-3.12.4-1]


def _disconnect(node: Node, session: Session, packet: Disconnect, now: float) -> None:
    lifecycle.disconnect(node, session, packet, now)


def _auth(node: Node, session: Session, packet: Auth, now: float) -> None:
    group_proofs.receive(node, session, packet, now)


_HANDLERS: dict[type, Callable[[Node, Session, Any, float], Iterator[None] | None]] = {
    Puback: _acknowledged,
    Pubrec: _acknowledged,
    Pubrel: _pubrel,
    Pubcomp: _acknowledged,
    Subscribe: _subscribe,
    Unsubscribe: _unsubscribe,
    Pingreq: _pingreq,
    Disconnect: _disconnect,
    Auth: _auth,
}
