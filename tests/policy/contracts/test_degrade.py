"""Degradations: what is left of content, and that quality says so."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.content.content import Content
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import MetricValue, Quality, moment
from penstock.policy.contracts.aggregate import MeanWindow, absorb, due
from penstock.policy.contracts.degrade import (
    MAX_INPUTS,
    METRES_OF_A_DEGREE,
    Aggregate,
    Degradation,
    Delay,
    Grid,
    Keep,
    Step,
    caps,
    degrade,
    in_steps,
    lower,
    on_grid,
)
from penstock.policy.quality.carriage import read_quality, write_quality
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.needs import Need, why_not
from penstock.policy.quality.propagation import aged
from tests.support.generators.quality import library_qualities

NOW = 1000.0
places = st.tuples(st.floats(-90, 90), st.floats(-180, 180), st.floats(1, 1e6))


def of(**values: float) -> Quality:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return Quality(MetricValue(LIBRARY.key(name), value, moment(NOW)) for name, value in named.items())


def metres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance along the grid's axes, near enough for a cell."""
    narrow = max(math.cos(math.radians(one[0])), math.cos(math.radians(other[0])))
    return math.hypot(one[0] - other[0], (one[1] - other[1]) * narrow) * METRES_OF_A_DEGREE


@given(places)
def test_a_location_is_given_as_the_middle_of_its_cell_which_is_near_and_stays(
    place: tuple[float, float, float],
) -> None:
    latitude, longitude, size = place
    found = on_grid(latitude, longitude, size)
    assert -90 <= found[0] <= 90
    assert -180 <= found[1] <= 180
    assert abs(found[0] - latitude) * METRES_OF_A_DEGREE <= size * 0.501 + 1
    assert on_grid(*found, size) == found


@given(st.floats(-60, 60), st.floats(-170, 170), st.floats(10, 1e4), st.floats(0, 1), st.floats(0, 1))
def test_all_places_of_a_cell_are_told_as_one(
    latitude: float, longitude: float, size: float, up: float, across: float
) -> None:
    middle = on_grid(latitude, longitude, size)
    height = size / METRES_OF_A_DEGREE
    width = height / math.cos(math.radians(middle[0]))
    near = middle[0] + (up - 0.5) * height * 0.98, middle[1] + (across - 0.5) * width * 0.98
    if min(height, width) > 1e-4:  # else rounding to six digits moves the middle by a part of the cell
        assert on_grid(*near, size) == middle
        assert metres(near, middle) <= Grid(size).error * 1.02


@given(st.floats(-1e6, 1e6), st.sampled_from([0.1, 0.5, 3, 100]))
def test_a_number_is_given_as_the_middle_of_its_step(number: float, size: float) -> None:
    found = in_steps(number, size)
    assert abs(found - number) <= size / 2 * (1 + 1e-6) + 1e-9
    assert in_steps(found, size) == pytest.approx(found)


@pytest.mark.parametrize(
    ("degradation", "payload", "left"),
    [
        pytest.param(
            Grid(500), b'{"lat": 48.864716, "lon": 2.275432, "n": 18446744073709551615}',
            {"lat": 48.865882, "lon": 2.277105, "n": 18446744073709551615}, id="a grid; the rest stays",
        ),
        pytest.param(
            Grid(500, "gps.lat", "gps.lon"), b'{"gps": {"lat": 48.864716, "lon": 2.275432, "sats": 7}}',
            {"gps": {"lat": 48.865882, "lon": 2.277105, "sats": 7}}, id="a grid further inside",
        ),
        pytest.param(Step("t", 5), b'{"t": 36.6, "u": 1}', {"t": 37.5, "u": 1}, id="steps"),
        pytest.param(
            Keep(("a", "b.c")), b'{"a": 1, "b": {"c": 2, "d": 3}, "e": 4}', {"a": 1, "b": {"c": 2}}, id="what is kept",
        ),
        pytest.param(Delay(60), b'{"a": 1}', {"a": 1}, id="a delay"),
    ],
)  # fmt: skip
def test_what_is_left_of_json(degradation: Degradation, payload: bytes, left: object) -> None:
    made = degrade([degradation], Content(payload), Quality(), LIBRARY, NOW)
    assert json.loads(made.payload) == left
    assert made.not_before == NOW + (60 if isinstance(degradation, Delay) else 0)


