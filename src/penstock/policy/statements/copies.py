"""Copies of a message that policies change: of a publication, or of a filter, in one direction."""

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lxml import etree

from penstock.language.condition import Condition, all_of, condition_of
from penstock.language.tree import And, Attribute, Has, IndexAccess, Literal, Select, Tree, children
from penstock.model.content.content import Content, Format, Unreadable, format_of_type
from penstock.model.event import Event
from penstock.model.values import Value
from penstock.policy.statements import redact
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.redact import Path as Path

MAX_SHOWN = 4096
"""Bytes of a payload that `$Message` shows."""
_TYPES = {Format.JSON: "application/json", Format.XML: "application/xml"}
_ROOT = "event"
"""The root of XML that is made of JSON."""


def paths_read(tree: Tree | None) -> frozenset[Path]:
    """Return the attributes that a condition reads."""
    paths: set[Path] = set()
    waiting = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        path = _path(node)
        if path is None:
            waiting.extend(children(node))
        else:
            paths.add(path)
    return frozenset(paths)


def _path(node: Tree) -> Path | None:
    match node:
        case Attribute(name) | Has(None, name):
            return (name,)
        case Select(operand, name) | Has(operand, name) | IndexAccess(operand, Literal(_, str() as name)) if (
            operand is not None
        ):
            inner = _path(operand)
            return None if inner is None else (*inner, name)
    return None


def touches(paths: Iterable[Path], others: Collection[Path]) -> bool:
    """Return whether some of these paths are others, parts of them, or contain them."""
    return any(path[: len(other)] == other[: len(path)] for path in paths for other in others)


class Hidden:
    """The attributes that were removed from a message, by paths as conditions write them."""

    def __init__(self) -> None:
        self._removed: frozenset[Path] = frozenset()
        self._kept: list[frozenset[Path]] = []
        """For each removal of all others, the paths that were kept."""

    def __bool__(self) -> bool:
        return bool(self._removed or self._kept)

    def remove(self, paths: Collection[Path]) -> None:
        self._removed |= frozenset(map(_split, paths))

    def keep(self, paths: Collection[Path]) -> None:
        self._kept.append(frozenset(paths))

    def has(self, path: Path) -> bool:
        """Return whether this, a part of it, or what it is a part of was removed."""
        beginnings = [path[:length] for length in range(1, len(path) + 1)]
        return touches([_split(path)], self._removed) or any(kept.isdisjoint(beginnings) for kept in self._kept)


def _split(path: Path) -> Path:
    """Split names at dots: for removal, a name with dots and names inside each other are the same."""
    return tuple(part for step in path for part in step.split("."))


