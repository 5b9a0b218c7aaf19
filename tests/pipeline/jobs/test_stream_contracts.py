"""Contracts in a stream and in a replay: what comes out is what nodes delivered, whatever the batches are."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain
from penstock.domain.yaml.write import domain_text
from penstock.pipeline.contracts.situations import (
    NOTHING_OPEN,
    SITUATIONS,
    Openings,
    SituationSpan,
    Timeline,
    read_open,
    write_open,
)
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.replay import replay
from penstock.pipeline.jobs.stream import Stream, StreamBatch, start
from penstock.pipeline.spark.policies import Asker
from penstock.pipeline.spark.session import readable
from penstock.policy.contracts.situation import OpenSituation
from tests.engine.contracts.test_paris import paris_domain
from tests.pipeline.stages.test_contracts import SUBJECTS, city
from tests.support.scenes.contracts import (
    STORY,
    ContractsPlayed,
    Gets,
    given,
    health,
    location,
    played,
    random_scene,
    wanting,
    wrong,
)

pytestmark = pytest.mark.recorded


def test_what_is_open_comes_back() -> None:
    openings = Openings(None)  # type: ignore[arg-type]
    openings.open["b1"] = {"fire": OpenSituation(1.0, 2.5, "me")}
    value = SITUATIONS.write(write_open(openings))
    assert read_open(SITUATIONS.read(value)) == openings.open
    assert read_open(b"[]") == {}
    with pytest.raises(PipelineError, match=f"states of version {SITUATIONS.version + 1}"):
        SITUATIONS.read((SITUATIONS.version + 1, b"[]"))


def test_a_situation_is_open_from_its_event_on_up_to_its_end() -> None:
    begins, ends = (10.0, 5, 0), (20.0, 9, 0)
    line = Timeline({("b1", "fire"): [SituationSpan(begins, ends, 100.0), SituationSpan((30.0, 12, 1), None, 40.0)]})
    asked = {
        (9.0, 4, 0): (),
        begins: ("fire",),
        (19.0, 8, 3): ("fire",),
        ends: (),
        (29.0, 12, 0): (),
        (30.0, 12, 1): ("fire",),
    }
    assert {place: tuple(line.open_at("b1", place, place[0])) for place in asked} == asked
    assert not line.open_at("b1", (40.0, 20, 0), 40.0), "its time is over"
    assert not line.open_at("b2", begins, 10.0)
    assert [tuple(line.open_later("b1", now)) for now in (9.0, 10.0, 20.0, 39.9, 40.0)] == [
        (),
        ("fire",),
        (),
        ("fire",),
        (),
    ]
    assert not NOTHING_OPEN.open_at("b1", begins, 10.0)


def _streamed(
    spark: SparkSession, made: ContractsPlayed, domain: Domain, folder: Path, subjects: tuple[str, ...]
) -> tuple[Gets, int]:
    (folder / "domain.yaml").write_text(domain_text(domain))
    size = max(path.stat().st_size for path in made.journal.glob("node=*/*/*.arrow"))
    places = made.journal, folder / "domain.yaml", folder / "views", folder / "checkpoint"
    batches: list[StreamBatch] = []
    stream = Stream(*places, tuple(map(Asker, subjects)), max_bytes=size, partitions=1)
    start(spark, stream, once=True, on_batch=batches.append).awaitTermination()
    return given(read_view(spark, stream.folder)), len(batches)


def _forever(contracts: dict[str, Any]) -> dict[str, Any]:
    """Without retention: what nodes that live in 1970 released is long to be deleted."""
    for consumer in contracts["consumers"].values():
        consumer.pop("retention", None)
    for producer in contracts["producers"].values():
        for rule in producer.get("rules", {}).values():
            rule.pop("retention", None)
    return contracts


@pytest.mark.recorded
@pytest.mark.parametrize("want", ["global", "local"])
def test_a_stream_with_situations(spark: SparkSession, tmp_path: Path, want: str) -> None:
    made = played(city("global", want), tmp_path, STORY, SUBJECTS, every=6)
    same = city("global", want, assertions=[{"can": "bob-phone to free-air"}])
    found, batches = _streamed(spark, made, same, tmp_path, SUBJECTS)
    assert batches > 1
    assert not wrong(found, made.got)


@pytest.mark.recorded
def test_a_stream_of_contracts_at_random(spark: SparkSession, tmp_path: Path) -> None:
    domain, story, subjects = random_scene(7, binds=4)
    assert domain.contracts is not None
    domain = wanting(domain, contracts=_forever(domain.contracts.model_dump()))
    made = played(domain, tmp_path, story, subjects)
    found, _ = _streamed(spark, made, domain, tmp_path, subjects)
    assert not wrong(found, made.got)


@pytest.mark.recorded
def test_a_stream_does_not_guess_when_other_situations_were_open(spark: SparkSession, tmp_path: Path) -> None:
    made = played(city(), tmp_path, (location(48.9, 95), health(True)), SUBJECTS)
    contracts = paris_domain()["contracts"]
    contracts["situations"] = {"life-hazard": {**contracts["situations"]["life-hazard"], "lasts": "2h"}}
    with pytest.raises(PipelineError, match="other situations than were in force"), readable():
        _streamed(spark, made, city(contracts=contracts), tmp_path, SUBJECTS)


@pytest.mark.recorded
def test_a_draft_that_opens_a_location_to_all_is_caught(spark: SparkSession, tmp_path: Path) -> None:
    made = played(city(), tmp_path, STORY, SUBJECTS)
    contracts = paris_domain()["contracts"]
    rules = contracts["producers"]["bob-location"]["rules"]
    contracts["producers"]["bob-location"] = {
        **contracts["producers"]["bob-location"],
        "rules": {**rules, "rule-3": {"purpose": ["health", "advertising"]}},
    }
    draft = tmp_path / "draft.yaml"
    draft.write_text(domain_text(city(contracts=contracts, assertions=[{"never": "bob-phone to ads"}])))
    found = replay(spark, made.journal, draft, subjects=("ads", "free-air", "city-emergency", "curious"))
    totals = {one.subject: one for one in found.totals}
    assert (totals["ads"].gained, totals["ads"].lost) == (7, 0)
    assert totals["free-air"].gained == 3, "in danger, when nothing was for it"
    assert totals["free-air"].lost == totals["free-air"].changed == 0
    assert totals["curious"].gained == 0
    assert {name: totals[name].then for name in ("free-air", "city-emergency")} == {
        name: len(made.got[name, node]) for name, node in (("free-air", "b2"), ("city-emergency", "b3"))
    }
    assert not found.holds