def test_what_is_left_of_xml() -> None:
    payload = (
        b'<o at="1"><p><!-- 48.864716 --><lat>48.86<!-- -->4716</lat><?keep 48.864716?><lon>2.275432</lon></p>'
        b"<name>Bob</name></o>"
    )
    steps: list[Degradation] = [Grid(500, "o.p.lat", "o.p.lon"), Keep(("o.p",))]
    made = degrade(steps, Content(payload), Quality(), LIBRARY, NOW)
    assert made.payload == b"<o><p><lat>48.865882</lat><lon>2.277105</lon></p></o>"
    by_attribute = degrade([Step("o.@t", 5)], Content(b'<o t="36.6"/>'), Quality(), LIBRARY, NOW)
    assert by_attribute.payload == b'<o t="37.5"/>'


@pytest.mark.parametrize(
    ("degradation", "payload"),
    [
        pytest.param(Grid(500), b'{"lat": 48}', id="half a location"),
        pytest.param(Grid(500), b'{"lat": 91, "lon": 0}', id="a location beyond the pole"),
        pytest.param(Grid(500), b'{"lat": "x", "lon": 0}', id="a text"),
        pytest.param(Grid(500), b'{"lat": [1, 2], "lon": 0}', id="several"),
        pytest.param(Grid(500), b'{"lat": true, "lon": 0}', id="a truth value"),
        pytest.param(Grid(500), b'{"lat": 1, "lat": 2, "lon": 0}', id="two of one name"),
        pytest.param(Grid(500), b"[48, 2]", id="a list"),
        pytest.param(Grid(500), b"\x01\x02", id="opaque bytes"),
        pytest.param(Step("a.b", 1), b'{"a": 1}', id="no parts"),
        pytest.param(Step("o.t", 1), b"<o><t>1</t><t>2</t></o>", id="two elements"),
        pytest.param(Step("x.t", 1), b"<o><t>1</t></o>", id="another root"),
        pytest.param(Keep(("a",)), b"\x01\x02", id="nothing to keep of opaque bytes"),
    ],
)
def test_what_cannot_be_degraded_is_not_given(degradation: Degradation, payload: bytes) -> None:
    with pytest.raises(ContentError):
        degrade([degradation], Content(payload), Quality(), LIBRARY, NOW)


@pytest.mark.parametrize(
    ("degradation", "before", "after"),
    [
        pytest.param(Grid(300, span=1000), {"precision": 100.0}, {"precision": 87.75}, id="300 m / sqrt 6 of 1000 m"),
        pytest.param(Grid(300, span=1000), {"accuracy": 100.0}, {"accuracy": 78.79}, id="half the diagonal of 300 m"),
        pytest.param(Grid(300), {"precision": 90.0, "resolution": 5.0}, {"resolution": 300.0}, id="without a span"),
        pytest.param(Step("t", 6, span=100), {"precision": 97.0}, {"precision": 96.54}, id="spreads add by squares"),
        pytest.param(Step("t", 6, span=100), {"resolution": 10.0}, {"resolution": 10.0}, id="coarser already"),
        pytest.param(
            Delay(60), {"freshness": 5.0, "precision": 9.0}, {"freshness": 65.0, "precision": 9.0}, id="delay"
        ),
        pytest.param(Delay(60), {"up_to_dateness": 50.0}, {}, id="a delay, and a lifetime that is not known"),
        pytest.param(Keep(("a",)), {"completeness": 80.0, "accuracy": 8.0}, {"accuracy": 8.0}, id="keep"),
    ],
)
def test_quality_is_lowered(degradation: Degradation, before: dict[str, float], after: dict[str, float]) -> None:
    lowered = lower([degradation], of(**before), LIBRARY, NOW)
    assert {one.key.indicator: one.value for one in lowered} == pytest.approx(after, abs=0.01)


degradations = st.lists(
    st.builds(Grid, st.floats(1, 1e4), span=st.none() | st.floats(1, 1e5))
    | st.builds(Step, st.just("t"), st.floats(0.1, 50), st.none() | st.floats(1, 100))
    | st.builds(Delay, st.floats(0, 1000))
    | st.just(Keep(("a",))),
    max_size=3,
)


@given(degradations, library_qualities)
def test_quality_never_gets_better_and_never_above_the_caps(several: list[Degradation], quality: Quality) -> None:
    lowered = lower(several, quality, LIBRARY, NOW)
    best = caps(several, LIBRARY)
    for one in lowered:
        before = quality.get(one.key)
        assert before is not None
        assert LIBRARY.definition(one.key).reaches(before.value, one.value)
        cap = best.get(one.key, Need(one.key))
        assert cap is not None
        assert not why_not([cap], lowered) or one.value == pytest.approx(cap.bound)


def test_a_delay_is_not_counted_twice() -> None:
    made = degrade([Delay(60)], Content(b"{}"), of(freshness=5), LIBRARY, NOW)
    assert [one.value for one in aged(made.quality, LIBRARY, made.not_before)] == [65]


