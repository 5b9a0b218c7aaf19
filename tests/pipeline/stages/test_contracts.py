"""Contracts on Spark: what govern gives a consumer is what nodes delivered to it, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.domain import Domain
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.engine.contracts.test_paris import CLIENTS, paris_domain
from tests.support.scenes.contracts import STORY, ContractsPlayed, Gets, given, played, random_scene, wanting, wrong

PUBLISHERS = ("paris-sensors", "bob-phone", "bob-wrist", "bob-health-capsule")
SUBJECTS = tuple(name for name in CLIENTS if name not in PUBLISHERS)
ASKERS = tuple(map(Asker, SUBJECTS))


def city(scope: str = "global", want: str = "global", **more: Any) -> Domain:
    return Domain.model_validate({**paris_domain(scope, want), **more})


@pytest.fixture(scope="module")
def paris(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[ContractsPlayed, DataFrame]:
    made = played(city(), tmp_path_factory.mktemp("paris"), STORY, SUBJECTS)
    return made, tables.events(spark, made.journal).cache()


def _given(paris: tuple[ContractsPlayed, DataFrame], policies: Policies, askers: tuple[Asker, ...] = ASKERS) -> Gets:
    return given(view(paris[1], policies, askers))


def test_as_it_stood(paris: tuple[ContractsPlayed, DataFrame]) -> None:
    got = paris[0].got
    seen = {name: [topic for topic, *_ in several] for (name, _), several in got.items()}
    assert seen["city-emergency"].count("paris/bob/location") == 2
    assert seen["free-air"].count("paris/bob/location") == 4
    assert not wrong(_given(paris, as_it_stood(paris[0].journal)), got)


@pytest.mark.recorded
def test_as_it_stands_everything_is_worked_out_again(paris: tuple[ContractsPlayed, DataFrame], tmp_path: Path) -> None:
    same = city(assertions=[{"can": "bob-phone to free-air"}])
    assert not wrong(_given(paris, judged_by(same, tmp_path, paris[0].journal)), paris[0].got)


@pytest.mark.recorded
def test_a_draft_without_contracts_gives_what_was_published(
    paris: tuple[ContractsPlayed, DataFrame], tmp_path: Path
) -> None:
    plain = judged_by(city(contracts=None, quality=None), tmp_path, paris[0].journal)
    found = _given(paris, plain, (Asker("curious"), Asker("ads")))
    everything = [(one[1], json.dumps(one[2]).encode(), 1, ()) for one in STORY if isinstance(one, tuple)]
    assert found["curious", "b1"] == everything
    bad = json.dumps({"pm": 12, "q": 12}).encode()  # it was stopped at its producer's node, and never came further
    crossed = {payload for _, payload, *_ in paris[0].got["city-emergency", "b3"]}  # or nobody there might have it
    private = ("paris/bob/location", "paris/bob/vitals")
    came = [one for one in everything if one[1] != bad and (one[0] not in private or one[1] in crossed)]
    assert found["ads", "b3"] == came


@pytest.mark.recorded
def test_a_draft_with_another_contract_binds_what_came_from_other_nodes(
    paris: tuple[ContractsPlayed, DataFrame], tmp_path: Path
) -> None:
    """It is not known there who published; nothing may pass unbound for that."""
    rules = {"rule": {"purpose": "health", "degrade": [{"keep": ["pm"]}]}}
    pollution = {"producer": "paris-sensors", "filter": "paris/pollution/#", "rules": rules}
    contracts = paris_domain()["contracts"]
    contracts["producers"]["pollution"] = pollution
    for name in ("free-air", "emergency"):
        contracts["consumers"][name]["wants"] = {"all": {"filter": "paris/#"}}
    found = _given(paris, judged_by(city(contracts=contracts), tmp_path, paris[0].journal))
    kept = {node: payload for node, several in found.items() for topic, payload, *_ in several if "poll" in topic}
    wanting_it = [("free-air", "b2"), ("city-emergency", "b3")]
    assert kept == dict.fromkeys(wanting_it, b'{"pm":12}'), "the others have no want for it"


@pytest.mark.recorded
@pytest.mark.parametrize(("scope", "want"), [("local", "global"), ("global", "local"), ("local", "local")])
def test_wherever_privacy_is_evaluated(spark: SparkSession, tmp_path: Path, scope: str, want: str) -> None:
    made = played(city(scope, want), tmp_path, STORY, SUBJECTS)
    events = tables.events(spark, made.journal)
    assert not wrong(given(view(events, as_it_stood(made.journal), ASKERS)), made.got)


@pytest.mark.recorded
@pytest.mark.parametrize("seed", range(4))
def test_contracts_at_random(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    domain, story, subjects = random_scene(seed, binds=2)
    made = played(domain, tmp_path, story, subjects)
    assert sum(map(len, made.got.values())) > 10
    events = tables.events(spark, made.journal)
    assert not wrong(given(view(events, as_it_stood(made.journal), tuple(map(Asker, subjects)))), made.got)


@pytest.mark.recorded
@pytest.mark.parametrize("seed", range(4, 8))
def test_contracts_at_random_worked_out_again(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Those that bind all who publish: who published is not known at other nodes, so that it must not matter."""
    domain, story, subjects = random_scene(seed, binds=4)
    made = played(domain, tmp_path, story, subjects)
    assert sum(map(len, made.got.values())) > 10
    same = wanting(domain, assertions=[{"can": "p0 to c0"}])
    again = judged_by(same, tmp_path, made.journal)
    found = given(view(tables.events(spark, made.journal), again, tuple(map(Asker, subjects))))
    assert not wrong(found, made.got)
