"""Quality needs in XPath: one document for all who ask of an event, as if it was written; and one bound for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.language.errors import Failure, FailureKind
from penstock.language.limits import MAX_EVENT_WORK, MAX_WORK
from penstock.model.content.content import Content, ContentReader, Format
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, MetricKey, MetricValue, Quality, moment
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract
from penstock.policy.contracts.degrade import Keep, Step
from penstock.policy.contracts.release import Releaser
from penstock.policy.quality.carriage import write_quality
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.quality.document import document_of
from penstock.policy.quality.needs import XPathNeed, why_not

PRECISION = Quality([MetricValue(MetricKey("10", "10.1", "10.1"), 47.5, moment(0), moment(5))])
LARGE = b"<a>" + b"<b><c>1</c></b>" * 20_000 + b"</a>"

EXPRESSIONS = """\
//b
//b[.='x']
//text()[.='xy']
//a/text()[2]
//qocindicator
//qocindicator[2]
//*[local-name()='qocindicator']
/*/*[last()][self::qocindicator]
//qocmetricvalue[@value > 40]
//qocmetricvalue[@value='47.5']
//@creationdate
//@modificationdate
/
/a
/a/..
//b | /
count(//b) > 1
not(//b)
count(//b)
string(//b)
//b[
""".splitlines()
"""Of each type, and one that is none; all of them cheap: how large the document is, is estimated."""

names = st.sampled_from(["a", "b", "n:b", "qocindicator", "n:qocindicator"])
texts = st.sampled_from(["", "x", "y", "xy", "<!-- -->", "<![CDATA[x]]>", "<?p q?>", "&lt;"])


def _element(name: str, inside: list[str], text: str, tail: str) -> str:
    return f"<{name} id='1'>{text}{''.join(inside)}</{name}>{tail}"


elements = st.recursive(
    st.builds(lambda name, tail: f"<{name}/>{tail}", names, texts),
    lambda inside: st.builds(_element, names, st.lists(inside, max_size=3), texts, texts),
    max_leaves=6,
)
roots = st.sampled_from(["<a{}>", "<a xmlns='urn:d'{}>", "<a>", "<qocindicator{}>"])


def _document(root: str, inside: list[str]) -> bytes:
    begin = root.format(" xmlns:n='urn:n'")
    name = begin[1:].split(">")[0].split(" ")[0]
    text = f"{begin}{''.join(inside)}</{name}>"
    return (text if "xmlns:n" in begin else text.replace("n:", "")).encode()


qualities = st.lists(
    st.builds(
        MetricValue,
        st.builds(MetricKey, st.just("10"), st.just("10.1"), st.sampled_from(["1", "2"])),
        st.sampled_from([47.5, 1e-9, -3.0, 1e20]),
        st.just(moment(0)),
        st.none() | st.just(moment(5)),
    ),
    max_size=2,
    unique_by=lambda one: one.key,
).map(Quality)


@given(st.builds(_document, roots, st.lists(elements, max_size=4)), qualities)
def test_the_document_is_as_if_it_was_written_and_read(payload: bytes, quality: Quality) -> None:
    for expression in EXPRESSIONS:
        try:
            found = Content(write_quality(Content(payload, Format.XML), quality), Format.XML).xpath(expression)
        except ContentError:
            found = False
        says = document_of(Content(payload, Format.XML), quality).why_not(expression)
        assert (says == "") is (found is True or (isinstance(found, list) and bool(found))), expression


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("<a><b/></a>".encode("utf-16"), id="UTF-16"),
        pytest.param(b"<?xml version='1.0' encoding='iso-8859-1'?><a><b/></a>", id="Latin 1"),
        pytest.param(b"<qocindicator><b/></qocindicator>", id="nothing but an indicator"),
        pytest.param(b"<a><b/>", id="damaged"),
        pytest.param(b"<!DOCTYPE a><a><b/></a>", id="a document type"),
    ],
)
def test_what_cannot_be_given_quality_satisfies_nothing(payload: bytes) -> None:
    with pytest.raises(ContentError) as raised:
        write_quality(Content(payload, Format.XML), PRECISION)
    assert why_not([XPathNeed("//b")], PRECISION, Content(payload, Format.XML)) == (
        f"`//b` has no value: {raised.value}",
    )


def test_all_who_ask_of_an_event_ask_one_document_and_what_was_asked_before_costs_nothing() -> None:
    content = Content(b"<a><b/></a>")
    assert document_of(content, PRECISION) is document_of(content, Quality(PRECISION))
    assert document_of(content, PRECISION) is not document_of(content, NO_QUALITY)
    needs = [XPathNeed("//b"), XPathNeed("//qocindicator")]
    assert why_not(needs, PRECISION, content) == ()
    spent = content.spent
    assert spent > 0
    assert why_not(needs * 30, PRECISION, content) == ()
    assert content.spent == spent
    assert content.xpath("count(//qocindicator)") == 0.0, "what conditions look at is as it was"


def test_all_needs_of_an_event_together_have_a_bound() -> None:
    content = Content(LARGE, Format.XML)
    needs = [XPathNeed(f"//b[{n}]") for n in range(1, 200)]
    reasons = [why_not([one], NO_QUALITY, content) for one in needs]
    assert reasons[:20] == [()] * 20, "what is within it is asked"
    assert all("takes more than 5000000 steps" in reason for (reason,) in reasons[-100:])
    assert content.spent <= MAX_EVENT_WORK + MAX_WORK
    assert why_not(needs[:20], NO_QUALITY, content) == (), "what was found is known"


def test_needs_and_conditions_have_one_bound() -> None:
    content = Content(LARGE, Format.XML)
    why_not([XPathNeed(f"//b[{n}]") for n in range(1, 64)], NO_QUALITY, content)
    outcome = make_condition("xpath('count(//b) > 1')").holds(content)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.TOO_COSTLY


def test_what_is_left_of_an_event_counts_to_the_same_bound() -> None:
    content = Content(LARGE, Format.XML)
    views = [content.changed(LARGE.replace(b"1", b"%d" % n, 1)) for n in range(3)]
    for view in views:
        why_not([XPathNeed(f"//b[{n}]") for n in range(1, 64)], NO_QUALITY, view)
    assert {content.spent} == {view.spent for view in views}
    assert content.spent <= MAX_EVENT_WORK + MAX_WORK
    (reason,) = why_not([XPathNeed("//c")], NO_QUALITY, views[-1])
    assert "takes more than" in reason


def test_expressions_that_are_refused_take_nothing_from_the_others() -> None:
    content = Content(LARGE, Format.XML)
    for n in range(100):
        (reason,) = why_not([XPathNeed(f"//*[count(//*) > {n}]")], NO_QUALITY, content)
        assert "too long" in reason
    assert why_not([XPathNeed("//b")], NO_QUALITY, content) == ()


def test_each_consumer_s_needs_are_asked_of_what_it_is_shown() -> None:
    rules = (
        PrivacyRule("near", purposes=frozenset({"near"}), degrade=(Step("a.t", 10.0),)),
        PrivacyRule("far", purposes=frozenset({"far"}), degrade=(Keep(("a.u",)),)),
    )
    producer = ProducerContract("p", frozenset({"*"}), "#", rules=rules)
    content = Content(b"<a><t>31</t><u>7</u></a>", Format.XML)
    found = {}
    for purpose in ("near", "far"):
        for expression in ("//t[.=31]", "//t[.=35]", "//t", "//u"):
            want = ContextWant("w", "#", needs=(XPathNeed(expression),))
            consumer = ConsumerContract("c", frozenset({"*"}), (want,), purposes=frozenset({purpose}))
            releaser = Releaser(producer, consumer, want, make_catalogue([]), ())
            found[purpose, expression] = releaser.decide(content, NO_QUALITY, (), 100.0).is_released
    assert [expression for (purpose, expression), holds in found.items() if holds and purpose == "near"] == [
        *("//t[.=35]", "//t", "//u")
    ]
    assert [expression for (purpose, expression), holds in found.items() if holds and purpose == "far"] == ["//u"]


def test_views_of_an_event_count_together_and_leave_its_content_known() -> None:
    reader = ContentReader()
    event = Event("t", b"<a><b/></a>")
    content = reader.read(event)
    same = reader.view(event._replace(qos=1), event)
    other = reader.view(event._replace(payload=b"<a/>"), event)
    assert same is content
    assert other.attributes == {"a": ""}
    other.spent += 7
    assert content.spent == 7
    assert reader.read(event) is content
