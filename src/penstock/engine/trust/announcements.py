"""Announcements of tokens and ratings between nodes, on a control topic that only they may use."""

import msgspec

from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.session import Session
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.verification import Verified
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

TOPIC = "$penstock/trust"
"""The control topic on which nodes tell each other tokens and ratings."""


class Announcement(msgspec.Struct, frozen=True, omit_defaults=True):
    """One announcement from one side to the other."""

    token: str = ""
    """A token that events will name."""
    bind: tuple[str, str] | None = None
    """A topic, and the digest of the token that its events have unless they say another."""
    gives: str = ""
    """The token with which the other may subscribe."""
    shows: str = ""
    """The token that the other has given."""
    vector: "PathUpdate | None" = None
    again: bool = False
    """The vector before was missed: tell all of it."""


class PathUpdate(msgspec.Struct, frozen=True, array_like=True):
    """An update of least sums over walks that end at who tells it."""

    number: int
    is_whole: bool
    sums: tuple[tuple[str, int, int | None], ...]


def verify(node: Node, text: bytes, now: float) -> Verified | TokenError:
    assert node.trust.tokens is not None
    try:
        return node.trust.tokens.verifier.verify(text, now)
    except TokenError as error:
        return error


def deny(node: Node, session: Session, why: str) -> None:
    """Refuse a token that a neighbour announces, shows or gives."""
    node.stats.tokens_refused += 1
    node.deny("token refused", session, "", why)


def tell(node: Node, session: Session, announcement: Announcement) -> None:
    """Tell a neighbour something of tokens or ratings."""
    data = encode(Publish(TOPIC, msgspec.json.encode(announcement)), 5)
    if not session.connection.maximum_packet_size or len(data) <= session.connection.maximum_packet_size:
        outbox.push(node, session, data)