class PublicationCopy:
    """A publication in one direction. JSON is decoded once and encoded once, whatever is done with it.

    Attributes are always removed from, and put into, the original format, so that paths mean the same before and after
    a conversion. The conversion is done when the payload is read.
    """

    _members: redact.Members | None = None
    """The JSON members, once they have been read."""
    _written: str | None = None
    """The content type, if it was rewritten."""
    _wanted: Format | None = None
    """The format to convert to."""
    _converted: bytes | None = None

    def __init__(self, event: Event, content: Content) -> None:
        self.event = event
        self.content = content
        """The original content."""
        self.beside: list[tuple[str, str]] = []
        """User properties added beside the content."""
        self._body: bytes | None = event.payload
        """The payload before conversion; None: it is to be encoded from its members."""
        self.hidden = Hidden()
        """The attributes that were removed."""

    @property
    def attributes(self) -> Mapping[str, Value] | Unreadable:
        """The attributes for conditions: those of the original message."""
        return self.content.attributes

    @property
    def payload(self) -> bytes:
        if self._wanted is None:
            return self._plain()
        if self._converted is None:
            self._converted = self._convert(self._wanted)
        return self._converted

    @property
    def content_type(self) -> str | None:
        """The content type of the present format; None: unchanged."""
        return self._written if self._wanted is None else _TYPES[self._wanted]

    @property
    def is_changed(self) -> bool:
        return self._body is not self.event.payload or self._wanted is not None or bool(self.beside)

    def size(self) -> int:
        return len(self.payload)

    def text(self) -> str:
        """Return the message for `$Message`."""
        try:
            shown = self.payload[:MAX_SHOWN].decode()
        except UnicodeDecodeError:
            shown = base64.b64encode(self.payload[:MAX_SHOWN]).decode()
        return f"{self.event.topic} {shown}{'...' if len(self.payload) > MAX_SHOWN else ''}"

    def label(self) -> str:
        """Return a public label of the message, without its content."""
        return self.event.topic

    @property
    def is_empty(self) -> bool:
        """True if it clears a retained message: it has no content to ask about or to remove."""
        return self.event.retain and not self.event.payload

    def raw(self) -> tuple[str, bytes]:
        return self.event.topic, self.payload

    def settle(self) -> None:
        """Evaluate conditions on the present content from now on."""
        if self._body is not self.event.payload:
            self.content = Content(self._plain(), self._format())

    def unconverted(self) -> tuple[bytes, str | None]:
        """Return the payload in the format in which conditions read it, and its content type; None: unchanged."""
        return self._plain(), self._written

    def leaves(self) -> frozenset[Path]:
        """Return the paths of all attributes that have no parts; of Sparkplug, of the metrics."""
        attributes = self._readable()
        if self._format() is not Format.SPARKPLUG:
            return frozenset(_leaves(attributes))
        if attributes.get(redact.ALIASES):
            raise ElementError(redact.UNNAMED)
        metrics = attributes.get(redact.METRICS)
        return frozenset((redact.METRICS, str(name)) for name in (metrics if isinstance(metrics, dict) else ()))

    def remove(self, paths: Collection[Path]) -> None:
        """Remove attributes."""
        self._cut(paths, keeping=False)
        self.hidden.remove(self._named(paths, keeping=False))

    def keep(self, paths: Collection[Path]) -> None:
        """Remove all other attributes."""
        self._cut(paths, keeping=True)
        self.hidden.keep(self._named(paths, keeping=True))

    def put(self, name: str, value: Value) -> None:
        """Set an attribute, replacing one of that name."""
        match self._format():
            case Format.JSON:
                if self._wanted is Format.XML:
                    redact.put_xml(etree.Element(_ROOT), name, value)  # raises now, not when the payload is read
                self._json()[name] = msgspec.Raw(msgspec.json.encode(value))
                self._body = self._converted = None
            case Format.XML:
                root = redact.xml_root(self._plain())
                for old in root.findall(name):
                    redact.drop_element(old)
                redact.put_xml(root, name, value)
                body = etree.tostring(root)
                _read(body, Format.XML)
                self._body, self._converted = body, None
            case other:
                raise ElementError(f"the content is {other}: it cannot be given attributes")

    def get(self, name: str) -> Value:
        """Return an attribute as it is now, None if there is none; only of JSON."""
        if self._format() is not Format.JSON:
            return None
        raw = self._json().get(name)
        return None if raw is None else msgspec.json.decode(raw)

    def current(self) -> dict[str, Value]:
        """Return the attributes as they are now, in the format that it came in."""
        return dict(_read(self._plain(), self._format()))

    def convert(self, format: Format) -> None:
        """Convert the attributes to another format."""
        if self._format() is format:
            self._wanted = self._converted = None
            return
        if self._format() not in (Format.JSON, Format.XML):
            raise ElementError(f"the content is {self._format()}: it cannot be written as {format}")
        self._converted = self._convert(format)
        self._wanted = format

    def write(self, payload: bytes, content_type: str) -> None:
        """Replace the payload and the content type."""
        self._body, self._written = payload, content_type
        self._members = self._wanted = self._converted = None

    def reveal(self, payload: bytes, content_type: str) -> None:
        """Go on with what the payload was before it was encrypted."""
        self.write(payload, content_type)
        self.content = Content(payload, format_of_type(content_type))

    def has(self, name: str) -> bool:
        """Return whether it is JSON and has an attribute."""
        if self._format() is not Format.JSON:
            raise ElementError(f"the content is {self._format()}: single attributes can be sealed in JSON only")
        return name in self._json()

    def require(self, name: str) -> Value:
        """Return an attribute of JSON that is there."""
        return msgspec.json.decode(self._json()[name])

    def _format(self) -> Format:
        """Return the format before conversion."""
        self._readable()
        if self._written:
            return format_of_type(self._written) or Format.OPAQUE
        return self.content.format

    def _plain(self) -> bytes:
        """Return the payload before conversion."""
        if self._body is None:
            self._body = msgspec.json.encode(self._members)
        return self._body

    def _convert(self, format: Format) -> bytes:
        if format is Format.JSON:
            read = _read(self._plain(), Format.XML)
            inner: Value = next(iter(read.values()), {})
            return msgspec.json.encode(inner if isinstance(inner, dict) else read)
        root = etree.Element(_ROOT)
        for name, raw in self._json().items():
            redact.put_xml(root, name, msgspec.json.decode(raw))
        return etree.tostring(root)

    def _readable(self) -> Mapping[str, Value]:
        attributes = self.content.attributes
        if isinstance(attributes, Unreadable):
            raise ElementError(f"the content cannot be read: {attributes.reason}")
        return attributes

    def _cut(self, paths: Collection[Path], keeping: bool) -> None:
        match self._format():
            case Format.JSON:
                self._members = redact.cut_json(self._json(), paths, keeping)
                self._body = None
            case Format.XML:
                root = redact.xml_root(self._plain())
                redact.cut_xml(root, paths, keeping)
                self._body = etree.tostring(root)
            case Format.SPARKPLUG:
                self._body = redact.cut_sparkplug(self._plain(), paths, keeping)
            case other:
                raise ElementError(f"the content is {other}: it has no attributes that could be taken out")
        self._converted = None

    def _named(self, paths: Collection[Path], keeping: bool) -> Collection[Path]:
        """Return paths as conditions write them."""
        match self.content.format:
            case Format.XML:
                ((root, inside),) = self._readable().items()
                return redact.from_root(paths, root, isinstance(inside, dict) and root in inside, keeping)
            case Format.SPARKPLUG:
                return redact.of_metrics(paths) | (redact.BESIDE_METRICS if keeping else set())
        return paths

    def _json(self) -> redact.Members:
        if self._members is None:
            self._members = redact.json_members(self._plain())
        return self._members


