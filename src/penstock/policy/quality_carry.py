"""Quality as an event carries it: in its content, JSON or XML, or in MQTT 5 user properties.

JSON has a member `qoc`, a list of

    {"indicator": "10", "criterion": "10.1", "definition": "10.1", "value": 47.5, "created": "2026-11-16T08:00:00Z"}

and XML has elements as the paper's Listing 3 looks for them, anywhere in the document:

    <qocindicator id="10"><qocriterion id="10.1"><qocmetricdefinition id="10.1"/></qocriterion>
      <qocmetricvalue value="47.5" creationdate="2026-11-16T08:00:00Z"/></qocindicator>

A user property is one such JSON object. What is changed later has `modified`, or `modificationdate`, too. All that is
read comes from strangers: it is bounded, and what is not in order raises `ContentError`, as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.language.errors import EvaluationError
from penstock.language.times import timestamp_from_string, timestamp_to_string
from penstock.model.content import Content, Format, Unreadable
from penstock.model.errors import ContentError, PolicyError
from penstock.model.json_content import read_json
from penstock.model.quality import MOST_VALUES, NO_QUALITY, Key, MetricValue, Quality
from penstock.model.values import Timestamp, Value
from penstock.policy.cutting import json_members
from penstock.policy.elements.element import ElementError
from penstock.policy.quality_xml import find_indicators, read_indicator, with_indicators

MEMBER = "qoc"
"""The member of a JSON object."""
CLAIMED = "qoc"
"""The user property by which a producer speaks of its own event."""
ATTACHED = "penstock-quality"
"""The user property of what nodes have attached; from a client it is removed."""

_MOST_PROPERTY = 1_000
_MOST_TIME = 40


def read_quality(content: Content, received: Timestamp) -> Quality:
    """What content says of its own quality; values without a time are of when it was received.

    There is none in other formats than JSON and XML. Raises `ContentError`.
    """
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise ContentError(attributes.reason)
    if content.format is Format.JSON:
        return _of_entries(attributes.get(MEMBER, ()), received)
    if content.format is Format.XML:
        found = map(read_indicator, _bounded(find_indicators(attributes)))
        return _made(_value(one.ids, one.value, one.created, one.modified, received) for one in found)
    return NO_QUALITY


def write_quality(content: Content, quality: Quality) -> bytes:
    """The payload with this quality, in place of what it said of it; else as it was. Raises `ContentError`.

    JSON that is no object, and other formats, cannot carry it: use properties.
    """
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise ContentError(attributes.reason)
    if content.format is Format.JSON:
        return _into_json(content.payload, quality)
    if content.format is Format.XML:
        return with_indicators(content.payload, quality)
    raise ContentError(f"the content is {content.format}, which cannot carry quality")


def read_properties(pairs: Iterable[tuple[str, str]], received: Timestamp, name: str = CLAIMED) -> Quality:
    """What the user properties of this name say. Raises `ContentError`."""
    return _made(_of_property(text, received) for text in _bounded(text for key, text in pairs if key == name))


def write_properties(quality: Quality, name: str = ATTACHED) -> tuple[tuple[str, str], ...]:
    """The quality as user properties, one for each value."""
    return tuple((name, msgspec.json.encode(_entry(one)).decode()) for one in quality)


# --- JSON


def _of_entries(entries: Value, received: Timestamp) -> Quality:
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise ContentError(f"`{MEMBER}` is no list of quality values")
    return _made(_of_entry(one, received) for one in _bounded(entries))


def _of_entry(entry: Value, received: Timestamp) -> MetricValue:
    if not isinstance(entry, Mapping):
        raise ContentError(f"`{str(entry)[:80]}` is not a quality value")
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ContentError(f"a quality value has the `value` `{str(value)[:80]}`, which is no number")
    ids = (entry.get(name) for name in Key._fields)
    return _value(ids, value, entry.get("created"), entry.get("modified"), received)


def _entry(value: MetricValue) -> dict[str, Any]:
    entry: dict[str, Any] = {**value.key._asdict(), "value": value.value, "created": timestamp_to_string(value.created)}
    return entry if value.modified is None else {**entry, "modified": timestamp_to_string(value.modified)}


def _of_property(text: str, received: Timestamp) -> MetricValue:
    if len(text) > _MOST_PROPERTY:
        raise ContentError(f"a quality property has at most {_MOST_PROPERTY} characters, this has {len(text)}")
    return _of_entry(read_json(text.encode()), received)


def _into_json(payload: bytes, quality: Quality) -> bytes:
    try:
        members = json_members(payload)
    except ElementError as error:
        raise ContentError(str(error)) from None
    members.pop(MEMBER, None)
    if quality:
        members[MEMBER] = msgspec.Raw(msgspec.json.encode([_entry(one) for one in quality]))
    return msgspec.json.encode(members)


# --- JSON and XML


def _bounded(entries: Iterable[Any]) -> Iterator[Any]:
    for count, one in enumerate(entries):
        if count == MOST_VALUES:
            raise ContentError(f"more than {MOST_VALUES} quality values")
        yield one


def _made(values: Iterator[MetricValue]) -> Quality:
    try:
        return Quality(values)
    except PolicyError as error:
        raise ContentError(str(error)) from None


def _value(ids: Iterable[Any], value: float, created: Any, modified: Any, received: Timestamp) -> MetricValue:
    changed = None if modified is None else _time(modified)
    return MetricValue(Key(*ids), value, received if created is None else _time(created), changed)


def _time(text: Any) -> Timestamp:
    if not isinstance(text, str) or len(text) > _MOST_TIME:
        raise ContentError("a quality value has a time that is no text like `2009-02-13T23:31:30Z`")
    try:
        return timestamp_from_string(text)
    except EvaluationError as error:
        raise ContentError(str(error)) from None
