"""A message while policies change it: the copy of a publication, or of a filter, that goes one way."""

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lxml import etree

from penstock.language.condition import Condition, all_of, condition_of
from penstock.language.tree import And, Attribute, Has, Select, Tree, children
from penstock.model.content.content import Content, Format, Unreadable, format_of_type
from penstock.model.event import Event
from penstock.model.values import Value
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.redact import (
    BESIDE_METRICS,
    Members,
    cut_json,
    cut_sparkplug,
    cut_xml,
    drop_element,
    from_root,
    json_members,
    of_metrics,
    put_xml,
    xml_root,
)
from penstock.policy.statements.redact import Path as Path

MAX_SHOWN = 4096
"""Bytes of a payload that `$Message` shows."""
_TYPES = {Format.JSON: "application/json", Format.XML: "application/xml"}
_ROOT = "event"
"""The root of XML that is made of JSON."""


def path_of(name: str) -> Path:
    """Return the attribute that a policy names."""
    return tuple(name.split("."))


def paths_read(tree: Tree | None) -> frozenset[Path]:
    """Return the attributes that a condition asks for."""
    found: set[Path] = set()
    waiting = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        path = _path(node)
        if path is None:
            waiting.extend(children(node))
        else:
            found.add(path)
    return frozenset(found)


def _path(node: Tree) -> Path | None:
    match node:
        case Attribute(name) | Has(None, name):
            return (name,)
        case Select(operand, name) | Has(operand, name) if operand is not None:
            inner = _path(operand)
            return None if inner is None else (*inner, name)
    return None


def touches(paths: Iterable[Path], others: Collection[Path]) -> bool:
    """Return whether some of these are others, or parts of these, or have parts that are."""
    return any(one[: len(other)] == other[: len(one)] for one in paths for other in others)


class Hidden:
    """What was taken out of a message, by paths as conditions have them."""

    def __init__(self) -> None:
        self._removed: frozenset[Path] = frozenset()
        self._kept: list[frozenset[Path]] = []
        """Each time that all others were taken out, what was not."""

    def __bool__(self) -> bool:
        return bool(self._removed or self._kept)

    def remove(self, paths: Collection[Path]) -> None:
        self._removed |= frozenset(map(_split, paths))

    def keep(self, paths: Collection[Path]) -> None:
        self._kept.append(frozenset(paths))

    def has(self, path: Path) -> bool:
        """Return whether this, a part of it, or what it is a part of was taken out."""
        beginnings = [path[:length] for length in range(1, len(path) + 1)]
        return touches([_split(path)], self._removed) or any(kept.isdisjoint(beginnings) for kept in self._kept)


def _split(path: Path) -> Path:
    """Return a name with dots in it, and names inside each other, are the same where something is taken out."""
    return tuple(part for step in path for part in step.split("."))