def _leaves(attributes: Mapping[str, Value]) -> Iterator[Path]:
    """Yield the paths of attributes without parts. A path goes into each object of a list."""
    waiting: list[tuple[Path, Value]] = [((name,), value) for name, value in attributes.items()]
    while waiting:
        path, value = waiting.pop()
        items = value if isinstance(value, list) else [value]
        objects = [item for item in items if isinstance(item, dict) and item]
        waiting += [((*path, str(name)), inner) for item in objects for name, inner in item.items()]
        if len(objects) < len(items) or not items:
            yield path


def _read(payload: bytes, format: Format) -> Mapping[str, Value]:
    read = Content(payload, format).attributes
    if isinstance(read, Unreadable):
        raise ElementError(f"the content cannot be read: {read.reason}")
    return read


@dataclass(slots=True)
class FilterCopy:
    """A subscription, an advertisement, or the removal of one, in one direction."""

    filter: str
    condition: Condition | None
    policy: str = ""
    """The text of the attached policy."""
    content: Content = field(default_factory=lambda: Content(b""))
    """Empty content, on which the steps of conditions are counted."""
    is_changed: bool = False
    hidden: Hidden = field(default_factory=Hidden, init=False, compare=False, repr=False)

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes for conditions."""
        return {"filter": self.filter, "where": "" if self.condition is None else self.condition.text}

    def size(self) -> int:
        where = len(self.condition.text) if self.condition is not None else 0
        return len(self.filter) + where + len(self.policy)

    def text(self) -> str:
        return self.filter if self.condition is None else f"{self.filter} where {self.condition.text}"

    is_empty = False

    def label(self) -> str:
        return self.filter

    def settle(self) -> None:
        """Do nothing: conditions are always evaluated on the original filter."""

    def raw(self) -> tuple[str, bytes]:
        return self.filter, self.text().encode()

    def remove(self, paths: Collection[Path]) -> None:
        """Remove the conditions on these attributes: the filter becomes wider."""
        self._narrow(lambda read: not touches(read, paths))
        self.hidden.remove(paths)

    def keep(self, paths: Collection[Path]) -> None:
        self._narrow(lambda read: all(touches([path], paths) for path in read))
        self.hidden.keep(paths)

    def _narrow(self, stays: Any) -> None:
        if self.condition is None:
            return
        tree = self.condition.tree
        parts = tree.operands if isinstance(tree, And) else (tree,)
        left = [condition_of(part) for part in parts if stays(paths_read(part))]
        if len(left) < len(parts):
            self.condition = all_of(left) if left else None
            self.is_changed = True


Copy = PublicationCopy | FilterCopy
