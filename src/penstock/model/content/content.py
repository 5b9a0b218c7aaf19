"""What a payload says, as attributes: decoded only if somebody asks, and once.

The format of an event is what its content type says; else what the domain's rules, or Sparkplug's own topics, say; else
it is found by looking. Only content whose format was said can be damaged: what merely looks like JSON and is none is
opaque.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from penstock.model.content.bounds import MOST_BYTES
from penstock.model.content.json import read_json
from penstock.model.content.xml import Xml, read_xml
from penstock.model.content.xpath import Document, compile_xpath, text_steps
from penstock.model.errors import AmbiguityError, BoundError
from penstock.model.errors import ContentError as ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.payload import is_sparkplug, read_sparkplug
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

_Made = TypeVar("_Made")

Widen = Callable[[Attributes], Attributes]
"""Makes doubles of integers where they are declared so. It may change what it is given."""

_MOST_FOUND = 64
"""What expressions found is kept with the content, for so many of them: each may have found a lot."""

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_STARTS = (b"\xff\xfe<\0", b"\xfe\xff\0<", b"<\0", b"\0<")
_BLANK = b" \t\r\n"
_JSON_STARTS = frozenset(bytes([each]) for each in b'{["-0123456789')
_JSON_WORDS = (b"true", b"false", b"null")


def _read_text(payload: bytes) -> Attributes:
    try:
        return {"value": payload.removeprefix(_UTF8_MARK).decode()}
    except UnicodeDecodeError:
        raise ContentError("not text: the payload is not UTF-8") from None


_READERS: dict[Format, Callable[[bytes], Attributes | Xml]] = {
    Format.JSON: read_json,
    Format.XML: read_xml,
    Format.SPARKPLUG: read_sparkplug,
    Format.TEXT: _read_text,
}


class Content:
    """What one payload says. Nothing is decoded before it is asked for, and nothing twice."""

    __slots__ = ("_attributes", "_document", "_format", "_found", "_made", "_spent", "_widen", "_xml", "payload")

    def __init__(self, payload: bytes, format: Format | None = None, widen: Widen | None = None) -> None:
        """The content of a payload in a format; None if it is to be found by looking."""
        self.payload = payload
        self._spent = [0]
        self._format = format
        self._widen = widen
        self._attributes: Attributes | Unreadable | None = None
        self._xml: Xml | None = None
        self._document: Document | None = None
        self._found: dict[str, Value] = {}
        self._made: dict[Hashable, object] | None = None

    @classmethod
    def known(cls, payload: bytes, format: Format, attributes: Attributes) -> "Content":
        """Content that somebody has decoded already."""
        content = cls(payload, format)
        content._attributes = attributes
        return content

    @property
    def spent(self) -> int:
        """Steps that conditions, and quality needs in XPath, have taken on it and on what was made of it."""
        return self._spent[0]

    @spent.setter
    def spent(self, steps: int) -> None:
        self._spent[0] = steps

    def changed(self, payload: bytes) -> "Content":
        """What is made of it, in the same format: for the same payload the same, and steps count together."""
        if payload is self.payload:
            return self
        return self.once(("changed", payload), lambda: self.counting(Content(payload, self.format)))

    def counting(self, other: "Content") -> "Content":
        """The other content, whose steps count together with those of this one from now on."""
        other._spent = self._spent
        return other

    def once(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """What somebody makes of it, made once for all who ask by this key."""
        if self._made is None:
            self._made = {}
        if key not in self._made:
            self._made[key] = make()
        return cast(_Made, self._made[key])

    @property
    def format(self) -> Format:
        """What the payload is written in; if it is unreadable, what it should be written in."""
        if self._format is None:
            self._decode()
            assert self._format is not None
        return self._format

    @property
    def attributes(self) -> Attributes | Unreadable:
        """What the payload says; not to be changed, as all who ask get the same."""
        if self._attributes is None:
            self._decode()
            assert self._attributes is not None
        return self._attributes

    def xpath(self, expression: str, pay: Callable[[int], None] | None = None) -> Value:
        """What an XPath expression finds: a string, a double or a bool; of nodes, a list of their texts.

        Raises `ContentError` if the content is not XML, is unreadable, or the expression has no value here. `pay` is
        called before with the steps that it takes by our estimate, found before or not, of about 10 ns each; and again
        before the texts of nodes are made.
        """
        document = self._document or self._xml_document()
        asked = compile_xpath(expression)
        steps = asked.cost.over(document.size)
        if pay is not None:
            pay(steps)
        if expression in self._found:
            known = self._found[expression]
            if pay is not None and isinstance(known, list):
                pay(text_steps(len(known)))
            return known
        found = document.find(expression, asked, steps, pay)
        if len(self._found) < _MOST_FOUND:
            self._found[expression] = found
        return found

    @property
    def document(self) -> Document | None:
        """The document that XPath looks at; None if it is not readable XML."""
        try:
            return self._xml_document()
        except ContentError:
            return None

    def new_document(self) -> Document:
        """The same, parsed once more, for who changes it. Raises `ContentError`."""
        return Document(self.payload, self._readable_xml())

    def refuse(self, reason: str) -> None:
        """Make it unreadable, whatever the payload is."""
        self._attributes = Unreadable(reason)

    def _xml_document(self) -> Document:
        if self._document is None:
            self._document = self.new_document()
        return self._document

    def _readable_xml(self) -> Xml:
        if isinstance(self.attributes, Unreadable):
            raise ContentError(self.attributes.reason)
        if self._xml is None:
            raise ContentError(f"the content is {self._format}, not XML, so there is nothing for XPath to find")
        return self._xml

    def _decode(self) -> None:
        looks_like = self._format or _looks_like(self.payload)
        try:
            read = _read(looks_like, self.payload)
        except ContentError as error:
            is_sure = self._format is not None or isinstance(error, BoundError | AmbiguityError)
            self._format = looks_like if is_sure else Format.OPAQUE
            self._attributes = Unreadable(str(error)) if is_sure else {}
            return
        self._format = looks_like
        if isinstance(read, Xml):
            self._xml = read
            self._attributes = read.attributes
        else:
            self._attributes = read if self._widen is None else self._widen(read)


def _read(format: Format, payload: bytes) -> Attributes | Xml:
    if format is Format.OPAQUE:
        return {}
    if len(payload) > MOST_BYTES:
        raise BoundError(f"a payload of {len(payload)} bytes is too large to be decoded, {MOST_BYTES} are the most")
    if not payload and format in (Format.JSON, Format.XML):
        raise ContentError("the payload is empty")
    return _READERS[format](payload)


def _looks_like(payload: bytes) -> Format:
    if payload.startswith(_UTF16_STARTS):
        return Format.XML
    start = payload.removeprefix(_UTF8_MARK).lstrip(_BLANK)[:5]
    if start[:1] == b"<":
        return Format.XML
    return Format.JSON if start[:1] in _JSON_STARTS or start.startswith(_JSON_WORDS) else Format.OPAQUE


_TYPES = {
    "application/json": Format.JSON,
    "text/json": Format.JSON,
    "application/xml": Format.XML,
    "text/xml": Format.XML,
    "application/vnd.eclipse.sparkplug": Format.SPARKPLUG,
}


def format_of_type(content_type: str) -> Format | None:
    """The format that an MQTT 5 content type says; None if it says nothing that is known here."""
    name = content_type.partition(";")[0].strip().lower()
    if name in _TYPES:
        return _TYPES[name]
    if name.endswith("+json"):
        return Format.JSON
    if name.endswith("+xml"):
        return Format.XML
    return Format.TEXT if name.startswith("text/") else None


class Rule(NamedTuple):
    """How what is published under a topic filter is read."""

    filter: str
    format: Format
    widen: Widen | None = None


Rules = tuple[Rule, ...]
"""The first whose filter matches holds."""

_SPARKPLUG = Rule("spBv1.0/#", Format.SPARKPLUG)


_LONG_TOPIC = 1000
"""Longer topics are not kept in a cache, which they would make large."""


class Reader:
    """Finds the content of events, by the rules of one domain."""

    def __init__(self, rules: Rules = ()) -> None:
        self._rules = rules
        self._by_topic = lru_cache(maxsize=4096)(self._rule_of)
        self._event: Event | None = None
        self._content = Content(b"")

    def read(self, event: Event) -> Content:
        """The content of an event; of the same event as before, the same content, already decoded."""
        if event is not self._event:
            self._content = self._read(event)
            self._event = event
        return self._content

    def known(self, event: Event, content: Content) -> Event:
        """The event, of which this is the content: it differs from one that was read in what travels with it only."""
        self._event, self._content = event, content
        return event

    def view(self, view: Event, event: Event) -> Content:
        """The content of what somebody is shown of an event: steps count together with those of the event's content,
        which stays known.
        """
        content = self.read(event)
        if view.payload is event.payload and view.topic == event.topic and view.content_type == event.content_type:
            return content
        return content.counting(self._read(view))

    def takes_objects(self, event: Event) -> tuple[bool, Widen | None]:
        """Whether such an event is JSON if its payload is a JSON object, and what is to be done with the members then.

        It depends on topic and properties alone.
        """
        rule, said = self._told(event)
        if rule is None:
            return said in (None, Format.JSON), None  # looking at an object finds JSON
        return rule.format is Format.JSON and said in (None, Format.JSON), rule.widen

    def _told(self, event: Event) -> tuple[Rule | None, Format | None]:
        """The rule for its topic, and what its content type says."""
        topic = event.topic
        rule = self._by_topic(topic) if len(topic) <= _LONG_TOPIC else self._rule_of(topic)
        return rule, format_of_type(event.content_type) if event.properties else None

    def _read(self, event: Event) -> Content:
        rule, said = self._told(event)
        if rule is None:
            return Content(event.payload, said)
        content = Content(event.payload, rule.format, rule.widen)
        if said and said is not rule.format:
            # The publisher must not choose what a policy about this topic gets to see.
            content.refuse(f"its content type says {said}, and on this topic it is {rule.format}")
        return content

    def _rule_of(self, topic: str) -> Rule | None:
        for rule in self._rules:
            if matches(rule.filter, topic):
                return rule
        return _SPARKPLUG if is_sparkplug(topic) else None
