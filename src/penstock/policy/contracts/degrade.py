"""Degradations: a privacy rule releases less instead of refusing, with quality metadata that says so.

    grid: a location as the centre of the cell that it is in      keep: nothing but the attributes named
    step: a number in steps                                       delay: later
    aggregate: the mean over a time (policy/contracts/aggregate.py)

What cannot be degraded raises `ContentError`, and is not released. Quality is lowered by stated rules
(docs/contracts.md); what is no longer known of it is taken away.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.content.content import Content, Unreadable
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import Catalogue, Direction, MetricDefinition, MetricKey, Quality, moment
from penstock.model.values import Value
from penstock.policy.quality.carriage import read_quality, write_quality
from penstock.policy.quality.criteria import percent
from penstock.policy.quality.needs import Need
from penstock.policy.statements.redact import Path, path_of
from penstock.policy.statements.substitute import keep_attributes, put_numbers

METRES_OF_A_DEGREE = 111_320.0
"""Metres of a degree of latitude; of longitude at the equator."""
MAX_INPUTS = 1_000
"""Events of one period that an aggregate is made of; more are left out."""
_DIGITS = 6
"""Digits of a degree: a tenth of a metre."""
_UNIFORM = math.sqrt(12.0)
"""The width of a uniform distribution divided by its standard deviation."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A degradation of a location to the centre of its grid cell."""

    metres: float
    latitude: str = "lat"
    longitude: str = "lon"
    span: float | None = None
    """The span of precision and accuracy, in metres; without it they are unknown afterwards."""
    radius: str | None = None
    """The attribute with the radius of the location, in metres; None: `radius` beside the latitude, if there is one."""

    def __post_init__(self) -> None:
        _check("grid", "metres", self.metres, 1.0, 1e7)
        _check_span(self.span)

    @property
    def spread(self) -> float:
        """The standard deviation of the distance between the location and the centre, both axes."""
        return self.metres * math.sqrt(2.0) / _UNIFORM

    @property
    def error(self) -> float:
        """The greatest distance: half the diagonal."""
        return self.metres / math.sqrt(2.0)

    @property
    def size(self) -> float:
        return self.metres


@dataclass(frozen=True, slots=True)
class Step:
    """A degradation of a number to the middle of its step."""

    attribute: str
    size: float
    span: float | None = None

    def __post_init__(self) -> None:
        _check("step", "size", self.size, 1e-9, 1e12)
        _check_span(self.span)

    @property
    def spread(self) -> float:
        return self.size / _UNIFORM

    @property
    def error(self) -> float:
        return self.size / 2.0


@dataclass(frozen=True, slots=True)
class Keep:
    """A degradation that keeps only these attributes."""

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise PolicyError("`keep` names no attribute")


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay of the release, in seconds."""

    seconds: float

    def __post_init__(self) -> None:
        _check("delay", "seconds", self.seconds, 0.0, 365 * 86_400.0)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A degradation to the means of these attributes over a period (`policy/contracts/aggregate.py`)."""

    seconds: float
    attributes: tuple[str, ...]
    least: int = 2
    """The least number of publishers other than who gets the mean: of fewer, nothing is released."""
    events: int = 1
    """The least number of events."""

    def __post_init__(self) -> None:
        _check("aggregate", "seconds", self.seconds, 1.0, 365 * 86_400.0)
        _check("aggregate", "least", self.least, 1, MAX_INPUTS)
        _check("aggregate", "events", self.events, 1, MAX_INPUTS)
        if not self.attributes:
            raise PolicyError("`aggregate` names no attribute")


Degradation = Grid | Step | Keep | Delay | Aggregate


def leaves_only(degradations: Iterable[Degradation]) -> bool:
    """Return whether only named attributes are left: then nothing else of an event passes either."""
    return any(isinstance(degradation, Keep | Aggregate) for degradation in degradations)


class Degraded(NamedTuple):
    """A degraded event."""

    payload: bytes
    quality: Quality
    not_before: float
    """The time from which it may be released, in seconds since the epoch."""


