"""A publication on its way through a node."""

from typing import NamedTuple

_PAYLOAD_FORMAT = b"\x01"
_CONTENT_TYPE = b"\x03"


class Event(NamedTuple):
    """A publication, and what travels with it.

    `properties` holds the MQTT 5 properties that must reach subscribers unaltered (payload format, content type,
    response topic, correlation data, user properties), in wire form, so that they are passed on byte for byte.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: bytes = b""
    expires: float | None = None
    """The time after which it is not delivered any more, in seconds since the epoch."""
    origin: str = ""
    """The client id of its publisher; empty for the node itself."""
    user: str | None = None
    """The user that its publisher was authenticated as."""
    link_type: str = ""
    """The type of the link on which it came to this node."""
    path: tuple[str, ...] = ()
    """The nodes that it has passed, in order."""
    id: str = ""
    """An identifier that recognises the event again where nodes are connected in a cycle."""
    token: str = ""
    """The digest of the authorisation token that travels with it; empty: the node vouches for it."""

    @property
    def content_type(self) -> str:
        """The MQTT 5 content type, empty if it has none."""
        data = self.properties
        at = 2 if data[:1] == _PAYLOAD_FORMAT else 0  # of what travels, only the payload format comes before it
        if data[at : at + 1] != _CONTENT_TYPE:
            return ""
        start = at + 3
        return data[start : start + int.from_bytes(data[at + 1 : start], "big")].decode()

    def size(self) -> int:
        """Return an estimate of the bytes that keeping this event takes."""
        return len(self.payload) + len(self.topic) + len(self.properties) + 120
