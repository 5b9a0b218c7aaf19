"""Access lists of other nodes: what they let their clients publish. Nodes tell each other when a link comes up and when
a list changes, so that an event that has waited is judged by the list of the node where it was published.
"""

import msgspec

from penstock.engine.federation.state import KnownRights
from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.session import Session
from penstock.model.errors import UNREADABLE, PolicyError
from penstock.policy.access.acl import Acl
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Publish
from penstock.wire.reason import Reason

TOPIC = "$penstock/rights"
"""The control topic on which nodes tell each other their access lists."""
PART = 16_384
"""Characters of a list in one packet, if the neighbour takes such packets."""
MAX_PARTS = 65_536
_AROUND = 256
"""Bytes of a packet that are not lines of a list, or half of them."""


class RightsPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of what the access list of a node lets its clients publish."""

    node: str
    at: float
    """The time since which the list is in force: a later one replaces it."""
    text: str | None = None
    """Lines of the list; None: the node has no list, and everything may be published there."""
    part: int = 0
    parts: int = 1


def own(node: Node) -> KnownRights:
    """Return this node's own list, with the time since which it is in force."""
    acl, known = node.admission.acl, node.federation.rights.get(node.name)
    text = None if acl is None else acl.write_lines()
    if known is None or known.text != text:
        at = node.runtime.clock() if known is None else max(node.runtime.clock(), known.at + 1)
        known = KnownRights(at, text, acl)
        _keep(node, node.name, known)
    return known


def announce(node: Node, session: Session) -> None:
    """Tell a neighbour whose link comes up all lists that are known here."""
    own(node)
    for name, known in node.federation.rights.items():
        if name in node.ensemble.nodes:
            _tell(node, session, name, known)


def renew(node: Node) -> None:
    """Tell neighbours of this node's list if it has changed."""
    before = node.federation.rights.get(node.name)
    known = own(node)
    if known is not before:
        _tell_others(node, node.name, known, None)


def take(node: Node, session: Session, payload: bytes, now: float) -> None:
    """Take a part of a list that a neighbour tells; a list that is newer than the known one is told to the others."""
    try:
        part = msgspec.json.decode(payload, type=RightsPart)
        if not 0 <= part.part < part.parts <= MAX_PARTS:
            raise PolicyError(f"part {part.part} of {part.parts}")
        known = node.federation.rights.get(part.node)
        if part.node not in node.ensemble.nodes or part.node == node.name or (known and known.at >= part.at):
            return
        text = part.text
        if text is not None:
            parts = session.federation.rights
            if part.part == 0:
                parts[part.node] = []
            if len(parts.get(part.node, ())) != part.part:
                return  # an earlier part is missing: it is told again when the link comes up
            parts[part.node].append(text)
            if part.part + 1 < part.parts:
                return
            text = "".join(parts.pop(part.node))
        known = KnownRights(part.at, text, None if text is None else Acl.parse(text, f"the access list of {part.node}"))
    except (*UNREADABLE, PolicyError) as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"rights of node `{session.neighbour}`: {error}") from None
    _keep(node, part.node, known)
    for waiting in node.sessions.values():
        waiting.outbox.begin_revision()
    _tell_others(node, part.node, known, session)


def restore(node: Node, name: str, at: float, text: str | None) -> None:
    """Take a list from the store; raise `PolicyError`."""
    acl = None if text is None else Acl.parse(text, f"the access list of {name}")
    node.federation.rights[name] = KnownRights(at, text, acl)


def _keep(node: Node, name: str, known: KnownRights) -> None:
    node.federation.rights[name] = known
    node.ledger.rights(name, known.at, known.text)


def _tell_others(node: Node, name: str, known: KnownRights, but: Session | None) -> None:
    for session in node.federation.neighbours.values():
        if session is not but and session.id in node.federation.exchanges:
            _tell(node, session, name, known)


def _tell(node: Node, session: Session, name: str, known: KnownRights) -> None:
    text, max_size = known.text, session.connection.maximum_packet_size
    size = min(PART, max(max_size // 2 - _AROUND, 1)) if max_size else PART
    parts = [None] if text is None else [text[at : at + size] for at in range(0, len(text), size)] or [""]
    for number, part in enumerate(parts):
        message = RightsPart(name, known.at, part, number, len(parts))
        outbox.push(node, session, encode(Publish(TOPIC, msgspec.json.encode(message)), 5))
