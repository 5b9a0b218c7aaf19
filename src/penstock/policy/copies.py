"""A message while policies change it: the copy of a publication, or of a filter, that goes one way."""

import base64
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lxml import etree

from penstock.language.condition import Condition, all_of, condition_of
from penstock.language.tree import And, Attribute, Has, Select, Tree, children
from penstock.model.content import Content, Format, Unreadable, format_of_type
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug_message import parse as parse_sparkplug
from penstock.model.values import Value
from penstock.policy.elements.element import ElementError

Path = tuple[str, ...]
"""The name of an attribute, and of a part of it, and so on."""

MOST_SHOWN = 4096
"""Bytes of a payload that `$Message` shows."""
_METRICS = "metrics"
_TYPES = {Format.JSON: "application/json", Format.XML: "application/xml"}
_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members)


def path_of(name: str) -> Path:
    """The attribute that a policy names."""
    return tuple(name.split("."))


def paths_read(tree: Tree | None) -> frozenset[Path]:
    """The attributes that a condition asks for."""
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
    """Whether some of these are others, or parts of these, or have parts that are."""
    return any(one[: len(other)] == other[: len(one)] for one in paths for other in others)


class PublicationCopy:
    """A publication on its way in one direction. JSON is read once and written once, whatever is done with it."""

    content_type: str | None = None
    """Of what it is now written in; None: as it came."""
    removed: frozenset[Path] = frozenset()
    _members: _Members | None = None
    """What JSON says, once that has been asked for."""
    _written: Format | None = None

    def __init__(self, event: Event, content: Content) -> None:
        self.event = event
        self.content = content
        """As it came."""
        self.beside: list[tuple[str, str]] = []
        """What was put beside the content."""
        self._payload: bytes | None = event.payload
        """None: it is to be written from its members."""

    @property
    def attributes(self) -> Mapping[str, Value] | Unreadable:
        """What conditions ask for: the message as it came."""
        return self.content.attributes

    @property
    def payload(self) -> bytes:
        if self._payload is None:
            self._payload = msgspec.json.encode(self._members)
        return self._payload

    @property
    def is_changed(self) -> bool:
        return self._payload is not self.event.payload or bool(self.beside)

    def size(self) -> int:
        return len(self.payload)

    def text(self) -> str:
        """The message as `$Message` has it."""
        try:
            said = self.payload[:MOST_SHOWN].decode()
        except UnicodeDecodeError:
            said = base64.b64encode(self.payload[:MOST_SHOWN]).decode()
        return f"{self.event.topic} {said}{'...' if len(self.payload) > MOST_SHOWN else ''}"

    def raw(self) -> tuple[str, bytes]:
        return self.event.topic, self.payload

    def names(self) -> frozenset[str]:
        """The attributes that the content has, those of XML below its root."""
        return frozenset(self._readable())

    def remove(self, paths: Collection[Path]) -> None:
        """Take attributes out."""
        self._cut(paths, keeping=False)
        self.removed |= frozenset(paths)

    def keep(self, paths: Collection[Path]) -> None:
        """Take all other attributes out."""
        self.removed |= {(name,) for name in self._readable() if (name,) not in paths}
        self._cut(paths, keeping=True)

    def put(self, name: str, value: Value) -> None:
        """Give it an attribute, in place of one of that name."""
        match self._format():
            case Format.JSON:
                self._json()[name] = msgspec.Raw(msgspec.json.encode(value))
                self._payload = None
            case Format.XML:
                root = self._xml()
                for old in root.findall(name):
                    root.remove(old)
                _put_xml(root, name, value)
                self._payload = etree.tostring(root)
            case other:
                raise ElementError(f"the content is {other}: it cannot be given attributes")

    def get(self, name: str) -> Value:
        """An attribute as it is now, None if there is none; only of JSON."""
        if self._format() is not Format.JSON:
            return None
        found = self._json().get(name)
        return None if found is None else msgspec.json.decode(found)

    def current(self) -> dict[str, Value]:
        """The attributes as they are now."""
        read = Content(self.payload, self._format()).attributes
        if isinstance(read, Unreadable):
            raise ElementError(f"the content cannot be read: {read.reason}")
        return dict(read)

    def convert(self, format: Format) -> None:
        """Write the same attributes in another format."""
        if self._format() is format:
            return
        if self._format() not in (Format.JSON, Format.XML):
            raise ElementError(f"the content is {self._format()}: it cannot be written as {format}")
        if format is Format.JSON:
            read = Content(self.payload, Format.XML).attributes
            if isinstance(read, Unreadable):
                raise ElementError(read.reason)
            inner: Value = next(iter(read.values()), {})
            self._payload = msgspec.json.encode(inner if isinstance(inner, dict) else read)
        else:
            root = etree.Element("event")
            for name, raw in self._json().items():
                _put_xml(root, name, msgspec.json.decode(raw))
            self._payload = etree.tostring(root)
        self._written, self.content_type, self._members = format, _TYPES[format], None

    def write(self, payload: bytes, content_type: str) -> None:
        """Let it say something else."""
        self._payload, self.content_type, self._members = payload, content_type, None
        self._written = format_of_type(content_type) or Format.OPAQUE

    def _format(self) -> Format:
        self._readable()
        return self._written or self.content.format

    def _readable(self) -> Mapping[str, Value]:
        attributes = self.content.attributes
        if isinstance(attributes, Unreadable):
            raise ElementError(f"the content cannot be read: {attributes.reason}")
        return attributes

    def _cut(self, paths: Collection[Path], keeping: bool) -> None:
        match self._format():
            case Format.JSON:
                self._members = _cut_json(self._json(), paths, keeping)
                self._payload = None
            case Format.XML:
                root = self._xml()
                _cut_xml(root, paths, keeping)
                self._payload = etree.tostring(root)
            case Format.SPARKPLUG:
                self._payload = _cut_sparkplug(self.payload, paths, keeping)
            case other:
                raise ElementError(f"the content is {other}: it has no attributes that could be taken out")

    def _json(self) -> _Members:
        if self._members is None:
            try:
                self._members = _members.decode(self.payload.removeprefix(b"\xef\xbb\xbf"))
            except msgspec.MsgspecError:
                raise ElementError("the content is JSON, but no object: it has no attributes") from None
        return self._members

    def _xml(self) -> Any:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        return etree.fromstring(self.payload, parser)


