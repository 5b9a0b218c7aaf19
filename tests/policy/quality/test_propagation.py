"""What becomes of quality when context is processed: the stated rules, with figures, and what holds of all of them."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, MetricValue, Quality, moment
from penstock.policy.contracts.text_form import read_indicator
from penstock.policy.quality.criteria import LIBRARY, make_catalogue
from penstock.policy.quality.propagation import Operation, aged, fuse, precision_weights, propagate, quality_weights
from tests.support.generators.quality import library_qualities

CATALOGUE: Catalogue = make_catalogue(
    [
        read_indicator("10", {"criterion": "10.1", "like": "precision", "definitions": {"10.1": {}}}),
        read_indicator("noise", {"unit": "dB", "better": "lower", "range": [0, None]}),
    ]
)
NOW = 1000.0


def of(at: float = NOW, **values: float) -> Quality:
    named = {name.replace("_", "-").replace("p10", "10"): value for name, value in values.items()}
    return Quality(MetricValue(CATALOGUE.key(name), value, moment(at)) for name, value in named.items())


@pytest.mark.parametrize(
    ("operation", "criterion", "values", "expected"),
    [
        pytest.param("mean", "freshness", [5, 60, 10], 60, id="a mean is as old as its oldest input"),
        pytest.param("mean", "up_to_dateness", [90, 20], 20, id="and as up to date as the least of them"),
        pytest.param("mean", "precision", [80, 80, 80, 80], 90, id="four spreads of 20 % have a mean with one of 10 %"),
        pytest.param("mean", "p10", [80, 80, 80, 80], 90, id="a criterion that is like precision"),
        pytest.param(
            "mean", "precision", [70, 60], 75, id="spreads of 30 % and 40 %: the root of their squares, by two"
        ),
        pytest.param("mean", "accuracy", [90, 70], 80, id="systematic errors are averaged"),
        pytest.param("mean", "completeness", [100, 50], 75, id="completeness is averaged"),
        pytest.param("mean", "resolution", [0.1, 2], 2, id="the coarsest step"),
        pytest.param("mean", "trustworthiness", [90, 30], 30, id="the least trustworthy"),
        pytest.param("mean", "noise", [10, 30], 30, id="of a criterion that the library has not, the worst"),
        pytest.param("fuse", "accuracy", [90, 70], 85, id="a fusion's accuracy is weighted"),
        pytest.param("fuse", "trustworthiness", [90, 30], 75, id="so is its trustworthiness"),
        pytest.param("fuse", "precision", [80, 40], 100 - 100 * math.hypot(0.15, 0.15), id="spreads are weighted"),
        pytest.param("fuse", "freshness", [5, 60], 60, id="a fusion is as old as its oldest input"),
        pytest.param("sum", "precision", [90, 70], 80, id="errors of a sum may all go the same way"),
        pytest.param("select", "precision", [90, 70], 70, id="what is selected may be the worst"),
        pytest.param("infer", "trustworthiness", [90, 50], 45, id="all that is inferred from must be right"),
        pytest.param("infer", "completeness", [100, 50], 50, id="what is inferred from something incomplete"),
    ],
)
def test_rules(operation: str, criterion: str, values: list[float], expected: float) -> None:
    inputs = [of(**{criterion: value}) for value in values]
    weights = [3.0, 1.0] if operation == "fuse" else None
    (made,) = propagate(Operation(operation), inputs, CATALOGUE, NOW, weights)
    assert made.value == pytest.approx(expected)
    assert (made.created, made.modified) == (moment(NOW), moment(NOW))


def test_ages_are_brought_to_now_before_they_are_compared() -> None:
    measured_long_ago, old_when_measured = of(at=NOW - 100, freshness=5), of(at=NOW, freshness=60)
    (made,) = propagate(Operation.MEAN, [measured_long_ago, old_when_measured], CATALOGUE, NOW)
    assert (made.value, made.created) == (105, moment(NOW - 100))
    assert [one.value for one in aged(measured_long_ago, CATALOGUE, NOW)] == [105]
    assert aged(of(precision=50), CATALOGUE, NOW + 50) == of(precision=50)


def test_a_window_that_misses_inputs_is_less_complete() -> None:
    (made,) = propagate(Operation.MEAN, [of(completeness=100)] * 3, CATALOGUE, NOW, expected=4)
    assert made.value == 75


def test_what_one_input_does_not_say_the_result_does_not_say() -> None:
    made = propagate(Operation.MEAN, [of(precision=80, accuracy=90), of(precision=80)], CATALOGUE, NOW)
    assert [one.key.indicator for one in made] == ["precision"]
    unknown = Quality([MetricValue(CATALOGUE.key("10"), 50, moment(NOW))])
    assert propagate(Operation.MEAN, [unknown], LIBRARY, NOW) == ()
    assert propagate(Operation.MEAN, [], CATALOGUE, NOW) == ()


def test_weights_by_quality() -> None:
    inputs = [of(trustworthiness=100), of(trustworthiness=25), of()]
    weights = quality_weights(inputs, CATALOGUE.key("trustworthiness"), CATALOGUE)
    assert weights == [1.0, 0.25, 0.0]
    assert fuse([10.0, 20.0, 1e9], weights) == 12.0


def test_weights_by_precision_give_the_least_spread() -> None:
    inputs = [of(precision=90), of(precision=80)]
    key = CATALOGUE.key("precision")
    weights = precision_weights(inputs, key)
    assert weights[0] / weights[1] == pytest.approx(4)
    (best,) = propagate(Operation.FUSE, inputs, CATALOGUE, NOW, weights)
    for other in ([1, 1], [3, 1], [5, 1], [1, 0]):
        (made,) = propagate(Operation.FUSE, inputs, CATALOGUE, NOW, other)
        assert made.value <= best.value
    assert precision_weights([of(precision=100), of(precision=80), of()], key) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: fuse([1.0], [0.0]), id="weights that are all 0"),
        pytest.param(lambda: fuse([1.0], [1.0, 2.0]), id="more weights than values"),
        pytest.param(lambda: fuse([1.0], [-1.0]), id="a weight below 0"),
        pytest.param(lambda: fuse([1.0], [math.nan]), id="a weight that is no number"),
        pytest.param(lambda: quality_weights([of()], CATALOGUE.key("precision"), CATALOGUE), id="nothing to weigh by"),
        pytest.param(lambda: quality_weights([of()], CATALOGUE.key("freshness"), CATALOGUE), id="a range without end"),
        pytest.param(lambda: precision_weights([of(precision=0)], CATALOGUE.key("precision")), id="no precision"),
    ],
)
def test_weights_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(PolicyError):
        wrong()  # type: ignore[operator]


@given(st.sampled_from(Operation), st.lists(library_qualities, min_size=1, max_size=5))
def test_no_result_is_better_than_its_best_input_but_for_the_precision_of_means(
    operation: Operation, inputs: list[Quality]
) -> None:
    for one in propagate(operation, inputs, LIBRARY, 0.0):
        definition = LIBRARY.definition(one.key)
        values = [value.value for quality in inputs for value in quality if value.key == one.key]
        assert definition.admits(one.value)
        if LIBRARY.kind(one.key) != "precision":
            best = definition.best(values)
            assert definition.reaches(best, one.value) or math.isclose(best, one.value)


@given(st.sampled_from(Operation), library_qualities)
def test_one_input_keeps_its_quality(operation: Operation, quality: Quality) -> None:
    made = propagate(operation, [quality], LIBRARY, 0.0)
    assert [one.key for one in made] == [one.key for one in quality]
    assert [one.value for one in made] == pytest.approx([one.value for one in quality])


def test_the_precision_of_a_mean_is_what_repeated_measurements_show() -> None:
    """Means of four measurements with a known spread, many times: their spread is what the rule says."""
    import random

    dice, spread, span = random.Random(7), 5.0, 100.0
    means = [statistics.fmean(dice.gauss(50, spread) for _ in range(4)) for _ in range(4000)]
    (made,) = propagate(Operation.MEAN, [of(precision=100 * (1 - spread / span))] * 4, CATALOGUE, NOW)
    assert 100 * (1 - statistics.stdev(means) / span) == pytest.approx(made.value, abs=0.1)
