"""The propagation of quality when context is processed (contracts §2.3): a rule for each operation and criterion.

| operation | freshness | up-to-dateness | precision | accuracy | completeness | resolution | trustworthiness | others |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| mean | worst | worst | of a mean | mean | of a window | worst | worst | worst |
| fuse | worst | worst | of a weighted mean | weighted | of a window | worst | weighted | worst |
| sum | worst | worst | mean | mean | of a window | worst | worst | worst |
| select (least, greatest, last) | worst | worst | worst | worst | of a window | worst | worst | worst |
| infer | worst | worst | worst | worst | worst | worst | product | worst |
| join (inputs of several kinds) | worst | worst | worst | worst | worst | worst | worst | worst |

Filtering changes nothing. Worst: of the inputs, by the metric's direction; for freshness that is the oldest. A
criterion that not all inputs have is dropped: what is not known of one of them is not known of the result. Values are
first brought to now: freshness grows by the time that has gone by since it was measured. Up-to-dateness does not, as
the lifetime is not known here.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, Direction, MetricDefinition, MetricKey, MetricValue, Quality, moment
from penstock.model.values import SECOND, Timestamp


class Operation(StrEnum):
    """An operation by which a capsule makes one value of several."""

    MEAN = "mean"
    FUSE = "fuse"
    SUM = "sum"
    SELECT = "select"
    INFER = "infer"
    JOIN = "join"


class Inputs(NamedTuple):
    """The values of one metric, one of each input."""

    values: Sequence[float]
    weights: Sequence[float]
    """The weight of each input; they sum up to 1."""
    expected: int
    """The expected number of inputs."""
    definition: MetricDefinition


PropagationRule = Callable[[Inputs], float]


def worst(inputs: Inputs) -> float:
    """Return the worst of the inputs."""
    return inputs.definition.worst(inputs.values)


def mean(inputs: Inputs) -> float:
    """Return the mean of the inputs: systematic errors do not become less by averaging.

    Of a sum, over the span of all inputs together, it is the worst case: that all errors go the same way.
    """
    return math.fsum(inputs.values) / len(inputs.values)


def weighted(inputs: Inputs) -> float:
    """Return the weighted mean of the inputs."""
    return math.fsum(value * weight for value, weight in zip(inputs.values, inputs.weights, strict=True))


def of_mean(inputs: Inputs) -> float:
    """Return the precision of a mean of independent inputs of one span (GUM, JCGM 100:2008, 5.1.2).

    spread = sqrt(Σ spread²) / n, so that n inputs of one precision have a spread of 1/√n of theirs.
    """
    return _precision(math.hypot(*map(_spread, inputs.values)) / len(inputs.values))


def of_weighted_mean(inputs: Inputs) -> float:
    """Return the precision of a weighted mean: spread = sqrt(Σ (weight · spread)²)."""
    parts = (weight * _spread(value) for value, weight in zip(inputs.values, inputs.weights, strict=True))
    return _precision(math.hypot(*parts))


def of_window(inputs: Inputs) -> float:
    """Return the completeness of a window: the mean of its inputs, times the part of the expected inputs that came."""
    return math.fsum(inputs.values) / max(inputs.expected, len(inputs.values))


def product(inputs: Inputs) -> float:
    """Return the trustworthiness of an inference: all inputs must be right, independently of each other."""
    return 100.0 * math.prod(value / 100.0 for value in inputs.values)


_WINDOWED: Mapping[str, PropagationRule] = {"completeness": of_window}
RULES: Mapping[Operation, Mapping[str, PropagationRule]] = {
    Operation.MEAN: {**_WINDOWED, "precision": of_mean, "accuracy": mean},
    Operation.FUSE: {**_WINDOWED, "precision": of_weighted_mean, "accuracy": weighted, "trustworthiness": weighted},
    Operation.SUM: {**_WINDOWED, "precision": mean, "accuracy": mean},
    Operation.SELECT: _WINDOWED,
    Operation.INFER: {"trustworthiness": product},
    Operation.JOIN: {},
}
"""By the criterion of the library; for all others it is `worst`."""


def propagate(
    operation: Operation,
    inputs: Sequence[Quality],
    catalogue: Catalogue,
    now: float,
    weights: Sequence[float] | None = None,
    expected: int = 0,
) -> Quality:
    """Return the quality of the result of an operation on inputs of these qualities; without inputs, none.

    `weights`: how much each input counts, equally without; `expected`: how many inputs there should be, if more than
    there are. Metrics that the catalogue does not know are dropped: which of two values is worse is not known.
    """
    time = moment(now)
    if not inputs:
        return Quality()
    shares = _shares(weights if weights is not None else [1.0] * len(inputs), len(inputs))
    results = []
    for key in _common(inputs, catalogue):
        definition = catalogue.definition(key)
        metrics = [_aged(metric, catalogue, time) for quality in inputs for metric in quality if metric.key == key]
        rule = RULES[operation].get(catalogue.kind(key), worst)
        value = rule(Inputs([metric.value for metric in metrics], shares, expected, definition))
        created = min(metric.created for metric in metrics)
        results.append(MetricValue(key, definition.rounded(value), created, time))
    return Quality(results)


def quality_weights(inputs: Sequence[Quality], key: MetricKey, catalogue: Catalogue) -> list[float]:
    """Return weights for a fusion by one metric: from 0 for the worst value of its range to 1 for the best.

    An input without the metric weighs nothing. Raises `PolicyError` if the range has no end, or all weigh nothing.
    """
    definition = catalogue.definition(key)
    span = definition.most - definition.least
    if not math.isfinite(span) or span == 0:
        raise PolicyError(f"metric `{key}` has no range to weigh by")
    metrics = [quality.get(key) for quality in inputs]
    weights = [0.0 if metric is None else _goodness(metric.value, definition) for metric in metrics]
    if not any(weights):
        raise PolicyError(f"no input has any quality by `{key}` to be weighed with")
    return weights


def precision_weights(inputs: Sequence[Quality], key: MetricKey) -> list[float]:
    """Return the weights that give the fused value the least spread: the inverse of each spread's square.

    An input without the metric weighs nothing; where some have no spread at all, only these count. Raises `PolicyError`
    if nothing weighs anything.
    """
    metrics = [quality.get(key) for quality in inputs]
    spreads = [None if metric is None or metric.value <= 0 else _spread(metric.value) for metric in metrics]
    exact = [spread == 0 for spread in spreads]
    if any(exact):
        return [float(is_exact) for is_exact in exact]
    weights = [0.0 if spread is None else spread**-2 for spread in spreads]
    if not any(weights):
        raise PolicyError(f"no input has any precision by `{key}` to be weighed with")
    return weights


def fuse(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean of values; raises `PolicyError` if the weights are none."""
    shares = _shares(weights, len(values))
    return math.fsum(value * share for value, share in zip(values, shares, strict=True))


