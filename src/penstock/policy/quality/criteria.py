"""A library of quality criteria, with the formula of each (docs/quality.md).

Formulas are pure functions of what is known when an event conforms: attributes of its payload, the time it is now, what
is declared of its sensor. Those that are ratios come to percent, as metric 10.1 of the paper's Listing 3 does. What has
no value raises `PolicyError`: an event then goes without it, and a constraint on it is not satisfied.
"""

import math
from collections.abc import Callable, Iterable, Mapping

from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue, Criterion, Direction, Indicator, MetricDefinition
from penstock.model.values import SECOND, Timestamp

SKEW = 1.0
"""Seconds that a producer's clock may be ahead of ours, unless the sensor declares its own."""

_LEVELS = (("low", 0.0), ("medium", 50.0), ("high", 80.0))
"""Names for percentages. The paper's Table 1 says `medium` and `high`, and not what these are."""


def freshness(now: Timestamp, measured: Timestamp, skew: float = SKEW) -> float:
    """Return the age in seconds. A measurement from the future, beyond the skew, has none."""
    age = (now.nanos - measured.nanos) / SECOND
    if age < -_not_negative("skew", skew):
        raise PolicyError(f"measured {-age:g} s from now, in the future")
    return max(0.0, age)


def up_to_dateness(now: Timestamp, measured: Timestamp, lifetime: float, skew: float = SKEW) -> float:
    """Return the remaining part of the lifetime: 1 - age / lifetime, and 0 after it (Manzoor et al. 2008)."""
    return percent(1 - freshness(now, measured, skew) / _above_zero("lifetime", lifetime))


def precision(spread: float, span: float) -> float:
    """Return how close repeated measurements are: 1 - spread / span, of one standard deviation (ISO 5725)."""
    return percent(1 - _not_negative("spread", spread) / _above_zero("span", span))


def accuracy(error: float, span: float) -> float:
    """Return how close a measurement is to the truth: 1 - |error| / span (Kim and Lee 2006)."""
    return percent(1 - abs(_finite("error", error)) / _above_zero("span", span))


def completeness(present: Mapping[str, bool], weights: Mapping[str, float]) -> float:
    """Return the weight of the present attributes, as a part of the weight of all (Manzoor et al. 2008)."""
    whole = math.fsum(_not_negative(f"weight of {name}", weight) for name, weight in weights.items())
    there = math.fsum(weight for name, weight in weights.items() if present.get(name) is True)
    return percent(there / _above_zero("sum of the weights", whole))


def resolution(step: float) -> float:
    """Return the smallest difference that can be told, in the unit of what is measured (Buchholz et al. 2003)."""
    return _not_negative("step", step)


def trustworthiness(distance: float, reach: float, accuracy: float = 100.0) -> float:
    """Return (1 - distance / reach) * the sensor's accuracy in percent, 0 beyond its reach (Manzoor et al. 2008)."""
    near = 1 - _not_negative("distance", distance) / _above_zero("reach", reach)
    return percent(near * min(_not_negative("accuracy", accuracy), 100.0) / 100)


def value(value: float) -> float:
    """Return the value of the payload unchanged."""
    return _finite("value", value)


FORMULAS: Mapping[str, Callable[..., float]] = {
    formula.__name__.replace("_", "-"): formula
    for formula in (freshness, up_to_dateness, precision, accuracy, completeness, resolution, trustworthiness, value)
}
"""By the name that a collector gives."""

_AMOUNTS = {"freshness": "s", "resolution": "unit of the value"}
"""Criteria of which less is better, with their units."""
_PERCENT = FORMULAS.keys() - _AMOUNTS.keys() - {"value"}


def _indicator(id: str) -> Indicator:
    unit = _AMOUNTS.get(id)
    lower = MetricDefinition(id, unit or "", 0.0, math.inf, Direction.LOWER)
    return Indicator(id, Criterion(id, (MetricDefinition(id, levels=_LEVELS) if unit is None else lower,)))


LIBRARY = Catalogue([_indicator(id) for id in FORMULAS if id != "value"])
"""The indicators that every domain knows; each has one criterion and one metric of its own name."""


def make_catalogue(indicators: Iterable[Indicator] = ()) -> Catalogue:
    """Return the library with the indicators of a domain, which may replace its own; raises `PolicyError`.

    A criterion that is like one of the library is measured like it: what is done with quality goes by that.
    """
    catalogue = LIBRARY.with_(indicators)
    for key in catalogue:
        definition, kind = catalogue.definition(key), catalogue.kind(key)
        is_percent = definition.direction is Direction.HIGHER and definition.least >= 0 and definition.most <= 100
        is_amount = definition.direction is Direction.LOWER and definition.least >= 0
        if (kind in _PERCENT and not is_percent) or (kind in _AMOUNTS and not is_amount):
            raise PolicyError(f"metric `{key}` is not measured like `{kind}` of the library")
    return catalogue


def percent(ratio: float) -> float:
    """Return a ratio as a percentage from 0 to 100."""
    return 100.0 * min(max(ratio, 0.0), 1.0)


def _finite(name: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise PolicyError(f"{name}: `{str(number)[:80]}` is not a number")
    return float(number)


def _not_negative(name: str, number: float) -> float:
    if _finite(name, number) < 0:
        raise PolicyError(f"{name}: `{number}` is below 0")
    return float(number)


def _above_zero(name: str, number: float) -> float:
    if _finite(name, number) <= 0:
        raise PolicyError(f"{name}: `{number}` is not above 0")
    return float(number)
