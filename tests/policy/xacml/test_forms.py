"""Requests and responses in XML and JSON, versions of policies, patterns."""

import json
from xml.sax.saxutils import quoteattr

import pytest

from penstock.policy.xacml import (
    Pdp,
    RequestAttribute,
    RequestCategory,
    XacmlError,
    XacmlRequest,
    read_request,
    read_request_json,
    show_response,
    show_response_json,
)
from penstock.policy.xacml.forms.response_xml import read_response
from penstock.policy.xacml.forms.short import from_plain
from penstock.policy.xacml.forms.xml import read_xml, show_xml
from penstock.policy.xacml.names import ACTION, CORE, INTEGER, RESOURCE, STRING, SUBJECT
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.response import show_category
from penstock.policy.xacml.tree import LiteralValue
from penstock.policy.xacml.values.values import SHORT_TYPES, XPathExpression
from penstock.policy.xacml.values.versions import check_pattern, is_wanted
from tests.support.cases.xacml import NOW, request

ASKS = f"""<?xml version="1.0"?>
<Request xmlns="{CORE}" xmlns:m="urn:m" ReturnPolicyIdList="true" CombinedDecision="false">
  <RequestDefaults><XPathVersion>http://www.w3.org/TR/1999/Rec-xpath-19991116</XPathVersion></RequestDefaults>
  <Attributes Category="{SUBJECT}" xml:id="s">
    <Attribute AttributeId="age" Issuer="hr" IncludeInResult="true">
      <AttributeValue DataType="{INTEGER}"> 42 </AttributeValue>
    </Attribute>
    <Attribute AttributeId="odd" IncludeInResult="false">
      <AttributeValue DataType="urn:other:type">as it &lt;is&gt;</AttributeValue>
    </Attribute>
    <Attribute AttributeId="where" IncludeInResult="false">
      <AttributeValue DataType="{SHORT_TYPES["xpathExpression"]}" XPathCategory="{RESOURCE}">//m:a</AttributeValue>
    </Attribute>
  </Attributes>
  <Attributes Category="{RESOURCE}">
    <Content>
      <m:r k="&quot;1&amp;" xml:lang="en"><m:a>x &lt; y</m:a><b xmlns="urn:b" xmlns:c="urn:c" c:d="e"/></m:r>
    </Content>
  </Attributes>
  <MultiRequests><RequestReference><AttributesReference ReferenceId="s"/></RequestReference></MultiRequests>
</Request>"""


def show_request(request: XacmlRequest) -> str:
    """Return a request as XML."""
    lists, combined = (str(flag).lower() for flag in (request.returns_policies, request.is_combined))
    lines = [f'<Request xmlns="{CORE}" ReturnPolicyIdList="{lists}" CombinedDecision="{combined}">']
    for category in request.categories:
        lines += (f"  {line}" for line in show_category(category))
    if request.references:
        lines.append("  <MultiRequests>")
        for reference in request.references:
            named = "".join(f"<AttributesReference ReferenceId={quoteattr(one)}/>" for one in reference)
            lines.append(f"    <RequestReference>{named}</RequestReference>")
        lines.append("  </MultiRequests>")
    return "\n".join([*lines, "</Request>", ""])


def test_a_request_is_the_same_written_and_read_again() -> None:
    asked = read_request(ASKS.encode())
    again = read_request(show_request(asked).encode())
    assert _comparable(again) == _comparable(asked)
    subject, resource = asked.categories
    assert subject.id == "s"
    assert subject.attributes[0] == RequestAttribute("age", (LiteralValue(INTEGER, 42),), "hr", include=True)
    assert subject.attributes[1].values == (LiteralValue("urn:other:type", "as it <is>"),)
    assert resource.content is not None
    assert (asked.returns_policies, asked.is_combined, asked.references) == (True, False, (("s",),))


def _comparable(asked: XacmlRequest) -> object:
    return [
        (one.name, one.attributes, None if one.content is None else one.content.data, one.id)
        for one in asked.categories
    ], asked.references


def test_content_is_a_document_of_its_own_with_the_prefixes_around_it() -> None:
    asked = read_request(ASKS.encode())
    context = Context(asked.categories, NOW)
    prefixes = (("m", "urn:m"), ("b", "urn:b"), ("c", "urn:c"))
    for path, count in (
        ("/m:r/m:a", 1),
        ("/m:r/b:b/@c:d", 1),
        ("/m:r[@k='\"1&']", 1),
        ("//m:a[. = 'x < y']", 1),
        ("//a", 0),
    ):
        assert len(context.select(RESOURCE, path, prefixes, None)) == count, path


