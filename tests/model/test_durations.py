"""Lengths of time: one reader, and the forms that each of its callers takes."""

import math

import pytest

from penstock.domain.units import parse_duration
from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import duration_from_string
from penstock.model.durations import check_seconds, read_nanos, read_seconds
from penstock.model.errors import PolicyError
from penstock.model.values import SECOND

# text: seconds
EVERYWHERE = {
    "90s": 90,
    "1.5s": 1.5,
    ".5s": 0.5,
    "2.h": 7200,
    "250ms": 0.25,
    "3us": 3e-6,
    "3µs": 3e-6,
    "3μs": 3e-6,
    "7ns": 7e-9,
    "1h30m": 5400,
    "+10m": 600,
    "0": 0,
}
BESIDE_CEL = {"2d": 172_800, "1w": 604_800, "1d12h": 129_600, " 10 s ": 10, "1.5 h": 5400, "0.1d": 8640}
NOWHERE = ("", "10", "s", "soon", "1 fortnight", "10S", "1h,30m", "1  h", "--1s", "1e3s", "٣s", f"{'1' * 100}s")


@pytest.mark.parametrize(("text", "seconds"), EVERYWHERE.items())
def test_forms_that_every_caller_takes(text: str, seconds: float) -> None:
    assert duration_from_string(text).nanos == round(seconds * SECOND)
    assert parse_duration(text) == check_seconds(text) == seconds


@pytest.mark.parametrize(("text", "seconds"), BESIDE_CEL.items())
def test_forms_that_conditions_do_not_take(text: str, seconds: float) -> None:
    assert parse_duration(text) == check_seconds(text) == seconds
    with pytest.raises(EvaluationError):
        duration_from_string(text)


@pytest.mark.parametrize("text", NOWHERE)
def test_other_text_is_refused(text: str) -> None:
    assert read_nanos(text) is read_seconds(text) is None
    with pytest.raises(EvaluationError):
        duration_from_string(text)


def test_only_conditions_have_negative_durations() -> None:
    assert duration_from_string("-1.5ms").nanos == -1_500_000
    assert read_seconds("-1.5ms") is None


def test_numbers_are_seconds() -> None:
    assert (read_seconds(10), read_seconds(0.5), read_seconds(-1)) == (10, 0.5, -1)
    assert read_seconds(True) is read_seconds(None) is read_seconds([1]) is None
    for value in (-1, math.inf, math.nan, True, None):
        with pytest.raises(PolicyError, match="is not a length of time"):
            check_seconds(value)
