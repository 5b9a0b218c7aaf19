"""Quality from summaries is what `propagate` makes of the inputs themselves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.quality import MetricKey, Quality
from penstock.model.values import Timestamp
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.propagation import Operation, aged, propagate
from penstock.policy.quality.summaries import Statistic, Summary, propagate_summaries, statistic_of
from tests.support.generators.quality import library_qualities

NOW = 60.0
SUMMED = (Operation.MEAN, Operation.SUM, Operation.SELECT)


def _summary(key: MetricKey, inputs: list[Quality]) -> Summary:
    found = [one for quality in inputs if (one := aged(quality, LIBRARY, NOW).get(key)) is not None]
    values = [one.value for one in found]
    squares = math.fsum((1 - min(max(value, 0), 100) / 100) ** 2 for value in values)
    numbers = {
        Statistic.SUM: math.fsum(values),
        Statistic.SQUARES: squares,
        Statistic.WORST: LIBRARY.definition(key).worst(values),
    }
    return Summary(len(found), min(one.created for one in found), numbers)


@given(st.lists(library_qualities, min_size=1, max_size=6), st.integers(0, 9), st.sampled_from(SUMMED))
def test_summaries_give_what_inputs_give(inputs: list[Quality], expected: int, operation: Operation) -> None:
    keys = {one.key for quality in inputs for one in quality}
    summaries = {key: _summary(key, inputs) for key in keys}
    found = propagate_summaries([operation], len(inputs), summaries, LIBRARY, NOW, expected)
    wanted = propagate(operation, inputs, LIBRARY, NOW, expected=expected)
    assert [(one.key, one.created, one.modified) for one in found] == [
        (one.key, one.created, one.modified) for one in wanted
    ]
    assert [one.value for one in found] == pytest.approx([one.value for one in wanted], rel=1e-9, abs=1e-6)


def test_of_several_operations_the_worst_counts() -> None:
    key = LIBRARY.key("precision")
    summary = Summary(4, Timestamp(0), {Statistic.SQUARES: 4 * 0.2**2, Statistic.WORST: 80.0, Statistic.SUM: 320.0})
    (mean,) = propagate_summaries([Operation.MEAN], 4, {key: summary}, LIBRARY, NOW)
    (both,) = propagate_summaries([Operation.MEAN, Operation.SELECT], 4, {key: summary}, LIBRARY, NOW)
    assert [mean.value, both.value] == pytest.approx([90.0, 80.0])


def test_what_one_input_does_not_have_is_not_known() -> None:
    key = LIBRARY.key("precision")
    summary = Summary(3, Timestamp(0), {Statistic.SQUARES: 0.0})
    assert propagate_summaries([Operation.MEAN], 4, {key: summary}, LIBRARY, NOW) == Quality()
    assert len(propagate_summaries([Operation.MEAN], 3, {key: summary}, LIBRARY, NOW)) == 1


def test_the_statistic_follows_the_rule() -> None:
    asked = {name: statistic_of(Operation.MEAN, LIBRARY.key(name), LIBRARY) for name in ("precision", "accuracy")}
    assert asked == {"precision": Statistic.SQUARES, "accuracy": Statistic.SUM}
    assert statistic_of(Operation.SELECT, LIBRARY.key("precision"), LIBRARY) is Statistic.WORST