def test_xml_is_the_same_written_and_read_again() -> None:
    root = read_xml(ASKS.encode(), 10**6, 10**6)
    written = show_xml(root)
    assert show_xml(read_xml(written.encode(), 10**6, 10**6)) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'<Request xmlns="{CORE}"><Attributes/></Request>', "has no `Category`"),
        (f'<Request xmlns="{CORE}"><Subject/></Request>', "does not belong"),
        (f'<Request xmlns="{CORE}" CombinedDecision="perhaps"/>', "not true or false"),
        (
            f'<Request xmlns="{CORE}"><Attributes Category="c"><Attribute AttributeId="a"><AttributeValue '
            f'DataType="{INTEGER}">x</AttributeValue></Attribute></Attributes></Request>',
            "is not a value of type integer",
        ),
        (
            f'<Request xmlns="{CORE}"><Attributes Category="c"><Attribute AttributeId="a"/></Attributes></Request>',
            "at least one value",
        ),
    ],
)
def test_requests_that_are_none(text: str, said: str) -> None:
    with pytest.raises(XacmlError, match=said):
        read_request(text.encode())


# --- JSON


def test_a_request_in_json() -> None:
    asked = read_request_json(
        json.dumps(
            {
                "Request": {
                    "ReturnPolicyIdList": True,
                    "AccessSubject": {
                        "Attribute": [
                            {"AttributeId": "id", "Value": "Andreas"},
                            {"AttributeId": "age", "Value": 42, "IncludeInResult": True, "Issuer": "hr"},
                            {"AttributeId": "born", "Value": "1980-01-01", "DataType": "date"},
                            {"AttributeId": "sizes", "Value": [1, 2.5]},
                            {"AttributeId": "ok", "Value": [True, False]},
                            {"AttributeId": "big", "Value": "INF", "DataType": SHORT_TYPES["double"]},
                        ]
                    },
                    "Category": [
                        {"CategoryId": "Action", "Attribute": [{"AttributeId": "id", "Value": "read"}]},
                        {"CategoryId": "urn:mine", "Id": "m", "Content": "PGEvPg=="},
                    ],
                    "Resource": {
                        "Content": "<a/>",
                        "Attribute": [
                            {
                                "AttributeId": "p",
                                "DataType": "xpathExpression",
                                "Value": {
                                    "XPathCategory": "Resource",
                                    "XPath": "//m:a",
                                    "Namespaces": [{"Prefix": "m", "Namespace": "urn:m"}],
                                },
                            }
                        ],
                    },
                    "MultiRequests": {"RequestReference": [{"ReferenceId": ["m"]}]},
                }
            }
        ).encode()
    )
    subject, action, mine, resource = asked.categories
    types = {one.id: one.values[0].type for one in subject.attributes}
    assert types == {
        name: SHORT_TYPES[short]
        for name, short in (
            ("id", "string"),
            ("age", "integer"),
            ("born", "date"),
            ("sizes", "double"),
            ("ok", "boolean"),
            ("big", "double"),
        )
    }
    assert subject.attributes[1].include
    assert subject.attributes[1].issuer == "hr"
    assert [one.value for one in subject.attributes[3].values] == [1.0, 2.5]
    assert action.name == ACTION
    assert mine.content is not None
    assert mine.content.data == b"<a/>"
    assert resource.attributes[0].values[0].value == XPathExpression("//m:a", RESOURCE, (("m", "urn:m"),))
    assert asked.references == (("m",),)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"Request": []},
        {"Request": {"Subject": {}}},
        {"Request": {"Action": {"Attribute": [{"Value": 1}]}}},
        {"Request": {"Action": {"Attribute": [{"AttributeId": "a", "Value": [1, "x"]}]}}},
        {"Request": {"Action": {"Attribute": [{"AttributeId": "a", "Value": "x", "DataType": "integer"}]}}},
        {"Request": {"Action": {"Attribute": [{"AttributeId": "a", "Value": {"x": 1}, "DataType": "string"}]}}},
        {"Request": {"Action": {"Attribute": [{"AttributeId": "a", "Value": None}]}}},
        {"Request": {"Category": [{"Attribute": []}]}},
        {"Request": {"Resource": {"Content": "no XML"}}},
        {"Request": {"CombinedDecision": "yes"}},
        {"Request": {"XPathVersion": "http://www.w3.org/TR/2007/REC-xpath20-20070123"}},
    ],
)
def test_json_that_is_no_request(asked: object) -> None:
    with pytest.raises(XacmlError):
        read_request_json(json.dumps(asked).encode())


