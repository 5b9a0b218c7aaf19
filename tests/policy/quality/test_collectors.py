"""The library's formulas, and collectors that use them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.content.content import Content, Format
from penstock.model.errors import PolicyError
from penstock.model.quality import (
    Criterion,
    Direction,
    Indicator,
    MetricDefinition,
    MetricKey,
    MetricValue,
    Quality,
    moment,
)
from penstock.policy.contracts.text_form import read_collector, read_indicator
from penstock.policy.quality.collectors import ArgumentSource, collect
from penstock.policy.quality.criteria import FORMULAS, LIBRARY, make_catalogue

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("formula", "arguments", "expected"),
    [
        pytest.param("freshness", {"now": moment(90), "measured": moment(30)}, 60.0, id="an age"),
        pytest.param("freshness", {"now": moment(30), "measured": moment(30.5)}, 0.0, id="a clock a little ahead"),
        pytest.param(
            "up-to-dateness",
            {"now": moment(90), "measured": moment(30), "lifetime": 240},
            75.0,
            id="three quarters left",
        ),
        pytest.param(
            "up-to-dateness", {"now": moment(90), "measured": moment(30), "lifetime": 60}, 0.0, id="just over"
        ),
        pytest.param("up-to-dateness", {"now": moment(90), "measured": moment(0), "lifetime": 60}, 0.0, id="long over"),
        pytest.param("precision", {"spread": 0.5, "span": 50}, 99.0, id="a spread of a hundredth"),
        pytest.param("precision", {"spread": 80, "span": 50}, 0.0, id="a spread beyond the span"),
        pytest.param("accuracy", {"error": -5, "span": 50}, 90.0, id="an error below"),
        pytest.param(
            "completeness",
            {"present": {"a": True, "b": False}, "weights": {"a": 3, "b": 1, "c": 0}},
            75.0,
            id="three quarters of the weights",
        ),
        pytest.param("resolution", {"step": 0.1}, 0.1, id="a step"),
        pytest.param("trustworthiness", {"distance": 25, "reach": 100, "accuracy": 80}, 60.0, id="near and accurate"),
        pytest.param("trustworthiness", {"distance": 100, "reach": 100}, 0.0, id="at the end of its reach"),
        pytest.param("value", {"value": 42}, 42.0, id="as it is"),
    ],
)
def test_formulas(formula: str, arguments: dict[str, Any], expected: float) -> None:
    assert FORMULAS[formula](**arguments) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("formula", "arguments", "says"),
    [
        pytest.param("freshness", {"now": moment(0), "measured": moment(9)}, "in the future", id="from the future"),
        pytest.param(
            "up-to-dateness", {"now": moment(0), "measured": moment(9), "lifetime": 60}, "future", id="up to tomorrow"
        ),
        pytest.param("precision", {"spread": 1, "span": 0}, "not above 0", id="no span"),
        pytest.param("precision", {"spread": -1, "span": 1}, "below 0", id="a spread below 0"),
        pytest.param("precision", {"spread": float("nan"), "span": 1}, "not a number", id="not a number"),
        pytest.param("accuracy", {"error": "x", "span": 1}, "not a number", id="a text"),
        pytest.param("accuracy", {"error": True, "span": 1}, "not a number", id="a truth value"),
        pytest.param("completeness", {"present": {}, "weights": {"a": 0}}, "not above 0", id="no weight"),
        pytest.param("completeness", {"present": {}, "weights": {"a": -1}}, "below 0", id="a weight below 0"),
        pytest.param("trustworthiness", {"distance": 1, "reach": 0}, "not above 0", id="no reach"),
    ],
)
def test_what_has_no_value_says_why(formula: str, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        FORMULAS[formula](**arguments)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(1e-6, 1e9))
def test_worse_conditions_never_give_better_quality(less: float, more: float, whole: float) -> None:
    less, more = sorted((less, more))
    for formula, name, rest in (
        ("precision", "spread", {"span": whole}),
        ("accuracy", "error", {"span": whole}),
        ("trustworthiness", "distance", {"reach": whole}),
    ):
        better, worse = (FORMULAS[formula](**{name: amount, **rest}) for amount in (less, more))
        assert 0 <= worse <= better <= 100
    newer, older = (
        FORMULAS["up-to-dateness"](now=moment(1e9), measured=moment(1e9 - age), lifetime=whole) for age in (less, more)
    )
    assert 0 <= older <= newer <= 100


SENSOR = {"span": 100.0, "lifetime": "10m", "spread": 2, "reach": 50}


@pytest.mark.parametrize(
    ("said", "payload", "expected", "sources"),
    [
        pytest.param({"indicator": "precision"}, b"{}", 98.0, {ArgumentSource.DECLARED}, id="declared of the sensor"),
        pytest.param(
            {"indicator": "precision", "spread": "hdop * 5.0"},
            b'{"hdop": 1.5}',
            92.5,
            {ArgumentSource.PAYLOAD, ArgumentSource.DECLARED},
            id="from the payload, with the sensor's span",
        ),
        pytest.param(
            {"indicator": "freshness", "measured": "timestamp(at)"},
            b'{"at": "1970-01-12T13:46:00Z"}',
            40.0,
            {ArgumentSource.PAYLOAD, ArgumentSource.CLOCK},
            id="from the clock and a time as text",
        ),
        pytest.param(
            {"indicator": "freshness", "measured": "at"}, b'{"at": 999940}', 60.0,
            {ArgumentSource.PAYLOAD, ArgumentSource.CLOCK}, id="from the clock and a time in seconds",
        ),
        pytest.param(
            {"indicator": "up-to-dateness", "measured": "at"}, b'{"at": 999700}', 50.0,
            {ArgumentSource.PAYLOAD, ArgumentSource.CLOCK, ArgumentSource.DECLARED}, id="a lifetime of the sensor",
        ),
        pytest.param(
            {"indicator": "up-to-dateness", "measured": "at", "lifetime": "20m"}, b'{"at": 999700}', 75.0,
            {ArgumentSource.PAYLOAD, ArgumentSource.CLOCK, ArgumentSource.DECLARED}, id="a lifetime of its own",
        ),
        pytest.param(
            {"indicator": "completeness", "weights": {"lat": 2, "gps.lon": 2, "alt": 1, "no": 5}},
            b'{"lat": 1, "gps": {"lon": 2}, "alt": null}', 40.0,
            {ArgumentSource.PAYLOAD}, id="attributes that are there",
        ),
        pytest.param(
            {"indicator": "precision", "formula": "value", "value": "xpath('number(//p)')"}, b"<a><p>7</p></a>", 7.0,
            {ArgumentSource.PAYLOAD}, id="from XML by XPath",
        ),
    ],
)  # fmt: skip
def test_collectors(said: dict[str, object], payload: bytes, expected: float, sources: set[ArgumentSource]) -> None:
    collector = read_collector(said, LIBRARY, SENSOR)
    collected = collect([collector], LIBRARY, Content(payload), NOW)
    assert collected.missing == ()
    assert [(one.key, one.created) for one in collected.quality] == [(collector.key, moment(NOW))]
    assert [one.value for one in collected.quality] == pytest.approx([expected])
    assert collector.sources == sources


@pytest.mark.parametrize(
    ("said", "payload", "says"),
    [
        pytest.param({"indicator": "precision", "spread": "hdop"}, b"{}", "hdop", id="an attribute that is missing"),
        pytest.param({"indicator": "precision", "spread": "hdop"}, b'{"hdop": "x"}', "not a number", id="a text"),
        pytest.param({"indicator": "precision", "spread": "hdop"}, b'{"a":1,"a":2}', "two members", id="unreadable"),
        pytest.param({"indicator": "freshness", "measured": "at"}, b'{"at": "noon"}', "timestamp", id="no time"),
        pytest.param({"indicator": "freshness", "measured": "at"}, b'{"at": 2000000}', "future", id="the future"),
        pytest.param({"indicator": "freshness", "measured": "at"}, b'{"at": true}', "number", id="true for a time"),
        pytest.param({"indicator": "freshness", "measured": "at"}, b'{"at": 1e300}', "year", id="after all times"),
        pytest.param(
            {"indicator": "precision", "formula": "value", "value": "q"}, b'{"q": 101}', "not within", id="out of range"
        ),
    ],
)
def test_a_collector_that_fails_says_why_and_measures_nothing(
    said: dict[str, object], payload: bytes, says: str
) -> None:
    collected = collect([read_collector(said, LIBRARY, SENSOR)], LIBRARY, Content(payload, Format.JSON), NOW)
    assert collected.quality == ()
    ((_, reason),) = collected.missing
    assert says in reason


def test_a_producer_s_own_word_counts_only_where_no_collector_is() -> None:
    collectors = [
        read_collector({"indicator": "precision"}, LIBRARY, SENSOR),
        read_collector({"indicator": "freshness", "measured": "at"}, LIBRARY),
    ]
    claimed = {"precision": 100.0, "freshness": 0.0, "accuracy": 99.0, "completeness": 1000.0}
    carried = Quality(MetricValue(LIBRARY.key(name), value, moment(0)) for name, value in claimed.items())
    quality = collect(collectors, LIBRARY, Content(b"{}"), NOW).beside(carried, LIBRARY)
    assert {one.key.indicator: one.value for one in quality} == {"precision": 98.0, "accuracy": 99.0}


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param({"formula": "precision"}, "no `indicator`", id="of what"),
        pytest.param({"indicator": "sharpness"}, "no quality indicator", id="an unknown indicator"),
        pytest.param({"indicator": "precision", "formula": "guess"}, "no formula `guess`", id="an unknown formula"),
        pytest.param({"indicator": "precision", "colour": 1}, "takes no `colour`", id="an unknown argument"),
        pytest.param({"indicator": "precision", "spread": 1}, "needs `span`", id="an argument that is missing"),
        pytest.param({"indicator": "freshness", "measured": "at", "now": 1}, "takes no `now`", id="a clock of its own"),
        pytest.param({"indicator": "precision", "spread": "1 +", "span": 1}, "spread", id="no expression"),
        pytest.param({"indicator": "precision", "spread": [1], "span": 1}, "expected a number", id="a list"),
        pytest.param({"indicator": "completeness", "weights": 1}, "weights by attribute", id="no weights"),
        pytest.param(
            {"indicator": "precision >= 4", "spread": 1, "span": 1}, "not a quality metric", id="a constraint"
        ),
    ],
)
def test_collectors_that_are_wrong_are_not_made(said: dict[str, object], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        read_collector(said, LIBRARY)


def test_indicators_are_defined_as_the_domain_writes_them() -> None:
    said = {
        "criterion": "10.1", "like": "precision",
        "definitions": {"10.1": {"range": [1, 100], "resolution": 0.5, "levels": {"medium": 50, "high": 80}}},
    }  # fmt: skip
    metric = MetricDefinition("10.1", "%", 1.0, 100.0, Direction.HIGHER, 0.5, (("medium", 50.0), ("high", 80.0)))
    assert read_indicator("10", said) == Indicator("10", Criterion("10.1", (metric,), "precision"))
    short = read_indicator("delay", {"unit": "ms", "range": [0, None], "better": "lower"})
    assert short.keys == (MetricKey("delay", "delay", "delay"),)
    assert make_catalogue([short]).kind(short.keys[0]) == "delay"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param({"better": "bigger"}, "`higher` or `lower`", id="a direction that is none"),
        pytest.param({"range": [1]}, "two numbers", id="half a range"),
        pytest.param({"colour": 1}, "unknown key `colour`", id="an unknown key"),
        pytest.param({"like": "freshness"}, "not measured like `freshness`", id="an age of which more is better"),
        pytest.param({"like": "precision", "range": [0, 1000]}, "not measured like", id="a precision beyond percent"),
    ],
)
def test_indicators_that_are_wrong_are_refused(said: dict[str, object], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        make_catalogue([read_indicator("x", said)])
