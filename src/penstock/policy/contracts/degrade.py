"""Degradations: what a privacy rule gives instead of refusing: less, and with quality metadata that says so.

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
from penstock.policy.quality.needs import Need
from penstock.policy.statements.redact import Path
from penstock.policy.statements.substitute import keep_attributes, put_numbers

METRES_OF_A_DEGREE = 111_320.0
"""Of latitude; of longitude at the equator."""
MAX_INPUTS = 1_000
"""Events of one time that an aggregate is made of; more are left out."""
_DIGITS = 6
"""Of a degree: a tenth of a metre."""
_UNIFORM = math.sqrt(12.0)
"""What is anywhere in a cell of 1 has a standard deviation of one by this."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A location, as the centre of the cell of a grid that it is in."""

    metres: float
    latitude: str = "lat"
    longitude: str = "lon"
    span: float | None = None
    """Of precision and accuracy, in metres; without it, these are not known afterwards."""

    def __post_init__(self) -> None:
        _check("grid", "metres", self.metres, 1.0, 1e7)
        _check_span(self.span)

    @property
    def spread(self) -> float:
        """How far a location is from what is told of it: the standard deviation of the distance, both axes."""
        return self.metres * math.sqrt(2.0) / _UNIFORM

    @property
    def error(self) -> float:
        """How far it may be at most: half the diagonal."""
        return self.metres / math.sqrt(2.0)

    @property
    def size(self) -> float:
        return self.metres


@dataclass(frozen=True, slots=True)
class Step:
    """A number, as the middle of the step that it is in."""

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
    """Nothing but these attributes."""

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise PolicyError("`keep` names no attribute")