OBLIGING = from_plain(
    {
        "policy": "p",
        "attributes": {"subject.age": {"type": "integer", "required": True}},
        "rules": [
            {
                "permit": {"subject.age": 42},
                "obligations": [{"id": "o", "set": {"age": {"attribute": "subject.age"}, "pi": 3.5, "t": "<&>"}}],
                "advice": [{"id": "a"}],
            }
        ],
    }
)


def _response(age: int | None) -> tuple[str, str]:
    attributes = (RequestAttribute("age", (LiteralValue(INTEGER, age),), include=True),) if age is not None else ()
    response = Pdp([OBLIGING]).decide(XacmlRequest((RequestCategory(SUBJECT, attributes),), returns_policies=True), NOW)
    assert read_response(show_response(response).encode()) == response
    return show_response(response), show_response_json(response)


def test_a_response_in_both_forms() -> None:
    _, shown = _response(42)
    (result,) = json.loads(shown)["Response"]
    assert result["Decision"] == "Permit"
    assert result["AssociatedAdvice"] == [{"Id": "a"}]
    assert [one["Value"] for one in result["Obligations"][0]["AttributeAssignment"]] == [42, 3.5, "<&>"]
    assert result["Category"][0]["Attribute"] == [{"AttributeId": "age", "DataType": INTEGER, "Value": 42}]
    assert result["PolicyIdentifierList"] == {"PolicyIdReference": [{"Id": "p", "Version": "1.0"}]}


def test_a_response_without_a_decision_says_what_is_missing() -> None:
    shown, plain = _response(None)
    assert f'<MissingAttributeDetail Category="{SUBJECT}" AttributeId="age" DataType="{INTEGER}"/>' in shown
    (result,) = json.loads(plain)["Response"]
    assert result["Status"]["StatusCode"]["Value"].endswith(":missing-attribute")
    assert 'AttributeId="age"' in result["Status"]["StatusDetail"]


def test_every_type_goes_through_xml_as_it_is() -> None:
    values = {
        "double": "-INF",
        "time": "10:00:00+01:00",
        "x500Name": "cn=a, c=b",
        "base64Binary": "AAE=",
        "string": " a\r\nb ",
    }
    category = RequestCategory(
        SUBJECT,
        tuple(
            RequestAttribute(name, (LiteralValue(SHORT_TYPES[name], _value(name, text)),), include=True)
            for name, text in values.items()
        ),
    )
    again = read_request(show_request(XacmlRequest((category,))).encode())
    assert again.categories == (category,)


def _value(name: str, text: str) -> object:
    from penstock.policy.xacml.values.values import read_value

    return read_value(SHORT_TYPES[name], text)


# --- versions


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3", "1.*.3"),
        ("1.2.3", "1.2.*"),
        ("1.2.3", "1.+"),
        ("1.2", "01.2"),
        ("1", "+"),
    ],
)
def test_versions_that_a_pattern_asks_for(version: str, wanted: str) -> None:
    assert is_wanted(version, check_pattern(wanted), None, None)


@pytest.mark.parametrize(
    ("version", "wanted"), [("1.2.3", "1.2"), ("1.2", "1.2.3"), ("1.2", "2.*"), ("1", "1.+"), ("1.2.3", "*")]
)
def test_versions_that_it_does_not_ask_for(version: str, wanted: str) -> None:
    assert not is_wanted(version, check_pattern(wanted), None, None)


@pytest.mark.parametrize(
    ("version", "earliest", "latest", "expected"),
    [
        ("1.2", "1.1", None, True),
        ("1.2", "1.3", None, False),
        ("1.10", "1.9", None, True),
        ("1.2", None, "1.2", True),
        ("1.2.1", None, "1.2", False),
        ("1.2.1", None, "1.+", True),
        ("2.0", None, "1.+", False),
        ("1", "1.0", None, False),
    ],
)
def test_earliest_and_latest_versions(version: str, earliest: str | None, latest: str | None, expected: bool) -> None:
    assert is_wanted(version, None, earliest, latest) is expected


@pytest.mark.parametrize("text", ["", "1.", "a", "1.+.2", "-1", "1" * 20, "1." * 30 + "1"])
def test_what_is_no_pattern_of_versions(text: str) -> None:
    with pytest.raises(XacmlError):
        check_pattern(text)


def test_a_request_from_plain_values_has_its_categories() -> None:
    assert {one.name for one in request({"subject.id": "a", "action.id": "b"}).categories} == {SUBJECT, ACTION}
    assert STRING.endswith("#string")
