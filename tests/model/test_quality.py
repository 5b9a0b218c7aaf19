import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.model.quality import (
    MAX_VALUES,
    Catalogue,
    Criterion,
    Direction,
    Indicator,
    MetricDefinition,
    MetricKey,
    MetricValue,
    Quality,
    moment,
)
from penstock.model.values import Timestamp
from tests.support.generators.quality import qualities, values

PERCENT = MetricDefinition("10.1", levels=(("low", 0.0), ("medium", 50.0), ("high", 80.0)))
AGE = MetricDefinition("age", "s", 0.0, math.inf, Direction.LOWER, levels=(("old", 600.0), ("new", 10.0)))
PRECISION = Indicator("10", Criterion("10.1", (PERCENT,)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(lambda: MetricDefinition("a b"), "not an id", id="a blank in an id"),
        pytest.param(lambda: MetricDefinition("a'"), "not an id", id="a quote in an id"),
        pytest.param(lambda: MetricDefinition(""), "not an id", id="no id"),
        pytest.param(lambda: MetricDefinition("a" * 81), "not an id", id="a long id"),
        pytest.param(lambda: MetricDefinition("a", least=2, most=1), "not a range", id="a range the wrong way round"),
        pytest.param(lambda: MetricDefinition("a", least=math.nan), "not a range", id="a range of no numbers"),
        pytest.param(lambda: MetricDefinition("a", least=math.inf, most=math.inf), "not a range", id="infinity alone"),
        pytest.param(lambda: MetricDefinition("a", resolution=0), "resolution", id="no resolution"),
        pytest.param(lambda: MetricDefinition("a", levels=(("low", 101),)), "within", id="a level out of range"),
        pytest.param(
            lambda: MetricDefinition("a", levels=(("high", 80), ("low", 0))), "worst to the best", id="levels mixed up"
        ),
        pytest.param(
            lambda: MetricDefinition("a", direction=Direction.LOWER, levels=(("far", 1), ("near", 2))),
            "worst to the best",
            id="levels mixed up where lower is better",
        ),
        pytest.param(lambda: Criterion("a", ()), "no definition", id="a criterion without a metric"),
        pytest.param(lambda: Criterion("a", (PERCENT, PERCENT)), "two definitions", id="a metric twice"),
        pytest.param(lambda: Catalogue([PRECISION, PRECISION]), "two indicators", id="an indicator twice"),
        pytest.param(lambda: MetricValue(MetricKey("a", "b", "c"), math.nan, moment(0)), "number", id="not a number"),
        pytest.param(lambda: MetricValue(MetricKey("a", "b", "c"), True, moment(0)), "number", id="a truth value"),
        pytest.param(lambda: MetricValue(MetricKey("a", "b", ""), 1, moment(0)), "not an id", id="a key without an id"),
        pytest.param(
            lambda: MetricValue(MetricKey("a", "b", "c"), 1, Timestamp(1 << 70)), "year", id="after the year 9999"
        ),
        pytest.param(lambda: moment(math.nan), "year", id="a clock that shows nothing"),
    ],
)
def test_what_is_not_in_order_is_not_made(make: object, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("metric", "value", "bound", "reaches", "is_better"),
    [
        pytest.param(PERCENT, 80, 80, True, False, id="as good, higher is better"),
        pytest.param(PERCENT, 79.9, 80, False, False, id="worse, higher is better"),
        pytest.param(AGE, 10, 10, True, False, id="as good, lower is better"),
        pytest.param(AGE, 9, 10, True, True, id="better, lower is better"),
        pytest.param(AGE, 11, 10, False, False, id="worse, lower is better"),
    ],
)
def test_direction(metric: MetricDefinition, value: float, bound: float, reaches: bool, is_better: bool) -> None:
    assert (metric.reaches(value, bound), metric.is_better(value, bound)) == (reaches, is_better)


@given(st.floats(0, 100), st.sampled_from([0.1, 0.25, 1, 7]), st.sampled_from(Direction))
def test_rounding_to_the_resolution_never_makes_better_and_is_done_once(
    value: float, resolution: float, direction: Direction
) -> None:
    metric = MetricDefinition("a", direction=direction, resolution=resolution)
    rounded = metric.rounded(value)
    assert metric.admits(rounded)
    assert metric.rounded(rounded) == rounded
    assert not metric.is_better(rounded, value) or math.isclose(rounded, value) or rounded in (0.0, 100.0)
    assert abs(rounded - value) <= resolution * (1 + 1e-9)


def test_levels_are_found_by_name() -> None:
    assert (PERCENT.level("medium"), AGE.level("new")) == (50.0, 10.0)
    with pytest.raises(PolicyError, match="no level `best` \\(known: `low`, `medium`, `high`\\)"):
        PERCENT.level("best")


def test_a_catalogue_finds_metrics_and_says_what_it_has() -> None:
    both = Indicator("20", Criterion("20.1", (PERCENT, AGE), like="freshness"))
    catalogue = Catalogue([PRECISION]).with_([both])
    key = MetricKey("10", "10.1", "10.1")
    assert (catalogue.key("10"), catalogue.definition(key), catalogue.kind(key)) == (key, PERCENT, "10.1")
    assert catalogue.kind(MetricKey("20", "20.1", "age")) == "freshness"
    assert (catalogue.find(MetricKey("1", "1", "1")), catalogue.kind(MetricKey("1", "1", "1"))) == (None, "")
    with pytest.raises(PolicyError, match=r"2 metrics: name one, as in `20/20\.1/10\.1`"):
        catalogue.key("20")
    with pytest.raises(PolicyError, match="no quality indicator `30` \\(known: `10`, `20`\\)"):
        catalogue.key("30")
    with pytest.raises(PolicyError, match="no quality metric `1/1/1`"):
        catalogue.definition(MetricKey("1", "1", "1"))


@given(qualities, values)
def test_quality_has_each_metric_once(quality: Quality, value: MetricValue) -> None:
    changed = quality.with_([value])
    assert changed.get(value.key) == value
    assert [one.key for one in changed] == sorted({one.key for one in (*quality, value)})
    assert changed.without([value.key]) == quality.without([value.key])
    assert pickle.loads(pickle.dumps(changed)) == changed


def test_a_metric_twice_and_too_many_are_refused() -> None:
    one = MetricValue(MetricKey("a", "b", "c"), 1, moment(0))
    with pytest.raises(PolicyError, match="twice"):
        Quality([one, one])
    with pytest.raises(PolicyError, match="too many"):
        Quality(MetricValue(MetricKey(f"a{n}", "b", "c"), 1, moment(0)) for n in range(MAX_VALUES + 1))


def test_a_value_that_was_changed_says_when() -> None:
    made = MetricValue(MetricKey("a", "b", "c"), 1, moment(5))
    assert made.at == moment(5)
    assert made.changed(2, moment(7)) == MetricValue(MetricKey("a", "b", "c"), 2, moment(5), moment(7))
    assert made.changed(2, moment(7)).at == moment(7)
