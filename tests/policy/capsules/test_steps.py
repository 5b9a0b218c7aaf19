"""What a capsule does with one event and with one result, case by case."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.capsules import compiled
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.model.quality import Quality
from penstock.policy.capsules.capsule import MICROSECONDS, Capsule, WindowSchedule
from penstock.policy.capsules.steps import ReducedGroup, TakenEvent, conclude, fused, take
from tests.support.scenes.air_capsules import AIR, FUSED, NOON, quality

CAME = NOON * MICROSECONDS
GOOD = {"pm10": 7, "kind": "park", "at": NOON - 1, "sensor": True}
MEDIUM = quality(NOON, precision=50)


def made(said: dict[str, Any], **more: Any) -> Capsule:
    node = {"listen": [{"address": "127.0.0.1:0"}]}
    whole = {
        "nodes": {"main": node},
        "clients": {said["client"]: {"node": "main"}},
        "capsules": {"it": {**said, **more}},
    }
    return compiled(Domain.model_validate(whole), "it")


def taken(capsule: Capsule, said: object, of: Quality = MEDIUM) -> TakenEvent | None:
    return take(capsule, "city/a/air", Content(json.dumps(said).encode()), of, CAME)


# --- windows


@given(st.integers(-(10**16), 10**16), st.integers(1, 10**6), st.integers(1, 50), st.integers(0, 10**6))
def test_a_time_is_in_the_windows_that_have_it(at: int, slide: int, times: int, more: int) -> None:
    window = WindowSchedule(slide * times + more % slide, slide)
    starts = list(window.starts(at))
    assert starts == [start for start in range(starts[0] - slide, at + 1, slide) if start <= at < start + window.length]
    assert all(start % slide == 0 for start in starts)


@pytest.mark.parametrize(
    ("length", "slide"), [(10, 20), (10, 0), (1001, 1)], ids=["with holes", "that do not move", "too many"]
)
def test_windows_that_cannot_be(length: int, slide: int) -> None:
    with pytest.raises(PolicyError):
        WindowSchedule(length, slide)


# --- events


def test_an_event_is_taken() -> None:
    found = taken(made(AIR), GOOD)
    assert found is not None
    assert (found.at, found.group, found.numbers) == ((NOON - 1) * MICROSECONDS, ("a", "park"), (7.0,))
    assert [(one.key.indicator, one.value) for one in found.quality] == [("precision", 50.0), ("trustworthiness", 80.0)]


@pytest.mark.parametrize(
    ("said", "of"),
    [
        ({**GOOD, "pm10": -1}, quality(NOON, precision=50)),
        ({"kind": "park"}, quality(NOON, precision=50)),
        (GOOD, quality(NOON, precision=10)),
        (GOOD, quality(NOON, accuracy=90)),
    ],
    ids=["the condition is false", "the condition fails", "an indicator is too low", "an indicator is not there"],
)
def test_what_is_left_out(said: dict[str, Any], of: Quality) -> None:
    assert taken(made(AIR), said, of) is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({**GOOD, "kind": None}, "`kind`: `kind` is not a text"),
        ({**GOOD, "kind": "x" * 300}, "at most 256 characters"),
        ({**GOOD, "at": "yesterday"}, "`at` is not a time"),
        ({**GOOD, "at": True}, "`at` is not a time: True"),
        ({"pm10": 1, "kind": "park"}, "`at` is not a time"),
        ({**GOOD, "at": NOON + 5}, "happened 5 s after it came"),
    ],
    ids=["a group without a name", "a long name", "no time", "a bool as time", "without a time", "in the future"],
)
def test_what_is_put_aside(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        taken(made(AIR), said)


def test_a_value_that_is_no_number_is_put_aside() -> None:
    with pytest.raises(PolicyError, match="`pm10` is not a number"):
        taken(made(FUSED), {**GOOD, "pm10": "much"})


def test_a_level_that_a_topic_does_not_have() -> None:
    with pytest.raises(PolicyError, match="level 2 of the topic, which has 1"):
        take(made(FUSED), "city", Content(json.dumps(GOOD).encode()), Quality(), CAME)


def test_times_can_be_texts() -> None:
    found = taken(made(AIR), {**GOOD, "at": "2026-01-01T11:59:59.5Z"})
    assert found is not None
    assert found.at == (NOON - 1) * MICROSECONDS + 500_000


SETS: list[tuple[str, object, dict[str, float]]] = [
    ("a number", {"accuracy": 70}, {"precision": 50.0, "accuracy": 70.0}),
    ("of what it was", {"precision": "quality.precision * 0.5"}, {"precision": 25.0}),
    ("of the content", {"precision": "pm10"}, {"precision": 7.0}),
    ("beyond the range: it is not known", {"precision": "quality.precision * 3.0"}, {}),
    ("that fails: it is not known", {"precision": "nothing"}, {}),
]


@pytest.mark.parametrize(("said", "wanted"), [case[1:] for case in SETS], ids=[case[0] for case in SETS])
def test_indicators_are_set(said: object, wanted: dict[str, float]) -> None:
    found = taken(made(FUSED, operations=[{"set": said}, *FUSED["operations"]]), GOOD)
    assert found is not None
    assert {one.key.indicator: one.value for one in found.quality} == wanted


# --- results


def test_a_result_goes_out_with_its_quality() -> None:
    reduced = ReducedGroup(
        CAME, ("a", "park"), 3, {"pm10": 61.0, "peak": 70.0, "least": 1.0, "n": 3}, quality(NOON, precision=40)
    )
    result = conclude(made(AIR), reduced)
    assert result is not None
    assert result.topic == "zones/a/air"
    assert json.loads(result.payload) == {
        "zone": "a",
        "kind": "park",
        "start": "2026-01-01T12:00:00Z",
        "end": "2026-01-01T12:01:00Z",
        "pm10": 61.0,
        "peak": 70.0,
        "least": 1.0,
        "n": 3,
        "situation": "danger",
    }
    ((name, text),) = result.properties
    assert (name, json.loads(text)["value"]) == ("qoc", 40.0)


RESULTS: list[tuple[str, dict[str, float], Quality, str]] = [
    ("the first rule that holds", {"pm10": 61.0}, quality(NOON, precision=40), "danger"),
    ("one that does not hold", {"pm10": 60.0}, quality(NOON, precision=40), "fine"),
    ("one that cannot be evaluated is not true", {"pm10": 61.0}, Quality(), "fine"),
]


@pytest.mark.parametrize(("values", "of", "wanted"), [case[1:] for case in RESULTS], ids=[case[0] for case in RESULTS])
def test_a_situation_is_inferred(values: dict[str, float], of: Quality, wanted: str) -> None:
    result = conclude(
        made(AIR), ReducedGroup(CAME, ("a", "park"), 3, {"peak": 0.0, "least": 0.0, "n": 3, **values}, of)
    )
    assert result is not None
    assert json.loads(result.payload)["situation"] == wanted


def test_results_are_left_out_too() -> None:
    capsule = made(FUSED, operations=[*FUSED["operations"], {"where": "pm10 > 5.0"}, {"keep": "precision"}])
    good, low = ({"pm10": value} for value in (6.0, 5.0))
    assert conclude(capsule, ReducedGroup(CAME, ("a",), 1, good, quality(NOON, precision=40))) is not None
    assert conclude(capsule, ReducedGroup(CAME, ("a",), 1, low, quality(NOON, precision=40))) is None
    assert conclude(capsule, ReducedGroup(CAME, ("a",), 1, good, Quality())) is None


@pytest.mark.parametrize(
    "zone", ["a/b", "+", "#", "\0"], ids=["two levels", "a wildcard", "another", "no text of MQTT"]
)
def test_a_group_that_cannot_stand_in_a_topic(zone: str) -> None:
    with pytest.raises(PolicyError):
        conclude(made(FUSED), ReducedGroup(CAME, (zone,), 1, {"pm10": 1.0}, Quality()))


def test_numbers_beyond_all_are_no_result() -> None:
    with pytest.raises(PolicyError, match="beyond all numbers"):
        conclude(made(FUSED), ReducedGroup(CAME, ("a",), 1, {"pm10": float("inf")}, Quality()))


# --- fusion


def _said(pm10: float, source: str, **of: float) -> TakenEvent:
    return TakenEvent(CAME, ("a",), (pm10,), quality(NOON, **of), source)


def test_sources_are_weighted_by_the_inverse_of_their_spreads_squares() -> None:
    found = fused(made(FUSED), CAME, ("a",), [_said(10.0, "x", precision=90), _said(20.0, "y", precision=80)])
    assert found.values["pm10"] == pytest.approx(12.0)
    assert found.inputs == 2
    (precision,) = found.quality
    assert precision.value == pytest.approx(100 * (1 - (0.8**2 * 0.1**2 + 0.2**2 * 0.2**2) ** 0.5))


def test_sources_are_weighted_by_other_indicators_by_their_range() -> None:
    fuse = {**FUSED["operations"][0]["fuse"], "weight": "trustworthiness"}
    inputs = [_said(10.0, "x", trustworthiness=75), _said(20.0, "y", trustworthiness=25), _said(99.0, "z")]
    found = fused(made(FUSED, operations=[{"fuse": fuse}]), CAME, ("a",), inputs)
    assert found.values["pm10"] == pytest.approx(12.5)


def test_of_a_source_the_last_word_counts() -> None:
    inputs = [_said(99.0, "x", precision=80), _said(20.0, "y", precision=80), _said(10.0, "x", precision=80)]
    assert fused(made(FUSED), CAME, ("a",), inputs).values["pm10"] == pytest.approx(15.0)


def test_nothing_is_fused_of_sources_without_the_quality() -> None:
    with pytest.raises(PolicyError, match="no input has any precision"):
        fused(made(FUSED), CAME, ("a",), [_said(10.0, "x")])
