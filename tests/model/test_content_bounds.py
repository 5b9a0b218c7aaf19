"""How much content is decoded, and that what is beyond is said to be unreadable, whoever says its format."""

from base64 import b64encode
from collections.abc import Callable

import pytest

from penstock.model.content import xpath
from penstock.model.content.bounds import MAX_BYTES, MAX_DEPTH, MAX_NODES
from penstock.model.content.content import Content, ContentError, Format, Unreadable
from tests.support.memory.sparkplug import encode


def nested(start: str, end: str, depth: int) -> bytes:
    return (start * depth + end * depth).encode()


def templates(depth: int) -> bytes:
    """Templates inside each other: for each, the map that it is and that of its metrics."""
    metric: dict[str, object] = {"name": "a", "int_value": 1}
    for _ in range(depth):
        metric = {"name": "a", "template_value": {"metrics": [metric]}}
    return encode({"metrics": [metric]})


def booleans(count: int) -> str:
    return b64encode(count.to_bytes(4, "little") + bytes((count + 7) // 8)).decode()


WITHIN: dict[str, tuple[Format, Callable[[], bytes]]] = {
    "a payload of the greatest size": (Format.JSON, lambda: b'"' + b"a" * (MAX_BYTES - 2) + b'"'),
    "lists inside each other": (Format.JSON, lambda: nested("[", "]", MAX_DEPTH)),
    "objects inside each other": (Format.JSON, lambda: nested('{"a":', "}", MAX_DEPTH).replace(b":}", b":1}", 1)),
    "many lists beside each other": (Format.JSON, lambda: b"[" + b"[]," * (MAX_DEPTH * 2) + b"1]"),
    "many brackets in a string": (Format.JSON, lambda: b'["' + b"[" * (MAX_DEPTH * 2) + b'"]'),
    "many elements of a list": (Format.JSON, lambda: b"[" + b"1," * (MAX_NODES - 1) + b"1]"),
    "many commas in a string": (Format.JSON, lambda: b'["' + b"," * (MAX_NODES + 1) + b'"]'),
    "elements inside each other": (Format.XML, lambda: nested("<a>", "</a>", MAX_DEPTH)),
    "many elements": (Format.XML, lambda: b"<a>" + b"<b/>" * (MAX_NODES - 1) + b"</a>"),
    "many pieces of text": (Format.XML, lambda: b"<a>" + b"x<!---->" * 100_000 + b"</a>"),
    "templates inside each other": (Format.SPARKPLUG, lambda: templates((MAX_DEPTH - 1) // 3)),
    "many metrics": (Format.SPARKPLUG, lambda: b"\x12\x02\x10\x00" * MAX_NODES),
}

BEYOND: dict[str, tuple[Format, Callable[[], bytes], str]] = {
    "a payload that is too large": (
        Format.JSON,
        lambda: b'"' + b"a" * (MAX_BYTES - 1) + b'"',
        "a payload of 1048577 bytes is too large to be decoded; the maximum is 1048576",
    ),
    "too many lists inside each other": (
        Format.JSON,
        lambda: nested("[", "]", MAX_DEPTH + 1),
        "more than 64 JSON values inside each other",
    ),
    "very many lists inside each other": (
        Format.JSON,
        lambda: nested("[", "]", MAX_BYTES // 2),
        "more than 64 JSON values inside each other",
    ),
    "very many lists that are not closed": (
        Format.JSON,
        lambda: b"[" * MAX_BYTES,
        "more than 64 JSON values inside each other",
    ),
    "too many elements of a list": (
        Format.JSON,
        lambda: b"[" + b"1," * MAX_NODES + b"1]",
        "more than 100000 JSON values",
    ),
    "too many XML elements inside each other": (
        Format.XML,
        lambda: nested("<a>", "</a>", MAX_DEPTH + 1),
        "more than 64 XML elements inside each other",
    ),
    "too many XML elements": (
        Format.XML,
        lambda: b"<a>" + b"<b/>" * MAX_NODES + b"</a>",
        "more than 100000 XML elements and attributes",
    ),
    "too many XML attributes": (
        Format.XML,
        lambda: b"<a>" + b"<b a='' b='' c='' d=''/>" * (MAX_NODES // 5) + b"</a>",
        "more than 100000 XML elements and attributes",
    ),
    "too many namespaces": (
        Format.XML,
        lambda: b"<a>" + b"<b xmlns='c'/>" * (MAX_NODES // 2) + b"</a>",
        "more than 100000 XML elements and attributes",
    ),
    "too many templates inside each other": (
        Format.SPARKPLUG,
        lambda: templates(MAX_DEPTH),
        "more than 64 Sparkplug B values inside each other",
    ),
    "too many metrics": (
        Format.SPARKPLUG,
        lambda: b"\x12\x02\x10\x00" * (MAX_NODES + 1),
        "more than 100000 Sparkplug B values",
    ),
    "too many booleans in an array": (
        Format.SPARKPLUG,
        lambda: encode({"metrics": [{"name": "a", "datatype": 32, "bytes_value": booleans(MAX_NODES + 1)}]}),
        "more than 100000 Sparkplug B values",
    ),
    "too many rows of nothing": (
        Format.SPARKPLUG,
        lambda: encode({"metrics": [{"name": "a", "dataset_value": {"rows": [{}] * (MAX_NODES + 1)}}]}),
        "more than 100000 Sparkplug B values",
    ),
}


@pytest.mark.parametrize(("format", "make"), WITHIN.values(), ids=WITHIN)
def test_within(format: Format, make: Callable[[], bytes]) -> None:
    attributes = Content(make(), format).attributes
    assert isinstance(attributes, dict), attributes


@pytest.mark.parametrize(("format", "make", "reason"), BEYOND.values(), ids=BEYOND)
def test_beyond(format: Format, make: Callable[[], bytes], reason: str) -> None:
    assert Content(make(), format).attributes == Unreadable(reason)


@pytest.mark.parametrize(
    ("format", "make", "reason"),
    [case for case in BEYOND.values() if case[0] is not Format.SPARKPLUG],
    ids=[name for name, case in BEYOND.items() if case[0] is not Format.SPARKPLUG],
)
def test_beyond_when_found_by_looking(format: Format, make: Callable[[], bytes], reason: str) -> None:
    content = Content(make())
    assert (content.format, content.attributes) == (format, Unreadable(reason))


def document(elements: int) -> Content:
    return Content(b"<r>" + b"<a><b>1</b></a>" * (elements // 2) + b"</r>", Format.XML)


SLOW = [
    "//a//b",
    "//a/following::b",
    "//b/preceding::a",
    "//a/following-sibling::a",
    "//*[count(//*) > 1]",
    "//*[. = //b]",
    "//*[../a]",
    "//a < //b",
    "//a | //b",
    "//a[contains(., ../b)]",
    "translate(/, /, '')",
    "//and//or",
    "//namespace::*",
    "concat(" + ", ".join(["string(/)"] * 80) + ")",
]


@pytest.mark.parametrize("expression", SLOW)
def test_xpath_that_is_slow_is_for_small_documents(expression: str) -> None:
    document(10).xpath(expression)
    with pytest.raises(ContentError, match="would take too long on a document of this size"):
        document(20_000).xpath(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "//a",
        "//b[. = 1]",
        "//a[b = 1]",
        "//a[.//b]",
        "//a[contains(., 'x')]",
        "//*[local-name() = 'b']",
        "count(//a) > 3 and //b",
        "//a[b[. = '1']]/b/text()",
    ],
)
def test_xpath_that_looks_at_each_node_once_is_for_all_documents(expression: str) -> None:
    document(20_000).xpath(expression)


def test_xpath_does_not_find_more_text_than_a_payload_may_have() -> None:
    length = MAX_BYTES // 10
    content = Content(b"<a>" * 11 + b"x" * length + b"</a>" * 11, Format.XML)
    assert content.xpath("string-length(/)") == length
    with pytest.raises(ContentError, match="`//a` finds more than 1048576 characters"):
        content.xpath("//a")


def test_an_xml_name_that_is_not_to_be_remembered_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xpath, "_NAMES", xpath._Names(room=0))
    content = Content(b"<report><made-up>1</made-up></report>", Format.XML)
    assert content.xpath("/report/made-up") == ["1"]


def test_xml_names_are_remembered_while_there_is_room() -> None:
    names = xpath._Names(room=200)
    assert names.are_known(frozenset({"a", "b"}))
    assert not names.are_known(frozenset({"a", "c" * 200}))
    assert names.are_known(frozenset({"c"}))
    assert not names.are_known(frozenset("defghijkl"))
    assert names.are_known(frozenset({"a", "b", "c"}))
