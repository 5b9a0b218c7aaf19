"""Published and received events: payloads and their content."""

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from penstock.model import event as model
from penstock.model.content.content import Content, ContentReader, Unreadable, format_of_type
from penstock.model.errors import ContentError
from penstock.model.values import Value

JSON = "application/json"
QUALITY = "qoc"
RETAIN_UNTIL = "penstock-retain-until"
"""User properties of events that contracts have released."""

_READER = ContentReader()


@dataclass(frozen=True)
class Event:
    """One publication as it arrived."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    """True if the node had retained it before the subscription."""
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """MQTT's user properties."""

    @cached_property
    def content(self) -> Content:
        """Return the payload's content, decoded on first use; the format is found by content type, then by looking."""
        stated = format_of_type(self.content_type)
        return Content(self.payload, stated) if stated else _READER.read(model.Event(self.topic, self.payload))

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the payload, in hexadecimal: a rating names an event by it."""
        return sha256(self.payload).hexdigest()

    @property
    def quality(self) -> tuple[dict[str, Any], ...]:
        """Return its quality as the node measured it, for each metric: `indicator`, `value`, when it was `created`."""
        return tuple(json.loads(text) for name, text in self.properties if name == QUALITY)

    @property
    def retain_until(self) -> str | None:
        """Return the time by which the program has promised to delete it, as in RFC 3339; None: no such promise."""
        return next((text for name, text in self.properties if name == RETAIN_UNTIL), None)

    @property
    def attributes(self) -> dict[str, Value]:
        """Return the attributes of the content; raise `ContentError` if it is damaged."""
        attributes = self.content.attributes
        if isinstance(attributes, Unreadable):
            raise ContentError(attributes.reason)
        return attributes


def encode(content: Any) -> tuple[bytes, str]:
    """Return the payload for content, and its content type: bytes and text as they are, everything else as JSON."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content), ""
    if isinstance(content, str):
        return content.encode(), ""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(), JSON
