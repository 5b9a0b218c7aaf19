"""The contracts paper's section 3: Table 1 and its rules (tests/cases/contracts/paris.yaml)."""

import json
from typing import Any

import pytest

from penstock.model.content.content import Content
from penstock.policy.contracts.fit import FitLevel, match
from penstock.policy.contracts.release import Releaser
from penstock.policy.contracts.situation import NONE_OPEN, SituationChange, current, step
from tests.support.cases.contracts import NOW, paris
from tests.support.models.abac import abac_attributes, abac_policy, decide, standing_in

PARIS = paris()
SITUATIONS = [one.name for one in PARIS.situations]


@pytest.mark.parametrize("case", PARIS.fits, ids=lambda case: str(case["title"]))
def test_table_1(case: dict[str, Any]) -> None:
    fit = match(PARIS.producers[case["producer"]], PARIS.consumers[case["consumer"]], PARIS.catalogue)
    (want,) = [want for want in fit.wants if want.want == case["want"]]
    assert want.standing is FitLevel[case["comes_to"].upper()]
    for situation, standing in case["open"].items():
        opened = [] if situation == "none" else [situation]
        assert standing_in(want, opened) is FitLevel[standing.upper()], situation
    if "because" in case:
        assert any(case["because"] in reason for reason in fit.reasons), fit.reasons


@pytest.mark.parametrize("case", PARIS.events, ids=lambda case: str(case["title"]))
def test_who_gets_what_of_an_event(case: dict[str, Any]) -> None:
    producer, quality = PARIS.producers[case["producer"]], PARIS.quality(case["quality"])
    content = Content(case["payload"].encode())
    for name, expected in case["gets"].items():
        consumer = PARIS.consumers[name]
        release = Releaser(producer, consumer, consumer.wants[0], PARIS.catalogue, SITUATIONS).decide(
            content, quality, case["open"], NOW
        )
        if isinstance(expected, str):
            assert not release.is_released
            assert not release.payload
            assert any(expected in reason for reason in release.reasons), (name, release.reasons)
            continue
        assert (release.is_released, release.rule) == (True, expected["rule"]), release.reasons
        got = json.loads(release.payload)
        assert (got["lat"], got["lon"]) == (expected["lat"], expected["lon"])
        assert got["street"] == 7
        assert [one.value for one in release.quality] == pytest.approx([expected["location-quality"]], abs=0.1)


@pytest.mark.parametrize("case", PARIS.events, ids=lambda case: str(case["title"]))
def test_the_abac_policy_permits_what_is_released(case: dict[str, Any]) -> None:
    policy = abac_policy(PARIS.producers[case["producer"]])
    quality = PARIS.quality(case["quality"])
    for name, expected in case["gets"].items():
        asked = abac_attributes(PARIS.consumers[name], case["producer"], case["open"], quality)
        ruling = decide(policy, asked)
        assert ruling is not None
        if isinstance(expected, dict):
            assert ruling.rule is not None
            assert ruling.rule.id == expected["rule"]
        elif "quality" not in expected and "degraded" not in expected:  # which the policy does not ask about here
            assert ruling.rule is None
            assert ruling.reasons


def test_a_policy_says_nothing_of_other_contracts() -> None:
    policy = abac_policy(PARIS.producers["bob-location"])
    assert decide(policy, abac_attributes(PARIS.consumers["free-air"], "bob-vitals", (), PARIS.quality({}))) is None


def test_the_life_hazard_opens_the_location_to_the_emergency_services_only_and_closes_again() -> None:
    producer = PARIS.producers["bob-location"]
    content, quality = Content(b'{"lat": 48.86, "lon": 2.27}'), PARIS.quality({"location-quality": 95})

    def released(to: str, opened: Any) -> bool:
        consumer = PARIS.consumers[to]
        releaser = Releaser(producer, consumer, consumer.wants[0], PARIS.catalogue, SITUATIONS)
        return releaser.decide(content, quality, opened, NOW).is_released

    def health(opened: Any, source: str, danger: str, now: float) -> Any:
        said = Content(f'{{"danger": {danger}}}'.encode())
        return step(PARIS.situations, opened, "paris/bob/health", source, said, now)

    assert not released("emergency", NONE_OPEN)
    forged, notices = health(NONE_OPEN, "free-air", "true", NOW)
    assert [notice.change for notice in notices] == [SituationChange.REFUSED]
    assert not released("emergency", forged)

    opened, notices = health(NONE_OPEN, "bob-health-capsule", "true", NOW)
    assert [notice.change for notice in notices] == [SituationChange.OPENED]
    assert released("emergency", opened)
    assert not released("advertiser", opened)

    closed, notices = health(opened, "bob-health-capsule", "false", NOW + 60)
    assert [notice.change for notice in notices] == [SituationChange.CLOSED]
    assert not released("emergency", closed)

    ended, notices = current(opened, NOW + 3600)
    assert [notice.change for notice in notices] == [SituationChange.EXPIRED]
    assert not released("emergency", ended)
