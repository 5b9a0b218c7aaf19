"""Replacement of numbers in a payload, and removal of other attributes: JSON and XML.

Other attributes stay as they were. Comments and processing instructions of XML go, as they may say what is taken away.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from lxml import etree

from penstock.model.content.content import Content, Format
from penstock.model.content.xml import read_xml
from penstock.model.content.xpath import Document
from penstock.model.errors import ContentError
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.redact import Members, Path, as_members, cut_json, cut_xml, json_members, local_name


def put_numbers(content: Content, numbers: Mapping[Path, float]) -> bytes:
    """Return the payload with these numbers in place of numbers; raises `ContentError` if one is missing."""
    if content.format is Format.JSON:
        members = _members(content.payload)
        for path, number in numbers.items():
            _put_json(members, path, number)
        return msgspec.json.encode(members)
    if content.format is Format.XML:
        root = _root(content.payload)
        for path, number in numbers.items():
            _put_xml(root, path, number)
        return etree.tostring(root, encoding="utf-8")
    raise ContentError(f"content that is {content.format} cannot be degraded")


def keep_attributes(content: Content, paths: Sequence[Path]) -> bytes:
    """Return the payload with only these attributes; raises `ContentError`."""
    try:
        if content.format is Format.JSON:
            return msgspec.json.encode(cut_json(_members(content.payload), paths, keeping=True))
        if content.format is Format.XML:
            root = _root(content.payload)
            cut_xml(root, paths, keeping=True)
            return etree.tostring(root, encoding="utf-8")
    except ElementError as error:
        raise ContentError(str(error)) from None
    raise ContentError(f"content that is {content.format} cannot be degraded")


def _members(payload: bytes) -> Members:
    try:
        return json_members(payload)
    except ElementError as error:
        raise ContentError(str(error)) from None


def _put_json(members: Members, path: Path, number: float) -> None:
    name, *rest = path
    if name not in members:
        raise ContentError(f"there is no `{'.'.join(path)}`")
    if not rest:
        members[name] = msgspec.Raw(msgspec.json.encode(number))
        return
    try:
        inside = as_members.decode(members[name])
    except msgspec.MsgspecError:
        raise ContentError(f"`{name}` has no parts") from None
    _put_json(inside, tuple(rest), number)
    members[name] = msgspec.Raw(msgspec.json.encode(inside))


def _root(payload: bytes) -> Any:
    return Document(payload, read_xml(payload)).root


def _put_xml(root: Any, path: Path, number: float) -> None:
    """Replace a number. The path is as conditions write it: from the root on, attributes as `@name`."""
    if not math.isfinite(number) or local_name(root) != path[0]:
        raise ContentError(f"there is no `{'.'.join(path)}`")
    at = root
    for name in path[1:]:
        if name.startswith("@"):
            for attribute in at.attrib:
                if etree.QName(attribute).localname == name[1:]:
                    at.set(attribute, repr(number))
                    return
        matching = [child for child in at if local_name(child) == name]
        if len(matching) != 1:
            raise ContentError(f"there is no `{'.'.join(path)}`, or there are several")
        at = matching[0]
    if len(at):
        raise ContentError(f"`{'.'.join(path)}` is not a number")
    at.text = repr(number)
