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
MAX_BYTES = 32 * 1024
"""Of the sums in one announcement of paths."""
_AROUND_SUMS = 100
"""Bytes of a packet beside the sums: its header, the topic, number and brackets."""


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
    """Tell a neighbour something of tokens or ratings, or the operator that it does not fit into a packet."""
    data = encode(Publish(TOPIC, msgspec.json.encode(announcement)), 5)
    max_size = session.connection.maximum_packet_size
    if not max_size or len(data) <= max_size:
        outbox.push(node, session, data)
        return
    what = next(name for name in announcement.__struct_fields__ if getattr(announcement, name))
    sizes = f"`{what}` takes {len(data)} bytes, the neighbour takes packets of at most {max_size} bytes"
    node.notice("too long to tell", session, TOPIC, f"{sizes}: nothing is told")


def room(session: Session) -> int:
    """Return how many bytes of sums go into an announcement of paths."""
    max_size = session.connection.maximum_packet_size
    return min(max_size - _AROUND_SUMS, MAX_BYTES) if max_size else MAX_BYTES