def test_quality_in_content_is_lowered_too() -> None:
    quality = of(precision=100, accuracy=90)
    content = Content(write_quality(Content(b'{"lat": 48.8, "lon": 2.2}'), quality))
    made = degrade([Grid(300, span=1000), Keep(("lat", "lon"))], content, quality, LIBRARY, NOW)
    assert read_quality(Content(made.payload), moment(NOW)) == made.quality != quality


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Grid(0.5),
        lambda: Grid(math.nan),
        lambda: Grid(500, span=0),
        lambda: Step("a", 0),
        lambda: Keep(()),
        lambda: Delay(-1),
        lambda: Aggregate(60, ()),
        lambda: Aggregate(0, ("a",)),
        lambda: Aggregate(60, ("a",), least=0),
        lambda: Aggregate(60, ("a",), events=0),
    ],
)
def test_degradations_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(PolicyError):
        wrong()  # type: ignore[operator]


def test_an_aggregate_releases_the_mean_of_a_time_when_it_is_over() -> None:
    hourly = Aggregate(3600, ("t", "gps.lat"), least=2)
    window: MeanWindow | None = None
    for at, degrees, publisher in ((10, 20, "ann"), (20, 24, "bob"), (3599, 22, "")):
        content = Content(f'{{"t": {degrees}, "gps": {{"lat": 48}}, "who": "Bob"}}'.encode())
        window, released = absorb(hourly, window, content, of(precision=80), LIBRARY, at, None, publisher)
        assert released is None
    last = Content(b'{"t": 99, "gps": {"lat": 1}}')
    for _ in range(2):
        window, again = absorb(hourly, window, last, Quality(), LIBRARY, 3600, None, "ann")
        released = again or released
    assert released is not None
    assert json.loads(released.payload) == {"t": 22.0, "gps": {"lat": 48.0}}
    assert released.of == 3
    assert [one.value for one in released.quality] == pytest.approx([100 * (1 - 0.2 / math.sqrt(3))])
    assert due(hourly, window, LIBRARY, 7199) == (window, None)
    assert due(hourly, window, LIBRARY, 7200) == (None, None), "one publisher alone is not released"


def test_an_aggregate_of_more_than_it_takes_is_less_complete() -> None:
    hourly, window = Aggregate(3600, ("t",), events=MAX_INPUTS), None
    for number in range(MAX_INPUTS + 250):
        content, publisher = Content(b'{"t": %d}' % (0 if number < MAX_INPUTS else 1000)), f"p{number % 2}"
        window, _ = absorb(hourly, window, content, of(completeness=100), LIBRARY, 1, None, publisher)
    _, released = due(hourly, window, LIBRARY, 3600)
    assert released is not None
    assert (released.of, json.loads(released.payload)) == (MAX_INPUTS, {"t": 0.0})
    assert [one.value for one in released.quality] == [80.0]


@pytest.mark.parametrize("payload", [b'{"t": "x"}', b"{}", b"<o><t>1</t></o>"])
def test_what_cannot_be_aggregated_is_refused(payload: bytes) -> None:
    with pytest.raises(ContentError):
        absorb(Aggregate(60, ("t",)), None, Content(payload), Quality(), LIBRARY, 0)


@given(st.floats(-60, 60), st.floats(-170, 170), st.sampled_from([50.0, 500.0]), st.floats(0, 2000), st.booleans())
def test_a_coarse_location_does_not_keep_its_old_radius(
    latitude: float, longitude: float, size: float, radius: float, is_xml: bool
) -> None:
    """The circle is as wide as the cells that contain the old one, and tells no more of it."""
    payload = f'{{"lat": {latitude}, "lon": {longitude}, "radius": {radius}}}'
    if is_xml:
        payload = f"<at><lat>{latitude:f}</lat><lon>{longitude:f}</lon><radius>{radius:f}</radius></at>"
    grid = Grid(size, "at.lat", "at.lon") if is_xml else Grid(size)
    made = degrade([grid], Content(payload.encode()), Quality(), LIBRARY, NOW)
    left: Any = Content(made.payload).attributes
    left = left["at"] if is_xml else left
    found, near = float(str(left["radius"])), (float(str(left["lat"])), float(str(left["lon"])))
    assert found >= size
    assert found % size == pytest.approx(0)
    assert found >= metres((latitude, longitude), near) * 0.98 + radius - size / 10
    assert found <= size * 2 + radius


def test_a_radius_of_another_name_must_be_there() -> None:
    with pytest.raises(ContentError, match="`within` is not a number"):
        degrade([Grid(500, radius="within")], Content(b'{"lat": 1, "lon": 1}'), Quality(), LIBRARY, NOW)
