"""What becomes of quality when context is processed (contracts §2.3): a rule for each operation and criterion.

| operation | freshness | up-to-dateness | precision | accuracy | completeness | resolution | trustworthiness | others |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| mean | worst | worst | of a mean | mean | of a window | worst | worst | worst |
| fuse | worst | worst | of a weighted mean | weighted | of a window | worst | weighted | worst |
| sum | worst | worst | mean | mean | of a window | worst | worst | worst |
| select (least, greatest, last) | worst | worst | worst | worst | of a window | worst | worst | worst |
| infer | worst | worst | worst | worst | worst | worst | product | worst |

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
    """What a capsule makes one value of several with."""

    MEAN = "mean"
    FUSE = "fuse"
    SUM = "sum"
    SELECT = "select"
    INFER = "infer"


class Inputs(NamedTuple):
    """The values of one metric, one of each input."""

    values: Sequence[float]
    weights: Sequence[float]
    """How much each input counts; they sum up to 1."""
    expected: int
    """How many inputs there should have been."""
    definition: MetricDefinition


PropagationRule = Callable[[Inputs], float]


def worst(given: Inputs) -> float:
    """Return the worst of the inputs."""
    return given.definition.worst(given.values)


def mean(given: Inputs) -> float:
    """Each input counts the same: systematic errors do not become less by averaging.

    Of a sum, over the span of all inputs together, it is the worst case: that all errors go the same way.
    """
    return math.fsum(given.values) / len(given.values)


def weighted(given: Inputs) -> float:
    """Each input counts by its weight."""
    return math.fsum(value * weight for value, weight in zip(given.values, given.weights, strict=True))


def of_mean(given: Inputs) -> float:
    """Precision of a mean of independent inputs of one span: spreads add by their squares (GUM, JCGM 100:2008, 5.1.2).

    spread = sqrt(Σ spread²) / n, so that n inputs of one precision have a spread of 1/√n of theirs.
    """
    return _precision(math.hypot(*map(_spread, given.values)) / len(given.values))


def of_weighted_mean(given: Inputs) -> float:
    """Precision of a weighted mean: spread = sqrt(Σ (weight · spread)²)."""
    each = (weight * _spread(value) for value, weight in zip(given.values, given.weights, strict=True))
    return _precision(math.hypot(*each))


def of_window(given: Inputs) -> float:
    """Completeness of a window: that of its inputs on average, times the part of those expected that came."""
    return math.fsum(given.values) / max(given.expected, len(given.values))


def product(given: Inputs) -> float:
    """Trustworthiness of what is inferred: all inputs must be right, and are so independently of each other."""
    return 100.0 * math.prod(value / 100.0 for value in given.values)


_WINDOWED: Mapping[str, PropagationRule] = {"completeness": of_window}
RULES: Mapping[Operation, Mapping[str, PropagationRule]] = {
    Operation.MEAN: {**_WINDOWED, "precision": of_mean, "accuracy": mean},
    Operation.FUSE: {
        **_WINDOWED,
        "precision": of_weighted_mean,
        "accuracy": weighted,
        "trustworthiness": weighted,
    },
    Operation.SUM: {**_WINDOWED, "precision": mean, "accuracy": mean},
    Operation.SELECT: _WINDOWED,
    Operation.INFER: {"trustworthiness": product},
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
    """Return the quality of what an operation makes of inputs of these qualities; of none, none.

    `weights`: how much each input counts, equally without; `expected`: how many inputs there should be, if more than
    there are. Metrics that the catalogue does not know are dropped: which of two values is worse is not known.
    """
    time = moment(now)
    if not inputs:
        return Quality()
    shares = _shares(weights if weights is not None else [1.0] * len(inputs), len(inputs))
    made = []
    for key in _common(inputs, catalogue):
        definition = catalogue.definition(key)
        found = [_aged(one, catalogue, time) for quality in inputs for one in quality if one.key == key]
        rule = RULES[operation].get(catalogue.kind(key), worst)
        value = rule(Inputs([one.value for one in found], shares, expected, definition))
        created = min(one.created for one in found)
        made.append(MetricValue(key, definition.rounded(value), created, time))
    return Quality(made)


def quality_weights(inputs: Sequence[Quality], key: MetricKey, catalogue: Catalogue) -> list[float]:
    """Weights for a fusion, by one metric: from 0 for the worst value of its range to 1 for the best.

    An input without the metric weighs nothing. Raises `PolicyError` if the range has no end, or all weigh nothing.
    """
    definition = catalogue.definition(key)
    span = definition.most - definition.least
    if not math.isfinite(span) or span == 0:
        raise PolicyError(f"metric `{key}` has no range to weigh by")
    found = [one.get(key) for one in inputs]
    weights = [0.0 if one is None else _goodness(one.value, definition) for one in found]
    if not any(weights):
        raise PolicyError(f"no input has any quality by `{key}` to be weighed with")
    return weights


def precision_weights(inputs: Sequence[Quality], key: MetricKey) -> list[float]:
    """Weights that give the fused value the least spread: the inverse of each spread's square.

    An input without the metric weighs nothing; where some have no spread at all, only these count. Raises `PolicyError`
    if nothing weighs anything.
    """
    found = [one.get(key) for one in inputs]
    spreads = [None if one is None or one.value <= 0 else _spread(one.value) for one in found]
    exact = [spread == 0 for spread in spreads]
    if any(exact):
        return [float(one) for one in exact]
    weights = [0.0 if spread is None else spread**-2 for spread in spreads]
    if not any(weights):
        raise PolicyError(f"no input has any precision by `{key}` to be weighed with")
    return weights


def fuse(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean of values; raises `PolicyError` if the weights are none."""
    shares = _shares(weights, len(values))
    return math.fsum(value * share for value, share in zip(values, shares, strict=True))


def aged(quality: Quality, catalogue: Catalogue, now: float) -> Quality:
    """Quality as it is now: ages have grown since they were measured."""
    time = moment(now)
    grown = [_aged(one, catalogue, time) for one in quality]
    return quality if all(map(operator.is_, grown, quality)) else Quality(grown)


def _aged(value: MetricValue, catalogue: Catalogue, now: Timestamp) -> MetricValue:
    if catalogue.kind(value.key) != "freshness":
        return value
    gone = (now.nanos - value.at.nanos) / SECOND
    if gone <= 0:
        return value
    return value.changed(catalogue.definition(value.key).clamped(value.value + gone), now)


def _common(inputs: Sequence[Quality], catalogue: Catalogue) -> list[MetricKey]:
    return [one.key for one in inputs[0] if catalogue.find(one.key) and all(other.get(one.key) for other in inputs)]


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