def degrade(
    degradations: Sequence[Degradation], content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> Degraded:
    """Degrade an event of this content and quality; quality in the content is updated.

    What is to be aggregated is not yet so: `absorb` does that. Raises `ContentError` if it cannot be done.
    """
    if not degradations:
        return Degraded(content.payload, quality, now)
    lowered = lower(degradations, quality, catalogue, now)
    payload = content.payload
    for degradation in degradations:
        payload = _content(degradation, Content(payload, content.format))
    if read_quality(content, moment(now)):
        payload = write_quality(Content(payload, content.format), lowered)
    return Degraded(payload, lowered, now + _delay(degradations))


def degraded_once(
    degradations: Sequence[Degradation], content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> Degraded:
    """Degrade an event once for all receivers with the same degradations."""

    def done() -> Degraded | ContentError:
        try:
            return degrade(degradations, content, quality, catalogue, now)
        except ContentError as error:
            return error

    if not degradations:
        return degrade(degradations, content, quality, catalogue, now)
    result = content.cached(("degraded", tuple(degradations), quality, catalogue, now), done)
    if isinstance(result, ContentError):
        raise ContentError(str(result))
    return result


def _delay(degradations: Iterable[Degradation]) -> float:
    return math.fsum(degradation.seconds for degradation in degradations if isinstance(degradation, Delay))


def _content(degradation: Degradation, content: Content) -> bytes:
    match degradation:
        case Grid():
            latitude, longitude = path_of(degradation.latitude), path_of(degradation.longitude)
            lat, lon = on_grid(number_at(content, latitude), number_at(content, longitude), degradation.metres)
            numbers = {latitude: lat, longitude: lon}
            radius = (*latitude[:-1], "radius") if degradation.radius is None else path_of(degradation.radius)
            if degradation.radius is not None or has_at(content, radius):
                numbers[radius] = _wider(degradation, number_at(content, radius))
            return put_numbers(content, numbers)
        case Step():
            name = path_of(degradation.attribute)
            return put_numbers(content, {name: in_steps(number_at(content, name), degradation.size)})
        case Keep():
            return keep_attributes(content, [path_of(name) for name in degradation.attributes])
        case Delay() | Aggregate():
            return content.payload


def _wider(grid: Grid, radius: float) -> float:
    """Return the radius, in whole cells, within which the location is that was told with this radius."""
    return math.ceil(max(grid.error + max(radius, 0.0), grid.metres) / grid.metres) * grid.metres


def on_grid(latitude: float, longitude: float, metres: float) -> tuple[float, float]:
    """Return the centre of the cell of a grid that a location is in; raises `ContentError` for what is no location.

    Rows have one height. Cells of a row have one width, by the latitude of its middle, so that they are about square.
    """
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ContentError("not a location: latitudes are from -90 to 90, longitudes from -180 to 180")
    height = metres / METRES_OF_A_DEGREE
    middle = min(max((math.floor(latitude / height) + 0.5) * height, -90.0), 90.0)
    narrow = math.cos(math.radians(middle))
    width = height / narrow if narrow > height / 360 else 360.0
    if width >= 360.0:
        return round(middle, _DIGITS), 0.0
    across = min(max((math.floor(longitude / width) + 0.5) * width, -180.0), 180.0)
    return round(middle, _DIGITS), round(across, _DIGITS)


def in_steps(number: float, size: float) -> float:
    """Return the middle of the step that a number is in."""
    return (math.floor(number / size) + 0.5) * size


# --- quality


def lower(degradations: Sequence[Degradation], quality: Quality, catalogue: Catalogue, now: float) -> Quality:
    """Return the quality at release, after all degradations: never better than before, without what is then unknown."""
    time = moment(now + _delay(degradations))
    for degradation in degradations:
        kept = []
        for value in quality:
            definition = catalogue.find(value.key)
            lowered = None
            if definition is not None:
                lowered = _lowered(degradation, catalogue.kind(value.key), definition, value.value)
            if lowered is not None:
                kept.append(value if lowered == value.value else value.changed(lowered, time))
        quality = Quality(kept)
    return quality


def caps(degradations: Sequence[Degradation], catalogue: Catalogue) -> dict[MetricKey, Need | None]:
    """Return the best possible quality after the degradations, by metric; None if it is unknown afterwards."""
    best: dict[MetricKey, Need | None] = {}
    for key in catalogue:
        definition, kind = catalogue.definition(key), catalogue.kind(key)
        is_higher = definition.direction is Direction.HIGHER
        start = definition.most if is_higher else definition.least
        value: float | None = start
        for degradation in degradations:
            value = None if value is None else _lowered(degradation, kind, definition, value)
        if value is None:
            best[key] = None
        elif value != start:
            best[key] = Need(key, "<=" if is_higher else ">=", value)
    return best


def _lowered(degradation: Degradation, kind: str, definition: MetricDefinition, value: float) -> float | None:
    """Return the value after a degradation; None if it is unknown afterwards."""
    match degradation:
        case Grid() | Step():
            rule = _COARSER.get(kind)
            lowered = value if rule is None else rule(degradation, value)
        case Delay() if degradation.seconds and kind == "up-to-dateness":
            lowered = None  # it would need the lifetime
        case Delay():
            lowered = value + degradation.seconds if kind == "freshness" else value
        case Keep():
            lowered = None if kind == "completeness" else value
        case Aggregate():
            lowered = value  # what the means are worth is known when they are made
    return lowered if lowered is None or lowered == value else definition.rounded(lowered)


def _less_precise(degradation: Grid | Step, value: float) -> float | None:
    """Return the lower precision: spreads of independent causes add by their squares."""
    if degradation.span is None:
        return None
    return percent(1.0 - math.hypot(1.0 - value / 100.0, degradation.spread / degradation.span))


def _less_accurate(degradation: Grid | Step, value: float) -> float | None:
    """Return the lower accuracy: the greatest error is added."""
    return None if degradation.span is None else percent(value / 100.0 - degradation.error / degradation.span)


_COARSER: dict[str, Callable[[Grid | Step, float], float | None]] = {
    "precision": _less_precise,
    "accuracy": _less_accurate,
    "resolution": lambda degradation, value: max(value, degradation.size),
}


def has_at(content: Content, path: Path) -> bool:
    """Return True if the content has such an attribute, whatever it is."""
    at: Value = content.attributes if isinstance(content.attributes, dict) else {}
    for name in path[:-1]:
        at = at.get(name) if isinstance(at, dict) else None
    return isinstance(at, dict) and path[-1] in at


def number_at(content: Content, path: Path) -> float:
    at: Value = content.attributes
    if isinstance(at, Unreadable):
        raise ContentError(at.reason)
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    if isinstance(at, str):
        try:
            at = float(at)
        except ValueError:
            at = None
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise ContentError(f"`{'.'.join(path)}` is not a number, so it cannot be degraded")
    return float(at)


def _check(what: str, name: str, number: float, least: float, most: float) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not least <= number <= most:
        raise PolicyError(f"`{what}`: `{name}` is from {least:g} to {most:g}, not `{number}`")


def _check_span(span: float | None) -> None:
    if span is not None:
        _check("degrade", "span", span, 1e-9, 1e12)
