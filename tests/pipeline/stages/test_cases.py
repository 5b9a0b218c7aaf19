"""The cases of all stages: a client's view, cut to what it subscribed to, is what it got."""

from dataclasses import dataclass

import pytest
from pyspark.sql import Row, SparkSession

from penstock.journal.read.tables import read_all
from penstock.pipeline.spark.policies import as_it_stood
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.cases.spark import Recording, RecordingPlayer
from tests.support.cases.stages import STAGES, Case, cases
from tests.support.memory.recording import Written

ALL = [case for stage in STAGES for case in cases(stage)]


@dataclass(frozen=True)
class Played:
    recordings: dict[str, Recording]
    publishers: dict[str, dict[int, str]]
    """By node and sequence number, the client that has published an event."""
    views: dict[tuple[str, str], list[Row]]
    """By subject and node, what is in its view, in order."""

    def differing(self, recording: Recording) -> list[str]:
        """The clients that got other than their view."""
        publishers = self.publishers.get(recording.node, {})
        return [
            asker.label
            for asker, got in recording.got.items()
            if recording.expected(publishers, self.views.get((asker.label, recording.node), ()), asker) != got
        ]


@pytest.fixture(scope="module", params=["few", pytest.param("Spark", marks=pytest.mark.recorded)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All cases in one journal, and the views of all their clients: on Spark, and without it where rows are few."""
    journal = Written(tmp_path_factory.mktemp("cases") / "journal")
    recordings = {}
    for number, case in enumerate(ALL):
        is_plain = (
            not case.domain and case.acl is None and not any({"acl", "domain"} & step.keys() for step in case.steps)
        )
        player = RecordingPlayer(
            case, "plain" if is_plain else f"node-{number}", tmp_path_factory.mktemp("case"), journal
        )
        player.play()
        recordings[case.title] = player.recording
    askers = tuple(sorted({asker for one in recordings.values() for asker in one.got}, key=str))
    policies = as_it_stood(journal.folder)
    if request.param == "few":
        with small_tables():
            events = small_table(read_all(journal.folder)[0])
            published, found = events.collect(), view(events, policies, askers).collect()
    else:
        spark: SparkSession = request.getfixturevalue("spark")
        events = tables.events(spark, journal.folder)
        published, found = events.collect(), view(events, policies, askers).collect()
    views: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(found, key=lambda row: (row.seq, row.place, row.part)):
        views.setdefault((row.subject, row.node), []).append(row)
    publishers: dict[str, dict[int, str]] = {}
    for row in published:
        publishers.setdefault(row.node, {})[row.seq] = row.client_id
    return Played(recordings, publishers, views)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_what_a_client_got_is_its_view(case: Case, played: Played) -> None:
    """Or the case says why not; then it is so."""
    recording = played.recordings[case.title]
    if "spark" in case.gap:
        assert not recording.steps or played.differing(recording), "there is no gap"
    else:
        assert recording.steps, "no event came as far as the journal"
        assert played.differing(recording) == []


@pytest.mark.parametrize("case", ALL, ids=str)
def test_nothing_came_that_is_not_in_the_view(case: Case, played: Played) -> None:
    recording = played.recordings[case.title]
    for asker, got in recording.got.items():
        view = played.views.get((asker.label, recording.node), ())
        assert set(got) <= recording.authorised(view), asker.label
