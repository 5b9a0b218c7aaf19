"""Removal and insertion of attributes in payloads: JSON, XML and Sparkplug. Failures raise `ElementError`."""

import math
from collections.abc import Collection
from typing import Any

import msgspec
from lxml import etree

from penstock.model.content.xpath import tree_parser
from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import parse as parse_sparkplug
from penstock.model.values import Value
from penstock.policy.statements.elements.element import ElementError

Path = tuple[str, ...]
"""The name of an attribute, and of a part of it, and so on."""
Members = dict[str, msgspec.Raw]
"""A JSON object, each part as its bytes are."""


def path_of(name: str) -> Path:
    """Return the path of an attribute that a policy names."""
    return tuple(name.split("."))


METRICS, ALIASES = "metrics", "aliases"
UNNAMED = "a metric has only an alias: access policies can tell which it is, a statement cannot"
BESIDE_METRICS = frozenset({("timestamp",), ("seq",), ("uuid",), ("body",)})
"""Fields of Sparkplug that are never removed."""
_TEXT = ("#text",)
as_members = msgspec.json.Decoder(Members)
_as_items = msgspec.json.Decoder(list[msgspec.Raw])


# --- JSON


def json_members(payload: bytes) -> Members:
    try:
        return as_members.decode(payload.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.MsgspecError:
        raise ElementError("the content is JSON, but no object: it has no attributes") from None


def cut_json(members: Members, paths: Collection[Path], keeping: bool) -> Members:
    """Return the remaining members with their original bytes. Each object in a list is cut."""
    left: Members = {}
    for name, raw in members.items():
        inside = beyond(paths, name)
        if () in inside:
            if keeping:
                left[name] = raw
        elif inside:
            inner = _cut_inside(name, raw, inside, keeping)
            if inner is not None:
                left[name] = inner
        elif not keeping:
            left[name] = raw
    return left


def beyond(paths: Collection[Path], name: str) -> list[Path]:
    """Return the rest of the paths that lead through this name, which may contain dots."""
    steps = name.count(".") + 1
    return [path[steps:] for path in paths if len(path) >= steps and ".".join(path[:steps]) == name]


def _cut_inside(name: str, raw: msgspec.Raw, paths: Collection[Path], keeping: bool) -> msgspec.Raw | None:
    """Return the remaining part of a value; None if nothing is left."""
    if _begins(raw) != b"[":
        return _cut_object(name, raw, paths, keeping)
    cut = (_cut_object(name, item, paths, keeping) for item in _as_items.decode(raw))
    return msgspec.Raw(msgspec.json.encode([item for item in cut if item is not None]))


def _cut_object(name: str, raw: msgspec.Raw, paths: Collection[Path], keeping: bool) -> msgspec.Raw | None:
    begin = _begins(raw)
    if begin == b"{":
        return msgspec.Raw(msgspec.json.encode(cut_json(as_members.decode(raw), paths, keeping)))
    if keeping:
        return None
    if begin == b"n":  # null
        return raw
    raise ElementError(f"`{name[:80]}` is neither an object nor a list of objects: it has no parts to remove")


def _begins(raw: msgspec.Raw) -> bytes:
    return bytes(raw).lstrip()[:1]


# --- XML


def xml_root(payload: bytes) -> Any:
    return etree.fromstring(payload, tree_parser())


def from_root(paths: Collection[Path], root: str, is_inside: bool, keeping: bool) -> set[Path]:
    """Return paths as conditions write them, from the root on; a policy may leave the root out.

    `is_inside`: the root has an element of its own name inside. What could be meant both ways is taken out both ways,
    and only one of the ways is kept.
    """
    named = {(root, *path) for path in paths if path[0] != root}
    for path in paths:
        if path[0] == root:
            is_below = keeping and is_inside and len(path) == 1
            named.add((root, root) if is_below else path)
            if not keeping and is_inside:
                named.add((root, *path))
    return named


def cut_xml(root: Any, paths: Collection[Path], keeping: bool) -> None:
    name = etree.QName(root).localname
    named = from_root(paths, name, any(local_name(child) == name for child in root), keeping)
    if (name,) in named:
        if keeping:
            return
        raise ElementError(f"`{name[:80]}` is the root of the content: nothing would be left")
    _cut_element(root, {path[1:] for path in named}, keeping)


def _cut_element(element: Any, paths: Collection[Path], keeping: bool) -> None:
    if not keeping and _is_text(element) and any(len(path) > 1 or path[0][:1] not in ("@", "#") for path in paths):
        name = etree.QName(element).localname
        raise ElementError(f"`{name[:80]}` is a text: it has no parts that could be taken out")
    for attribute in list(element.attrib):
        named = (f"@{etree.QName(attribute).localname}",) in paths
        if named is not keeping:
            del element.attrib[attribute]
    if (_TEXT in paths) is not keeping:
        element.text = None
        for child in element:
            child.tail = None
    for child in list(element):
        name = local_name(child)
        inside = beyond(paths, name)
        if () in inside:
            if not keeping:
                drop_element(child)
        elif inside and not (keeping and _is_text(child)):
            _cut_element(child, inside, keeping)
        elif keeping:
            drop_element(child)


def local_name(element: Any) -> str:
    """Return the local name; none of comments and processing instructions."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _is_text(element: Any) -> bool:
    """Return whether an element is only a text for conditions."""
    if element.attrib or any(map(local_name, element)):
        return False
    return bool("".join([element.text or "", *(child.tail or "" for child in element)]).strip())


def drop_element(element: Any) -> None:
    """Remove an element, but not the text that follows it."""
    around, before, tail = element.getparent(), element.getprevious(), element.tail or ""
    if tail and before is not None:
        before.tail = (before.tail or "") + tail
    elif tail:
        around.text = (around.text or "") + tail
    around.remove(element)


def put_xml(around: Any, name: str, value: Value) -> None:
    for item in value if isinstance(value, list) else [value]:
        try:
            element = etree.SubElement(around, name)
            if isinstance(item, dict):
                for inner, inner_value in item.items():
                    put_xml(element, inner, inner_value)
            elif item is not None:
                element.text = _plain(item)
        except ValueError:
            raise ElementError(f"`{name[:80]}` or what it says cannot be written in XML") from None


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return msgspec.json.encode(value).decode() if isinstance(value, list) else str(value)


# --- Sparkplug


def of_metrics(paths: Collection[Path]) -> set[Path]:
    """Return paths as conditions write them: with `metrics` before a metric's name, which a policy may leave out."""
    return {path if path == (METRICS,) else (METRICS, ".".join(path[path[0] == METRICS :])) for path in paths}


def cut_sparkplug(payload: bytes, paths: Collection[Path], keeping: bool) -> bytes:
    """Return the remaining payload. If a metric has only an alias, it cannot be told whether its name is meant."""
    named = of_metrics(paths)
    try:
        message = parse_sparkplug(payload)
    except ContentError as error:
        raise ElementError(str(error)) from None
    if message.unnamed():
        raise ElementError(UNNAMED)
    are_all = (METRICS,) in named
    removed = [metric for metric in message.metrics if (are_all or (METRICS, metric.name) in named) is not keeping]
    return message.cut(removed)
