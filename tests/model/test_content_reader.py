"""Who says what format an event's content has."""

from typing import Any

import pytest

from penstock.model.content.content import Content, ContentReader, Format, FormatRule, Unreadable
from penstock.model.event import Event
from tests.support.cases.contents import load

CASES = load("choosing.yaml")


def event_of(topic: str, payload: bytes, content_type: str | None = None) -> Event:
    written = b"" if content_type is None else b"\3" + len(content_type).to_bytes(2, "big") + content_type.encode()
    return Event(topic, payload, properties=written)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_the_format_is(case: dict[str, Any]) -> None:
    reader = ContentReader(tuple(FormatRule(filter, Format(format)) for filter, format in case.get("rules", ())))
    looks_like_nothing = b"\x07"
    event = event_of(case.get("topic", "t"), looks_like_nothing, case.get("type"))
    content = reader.read(event)
    if "unreadable" in case:
        assert content.attributes == Unreadable(case["unreadable"])
    else:
        assert content.format == (case["format"] or Format.OPAQUE)


def test_of_one_event_the_content_is_decoded_once() -> None:
    reader = ContentReader()
    event = event_of("t", b'{"a": 1}')
    assert reader.read(event).attributes is reader.read(event).attributes


def test_of_another_event_with_the_same_payload_the_topic_counts() -> None:
    reader = ContentReader((FormatRule("json", Format.JSON), FormatRule("text", Format.TEXT)))
    contents = [reader.read(event_of(topic, b"1")).attributes for topic in ("json", "text", "json")]
    assert contents == [{"value": 1}, {"value": "1"}, {"value": 1}]


def test_a_rule_makes_what_only_looks_like_json_unreadable() -> None:
    payload = b"12:30"
    assert Content(payload).attributes == {}
    assert isinstance(
        ContentReader((FormatRule("#", Format.JSON),)).read(event_of("t", payload)).attributes, Unreadable
    )
