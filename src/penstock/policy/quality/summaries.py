"""Propagation of quality from summaries: the rules of `propagation.py`, where inputs are too many to be listed.

Each rule needs one number of all inputs, which can be summed up in any order and in parts: so data in bulk is
aggregated by its own engine, and the rule is applied at the end. Fusion and inference are over few inputs, and take
`propagate` itself.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.model.quality import Catalogue, MetricKey, MetricValue, Quality, moment
from penstock.model.values import Timestamp
from penstock.policy.quality.propagation import RULES, Operation, PropagationRule, mean, of_mean, of_window, worst


class Statistic(StrEnum):
    """A number that summarises all inputs."""

    SUM = "sum"
    SQUARES = "squares"
    """The sum of the squares of the spreads (`spread`)."""
    WORST = "worst"
    """By the metric's direction; of ages, as they are when the inputs are put together."""


_STATISTICS: Mapping[PropagationRule, Statistic] = {
    worst: Statistic.WORST,
    mean: Statistic.SUM,
    of_window: Statistic.SUM,
    of_mean: Statistic.SQUARES,
}


class Summary(NamedTuple):
    """The summary of one metric of several inputs."""

    having: int
    """The number of inputs that have it."""
    created: Timestamp
    """The time of the first measurement."""
    numbers: Mapping[Statistic, float]


def statistic_of(operation: Operation, key: MetricKey, catalogue: Catalogue) -> Statistic:
    """Return the statistic that an operation needs of a metric; there is one for means, sums and selections."""
    return _STATISTICS[_rule(operation, key, catalogue)]


def propagate_summaries(
    operations: Iterable[Operation],
    inputs: int,
    summaries: Mapping[MetricKey, Summary],
    catalogue: Catalogue,
    now: float,
    expected: int = 0,
) -> Quality:
    """Return what `propagate` gives for inputs of these summaries; of several operations, the worst of each metric."""
    time, applied, metrics = moment(now), tuple(operations), []
    for key, summary in summaries.items():
        if not applied or not inputs or summary.having != inputs:
            continue
        definition = catalogue.definition(key)
        values = (_value(_rule(operation, key, catalogue), summary, max(expected, inputs)) for operation in applied)
        rounded = definition.worst([definition.rounded(value) for value in values])
        metrics.append(MetricValue(key, rounded, summary.created, time))
    return Quality(metrics)


def _rule(operation: Operation, key: MetricKey, catalogue: Catalogue) -> PropagationRule:
    return RULES[operation].get(catalogue.kind(key), worst)


def _value(rule: PropagationRule, summary: Summary, expected: int) -> float:
    number, count = summary.numbers[_STATISTICS[rule]], summary.having
    if rule is of_window:
        return number / expected
    if rule is of_mean:
        return 100.0 * (1.0 - min(math.sqrt(number) / count, 1.0))
    return number / count if rule is mean else number
