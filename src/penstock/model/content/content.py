"""The content of a payload, as attributes: decoded only when it is asked for, and once.

The format of an event is what its content type says; else what the domain's rules, or Sparkplug's own topics, say; else
it is found by looking. Only content whose format was said can be damaged: what only looks like JSON is opaque.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from penstock.model.content.bounds import MAX_BYTES
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
    """The format that a payload is written in."""

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

_T = TypeVar("_T")

Widen = Callable[[Attributes], Attributes]
"""Converts integers to doubles where the content is declared so. It may change its argument."""

_MAX_FOUND = 64
"""Results of XPath expressions that are kept with the content: each may be large."""

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_STARTS = (b"\xff\xfe<\0", b"\xfe\xff\0<", b"<\0", b"\0<")
_BLANK = b" \t\r\n"
_JSON_STARTS = frozenset(bytes([byte]) for byte in b'{["-0123456789')
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
    """The content of one payload. Nothing is decoded before it is asked for, and nothing twice."""

    __slots__ = (
        "_attributes",
        "_cache",
        "_document",
        "_format",
        "_found",
        "_spent",
        "_widen",
        "_xml",
        "max_steps",
        "payload",
    )

    def __init__(self, payload: bytes, format: Format | None = None, widen: Widen | None = None) -> None:
        """Hold a payload and its format; None: the format is detected from the payload."""
        self.payload = payload
        self.max_steps: int | None = None
        """Steps that one condition, and all before the last one together, may take on it; None: as many as the language
        allows.
        """
        self._spent = [0]
        self._format = format
        self._widen = widen
        self._attributes: Attributes | Unreadable | None = None
        self._xml: Xml | None = None
        self._document: Document | None = None
        self._found: dict[str, Value] = {}
        self._cache: dict[Hashable, object] | None = None

    @classmethod
    def known(cls, payload: bytes, format: Format, attributes: Attributes) -> "Content":
        """Return content that is decoded already."""
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
        """Return the content of a changed payload in the same format. The same payload gives the same object, and the
        steps of both are counted together.
        """
        if payload is self.payload:
            return self
        return self.cached(("changed", payload), lambda: self.counting(Content(payload, self.format)))

    def counting(self, other: "Content") -> "Content":
        """Return the other content, whose steps count together with those of this one from now on."""
        other._spent, other.max_steps = self._spent, self.max_steps
        return other

    def cached(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the result of `make`, which is called once for each key."""
        if self._cache is None:
            self._cache = {}
        if key not in self._cache:
            self._cache[key] = make()
        return cast(_T, self._cache[key])

    @property
    def format(self) -> Format:
        """The format of the payload; of an unreadable payload, the format that it should have."""
        if self._format is None:
            self._decode()
            assert self._format is not None
        return self._format

    @property
    def attributes(self) -> Attributes | Unreadable:
        """The attributes of the payload. All callers get the same object: do not change it."""
        if self._attributes is None:
            self._decode()
            assert self._attributes is not None
        return self._attributes

    def xpath(self, expression: str, pay: Callable[[int], None] | None = None) -> Value:
        """Return the result of an XPath expression: a string, a double or a bool; of nodes, a list of their texts.

        Raises `ContentError` if the content is not XML, is unreadable, or the expression has no value here. `pay` is
        called before with the steps that it takes by our estimate, found before or not, of about 10 ns each; and again
        before the texts of nodes are made.
        """
        document = self._document or self._xml_document()
        compiled = compile_xpath(expression)
        steps = compiled.cost.over(document.size)
        if pay is not None:
            pay(steps)
        if expression in self._found:
            result = self._found[expression]
            if pay is not None and isinstance(result, list):
                pay(text_steps(len(result)))
            return result
        result = document.find(expression, compiled, steps, pay)
        if len(self._found) < _MAX_FOUND:
            self._found[expression] = result
        return result

    @property
    def document(self) -> Document | None:
        """The document that XPath looks at; None if it is not readable XML."""
        try:
            return self._xml_document()
        except ContentError:
            return None

    def new_document(self) -> Document:
        """Return the document parsed again, for a caller that changes it. Raises `ContentError`."""
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
    if len(payload) > MAX_BYTES:
        raise BoundError(f"a payload of {len(payload)} bytes is too large to be decoded; the maximum is {MAX_BYTES}")
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
    """Return the format that an MQTT 5 content type says; None if it says nothing that is known here."""
    name = content_type.partition(";")[0].strip().lower()
    if name in _TYPES:
        return _TYPES[name]
    if name.endswith("+json"):
        return Format.JSON
    if name.endswith("+xml"):
        return Format.XML
    return Format.TEXT if name.startswith("text/") else None