@dataclass(frozen=True, slots=True)
class Delay:
    """Not before so many seconds after it came."""

    seconds: float

    def __post_init__(self) -> None:
        _check("delay", "seconds", self.seconds, 0.0, 365 * 86_400.0)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Only the means of these attributes over a time, as `policy/contracts/aggregate.py` makes them."""

    seconds: float
    attributes: tuple[str, ...]
    least: int = 2
    """How many events there must be: of fewer, nothing is released."""

    def __post_init__(self) -> None:
        _check("aggregate", "seconds", self.seconds, 1.0, 365 * 86_400.0)
        _check("aggregate", "least", self.least, 1, MAX_INPUTS)
        if not self.attributes:
            raise PolicyError("`aggregate` names no attribute")


Degradation = Grid | Step | Keep | Delay | Aggregate


def leaves_only(degradations: Iterable[Degradation]) -> bool:
    """Return whether only what is named is left: then nothing else that comes with an event passes either."""
    return any(isinstance(one, Keep | Aggregate) for one in degradations)


class Degraded(NamedTuple):
    """What is left of an event."""

    payload: bytes
    quality: Quality
    not_before: float
    """When it may be released, in seconds since the epoch."""


def degrade(
    degradations: Sequence[Degradation], content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> Degraded:
    """Return an event of this content and quality, degraded; if the content carries quality, then as it is now.

    What is to be aggregated is not yet so: `absorb` does that. Raises `ContentError` if it cannot be done.
    """
    if not degradations:
        return Degraded(content.payload, quality, now)
    lowered = lower(degradations, quality, catalogue, now)
    payload = content.payload
    for one in degradations:
        payload = _content(one, Content(payload, content.format))
    if read_quality(content, moment(now)):
        payload = write_quality(Content(payload, content.format), lowered)
    return Degraded(payload, lowered, now + _delay(degradations))


def degraded_once(
    degradations: Sequence[Degradation], content: Content, quality: Quality, catalogue: Catalogue, now: float
) -> Degraded:
    """Return the same, done once for all who get this content so."""

    def done() -> Degraded | ContentError:
        try:
            return degrade(degradations, content, quality, catalogue, now)
        except ContentError as error:
            return error

    if not degradations:
        return degrade(degradations, content, quality, catalogue, now)
    found = content.cached(("degraded", tuple(degradations), quality, catalogue, now), done)
    if isinstance(found, ContentError):
        raise ContentError(str(found))
    return found


def _delay(degradations: Iterable[Degradation]) -> float:
    return math.fsum(one.seconds for one in degradations if isinstance(one, Delay))


def _content(one: Degradation, content: Content) -> bytes:
    match one:
        case Grid():
            latitude, longitude = path_of(one.latitude), path_of(one.longitude)
            lat, lon = on_grid(number_at(content, latitude), number_at(content, longitude), one.metres)
            return put_numbers(content, {latitude: lat, longitude: lon})
        case Step():
            name = path_of(one.attribute)
            return put_numbers(content, {name: in_steps(number_at(content, name), one.size)})
        case Keep():
            return keep_attributes(content, [path_of(name) for name in one.attributes])
        case Delay() | Aggregate():
            return content.payload


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
    """Quality after the degradations: never better than before, and nothing that is no longer known.

    It is that of when the event may be released, after its delay.
    """
    time = moment(now + _delay(degradations))
    for one in degradations:
        kept = []
        for value in quality:
            definition = catalogue.find(value.key)
            lowered = None
            if definition is not None:
                lowered = _lowered(one, catalogue.kind(value.key), definition, value.value)
            if lowered is not None:
                kept.append(value if lowered == value.value else value.changed(lowered, time))
        quality = Quality(kept)
    return quality


def caps(degradations: Sequence[Degradation], catalogue: Catalogue) -> dict[MetricKey, Need | None]:
    """Return the best that quality can still be after the degradations, by metric; None if nothing of it is left."""
    found: dict[MetricKey, Need | None] = {}
    for key in catalogue:
        definition, kind = catalogue.definition(key), catalogue.kind(key)
        is_higher = definition.direction is Direction.HIGHER
        start = definition.most if is_higher else definition.least
        value: float | None = start
        for one in degradations:
            value = None if value is None else _lowered(one, kind, definition, value)
        if value is None:
            found[key] = None
        elif value != start:
            found[key] = Need(key, "<=" if is_higher else ">=", value)
    return found


def _lowered(one: Degradation, kind: str, definition: MetricDefinition, value: float) -> float | None:
    """What a value becomes; None: it is not known any more."""
    match one:
        case Grid() | Step():
            rule = _COARSER.get(kind)
            made = value if rule is None else rule(one, value)
        case Delay() if one.seconds and kind == "up-to-dateness":
            made = None  # it would need the lifetime
        case Delay():
            made = value + one.seconds if kind == "freshness" else value
        case Keep():
            made = None if kind == "completeness" else value
        case Aggregate():
            made = value  # what the means are worth is known when they are made
    return made if made is None or made == value else definition.rounded(made)


def _less_precise(one: Grid | Step, value: float) -> float | None:
    """Spreads of independent causes add by their squares."""
    if one.span is None:
        return None
    return _percent(1.0 - math.hypot(1.0 - value / 100.0, one.spread / one.span))


def _less_accurate(one: Grid | Step, value: float) -> float | None:
    """Return the greatest error is added."""
    return None if one.span is None else _percent(value / 100.0 - one.error / one.span)


_COARSER: dict[str, Callable[[Grid | Step, float], float | None]] = {
    "precision": _less_precise,
    "accuracy": _less_accurate,
    "resolution": lambda one, value: max(value, one.size),
}


def _percent(ratio: float) -> float:
    return 100.0 * min(max(ratio, 0.0), 1.0)


def path_of(name: str) -> Path:
    return tuple(name.split("."))


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
        raise ContentError(f"`{'.'.join(path)}` is no number, so it cannot be degraded")
    return float(at)


def _check(what: str, name: str, number: float, least: float, most: float) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not least <= number <= most:
        raise PolicyError(f"`{what}`: `{name}` is from {least:g} to {most:g}, not `{number}`")


def _check_span(span: float | None) -> None:
    if span is not None:
        _check("degrade", "span", span, 1e-9, 1e12)