def _cut_json(members: _Members, paths: Collection[Path], keeping: bool) -> _Members:
    """What is left, each part as its bytes were."""
    whole = {path[0] for path in paths if len(path) == 1} | {".".join(path) for path in paths}
    deeper: dict[str, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    left: _Members = {}
    for name, raw in members.items():
        if name in whole:
            if keeping:
                left[name] = raw
        elif name in deeper:
            try:
                inner = _members.decode(raw)
            except msgspec.MsgspecError:
                if not keeping:
                    left[name] = raw
                continue
            left[name] = msgspec.Raw(msgspec.json.encode(_cut_json(inner, deeper[name], keeping)))
        elif not keeping:
            left[name] = raw
    return left


def _cut_xml(root: Any, paths: Collection[Path], keeping: bool) -> None:
    """Paths begin at the root, as conditions' do, or below it."""
    name = etree.QName(root).localname
    _cut_element(root, {path[1:] if path[0] == name and len(path) > 1 else path for path in paths}, keeping)


def _cut_element(element: Any, paths: Collection[Path], keeping: bool) -> None:
    for attribute in list(element.attrib):
        named = (f"@{etree.QName(attribute).localname}",) in paths
        if named is not keeping:
            del element.attrib[attribute]
    if keeping and ("#text",) not in paths:
        element.text = None
    for child in list(element):
        name = etree.QName(child).localname if isinstance(child.tag, str) else ""
        inside = [path[1:] for path in paths if path[0] == name and len(path) > 1]
        if (name,) in paths:
            if not keeping:
                element.remove(child)
        elif inside:
            _cut_element(child, inside, keeping)
        elif keeping:
            element.remove(child)


def _put_xml(around: Any, name: str, value: Value) -> None:
    for one in value if isinstance(value, list) else [value]:
        try:
            element = etree.SubElement(around, name)
            if isinstance(one, dict):
                for inner, each in one.items():
                    _put_xml(element, inner, each)
            elif one is not None:
                element.text = _plain(one)
        except ValueError:
            raise ElementError(f"`{name[:80]}` or what it says cannot be written in XML") from None


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return msgspec.json.encode(value).decode() if isinstance(value, list) else str(value)


def _cut_sparkplug(payload: bytes, paths: Collection[Path], keeping: bool) -> bytes:
    """Metrics by name, with or without `metrics` before it. What has only an alias cannot be told."""
    names = {".".join(path[1:] if path[0] == _METRICS and len(path) > 1 else path) for path in paths}
    try:
        message = parse_sparkplug(payload)
    except ContentError as error:
        raise ElementError(str(error)) from None
    if not keeping and any(metric.name is None for metric in message.metrics):
        raise ElementError("a metric has only an alias: access policies can tell which it is, a statement cannot")
    removed = [metric for metric in message.metrics if (metric.name in names) is not keeping]
    return message.cut(removed)


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
    removed: frozenset[Path] = frozenset()

    @property
    def attributes(self) -> Mapping[str, Value]:
        """What conditions ask for."""
        return {"filter": self.filter, "where": "" if self.condition is None else self.condition.text}

    def size(self) -> int:
        where = len(self.condition.text) if self.condition is not None else 0
        return len(self.filter) + where + len(self.policy)

    def text(self) -> str:
        return self.filter if self.condition is None else f"{self.filter} where {self.condition.text}"

    def raw(self) -> tuple[str, bytes]:
        return self.filter, self.text().encode()

    def names(self) -> frozenset[str]:
        return frozenset(path[0] for path in paths_read(self.condition.tree if self.condition else None))

    def remove(self, paths: Collection[Path]) -> None:
        """Ask for nothing any more that concerns these attributes: it becomes wider."""
        self._narrow(lambda read: not touches(read, paths))
        self.removed |= frozenset(paths)

    def keep(self, paths: Collection[Path]) -> None:
        self._narrow(lambda read: all(touches([one], paths) for one in read))

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