class FormatRule(NamedTuple):
    """The format of what is published under a topic filter."""

    filter: str
    format: Format
    widen: Widen | None = None


FormatRules = tuple[FormatRule, ...]
"""Rules in order: the first one whose filter matches decides."""

_SPARKPLUG = FormatRule("spBv1.0/#", Format.SPARKPLUG)


_LONG_TOPIC = 1000
"""Longer topics are not kept in a cache, which they would make large."""


class ContentReader:
    """Finds the content of events, by the rules of one domain."""

    def __init__(self, rules: FormatRules = ()) -> None:
        self._rules = rules
        self._by_topic = lru_cache(maxsize=4096)(self._rule_of)
        self._event: Event | None = None
        self._content = Content(b"")
        self._spent = 0
        """Steps on contents before this one."""
        self.max_steps: int | None = None
        """The bound for contents that are read; see `Content`."""

    @property
    def spent(self) -> int:
        """The steps that were taken so far on all contents."""
        return self._spent + self._content.spent

    def read(self, event: Event) -> Content:
        """Return the content of an event; of the same event as before, the same content, already decoded."""
        if event is not self._event:
            self._spent += self._content.spent
            self._content = self._read(event)
            self._event = event
        return self._content

    def known(self, event: Event, content: Content) -> Event:
        """Remember the content of an event that differs from a read one only in properties, and return the event."""
        self._spent += self._content.spent - content.spent  # it may be the same content, or count with it
        self._event, self._content = event, content
        return event

    def view(self, view: Event, event: Event) -> Content:
        """Return the content of a view of an event; both count their steps together."""
        content = self.read(event)
        if view.payload is event.payload and view.topic == event.topic and view.content_type == event.content_type:
            return content
        return content.counting(self._read(view))

    def takes_objects(self, event: Event) -> tuple[bool, Widen | None]:
        """Return whether such an event is JSON if its payload is a JSON object, and how its members are widened. This
        depends only on topic and properties.
        """
        rule, declared = self._declared(event)
        if rule is None:
            return declared in (None, Format.JSON), None  # looking at an object finds JSON
        return rule.format is Format.JSON and declared in (None, Format.JSON), rule.widen

    def _declared(self, event: Event) -> tuple[FormatRule | None, Format | None]:
        """Return the rule for its topic, and what its content type says."""
        topic = event.topic
        rule = self._by_topic(topic) if len(topic) <= _LONG_TOPIC else self._rule_of(topic)
        return rule, format_of_type(event.content_type) if event.properties else None

    def _read(self, event: Event) -> Content:
        rule, declared = self._declared(event)
        content = Content(event.payload, declared) if rule is None else Content(event.payload, rule.format, rule.widen)
        content.max_steps = self.max_steps
        if rule is not None and declared and declared is not rule.format:
            # The publisher must not choose what a policy about this topic gets to see.
            content.refuse(f"its content type says {declared}, and on this topic it is {rule.format}")
        return content

    def _rule_of(self, topic: str) -> FormatRule | None:
        for rule in self._rules:
            if matches(rule.filter, topic):
                return rule
        return _SPARKPLUG if is_sparkplug(topic) else None
