"""What is published and what arrives: payloads and what they say."""

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from penstock.model import event as model
from penstock.model.content.content import Content, Reader, Unreadable, format_of_type
from penstock.model.errors import ContentError
from penstock.model.values import Value

JSON = "application/json"
QUALITY = "qoc"
RETAIN_UNTIL = "penstock-retain-until"
"""User properties of what contracts have released."""

_READER = Reader()


@dataclass(frozen=True)
class Event:
    """One publication as it arrived."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    """Whether it was kept by the node from before the subscription."""
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """MQTT's user properties."""

    @cached_property
    def content(self) -> Content:
        """What the payload says, found by content type, then by looking; decoded when it is asked for."""
        said = format_of_type(self.content_type)
        return Content(self.payload, said) if said else _READER.read(model.Event(self.topic, self.payload))

    @property
    def digest(self) -> str:
        """SHA-256 of the payload, in hexadecimal: how a rating names an event."""
        return sha256(self.payload).hexdigest()

    @property
    def quality(self) -> tuple[dict[str, Any], ...]:
        """What the node says of its quality, for each metric: its `indicator`, `value`, when it was `created`."""
        return tuple(json.loads(text) for name, text in self.properties if name == QUALITY)

    @property
    def retain_until(self) -> str | None:
        """When the program has promised to have deleted it, as RFC 3339 writes times; None: no such promise."""
        return next((text for name, text in self.properties if name == RETAIN_UNTIL), None)

    @property
    def attributes(self) -> dict[str, Value]:
        """The attributes of the content; raises `ContentError` if it is damaged."""
        found = self.content.attributes
        if isinstance(found, Unreadable):
            raise ContentError(found.reason)
        return found


def encode(content: Any) -> tuple[bytes, str]:
    """The payload for some content, and its content type: bytes and text as they are, everything else as JSON."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content), ""
    if isinstance(content, str):
        return content.encode(), ""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(), JSON