class PublicationCopy:
    """A publication on its way in one direction. JSON is read once and written once, whatever is done with it.

    Attributes are always taken out of, and put into, the format that it came in, so that paths mean the same before and
    after a conversion: this is done when the payload is asked for.
    """

    _members: Members | None = None
    """What JSON says, once that has been asked for."""
    _written: str | None = None
    """The content type, if it was made to say something else."""
    _wanted: Format | None = None
    """The format to be converted to."""
    _converted: bytes | None = None

    def __init__(self, event: Event, content: Content) -> None:
        self.event = event
        self.content = content
        """As it came."""
        self.beside: list[tuple[str, str]] = []
        """What was put beside the content."""
        self._body: bytes | None = event.payload
        """What it says, before it is converted; None: it is to be written from its members."""
        self._hidden = Hidden()

    @property
    def attributes(self) -> Mapping[str, Value] | Unreadable:
        """What conditions ask for: the message as it came."""
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
        """Of what it is now written in; None: as it came."""
        return self._written if self._wanted is None else _TYPES[self._wanted]

    @property
    def is_changed(self) -> bool:
        return self._body is not self.event.payload or self._wanted is not None or bool(self.beside)

    @property
    def takes_out(self) -> bool:
        """True if anything was taken out."""
        return bool(self._hidden)

    def hides(self, path: Path) -> bool:
        """Return whether something of what a condition calls this was taken out."""
        return self._hidden.has(path)

    def size(self) -> int:
        return len(self.payload)

    def text(self) -> str:
        """Return the message as `$Message` has it."""
        try:
            said = self.payload[:MAX_SHOWN].decode()
        except UnicodeDecodeError:
            said = base64.b64encode(self.payload[:MAX_SHOWN]).decode()
        return f"{self.event.topic} {said}{'...' if len(self.payload) > MAX_SHOWN else ''}"

    def label(self) -> str:
        """What the message is, for all to know: not what it says."""
        return self.event.topic

    @property
    def is_empty(self) -> bool:
        """True if it takes a retained message back: there is nothing that could be asked about, or kept back."""
        return self.event.retain and not self.event.payload

    def raw(self) -> tuple[str, bytes]:
        return self.event.topic, self.payload

    def settle(self) -> None:
        """From now on conditions are asked of what it says by now."""
        if self._body is not self.event.payload:
            self.content = Content(self._plain(), self._format())

    def names(self) -> frozenset[str]:
        """Return the attributes that the content has; of XML, that is its root."""
        return frozenset(self._readable())

    def remove(self, paths: Collection[Path]) -> None:
        """Take attributes out."""
        self._cut(paths, keeping=False)
        self._hidden.remove(self._named(paths, keeping=False))

    def keep(self, paths: Collection[Path]) -> None:
        """Take all other attributes out."""
        self._cut(paths, keeping=True)
        self._hidden.keep(self._named(paths, keeping=True))

    def put(self, name: str, value: Value) -> None:
        """Give it an attribute, in place of one of that name."""
        match self._format():
            case Format.JSON:
                if self._wanted is Format.XML:
                    put_xml(etree.Element(_ROOT), name, value)  # raises now rather than when the payload is asked for
                self._json()[name] = msgspec.Raw(msgspec.json.encode(value))
                self._body = self._converted = None
            case Format.XML:
                root = xml_root(self._plain())
                for old in root.findall(name):
                    drop_element(old)
                put_xml(root, name, value)
                body = etree.tostring(root)
                _read(body, Format.XML)
                self._body, self._converted = body, None
            case other:
                raise ElementError(f"the content is {other}: it cannot be given attributes")

    def get(self, name: str) -> Value:
        """Return an attribute as it is now, None if there is none; only of JSON."""
        if self._format() is not Format.JSON:
            return None
        found = self._json().get(name)
        return None if found is None else msgspec.json.decode(found)

    def current(self) -> dict[str, Value]:
        """Return the attributes as they are now, in the format that it came in."""
        return dict(_read(self._plain(), self._format()))

    def convert(self, format: Format) -> None:
        """Have the same attributes written in another format."""
        if self._format() is format:
            self._wanted = self._converted = None
            return
        if self._format() not in (Format.JSON, Format.XML):
            raise ElementError(f"the content is {self._format()}: it cannot be written as {format}")
        self._converted = self._convert(format)
        self._wanted = format

    def write(self, payload: bytes, content_type: str) -> None:
        """Let it say something else."""
        self._body, self._written = payload, content_type
        self._members = self._wanted = self._converted = None

    def _format(self) -> Format:
        """Of what it says, before it is converted."""
        self._readable()
        if self._written is not None:
            return format_of_type(self._written) or Format.OPAQUE
        return self.content.format

    def _plain(self) -> bytes:
        """What it says, before it is converted."""
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
            put_xml(root, name, msgspec.json.decode(raw))
        return etree.tostring(root)

    def _readable(self) -> Mapping[str, Value]:
        attributes = self.content.attributes
        if isinstance(attributes, Unreadable):
            raise ElementError(f"the content cannot be read: {attributes.reason}")
        return attributes

    def _cut(self, paths: Collection[Path], keeping: bool) -> None:
        match self._format():
            case Format.JSON:
                self._members = cut_json(self._json(), paths, keeping)
                self._body = None
            case Format.XML:
                root = xml_root(self._plain())
                cut_xml(root, paths, keeping)
                self._body = etree.tostring(root)
            case Format.SPARKPLUG:
                self._body = cut_sparkplug(self._plain(), paths, keeping)
            case other:
                raise ElementError(f"the content is {other}: it has no attributes that could be taken out")
        self._converted = None

    def _named(self, paths: Collection[Path], keeping: bool) -> Collection[Path]:
        """Paths as conditions name them."""
        match self.content.format:
            case Format.XML:
                ((root, inside),) = self._readable().items()
                return from_root(paths, root, isinstance(inside, dict) and root in inside, keeping)
            case Format.SPARKPLUG:
                return of_metrics(paths) | (BESIDE_METRICS if keeping else set())
        return paths

    def _json(self) -> Members:
        if self._members is None:
            self._members = json_members(self._plain())
        return self._members


def _read(payload: bytes, format: Format) -> Mapping[str, Value]:
    read = Content(payload, format).attributes
    if isinstance(read, Unreadable):
        raise ElementError(f"the content cannot be read: {read.reason}")
    return read


@dataclass(slots=True)
class FilterCopy:
    """A subscription, an advertisement, or that one of these is taken back, on its way in one direction."""

    filter: str
    condition: Condition | None
    policy: str = ""
    """The text of what is attached to it."""
    content: Content = field(default_factory=lambda: Content(b""))
    """Nothing: only so that what is asked of it is counted."""
    is_changed: bool = False
    _hidden: Hidden = field(default_factory=Hidden, init=False, compare=False, repr=False)

    @property
    def takes_out(self) -> bool:
        """True if anything was taken out."""
        return bool(self._hidden)

    def hides(self, path: Path) -> bool:
        """Return whether something of this attribute was taken out."""
        return self._hidden.has(path)

    @property
    def attributes(self) -> Mapping[str, Value]:
        """What conditions ask for."""
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
        """What is asked of it stays what it was."""

    def raw(self) -> tuple[str, bytes]:
        return self.filter, self.text().encode()

    def names(self) -> frozenset[str]:
        return frozenset(path[0] for path in paths_read(self.condition.tree if self.condition else None))

    def remove(self, paths: Collection[Path]) -> None:
        """Ask for nothing any more that concerns these attributes: it becomes wider."""
        self._narrow(lambda read: not touches(read, paths))
        self._hidden.remove(paths)

    def keep(self, paths: Collection[Path]) -> None:
        self._narrow(lambda read: all(touches([one], paths) for one in read))
        self._hidden.keep(paths)

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
