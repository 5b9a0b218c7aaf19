"""The context model (contracts §4): an *entity*, an *observable* of it, and an *observation*, its state at some time.

URIs identify entities and observables. An observation is written in JSON as

    {"observation": {"observable": {"uri": "#pollution", "entity": {"uri": "paris://henri_martin_avenue./sensors/45/"}},
                     "date": "2026-11-16T08:00:00Z", "value": {"pm25": 72.0}}}

and in XML with the same names as elements, so that Listing 1 finds it, and one condition holds for both. Quality stands
beside it, as in all content (`policy/quality/carriage.py`). A value in XML has texts for its numbers and truth values.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from lxml import etree

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string, timestamp_to_string
from penstock.model.content.content import Content, Format, Unreadable
from penstock.model.errors import ContentError
from penstock.model.values import Timestamp, Value

ROOT = "observation"
MAX_URI = 1_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ContextEntity(NamedTuple):
    """Something of which there is context: a person, a place, an object."""

    name: str
    uri: str


class ContextObservable(NamedTuple):
    """Something to observe of one or several entities."""

    name: str
    uri: str
    entities: tuple[ContextEntity, ...]

    @property
    def condition(self) -> str:
        """The condition that content satisfies which is an observation of it, in JSON or XML."""
        uris = ", ".join(msgspec.json.encode(entity.uri).decode() for entity in self.entities)
        about = f"{ROOT}.observable"
        return f"{about}.uri == {msgspec.json.encode(self.uri).decode()} && {about}.entity.uri in [{uris}]"


class ContextObservation(NamedTuple):
    """The state of an observable at some time."""

    observable: str
    """The URIs of the observable and of its entity."""
    entity: str
    date: Timestamp
    value: Value


def read_observation(content: Content) -> ContextObservation:
    """Read an observation from JSON or XML; raise `ContentError`."""
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise ContentError(attributes.reason)
    if content.format not in (Format.JSON, Format.XML):
        raise ContentError(f"content that is {content.format} has no observation")
    observation = _member(attributes, ROOT)
    observable = _member(observation, "observable")
    date = observation.get("date")
    if "value" not in observation:
        raise ContentError(f"`{ROOT}` has no `value`")
    try:
        at = timestamp_from_string(date[:100]) if isinstance(date, str) else None
    except EvaluationError as error:
        raise ContentError(f"`date`: {error}") from None
    if at is None:
        raise ContentError("`date` is not a text like `2009-02-13T23:31:30Z`")
    return ContextObservation(_uri(observable), _uri(_member(observable, "entity")), at, observation["value"])


def write_observation(observation: ContextObservation, format: Format = Format.JSON) -> bytes:
    """Write an observation as JSON or XML; raise `ContentError` for a value that the format does not have."""
    written = {
        ROOT: {
            "observable": {"uri": observation.observable, "entity": {"uri": observation.entity}},
            "date": timestamp_to_string(observation.date),
            "value": observation.value,
        }
    }
    return write_members(written, format)


def write_members(members: Mapping[str, Any], format: Format) -> bytes:
    """Write an object as JSON, or as XML, whose root is its only member; raise `ContentError`."""
    if format is Format.JSON:
        try:
            return msgspec.json.encode(members)
        except (TypeError, ValueError, RecursionError) as error:
            raise ContentError(str(error)) from None
    ((name, value),) = members.items()
    return etree.tostring(_element(name, value), encoding="utf-8")


def _element(name: str, value: Any) -> etree._Element:
    if not _NAME.fullmatch(name):
        raise ContentError(f"`{name[:80]}` cannot be the name of an element")
    element = etree.Element(name)
    if isinstance(value, Mapping):
        for inner, member in value.items():
            for item in member if isinstance(member, list | tuple) else (member,):
                element.append(_element(str(inner), item))
    elif isinstance(value, bool):
        element.text = str(value).lower()
    elif isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        if isinstance(value, str) and _UNPRINTABLE.search(value):
            raise ContentError("a text has characters that XML does not have")
        element.text = str(value)
    elif value is not None:
        raise ContentError(f"a value is {type(value).__name__}, which XML does not have")
    return element


def _member(value: Value, name: str) -> dict[str, Value]:
    inside = value.get(name) if isinstance(value, dict) else None
    if not isinstance(inside, dict):
        raise ContentError(f"there is no `{name}`")
    return inside


def _uri(value: dict[str, Value]) -> str:
    uri = value.get("uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= MAX_URI:
        raise ContentError(f"`uri` is not a text of at most {MAX_URI} characters")
    return uri
