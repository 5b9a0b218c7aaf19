"""Quality as an event carries it: in its content, JSON or XML, or in MQTT 5 user properties.

JSON has a member `qoc`, a list of

    {"indicator": "10", "criterion": "10.1", "definition": "10.1", "value": 47.5, "created": "2026-11-16T08:00:00Z"}

and XML has elements as the paper's Listing 3 looks for them, anywhere in the document:

    <qocindicator id="10"><qocriterion id="10.1"><qocmetricdefinition id="10.1"/></qocriterion>
      <qocmetricvalue value="47.5" creationdate="2026-11-16T08:00:00Z"/></qocindicator>

A user property is one such JSON object. What is changed later has `modified`, or `modificationdate`, too. What nodes
attach is one property for all values, short and quick to read: a JSON list of such lists, with times in nanoseconds
since 1970,

    ["10", "10.1", "10.1", 47.5, 1794816000000000000, 1794816005000000000]

All that is read comes from strangers: it is bounded, and what is not in order raises `ContentError`, as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string, timestamp_to_string
from penstock.model.content.content import Content, Format, Unreadable
from penstock.model.content.json import read_json
from penstock.model.errors import UNREADABLE, ContentError, PolicyError
from penstock.model.quality import MAX_VALUES, NO_QUALITY, MetricKey, MetricValue, Quality
from penstock.model.values import Timestamp, Value
from penstock.policy.quality.xml import find_indicators, read_indicator, with_indicators
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.redact import json_members

MEMBER = "qoc"
"""The member of a JSON object."""
CLAIMED = "qoc"
"""The user property in which a producer states the quality of its own event."""
ATTACHED = "penstock-quality"
"""The user property of the quality that nodes have attached; it is removed from clients' publications."""

MAX_PROPERTY = 1_000
_MAX_ATTACHED = 400 * MAX_VALUES
_MAX_TIME = 40
_ENCODE = msgspec.json.Encoder().encode


def read_quality(content: Content, received: Timestamp) -> Quality:
    """Return the quality that JSON or XML carries, `received` as time if it has none; raises `ContentError`."""
    attributes = content.attributes
    if isinstance(attributes, Unreadable):
        raise ContentError(attributes.reason)
    if content.format is Format.JSON:
        return _of_entries(attributes.get(MEMBER, ()), received)
    if content.format is Format.XML:
        indicators = map(read_indicator, _bounded(find_indicators(attributes)))
        return _quality(
            _value(indicator.ids, indicator.value, indicator.created, indicator.modified, received)
            for indicator in indicators
        )
    return NO_QUALITY


def write_quality(content: Content, quality: Quality) -> bytes:
    """Return the payload with this quality in place of its own, otherwise unchanged. Raises `ContentError`.

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
    """Return the quality in the user properties of this name. Raises `ContentError`."""
    texts = [text for key, text in pairs if key == name]
    if not texts:
        return NO_QUALITY
    if name == ATTACHED:
        if len(texts) > 1 or len(texts[0]) > _MAX_ATTACHED:
            raise ContentError(f"quality is attached once, with at most {_MAX_ATTACHED} characters")
        return _of_rows(texts[0])
    return _quality(_of_property(text, received) for text in _bounded(texts))


def write_properties(quality: Quality, name: str = CLAIMED) -> tuple[tuple[str, str], ...]:
    """Return the quality as user properties: one for each value, or one for all if a node attaches them."""
    if name == ATTACHED:
        return ((name, _to_rows(quality)),) if quality else ()
    return tuple((name, _ENCODE(_entry(value)).decode()) for value in quality)


# --- what nodes attach


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A value, as it is attached."""

    indicator: str
    criterion: str
    definition: str
    value: float
    created: int
    modified: int | None = None


_ROWS = msgspec.json.Decoder(Annotated[list[_Row], msgspec.Meta(max_length=MAX_VALUES)])