def aged(quality: Quality, catalogue: Catalogue, now: float) -> Quality:
    """Return the quality as of now: ages have grown since they were measured."""
    time = moment(now)
    grown = [_aged(metric, catalogue, time) for metric in quality]
    return quality if all(map(operator.is_, grown, quality)) else Quality(grown)


def _aged(value: MetricValue, catalogue: Catalogue, now: Timestamp) -> MetricValue:
    if catalogue.kind(value.key) != "freshness":
        return value
    gone = (now.nanos - value.at.nanos) / SECOND
    if gone <= 0:
        return value
    return value.changed(catalogue.definition(value.key).clamped(value.value + gone), now)


def _common(inputs: Sequence[Quality], catalogue: Catalogue) -> list[MetricKey]:
    return [
        metric.key
        for metric in inputs[0]
        if catalogue.find(metric.key) and all(other.get(metric.key) for other in inputs)
    ]


def _shares(weights: Sequence[float], count: int) -> list[float]:
    if len(weights) != count:
        raise PolicyError(f"{count} inputs have {len(weights)} weights")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise PolicyError("weights are numbers of 0 or more, and not all 0")
    most = max(weights)  # so that the sum of large ones is finite
    scaled = [weight / most for weight in weights]
    whole = math.fsum(scaled)
    return [weight / whole for weight in scaled]


def _goodness(value: float, definition: MetricDefinition) -> float:
    place = (definition.clamped(value) - definition.least) / (definition.most - definition.least)
    return place if definition.direction is Direction.HIGHER else 1.0 - place


def _spread(precision: float) -> float:
    """Return the spread of a precision in percent, as a part of the span."""
    return 1.0 - min(max(precision, 0.0), 100.0) / 100.0


def _precision(spread: float) -> float:
    return 100.0 * (1.0 - min(max(spread, 0.0), 1.0))
