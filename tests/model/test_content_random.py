"""Random contents: what other encoders write is read, and no bytes at all bring a reader down."""

import json
from math import isfinite, isnan
from typing import Any
from xml.etree import ElementTree

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.content.content import Content, ContentError, Format, Unreadable
from penstock.model.values import LAST_SECOND, MAX_INT, MAX_UINT, MIN_INT, Timestamp, Uint, Value
from tests.support.cases.conditions import same
from tests.support.cases.contents import cases
from tests.support.memory.sparkplug import PAYLOAD, encode

pytestmark = pytest.mark.fuzz

# JSON

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers() | st.integers(2**63 - 3, 2**64 + 3) | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def read_from_json(value: Any) -> Value:
    """What a value is once it has been through JSON."""
    if isinstance(value, dict):
        return {key: read_from_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [read_from_json(each) for each in value]
    if type(value) is int and not MIN_INT <= value <= MAX_INT:
        return Uint(value) if MAX_INT < value <= MAX_UINT else float(value)
    return value


@given(json_values, st.booleans())
def test_json_that_another_encoder_writes(value: Any, in_ascii: bool) -> None:
    content = Content(json.dumps(value, ensure_ascii=in_ascii).encode())
    expected = value if isinstance(value, dict) else {"value": value}
    assert content.format is Format.JSON
    assert same(content.attributes, read_from_json(expected)), content.attributes


# XML

xml_names = st.sampled_from(["a", "b", "ä", "long-name.1", "_"])
xml_texts = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs", "Cn"]), max_size=6)


def xml_element(
    name: str, attributes: dict[str, str], text: str, *inside: tuple[ElementTree.Element, str]
) -> ElementTree.Element:
    element = ElementTree.Element(name, attributes)
    element.text = text
    for each, tail in inside:
        element.append(each)
        each.tail = tail
    return element


xml_heads = xml_names, st.dictionaries(xml_names, xml_texts, max_size=2), xml_texts
xml_elements: st.SearchStrategy[ElementTree.Element] = st.recursive(
    st.builds(xml_element, *xml_heads),
    lambda inner: st.builds(
        lambda head, inside: xml_element(*head, *inside),
        st.tuples(*xml_heads),
        st.lists(st.tuples(inner, xml_texts), max_size=3),
    ),
    max_leaves=10,
)


def read_from_xml(element: ElementTree.Element) -> Value:
    """What an element is, said anew."""
    found: dict[str, Value] = {f"@{name}": value for name, value in element.attrib.items()}
    for name in {each.tag for each in element}:
        values = [read_from_xml(each) for each in element if each.tag == name]
        found[name] = values if len(values) > 1 else values[0]
    own_text = "".join([element.text or "", *(each.tail or "" for each in element)]).strip(" \t\r\n")
    if not found:
        return own_text
    return {**found, "#text": own_text} if own_text else found


@given(xml_elements, st.sampled_from(["utf-8", "utf-16", "iso-8859-1"]))
def test_xml_that_another_encoder_writes(root: ElementTree.Element, encoding: str) -> None:
    root.tail = None
    content = Content(ElementTree.tostring(root, encoding))
    assert content.format is Format.XML
    assert same(content.attributes, {root.tag: read_from_xml(root)}), content.attributes


@given(xml_elements)
def test_xpath_finds_the_same_in_it(root: ElementTree.Element) -> None:
    root.tail = None
    content = Content(ElementTree.tostring(root, "utf-8"))
    assert content.xpath("//*") == ["".join(each.itertext()) for each in root.iter()]
    assert content.xpath("count(//@*)") == sum(len(each.attrib) for each in root.iter())
    assert sorted(content.xpath("//@a")) == sorted(each.attrib["a"] for each in root.iter() if "a" in each.attrib)


# Sparkplug B

uint32, uint64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


def signed(number: int, bits: int) -> int:
    return int.from_bytes((number % 2**bits).to_bytes(bits // 8, "little"), "little", signed=True)


def unsigned(number: int) -> int:
    return Uint(number) if number > MAX_INT else number


def time_of(milliseconds: int) -> Value:
    is_one = milliseconds <= LAST_SECOND * 1000 + 999
    return Timestamp(milliseconds * 1_000_000) if is_one else unsigned(milliseconds)


def in_words(number: float) -> float | str:
    """A number as the encoder takes it."""
    if isnan(number):
        return "NaN"
    return number if isfinite(number) else "Infinity" if number > 0 else "-Infinity"


scalars: st.SearchStrategy[tuple[dict[str, Any], Value]] = st.one_of(
    st.integers(-(2**7), 2**7 - 1).map(lambda number: ({"datatype": 1, "int_value": number % 2**32}, number)),
    st.integers(-(2**15), 2**15 - 1).map(lambda number: ({"datatype": 2, "int_value": number % 2**32}, number)),
    uint32.map(lambda number: ({"datatype": 3, "int_value": number}, signed(number, 32))),
    uint64.map(lambda number: ({"datatype": 4, "long_value": number}, signed(number, 64))),
    uint32.map(lambda number: ({"datatype": 7, "int_value": number}, number)),
    uint64.map(lambda number: ({"datatype": 8, "long_value": number}, unsigned(number))),
    uint64.map(lambda number: ({"datatype": 13, "long_value": number}, time_of(number))),
    st.floats(width=32).map(lambda number: ({"datatype": 9, "float_value": in_words(number)}, number)),
    st.floats().map(lambda number: ({"datatype": 10, "double_value": in_words(number)}, number)),
    st.booleans().map(lambda truth: ({"datatype": 11, "boolean_value": truth}, truth)),
    texts.map(lambda text: ({"datatype": 12, "string_value": text}, text)),
    st.just(({"datatype": 3, "is_null": True}, None)),
)


def metrics_of(found: list[tuple[str, int | None, tuple[dict[str, Any], Value]]]) -> tuple[list[Any], Value, Value]:
    """Metrics as the encoder wants them, and what they are by name and by alias."""
    written: list[Any] = []
    named: dict[str, Value] = {}
    aliased: dict[int, Value] = {}
    for name, alias, (fields, value) in found:
        if alias is None:
            written.append({"name": name, **fields})
            named[name] = value
        else:
            written.append({"alias": alias, **fields})
            aliased[alias] = value
    return written, named, aliased


def template_of(inside: list[Any], version: str) -> tuple[dict[str, Any], Value]:
    written, named, aliased = metrics_of(inside)
    value = {"version": version, "parameters": {}, "metrics": named, "aliases": aliased}
    return {"datatype": 19, "template_value": {"version": version, "metrics": written}}, value


metrics: st.SearchStrategy[Any] = st.deferred(
    lambda: st.lists(st.tuples(texts, st.none() | uint64, scalars | st.builds(template_of, metrics, texts)), max_size=4)
)


@given(metrics, uint64, uint64)
def test_sparkplug_that_another_encoder_writes(found: Any, timestamp: int, seq: int) -> None:
    written, named, aliased = metrics_of(found)
    content = Content(encode({"timestamp": timestamp, "seq": seq, "metrics": written}), Format.SPARKPLUG)
    expected = {"timestamp": time_of(timestamp), "seq": unsigned(seq), "metrics": named, "aliases": aliased}
    assert same(content.attributes, expected), content.attributes


WIDTHS = {1: 8, 2: 16, 3: 32, 4: 64, 5: 8, 6: 16, 7: 32, 8: 64}
edges = st.sampled_from([7, 8, 15, 16, 31, 32, 63, 64]).flatmap(lambda bits: st.integers(2**bits - 2, 2**bits + 2))


def values_of(type_: int, field: str, number: int) -> set[int]:
    """All values of a type that its writers would write as this number."""
    size = 32 if field == "int_value" else 64
    bits = min(WIDTHS[type_], size)
    width = bits if field == "int_value" else 64
    near = {number + offset for offset in (0, -(2**bits), -(2**size))}
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if type_ <= 4 else (0, 2**bits)
    return {value for value in near if low <= value < high and number in (value % 2**size, value % 2**width)}


@given(st.sampled_from(list(WIDTHS)), uint32.map(lambda n: ("int_value", n)) | uint64.map(lambda n: ("long_value", n)))
@example(3, ("long_value", 2**32 + 7))
def test_an_integer_of_sparkplug_is_a_value_of_its_type_or_refused(type_: int, written: tuple[str, int]) -> None:
    _check_integer(type_, *written)


@given(st.sampled_from(list(WIDTHS)), st.sampled_from(["int_value", "long_value"]), edges)
def test_integers_at_the_bounds_of_types(type_: int, field: str, number: int) -> None:
    _check_integer(type_, field, number % (2**32 if field == "int_value" else 2**64))


def _check_integer(type_: int, field: str, number: int) -> None:
    payload = encode({"metrics": [{"name": "a", "datatype": type_, field: number}]})
    found, expected = Content(payload, Format.SPARKPLUG).attributes, values_of(type_, field, number)
    if isinstance(found, Unreadable):
        assert not expected
        assert "does not fit" in found.reason
    else:
        assert {found["metrics"]["a"]} == expected


# Anything

whole = st.sampled_from([case.payload for case in cases()])
cut = st.builds(lambda payload, at, put: payload[: at % (len(payload) + 1)] + put, whole, uint32, st.binary(max_size=6))
joined = st.builds(lambda one, other, at: one[: at % (len(one) + 1)] + other, whole, whole, uint32)
changed = st.builds(
    lambda payload, at, put: payload[: at % (len(payload) + 1)] + put + payload[at % (len(payload) + 1) + len(put) :],
    whole,
    uint32,
    st.binary(min_size=1, max_size=3),
)
payloads = st.binary(max_size=64) | cut | joined | changed


@given(payloads, st.none() | st.sampled_from(Format))
def test_any_bytes_have_attributes_or_are_unreadable(payload: bytes, format: Format | None) -> None:
    content = Content(payload, format)
    attributes = content.attributes
    assert isinstance(attributes, dict) or (isinstance(attributes, Unreadable) and attributes.reason)
    assert content.format is format or format is None


@given(payloads)
def test_sparkplug_has_the_metrics_that_another_decoder_finds(payload: bytes) -> None:
    attributes = Content(payload, Format.SPARKPLUG).attributes
    try:
        found: Any = PAYLOAD.FromString(payload)
    except DecodeError:
        return  # it looks into the metadata and properties of metrics, too
    if isinstance(attributes, dict):
        assert attributes.get("seq", 0) == found.seq
        assert {each.name for each in found.metrics if each.name or not each.HasField("alias")} == set(
            attributes["metrics"]
        )
        assert {each.alias for each in found.metrics if not each.name and each.HasField("alias")} == set(
            attributes["aliases"]
        )


xpath_pieces = ["//", "/", "a", "*", "@", "[", "]", "(", ")", "..", ".", "1", "'x'", "=", " and ", "count(", "::", "|"]
expressions = st.text(max_size=12) | st.lists(st.sampled_from(xpath_pieces), max_size=12).map("".join)


@given(payloads | st.just(b"<a x='1'><b>1</b><a/></a>"), expressions)
def test_xpath_finds_a_value_or_raises_the_one_error(payload: bytes, expression: str) -> None:
    try:
        found = Content(payload, Format.XML).xpath(expression)
    except ContentError:
        return
    assert type(found) in (str, float, bool) or all(type(each) is str for each in found)