@lru_cache(maxsize=16)  # several may ask for that of one event
def _of_rows(text: str) -> Quality:
    try:
        rows = _ROWS.decode(text)
    except UNREADABLE as error:
        raise ContentError(f"the quality that is attached cannot be read: {error}") from None
    times: dict[int, Timestamp] = {}  # mostly, all are of the same time
    return _quality(_of_row(row, times) for row in rows)


def _of_row(row: _Row, times: dict[int, Timestamp]) -> MetricValue:
    created = times.get(row.created) or times.setdefault(row.created, Timestamp(row.created))
    modified = None if row.modified is None else Timestamp(row.modified)
    return MetricValue(MetricKey(row.indicator, row.criterion, row.definition), row.value, created, modified)


def _to_rows(quality: Quality) -> str:
    rows = [
        (*metric.key, metric.value, metric.created.nanos)
        if metric.modified is None
        else (*metric.key, metric.value, metric.created.nanos, metric.modified.nanos)
        for metric in quality
    ]
    return _ENCODE(rows).decode()


# --- JSON


def _of_entries(entries: Value, received: Timestamp) -> Quality:
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise ContentError(f"`{MEMBER}` is not a list of quality values")
    return _quality(_of_entry(entry, received) for entry in _bounded(entries))


def _of_entry(entry: Value, received: Timestamp) -> MetricValue:
    if not isinstance(entry, Mapping):
        raise ContentError(f"`{str(entry)[:80]}` is not a quality value")
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ContentError(f"a quality value has the `value` `{str(value)[:80]}`, which is not a number")
    ids = (entry.get(name) for name in MetricKey._fields)
    return _value(ids, value, entry.get("created"), entry.get("modified"), received)


class _QualityEntry(msgspec.Struct, omit_defaults=True, gc=False):
    """A value, as JSON has it."""

    indicator: str
    criterion: str
    definition: str
    value: float
    created: str
    modified: str | None = None


def _entry(value: MetricValue) -> _QualityEntry:
    modified = None if value.modified is None else timestamp_to_string(value.modified)
    return _QualityEntry(*value.key, value.value, timestamp_to_string(value.created), modified)


def _of_property(text: str, received: Timestamp) -> MetricValue:
    if len(text) > MAX_PROPERTY:
        raise ContentError(f"a quality property has at most {MAX_PROPERTY} characters, this has {len(text)}")
    return _of_entry(read_json(text.encode()), received)


def _into_json(payload: bytes, quality: Quality) -> bytes:
    try:
        members = json_members(payload)
    except ElementError as error:
        raise ContentError(str(error)) from None
    members.pop(MEMBER, None)
    if quality:
        members[MEMBER] = msgspec.Raw(msgspec.json.encode([_entry(value) for value in quality]))
    return msgspec.json.encode(members)


# --- JSON and XML


def _bounded(entries: Iterable[Any]) -> Iterator[Any]:
    for count, entry in enumerate(entries):
        if count == MAX_VALUES:
            raise ContentError(f"more than {MAX_VALUES} quality values")
        yield entry


def _quality(values: Iterator[MetricValue]) -> Quality:
    try:
        return Quality(values)
    except PolicyError as error:
        raise ContentError(str(error)) from None


def _value(ids: Iterable[Any], value: float, created: Any, modified: Any, received: Timestamp) -> MetricValue:
    changed = None if modified is None else _time(modified)
    return MetricValue(MetricKey(*ids), value, received if created is None else _time(created), changed)


def _time(text: Any) -> Timestamp:
    if not isinstance(text, str) or len(text) > _MAX_TIME:
        raise ContentError("a quality value has a time that is not a text like `2009-02-13T23:31:30Z`")
    return read_time(text)


@lru_cache(maxsize=256)  # mostly, all values of an event are of the same time
def read_time(text: str) -> Timestamp:
    try:
        return timestamp_from_string(text)
    except EvaluationError as error:
        raise ContentError(str(error)) from None
