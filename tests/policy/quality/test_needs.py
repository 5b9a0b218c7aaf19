"""Quality constraints: Listings 1 and 3, and that every form of a constraint means the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.language.printer import show
from penstock.language.tree import XPath
from penstock.model.content.content import Content, Format
from penstock.model.errors import PolicyError
from penstock.model.quality import NO_QUALITY, Catalogue, MetricKey, MetricValue, Quality, moment
from penstock.policy.contracts.text_form import read_indicator
from penstock.policy.quality.carriage import write_quality
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.quality.needs import (
    Need,
    XPathNeed,
    excludes,
    implies,
    parse_constraint,
    parse_constraints,
    range_of,
    why_not,
)

KEY = MetricKey("10", "10.1", "10.1")
CATALOGUE: Catalogue = make_catalogue(
    [
        read_indicator("10", {"criterion": "10.1", "definitions": {"10.1": {}}}),
        read_indicator("20", {"criterion": "20.1", "definitions": {"a": {}, "b": {}}}),
        read_indicator("age", {"better": "lower", "range": [0, None], "levels": {"old": 600, "new": 10}}),
    ]
)

# Listing 1 and Listing 3, with the brackets that end them, which the print of the paper has lost.
LISTING_1 = """//observable[uri='#pollution' and
    entity[uri='paris://henri_martin_avenue./sensors/45/']]"""
LISTING_3_CRITERION = """//qocindicator[@id='10'
  and qocriterion[@id='10.1']/
  qocmetricdefinition[@id='10.1']]"""
LISTING_3_VALUE = """//qocindicator[@id='10' and
  qocriterion[@id='10.1']/
  qocmetricdefinition[@id='10.1']
  and qocmetricvalue[@value>='40']]"""
OBSERVABLE = (
    b"<observation><observable><uri>#pollution</uri><entity><uri>paris://henri_martin_avenue./sensors/45/</uri></entity>"
    b"</observable></observation>"
)


def as_xpath(need: Need) -> str:
    """The same need in XPath over XML, as in Listing 3."""
    value = f" and qocmetricvalue[@value{need.relation}'{need.bound:.4f}']" if need.relation else ""
    indicator, criterion, definition = need.key
    inside = f"qocriterion[@id='{criterion}']/qocmetricdefinition[@id='{definition}']"
    return f"//qocindicator[@id='{indicator}' and {inside}{value}]"


def as_condition(need: Need | XPathNeed, format: Format) -> str:
    """The same need as a condition on content that carries its quality."""
    if isinstance(need, XPathNeed) or format is Format.XML:
        return f"size({show(XPath(need.expression if isinstance(need, XPathNeed) else as_xpath(need)))}) > 0"
    ids = " && ".join(f"q.{name} == '{id}'" for name, id in need.key._asdict().items())
    value = f" && q.value {need.relation} {need.bound:.4f}" if need.relation else ""
    return f"qoc.exists(q, {ids}{value})"


def quality(*pairs: tuple[MetricKey, float]) -> Quality:
    return Quality(MetricValue(key, value, moment(0)) for key, value in pairs)


@pytest.mark.parametrize(
    ("listing", "given", "holds"),
    [
        pytest.param(LISTING_3_CRITERION, quality((KEY, 3)), True, id="the criterion is there"),
        pytest.param(LISTING_3_CRITERION, NO_QUALITY, False, id="no criterion"),
        pytest.param(
            LISTING_3_CRITERION, quality((MetricKey("10", "10.1", "10.2"), 50)), False, id="another definition"
        ),
        pytest.param(LISTING_3_VALUE, quality((KEY, 40)), True, id="as good as it must be"),
        pytest.param(LISTING_3_VALUE, quality((KEY, 39.75)), False, id="not as good"),
        pytest.param(LISTING_3_VALUE, quality((MetricKey("10", "10.1", "10.2"), 50)), False, id="good, but another"),
        pytest.param(LISTING_3_VALUE, NO_QUALITY, False, id="no value"),
    ],
)
def test_listing_3_as_it_stands_on_xml_and_as_we_read_it(listing: str, given: Quality, holds: bool) -> None:
    content = Content(write_quality(Content(OBSERVABLE), given))
    assert bool(content.xpath(listing)) is holds, "as it stands, by XPath alone"
    read = parse_constraint(listing, CATALOGUE)
    assert isinstance(read, Need)
    assert (not why_not([read], given)) is holds
    assert (not why_not([XPathNeed(listing)], given, Content(OBSERVABLE))) is holds
    for format, carrier in ((Format.JSON, b"{}"), (Format.XML, OBSERVABLE)):
        carried = Content(write_quality(Content(carrier), given))
        outcome = make_condition(as_condition(read, format)).holds(carried)
        assert (outcome is True) is holds


def test_listing_1_as_it_stands() -> None:
    need = parse_constraint(LISTING_1, CATALOGUE)
    assert isinstance(need, XPathNeed)
    assert why_not([need], NO_QUALITY, Content(OBSERVABLE)) == ()
    (reason,) = why_not([need], NO_QUALITY, Content(OBSERVABLE.replace(b"45", b"46")))
    assert "finds nothing" in reason
    assert make_condition(as_condition(need, Format.XML)).holds(Content(OBSERVABLE)) is True


def test_xpath_with_any_quotes_and_lines_can_stand_in_a_condition() -> None:
    need = XPathNeed("//b[contains(., '\\') or\n . = \"it's\"]")
    assert make_condition(as_condition(need, Format.XML)).holds(Content(b"<a><b>it's</b></a>")) is True


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("10/10.1/10.1", Need(KEY), id="a criterion"),
        pytest.param("10", Need(KEY), id="an indicator with one metric"),
        pytest.param("10/10.1", Need(KEY), id="a criterion with one metric"),
        pytest.param("10/10.1/10.1 >= 40", Need(KEY, ">=", 40), id="a value"),
        pytest.param(" 10<-1.5 ", Need(KEY, "<", -1.5), id="blanks or none"),
        pytest.param("1/2/3 > 4", Need(MetricKey("1", "2", "3"), ">", 4), id="a metric that nobody defines"),
        pytest.param("precision >= high", Need(MetricKey(*["precision"] * 3), ">=", 80), id="a level"),
        pytest.param("age >= new", Need(MetricKey(*["age"] * 3), "<=", 10), id="a level where lower is better"),
        pytest.param({"indicator": "10"}, Need(KEY), id="a mapping"),
        pytest.param({"indicator": 10, "at_least": 40}, Need(KEY, ">=", 40), id="a mapping with a bound"),
        pytest.param(
            {"indicator": "age", "level": "new"}, Need(MetricKey(*["age"] * 3), "<=", 10), id="a mapping, a level"
        ),
        pytest.param({"xpath": LISTING_3_VALUE}, Need(KEY, ">=", 40), id="Listing 3 in a mapping"),
        pytest.param("//qocindicator", XPathNeed("//qocindicator"), id="other XPath"),
    ],
)
def test_constraints_as_they_are_written(said: object, expected: object) -> None:
    assert parse_constraint(said, CATALOGUE) == expected


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param("", "not a quality constraint", id="nothing"),
        pytest.param("10 = 40", "not a quality constraint", id="equality"),
        pytest.param("10 >= ", "not a quality constraint", id="no bound"),
        pytest.param("a b", "not a quality constraint", id="two words"),
        pytest.param(7, "not a quality constraint", id="a number"),
        pytest.param("11", "no quality indicator", id="an unknown indicator"),
        pytest.param("20", "2 metrics", id="a choice of metrics"),
        pytest.param("20/20.1", "2 metrics", id="a choice of metrics by criterion"),
        pytest.param("10 >= best", "no level", id="an unknown level"),
        pytest.param("10 >= 1e400", "no level", id="a number with an exponent"),
        pytest.param("1/2/3 >= high", "no quality metric", id="a level of a metric that nobody defines"),
        pytest.param("1'/2/3", "not an id", id="a quote"),
        pytest.param("//[", "XPath", id="no XPath"),
        pytest.param("//" + "a" * 1000, "at most 1000", id="long XPath"),
        pytest.param("//a[foo()]", "not a function", id="a function that is none"),
        pytest.param({"indicator": "10", "at_least": 1, "at_most": 2}, "one of", id="two bounds"),
        pytest.param({"at_least": 1}, "names an `indicator`", id="a bound of nothing"),
        pytest.param({"indicator": "10", "definition": "10.1"}, "criterion", id="a definition of no criterion"),
        pytest.param({"indicator": "10", "colour": 1}, "unknown key `colour`", id="an unknown key"),
        pytest.param({"xpath": "//a", "indicator": "10"}, "no other keys", id="XPath and more"),
    ],
)
def test_what_is_no_constraint_says_so(said: object, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        parse_constraint(said, CATALOGUE)


WORDS = {">=": "at_least", "<=": "at_most", ">": "above", "<": "below"}
quarters = st.integers(-400, 400).map(lambda n: n / 4)
needs = st.builds(Need, st.just(KEY), st.sampled_from([None, ">=", "<=", ">", "<"]), quarters)


@given(needs, st.none() | quarters, st.booleans())
def test_a_constraint_means_the_same_in_every_form(need: Need, value: float | None, is_other_there: bool) -> None:
    others = [(MetricKey("20", "20.1", "a"), 5.0)] if is_other_there else []
    given = quality(*others, *([] if value is None else [(KEY, value)]))
    holds = not why_not([need], given)
    written = {**KEY._asdict(), **({} if need.relation is None else {WORDS[need.relation]: need.bound})}
    assert parse_constraint(str(need), CATALOGUE) == parse_constraint(written, CATALOGUE)
    assert (why_not([parse_constraint(str(need), CATALOGUE)], given) == ()) is holds
    assert (why_not([parse_constraint(as_xpath(need), CATALOGUE)], given) == ()) is holds
    in_xml, in_json = (Content(write_quality(Content(carrier), given)) for carrier in (OBSERVABLE, b"{}"))
    assert bool(in_xml.xpath(as_xpath(need))) is holds
    assert (make_condition(as_condition(need, Format.XML)).holds(in_xml) is True) is holds
    assert (make_condition(as_condition(need, Format.JSON)).holds(in_json) is True) is holds


@given(st.lists(needs, min_size=1, max_size=3), needs, quarters)
def test_what_constraints_say_of_each_other_is_true_of_values(given: list[Need], wanted: Need, value: float) -> None:
    event = quality((KEY, value))
    if not why_not(given, event):
        assert not implies(given, wanted) or not why_not([wanted], event)
        assert not excludes(given, wanted) or why_not([wanted], event)
    left = range_of(given, KEY)
    assert left is not None
    if left.is_empty:
        assert why_not(given, event)
        assert not implies(given, wanted)


def test_reasons() -> None:
    given = quality((KEY, 35))
    constraints = parse_constraints(["10 >= 40", "precision", "//nothing"], CATALOGUE)
    assert why_not(constraints, given) == (
        "its quality `10/10.1/10.1` is 35, not >= 40",
        "it has no quality `precision/precision/precision`",
        "`//nothing` finds nothing",
    )


def test_xpath_that_would_take_too_long_is_not_satisfied_and_says_so() -> None:
    payload = b"<a>" + b"<b/>" * 3000 + b"</a>"
    (reason,) = why_not([XPathNeed("//*[count(//*) > 1]")], NO_QUALITY, Content(payload))
    assert "too long" in reason


def test_all_xpath_that_is_asked_of_an_event_shares_one_document_and_one_bound() -> None:
    content = Content(b"<a>" + b"<b><c>1</c></b>" * 2_000 + b"</a>")
    good, other = quality((KEY, 50)), quality((KEY, 60))
    needs = [XPathNeed(f"//b[{n}]") for n in range(1, 65)]
    assert why_not(needs, good, content) == ()
    before = content.spent
    assert (why_not(needs, good, content), content.spent) == ((), before), "what was found for somebody is for all"
    assert why_not([XPathNeed("//b[65]")], good, content) == ()
    assert content.spent - before < before / 16, "the document is there"
    before = content.spent
    assert why_not(needs[:1], other, content.changed(content.payload)) == ()
    assert content.spent > before, "what is made of it counts as well"
    asked = (XPathNeed(f"//b[c = {n}]") for n in range(10_000))
    reasons = (reason for one in asked for reason in why_not([one], good, content))
    assert any("what is asked of this event takes more than 5000000 steps" in one for one in reasons)
    assert why_not([Need(KEY, ">=", 40)], good, content) == (), "other needs are not concerned"


def test_content_that_cannot_be_given_quality_satisfies_no_xpath() -> None:
    content = Content("<a/>".encode("utf-16"))
    (reason,) = why_not([XPathNeed("//a")], NO_QUALITY, content)
    assert "UTF-8" in reason
