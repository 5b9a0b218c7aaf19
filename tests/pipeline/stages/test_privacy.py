"""Privacy policies, delays, retention and conditions on Spark, against nodes; and what is forgotten of tables."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain
from penstock.domain.yaml.write import domain_text
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.forget import Forgotten, forget
from penstock.pipeline.jobs.govern import read_view, write_views
from penstock.pipeline.jobs.replay import replay
from penstock.pipeline.jobs.stream import Stream, start
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.spark.session import readable
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.support.cases import privacy_types
from tests.support.scenes.contracts import Said, given, played, wrong

GRID = """\
policy: place
combine: deny-unless-permit
rules:
  - permit: {subject.purpose: health}
    obligations: [{id: grid, set: {metres: 500}}, {id: retain, set: {seconds: 3600}}]
"""
SUBJECTS = ("doctor", "lab", "shop")
ASKERS = tuple(map(Asker, SUBJECTS))
STEP = {"step": {"attribute": "v", "size": 10}}
ACCESS = [{"subject": "lab", "topics": "spBv1.0/#", "may": "read"}]


def clinic(folder: Path, **more: Any) -> Domain:
    """Two nodes: a phone at one, and who would like to know of it at the other."""
    (folder / "place.yaml").write_text(GRID)
    rules = {
        "now": {"purpose": "health", "retention": "30d", "degrade": [STEP]},
        "late": {"purpose": "science", "degrade": [{"delay": "10s"}, {"keep": ["v"]}]},
    }
    return Domain.model_validate(
        {
            "nodes": {"b1": {"listen": "127.0.0.1:0"}, "b2": {"listen": "127.0.0.1:0"}},
            "links": [{"between": ["b1", "b2"]}],
            "clients": {
                "phone": {"node": "b1"},
                "doctor": {"node": "b2", "where": {"c/pulse": "v > 14"}},
                "lab": {"node": "b2"},
                "shop": {"node": "b1"},
            },
            "contracts": {
                "producers": {"pulse": {"producer": "phone", "filter": "c/+", "rules": rules}},
                "consumers": {
                    "doctor": {"consumer": "doctor", "purpose": "health", "retention": "1d", "wants": {}},
                    "lab": {"consumer": "lab", "purpose": "science", "wants": {}},
                },
            },
            "privacy": [{"name": "place", "topics": "c/place", "policies": str(folder / "place.yaml")}],
            **more,
        }
    )


def pulse(v: int) -> Said:
    return "phone", "c/pulse", {"v": v, "who": "bob"}


PLACE: Said = ("phone", "c/place", {"v": 1, "lat": 48.864716, "lon": 2.275432})
STORY: tuple[Said | float, ...] = (pulse(4), pulse(11), PLACE, pulse(27), 20.0, pulse(31), 20.0)


def test_as_nodes_delivered_it(spark: SparkSession, tmp_path: Path) -> None:
    domain = clinic(tmp_path)
    made = played(domain, tmp_path, STORY, SUBJECTS)
    assert [payload for _, payload, *_ in made.got["lab", "b2"]] == [b'{"v":4}', b'{"v":11}', b'{"v":27}', b'{"v":31}']
    assert [topic for topic, *_ in made.got["doctor", "b2"]] == ["c/pulse", "c/place", "c/pulse", "c/pulse"]
    events = tables.events(spark, made.journal).cache()
    (tmp_path / "place.yaml").unlink()  # the journal keeps what was in force
    found = view(events, as_it_stood(made.journal), ASKERS).cache()
    assert not wrong(given(found), made.got)
    late = found.filter("subject = 'lab'").select("time", "not_before").collect()
    assert {row.not_before - row.time for row in late} == {timedelta(seconds=10)}
    same = clinic(tmp_path, assertions=[{"can": "phone to doctor"}])
    assert not wrong(given(view(events, judged_by(same, tmp_path, made.journal), ASKERS)), made.got)


@pytest.mark.recorded
def test_numbers_of_clients_have_their_types(spark: SparkSession, tmp_path: Path) -> None:
    domain = privacy_types.film_club(tmp_path)
    made = played(domain, tmp_path, privacy_types.story(), privacy_types.CLIENTS)
    events = tables.events(spark, made.journal).cache()
    found = given(view(events, as_it_stood(made.journal), tuple(map(Asker, privacy_types.CLIENTS))))
    assert not wrong(found, made.got)
    topics = {name: [topic for topic, *_ in found.get((name, "a"), [])] for name in privacy_types.CLIENTS}
    assert privacy_types.got(topics) == privacy_types.expected()


def test_what_was_released_for_a_time_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    made = played(clinic(tmp_path), tmp_path, STORY, SUBJECTS, start=time.time() - 7200)
    folder = tmp_path / "tables"
    counts = write_views(spark, made.journal, folder, as_it_stood(made.journal), ASKERS).counts
    assert counts == {"doctor": 3, "lab": 4, "shop": 0}, "the place was for an hour"
    assert forget(spark, folder) == (Forgotten("view", {}, 7),)
    rows = read_view(spark, folder).filter("subject = 'doctor'").orderBy("retain_until").collect()
    assert all(row.retain_until - row.time == timedelta(days=1) for row in rows)
    at = rows[1].retain_until.replace(tzinfo=UTC)
    assert forget(spark, folder, at - timedelta(microseconds=1)) == (Forgotten("view", {"doctor": 1}, 6),)
    assert forget(spark, folder, at) == (Forgotten("view", {"doctor": 1}, 5),)
    assert forget(spark, folder, at) == (Forgotten("view", {}, 5),)
    left = spark.read.parquet(str(folder / "view")).orderBy("seq").collect()
    assert [row.payload for row in left if row.subject == "doctor"] == [rows[2].payload]
    assert [row.time for row in left if row.subject == "doctor"] == [rows[2].time]
    far = datetime(2100, 1, 1, tzinfo=UTC)
    assert forget(spark, folder, far) == (Forgotten("view", {"doctor": 1}, 4),)
    assert spark.read.parquet(str(folder / "view")).count() == 4
    with pytest.raises(PipelineError, match="there are no tables in"):
        forget(spark, tmp_path / "nothing")


@pytest.mark.recorded
def test_what_is_for_later_is_not_there_yet(spark: SparkSession, tmp_path: Path) -> None:
    made = played(clinic(tmp_path), tmp_path, (pulse(4), 20.0), SUBJECTS, start=time.time() + 3600)
    written_ = write_views(spark, made.journal, tmp_path / "tables", as_it_stood(made.journal), ASKERS)
    assert made.got["lab", "b2"]
    assert written_.counts["lab"] == 0


@pytest.mark.recorded
def test_rules_without_a_side_are_said_before_anything_is_done(spark: SparkSession, tmp_path: Path) -> None:
    """A replay makes no means; a stream by access policies, which go by the order of events, holds nothing back."""
    contracts = clinic(tmp_path).contracts
    assert contracts is not None
    plain = contracts.model_dump()
    plain["producers"]["pulse"]["rules"]["late"]["degrade"] = [{"aggregate": {"seconds": 60, "attributes": ["v"]}}]
    made = played(clinic(tmp_path), tmp_path, (pulse(4),), SUBJECTS)
    domain = tmp_path / "domain.yaml"
    domain.write_text(domain_text(clinic(tmp_path, contracts=plain)))
    with pytest.raises(PipelineError, match=r"`pulse\.late` gives means over a time, which cannot be done here"):
        replay(spark, made.journal, domain, subjects=SUBJECTS)
    domain.write_text(domain_text(clinic(tmp_path, access=ACCESS)))
    places = made.journal, domain, tmp_path / "views", tmp_path / "checkpoint"
    with pytest.raises(PipelineError, match=r"`pulse\.late` gives events later, which cannot be done here"):
        start(spark, Stream(*places, ASKERS), once=True)


@pytest.mark.recorded
def test_means_by_an_obligation(spark: SparkSession, tmp_path: Path) -> None:
    domain = clinic(tmp_path)
    aggregates = "{id: aggregate, set: {seconds: 60, attribute: v, least: 1, events: 2}}"
    (tmp_path / "place.yaml").write_text(GRID.replace("{id: grid, set: {metres: 500}}", aggregates))
    news: Said = ("shop", "news", {})
    made = played(domain, tmp_path, (news, 60.0, PLACE, PLACE, 61.0, news), SUBJECTS)
    assert (b'{"v":5.0}', 1) in [(payload, qos) for _, payload, qos, _ in made.got["doctor", "b2"]]
    found = given(view(tables.events(spark, made.journal), as_it_stood(made.journal), ASKERS))
    assert {ends: sorted(several) for ends, several in found.items()} == {
        ends: sorted(several) for ends, several in made.got.items()
    }


@pytest.mark.recorded
def test_a_condition_that_monitors_come_between_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    masks = {"masks": {"link": "b2 -> doctor", "states": {"q0": {"*": "pass"}}}}
    made = played(clinic(tmp_path, monitors=masks), tmp_path, (pulse(4),), SUBJECTS)
    with pytest.raises(PipelineError, match="all speak of one event: that is not known"), readable():
        view(tables.events(spark, made.journal), as_it_stood(made.journal), ASKERS).collect()
