"""Situations open by events of authorised sources, and have an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.policy.contracts.situation import (
    NONE_OPEN,
    OpenSituation,
    OpenSituations,
    SituationChange,
    SituationNotice,
    current,
    step,
)
from penstock.policy.contracts.text_form import read_situation

HAZARD = read_situation(
    "hazard",
    {
        "sources": ["capsule", "doctor"],
        "opens": {"filter": "bob/health", "where": "level > 3"},
        "closes": {"filter": "bob/+", "where": "level <= 3"},
        "lasts": "10m",
    },
)
OPEN: OpenSituations = {"hazard": OpenSituation(100, 700, "capsule")}


@pytest.mark.parametrize(
    ("open", "topic", "source", "payload", "now", "expected", "changes"),
    [
        pytest.param({}, "bob/health", "capsule", b'{"level": 4}', 100, OPEN, ["opened"], id="it opens"),
        pytest.param({}, "bob/health", "capsule", b'{"level": 3}', 100, {}, [], id="its condition is false"),
        pytest.param({}, "bob/health", "capsule", b"{}", 100, {}, [], id="its condition fails"),
        pytest.param({}, "ann/health", "capsule", b'{"level": 4}', 100, {}, [], id="another topic"),
        pytest.param({}, "bob/health", "mallory", b'{"level": 4}', 100, {}, ["refused"], id="an unauthorised source"),
        pytest.param(
            OPEN, "bob/health", "doctor", b'{"level": 5}', 600,
            {"hazard": OpenSituation(100, 1200, "doctor")}, ["prolonged"], id="opened again, it lasts longer",
        ),
        pytest.param(OPEN, "bob/ok", "doctor", b'{"level": 0}', 300, {}, ["closed"], id="it closes"),
        pytest.param(OPEN, "bob/ok", "doctor", b"damaged", 300, {}, ["closed"], id="failing closes"),
        pytest.param(OPEN, "bob/ok", "mallory", b'{"level": 0}', 300, OPEN, ["refused"], id="not by just anybody"),
        pytest.param({}, "bob/ok", "doctor", b'{"level": 0}', 300, {}, [], id="what is not open is not closed"),
        pytest.param(OPEN, "else", "doctor", b"{}", 700, {}, ["expired"], id="its end is noticed at any event"),
        pytest.param(
            OPEN, "bob/health", "capsule", b'{"level": 4}', 900, {"hazard": OpenSituation(900, 1500, "capsule")},
            ["expired", "opened"], id="after its end it opens anew",
        ),
    ],
)  # fmt: skip
def test_steps(
    open: OpenSituations, topic: str, source: str, payload: bytes, now: float, expected: object, changes: list[str]
) -> None:
    after, notices = step([HAZARD], open, topic, source, Content(payload), now)
    assert after == expected
    assert [notice.change for notice in notices] == changes
    assert all(notice.situation == "hazard" for notice in notices)


def test_every_change_says_who_and_when() -> None:
    _, notices = step([HAZARD], NONE_OPEN, "bob/health", "mallory", Content(b'{"level": 4}'), 5)
    assert notices == (
        SituationNotice("hazard", SituationChange.REFUSED, "mallory", 5, "`mallory` may not say that it is opened"),
    )


events = st.lists(
    st.tuples(st.sampled_from(["capsule", "mallory"]), st.integers(0, 6), st.integers(0, 900)), max_size=8
)


@given(events, st.integers(0, 5000))
def test_nothing_is_open_that_no_authorised_source_has_opened_within_its_time(
    said: list[tuple[str, int, int]], later: int
) -> None:
    open, now, last = NONE_OPEN, 0.0, None
    for source, level, wait in said:
        now += wait
        open, _ = step([HAZARD], open, "bob/health", source, Content(f'{{"level": {level}}}'.encode()), now)
        if source == "capsule":
            last = now if level > 3 else None
    open, _ = current(open, now + later)
    assert bool(open) == (last is not None and now + later < last + 600)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param({"sources": [], "opens": "a", "lasts": "1h"}, "no source", id="nobody may open it"),
        pytest.param({"sources": "x", "opens": "a"}, "no `lasts`", id="no end"),
        pytest.param({"sources": "x", "opens": "a", "lasts": 0}, "above 0", id="no time"),
        pytest.param({"sources": "x", "opens": "a", "lasts": "90d"}, "at most", id="a season"),
        pytest.param({"sources": "x", "opens": "a", "lasts": "soon"}, "lasts: ", id="not a length of time"),
        pytest.param({"sources": "x", "opens": "a/#/b", "lasts": "1h"}, "opens: ", id="not a filter"),
        pytest.param({"sources": "x", "opens": {"filter": "a", "where": "("}, "lasts": 1}, "where: ", id="a bracket"),
    ],
)
def test_situations_that_are_wrong_are_refused(said: object, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        read_situation("s", said)
