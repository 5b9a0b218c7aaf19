"""What the access lists of other nodes let their clients publish. Nodes tell each other when a link comes up and when the
list changes, so that an event that has waited here is judged by the list of the node where it was published.
"""

from typing import NamedTuple

import msgspec

from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.session import Session
from penstock.model.errors import PolicyError
from penstock.policy.access.acl import Acl
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Publish
from penstock.wire.reason import Reason

TOPIC = "$penstock/rights"
"""The control topic on which nodes tell each other their access lists."""
PART = 16_384
"""Characters of a list in one packet."""
MAX_PARTS = 4_096


class RightsPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of what the access list of a node lets its clients publish."""

    node: str
    at: float
    """The time since which the list is in force: a later one replaces it."""
    text: str | None = None
    """Lines of the list; None: the node has no list, and everything may be published there."""
    part: int = 0
    parts: int = 1
