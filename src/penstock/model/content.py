"""What a payload says, as attributes: decoded only if somebody asks, and once.

The format of an event is what its content type says; else what the domain's rules, or Sparkplug's own topics, say; else
it is found by looking. Only content whose format was said can be damaged: what merely looks like JSON and is none is
opaque.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from penstock.model.bounds import MOST_BYTES
from penstock.model.errors import BoundError
from penstock.model.errors import ContentError as ContentError
from penstock.model.event import Event
from penstock.model.json_content import read_json
from penstock.model.topic import matches
from penstock.model.values import Value


class Format(StrEnum):
    """What a payload is written in."""

    JSON = "json"
    XML = "xml"
    SPARKPLUG = "sparkplug"
    TEXT = "text"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Damaged content, as a value: its payload is not what its format asks for, or goes beyond a bound."""

    reason: str

    def __str__(self) -> str:
        return self.reason


Attributes = dict[str, Value]


def _read_text(payload: bytes) -> Attributes:
    try:
        return {"value": payload.decode("utf-8-sig")}
    except UnicodeDecodeError:
        raise ContentError("not text: the payload is not UTF-8") from None


_READERS: dict[Format, Callable[[bytes], Attributes]] = {
    Format.JSON: read_json,
    Format.TEXT: _read_text,
}


class Content:
    """What one payload says. Nothing is decoded before it is asked for."""

    __slots__ = ("_attributes", "_format", "payload")

    def __init__(self, payload: bytes, format: Format | None = None) -> None:
        """The content of a payload in a format; None if it is to be found by looking."""
        self.payload = payload
        self._format = format
        self._attributes: Attributes | Unreadable | None = None

    @property
    def format(self) -> Format:
        if self._format is None:
            self._look()
            assert self._format is not None
        return self._format

    @property
    def attributes(self) -> Attributes | Unreadable:
        if self._attributes is None:
            if self._format is None:
                self._look()
            else:
                self._attributes = _attributes(self._format, self.payload)
            assert self._attributes is not None
        return self._attributes

    def xpath(self, expression: str) -> Value:
        """What an XPath expression finds: a list of strings, a string, a double or a bool. Raises `ContentError`."""
        raise ContentError(f"the content is not XML, so `{expression}` finds nothing in it")

    def _look(self) -> None:
        format = _looks_like(self.payload)
        try:
            self._attributes = _read(format, self.payload)
        except BoundError as error:
            self._attributes = Unreadable(str(error))
        except ContentError:
            format, self._attributes = Format.OPAQUE, {}
        self._format = format


def _attributes(format: Format, payload: bytes) -> Attributes | Unreadable:
    try:
        return _read(format, payload)
    except ContentError as error:
        return Unreadable(str(error))


def _read(format: Format, payload: bytes) -> Attributes:
    if format is Format.OPAQUE:
        return {}
    if len(payload) > MOST_BYTES:
        raise BoundError(f"a payload of {len(payload)} bytes is not decoded, only up to {MOST_BYTES}")
    if not payload and format is not Format.TEXT:
        raise ContentError("the payload is empty")
    return _READERS[format](payload)


def _looks_like(payload: bytes) -> Format:
    start = payload[:64].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if start[:1] in _JSON_STARTS or start.startswith((b"true", b"false", b"null")):
        return Format.JSON
    return Format.OPAQUE


_JSON_STARTS = frozenset(bytes([each]) for each in b'{["-0123456789')

_TYPES = {
    "application/json": Format.JSON,
}


@lru_cache(maxsize=1024)
def format_of_type(content_type: str) -> Format | None:
    """The format that an MQTT 5 content type says; None if it says nothing that is known here."""
    name = content_type.partition(";")[0].strip().lower()
    if name in _TYPES:
        return _TYPES[name]
    if name.endswith("+json"):
        return Format.JSON
    return Format.TEXT if name.startswith("text/") else None


Rules = tuple[tuple[str, Format], ...]
"""Topic filters, each with the format of what is published under it; the first that matches holds."""


class Reader:
    """Finds the content of events, by the rules of one domain."""

    def __init__(self, rules: Rules = ()) -> None:
        self._rules = rules
        self._by_topic = lru_cache(maxsize=4096)(self._format_by_topic)
        self._event: Event | None = None
        self._content = Content(b"")

    def read(self, event: Event) -> Content:
        """The content of an event; of the same event as before, the same content, already decoded."""
        if event is not self._event:
            self._content = Content(event.payload, self._format(event))
            self._event = event
        return self._content

    def _format(self, event: Event) -> Format | None:
        if event.properties and (said := format_of_type(event.content_type)):
            return said
        return self._by_topic(event.topic)

    def _format_by_topic(self, topic: str) -> Format | None:
        return next((format for filter, format in self._rules if matches(filter, topic)), None)
