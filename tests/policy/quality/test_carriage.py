"""Quality in content and in user properties: written and read again, and read from strangers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError
from penstock.model.quality import MAX_VALUES, NO_QUALITY, MetricKey, MetricValue, Quality, moment
from penstock.model.values import LAST_SECOND, SECOND, Timestamp
from penstock.policy.quality.carriage import (
    ATTACHED,
    CLAIMED,
    read_properties,
    read_quality,
    write_properties,
    write_quality,
)
from tests.support.generators.examples import some
from tests.support.generators.quality import qualities

NOW = moment(1000)
ONE = Quality([MetricValue(MetricKey("10", "10.1", "10.1"), 47.5, moment(1_000_000_000))])
XML_ONE = (
    b'<qocindicator id="10"><qocriterion id="10.1"><qocmetricdefinition id="10.1"/></qocriterion>'
    b'<qocmetricvalue value="47.5" creationdate="2001-09-09T01:46:40Z"/></qocindicator>'
)
CARRIERS = [
    pytest.param(b'{"lat": 48.85, "n": 18446744073709551615, "x": {"y": [1,  2]}}', id="a JSON object"),
    pytest.param(b"{}", id="an empty JSON object"),
    pytest.param(b"<a><b>1</b></a>", id="an XML document"),
    pytest.param(b"<a x='/>' />", id="an empty element"),
    pytest.param(b"<a/><!-- </a> -->", id="a comment after the root"),
    pytest.param(b'<?xml version="1.0" encoding="utf-8"?>\n<a  >\n<!-- </a> --><![CDATA[</a>]]></a >\n', id="traps"),
    pytest.param(b'<a xmlns="urn:x"><b>1</b></a>', id="a namespace for all"),
    pytest.param(b'<p:a xmlns:p="urn:x"/>', id="a prefix"),
    pytest.param("<a é='é'>é</a>".encode(), id="letters of two bytes"),
]


@pytest.mark.parametrize("payload", CARRIERS)
@settings(max_examples=some(40))
@given(quality=qualities, other=qualities)
def test_what_is_written_is_read_again_and_the_rest_stays(payload: bytes, quality: Quality, other: Quality) -> None:
    written = write_quality(Content(payload), quality)
    content = Content(written)
    assert read_quality(content, NOW) == quality
    assert write_quality(content, quality) == written
    assert read_quality(Content(write_quality(content, other)), NOW) == other
    before, after = Content(payload).attributes, Content(write_quality(content, NO_QUALITY)).attributes
    assert before == after


@given(qualities)
def test_properties_are_read_again_in_any_order_among_others(quality: Quality) -> None:
    pairs = write_properties(quality)
    assert len(pairs) == len(quality)
    assert read_properties([*reversed(pairs), (ATTACHED, "ours"), ("a", "b")], NOW) == quality
    attached = write_properties(quality, ATTACHED)
    assert len(attached) == min(1, len(quality))
    assert read_properties([*attached, ("qoc", "mine"), ("a", "b")], NOW, ATTACHED) == quality


def test_the_most_that_can_be_attached_fits_a_property() -> None:
    key = ("x" * 79, "y" * 80, "z" * 80)
    time = Timestamp(LAST_SECOND * SECOND + 999_999_999)
    most = Quality(
        MetricValue(MetricKey(f"{at:02}{key[0][:78]}", *key[1:]), -1.2345678901234567e-300, time, time)
        for at in range(MAX_VALUES)
    )
    ((name, text),) = write_properties(most, ATTACHED)
    assert read_properties([(name, text)], NOW, ATTACHED) == most


_ROW = '["10","10.1","10.1",47.5,0]'
ATTACHED_WRONG = {
    "nothing": "",
    "no list": "1",
    "no list of lists": '["10","10.1","10.1",47.5,0]',
    "objects": '[{"indicator":"10","criterion":"10.1","definition":"10.1","value":1,"created":0}]',
    "too short": '[["10","10.1","10.1",47.5]]',
    "too long": '[["10","10.1","10.1",47.5,0,0,0]]',
    "no id": '[["1 0","10.1","10.1",47.5,0]]',
    "a number for an id": '[[10,"10.1","10.1",47.5,0]]',
    "a text for a value": '[["10","10.1","10.1","47.5",0]]',
    "not finite": '[["10","10.1","10.1",1e999,0]]',
    "a text for a time": '[["10","10.1","10.1",47.5,"2026-11-16T08:00:00Z"]]',
    "a fraction for a time": '[["10","10.1","10.1",47.5,0.5]]',
    "beyond the year 9999": '[["10","10.1","10.1",47.5,253402300800000000000]]',
    "before the year 1": '[["10","10.1","10.1",47.5,0,-62135596800000000001]]',
    "twice the same": f"[{_ROW},{_ROW}]",
    "very many": f"[{','.join([_ROW] * (MAX_VALUES + 1))}]",
    "very deep": "[" * 5_000,
    "very long": f"[{' ' * 60_000}]",
}


@pytest.mark.parametrize("text", ATTACHED_WRONG.values(), ids=ATTACHED_WRONG)
def test_what_is_attached_wrongly_is_refused(text: str) -> None:
    with pytest.raises(ContentError):
        read_properties([(ATTACHED, text)], NOW, ATTACHED)


def test_quality_is_attached_once() -> None:
    pairs = [*write_properties(ONE, ATTACHED)] * 2
    with pytest.raises(ContentError, match="once"):
        read_properties(pairs, NOW, ATTACHED)


def test_xml_is_kept_byte_for_byte_around_it() -> None:
    payload = b'<a >\n <b  c = "1"/>\n</a >\n<!-- end -->'
    assert write_quality(Content(payload), ONE) == payload.replace(b"</a >", XML_ONE + b"</a >")


def test_indicators_are_found_anywhere_and_replaced() -> None:
    payload = b"<a><meta>" + XML_ONE.replace(b"47.5", b"3") + b"</meta><b>1</b></a>"
    assert [one.value for one in read_quality(Content(payload), NOW)] == [3]
    assert write_quality(Content(payload), ONE) == b"<a><meta></meta><b>1</b>" + XML_ONE + b"</a>"


def test_the_paper_s_xpath_finds_them_also_where_there_is_a_namespace() -> None:
    for payload in (b"<a/>", b'<a xmlns="urn:x"><b/></a>'):
        content = Content(write_quality(Content(payload), ONE))
        assert content.xpath("//qocindicator[@id='10']/qocmetricvalue/@value") == ["47.5"]


def test_what_has_no_time_is_of_when_it_was_received() -> None:
    entry = {"indicator": "10", "criterion": "10.1", "definition": "10.1", "value": 47}
    in_json = Content(json.dumps({"qoc": [entry]}).encode())
    in_xml = Content(b"<a>" + XML_ONE.replace(b' creationdate="2001-09-09T01:46:40Z"', b"") + b"</a>")
    assert [one.created for one in read_quality(in_json, NOW)] == [NOW]
    assert [one.created for one in read_quality(in_xml, NOW)] == [NOW]
    assert [one.created for one in read_properties([(CLAIMED, json.dumps(entry))], NOW)] == [NOW]


def test_numbers_in_xml_have_no_exponent_so_that_xpath_can_read_them() -> None:
    tiny = Quality([MetricValue(MetricKey("a", "b", "c"), 1e-9, NOW), MetricValue(MetricKey("a", "b", "d"), 1e30, NOW)])
    content = Content(write_quality(Content(b"<a/>"), tiny))
    assert content.xpath("//qocmetricvalue/@value") == ["0.000000001", "1000000000000000000000000000000"]
    assert content.xpath("count(//qocmetricvalue[@value>0])") == 2.0


def entry(**changes: object) -> bytes:
    good: dict[str, object] = {"indicator": "10", "criterion": "10.1", "definition": "10.1", "value": 47}
    kept = {name: value for name, value in {**good, **changes}.items() if value is not ...}
    return json.dumps({"qoc": [kept]}).encode()


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        pytest.param(b'{"qoc": 1}', "not a list", id="a number for a list"),
        pytest.param(b'{"qoc": "text"}', "not a list", id="a text for a list"),
        pytest.param(b'{"qoc": [1]}', "not a quality value", id="a number for a value"),
        pytest.param(entry(value="47"), "not a number", id="a text for a number"),
        pytest.param(entry(value=True), "not a number", id="true for a number"),
        pytest.param(entry(value=...), "not a number", id="no number"),
        pytest.param(entry(indicator=...), "not an id", id="no indicator"),
        pytest.param(entry(indicator=10), "not an id", id="a number for an id"),
        pytest.param(entry(criterion="' or '1'='1"), "not an id", id="an id that is an injection"),
        pytest.param(entry(created="yesterday"), "not a timestamp", id="no time"),
        pytest.param(entry(created=12), "not a text", id="a number for a time"),
        pytest.param(entry(modified="9" * 100), "not a text", id="a long time"),
        pytest.param(b'{"qoc": [' + b",".join([entry()[9:-2]] * 2) + b"]}", "twice", id="a metric twice"),
        pytest.param(b'{"qoc": [' + b",".join([b"{}"] * 70) + b"]}", "not a number", id="many empty ones"),
        pytest.param(b'{"qoc": [], "qoc": []}', "two members", id="the member twice"),
        pytest.param(b"<a><qocindicator/></a>", "no `qocriterion`", id="an empty indicator"),
        pytest.param(b"<a>" + XML_ONE + XML_ONE + b"</a>", "twice", id="an indicator twice"),
        pytest.param(
            b"<a>" + XML_ONE.replace(b"<qocmetricv", b"<qocmetricvalue/><qocmetricv") + b"</a>",
            "several `qocmetricvalue`",
            id="two values of one indicator",
        ),
        pytest.param(b"<a>" + XML_ONE.replace(b"47.5", b"NaN") + b"</a>", "not a number", id="not a number in XML"),
        pytest.param(b"<a>" + XML_ONE.replace(b"47.5", b"1e3") + b"</a>", "not a number", id="an exponent in XML"),
        pytest.param(b"<a>" + XML_ONE.replace(b"47.5", b"9" * 500) + b"</a>", "not a number", id="many digits"),
        pytest.param(b"<a>" + XML_ONE.replace(b"47.5", b"9" * 399) + b"</a>", "number", id="beyond the doubles"),
        pytest.param(b'<!DOCTYPE a [<!ENTITY x "y">]><a/>', "document type", id="a document type"),
        pytest.param(b"<a>" + b"<b>" * 70 + b"</b>" * 70 + b"</a>", "inside each other", id="a deep document"),
    ],
)
def test_what_strangers_write_is_refused_as_a_whole(payload: bytes, says: str) -> None:
    with pytest.raises(ContentError, match=says):
        read_quality(Content(payload), NOW)


def test_too_many_values_are_refused_before_they_are_all_read() -> None:
    many = [json.loads(entry())["qoc"][0] | {"indicator": f"i{n}"} for n in range(MAX_VALUES + 1)]
    with pytest.raises(ContentError, match="more than 64"):
        read_quality(Content(json.dumps({"qoc": many}).encode()), NOW)
    with pytest.raises(ContentError, match="more than 64"):
        read_quality(Content(b"<a>" + XML_ONE * (MAX_VALUES + 1) + b"</a>"), NOW)
    with pytest.raises(ContentError, match="more than 64"):
        read_properties([(CLAIMED, json.dumps(one)) for one in many], NOW)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        pytest.param(b"[1]", "no object", id="a JSON list"),
        pytest.param(b"\x00\x01", "cannot carry", id="opaque content"),
        pytest.param(XML_ONE, "root", id="an indicator alone"),
        pytest.param("<a/>".encode("utf-16"), "UTF-8", id="UTF-16"),
        pytest.param(b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>', "UTF-8", id="Latin 1"),
        pytest.param(b'{"a": 1, "a": 2}', "two members", id="unreadable content"),
    ],
)
def test_what_cannot_carry_quality_is_not_given_any(payload: bytes, says: str) -> None:
    with pytest.raises(ContentError, match=says):
        write_quality(Content(payload), ONE)


def test_other_formats_say_nothing_of_their_quality() -> None:
    assert read_quality(Content(b"\x00\x01"), NOW) == NO_QUALITY
    assert read_quality(Content(b"text", Format.TEXT), NOW) == NO_QUALITY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "{",
        '"x"',
        '{"value": 1}',
        "{" * 500,
        '{"value":1' + " " * 2000 + "}",
        '{"indicator": "a", "indicator": "b"}',
    ],
)
def test_properties_of_strangers_are_refused(text: str) -> None:
    with pytest.raises(ContentError):
        read_properties([(CLAIMED, text)], NOW)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:<>/=qocindator 1', max_size=60).map(str.encode))
def test_whatever_comes_is_read_or_refused(payload: bytes) -> None:
    content = Content(payload)
    try:
        read_quality(content, NOW)
        written = write_quality(content, ONE)
    except ContentError:
        return
    assert read_quality(Content(written, content.format), NOW) == ONE
