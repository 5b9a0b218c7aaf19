"""Tokens and trust over what was recorded: what nodes decided by them stands, and drafts do not widen it."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain
from penstock.domain.yaml.write import domain_text
from penstock.journal.read.tables import read_all
from penstock.model.verdict import Effect
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.govern import check_places
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stood, judged_by
from penstock.pipeline.stages.admit import BY_LIVE_STATE
from penstock.pipeline.stages.govern import spark_sides, view
from penstock.pipeline.stages.keys import KEYS, Planner
from penstock.pipeline.stages.stage import EventKey
from penstock.pipeline.state.rows import rows_of
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables import tables
from tests.support.memory.recording import Views, differences, viewed
from tests.support.processes.trust_nodes import write_keys
from tests.support.scenes.trust import (
    CONTROL,
    GRANTS,
    NEIGHBOURS,
    NODES,
    PUBLISHERS,
    SUBJECTS,
    TRUST,
    TrustPlayed,
    play,
    trusted,
)
from tests.support.spark.replays import Replaying

ASKERS = tuple(map(Asker, SUBJECTS))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> TrustPlayed:
    return play(tmp_path_factory.mktemp("trusted") / "journal", Random(8))


def rows(journal: Path) -> list[dict[str, Any]]:
    return [row for batch in read_all(journal)[0].to_batches() for row in rows_of(batch)]


def governed(journal: Path, policies: Policies, askers: tuple[Asker, ...] = ASKERS) -> Views:
    """What subjects are given of a journal by keys alone: without monitors, statements and conditions."""
    planner, views = Planner(spark_sides(), Scope.of(policies, askers)), Views()
    for row in rows(journal):
        draft = planner.plan(EventKey(*(row[name] for name in KEYS)))
        refused = row["stage"] == "admit" and row["rule"] in BY_LIVE_STATE and row["effect"] == "suppress"
        if draft.verdict.effect is not Effect.SUPPRESS and not refused:
            for _, receiver in draft.receivers:
                got = (row["topic"], row["payload"], row["qos"])
                views.setdefault((receiver.subject, row["node"]), []).append(got)
    return views


def again(played: TrustPlayed, **more: Any) -> Policies:
    """Everything decided again, by a draft."""
    return judged_by(trusted(domain="draft", **more), played.journal.parent, played.journal)


def test_there_is_something_to_compare(played: TrustPlayed) -> None:
    rules = {(row["rule"], row["neighbour"] is None) for row in rows(played.journal) if row["effect"] == "suppress"}
    assert {("token", True), ("trust", False)} <= rules
    assert {name for name, _ in played.delivered} == set(SUBJECTS)
    assert {row["topic"] for row in rows(played.journal)} >= {"$penstock/feedback", "$penstock/evidence"}


def test_as_it_stood(played: TrustPlayed) -> None:
    assert not differences(governed(played.journal, as_it_stood(played.journal)), played.delivered)


def test_decided_again_by_the_same(played: TrustPlayed) -> None:
    assert not differences(governed(played.journal, again(played)), played.delivered)


def tokens(**more: Any) -> dict[str, Any]:
    return {"keys": "keys.json", "grants": [*GRANTS], "neighbours": NEIGHBOURS, **more}


NARROWER: list[tuple[str, dict[str, Any]]] = [
    ("without trust", {"trust": None}),
    ("a lower threshold", {"trust": {**TRUST, "sign": 0.0}}),
    ("without tokens and trust", {"trust": None, "tokens": None}),
    ("tokens that nobody needs", {"tokens": tokens(required=False)}),
]


@pytest.mark.parametrize(("title", "more"), NARROWER, ids=[title for title, _ in NARROWER])
def test_what_was_refused_stays_refused(title: str, more: dict[str, Any], played: TrustPlayed) -> None:
    refused = {
        (row["node"], row["topic"], row["payload"])
        for row in rows(played.journal)
        if row["effect"] == "suppress" and row["rule"] in BY_LIVE_STATE
    }
    found = governed(played.journal, again(played, **more))
    given = {(node, topic, payload) for (_, node), several in found.items() for topic, payload, _ in several}
    assert given
    assert not given & refused
    assert not {topic for _, topic, _ in given} & set(CONTROL)


DRAFTS: list[tuple[str, dict[str, Any], str, set[str]]] = [
    (
        "a subject with fewer filters",
        tokens(grants=[GRANTS[0], {"clients": "*", "subscribe": "home/light"}]),
        "bob1",
        {"home/light"},
    ),
    ("a subject without a grant", tokens(grants=[GRANTS[0]]), "bob1", set()),
    (
        "publishers with fewer filters",
        tokens(grants=[{"clients": [*PUBLISHERS], "publish": "home/door"}, *GRANTS[1:]]),
        "bob1",
        {"home/door"},
    ),
    (
        "publishers with more filters than then",
        tokens(grants=[{"clients": [*PUBLISHERS], "publish": "#"}, {"clients": "*", "subscribe": "#"}]),
        "bob1",
        {"home/door", "home/light", "garden/gate"},
    ),
]


@pytest.mark.parametrize(("title", "said", "subject", "topics"), DRAFTS, ids=[case[0] for case in DRAFTS])
def test_a_draft_with_other_grants(
    title: str, said: dict[str, Any], subject: str, topics: set[str], played: TrustPlayed
) -> None:
    """At the node where events begin."""
    found = governed(played.journal, again(played, tokens=said))
    own = {
        row["topic"] for row in rows(played.journal) if row["node"] == "b1" and row["neighbour"] is None
    }  # else a case shows nothing
    assert topics <= own
    from_clients = {row["payload"] for row in rows(played.journal) if row["node"] == "b1" and row["neighbour"] is None}
    given = found.get((subject, "b1"), [])
    assert {topic for topic, payload, _ in given if payload in from_clients} == topics


def test_what_a_neighbour_is_given_a_token_for_is_all_that_goes_to_it(played: TrustPlayed) -> None:
    found = governed(played.journal, as_it_stood(played.journal), (Asker("b3", is_neighbour=True),))
    topics = {topic for topic, _, _ in found["b3", "b2"]}
    assert topics == {"home/door", "home/light"}


@pytest.mark.parametrize("key", ["tokens", "trust"])
def test_what_came_without_cannot_be_decided_with(key: str, tmp_path: Path) -> None:
    lacking: dict[str, Any] = {"trust": None, "tokens": None} if key == "tokens" else {"trust": None}
    before = play(tmp_path / "journal", Random(1), trusted(**lacking), steps=12)
    draft = trusted(trust=None) if key == "tokens" else trusted()
    with pytest.raises(PipelineError, match=rf"`{key}` cannot be evaluated for what node `b\d` recorded"):
        governed(before.journal, judged_by(draft, tmp_path, before.journal))


def test_whose_token_says_what_is_not_known_has_no_view(played: TrustPlayed) -> None:
    policies = again(played, tokens=tokens(grants=[GRANTS[0]]))
    with pytest.raises(PipelineError, match="what `bob1` may read is not known"):
        check_places(policies, (Asker("bob1"),))


# --- on Spark


@pytest.mark.recorded
@pytest.mark.parametrize("seed", range(3))
def test_views_are_what_was_delivered(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    some = play(tmp_path / "journal", Random())
    events = tables.events(spark, some.journal).cache()
    for policies in (as_it_stood(some.journal), again(some)):
        assert not differences(viewed(view(events, policies, ASKERS)), some.delivered)


def _on_disk(folder: Path, domain: Domain) -> Path:
    write_keys(folder, NODES)
    (folder / "domain.yaml").write_text(domain_text(domain))
    return folder / "domain.yaml"


def test_replay_follows_events_by_other_grants(tmp_path: Path, replaying: Replaying) -> None:
    some = play(tmp_path / "journal", Random(3), trusted(trust=None), steps=30)
    fewer = tokens(grants=[{"clients": [*PUBLISHERS], "publish": "home/door"}, *GRANTS[1:]])
    found = replaying(some.journal, _on_disk(tmp_path, trusted(trust=None, tokens=fewer)))
    changed = {(one.subject, one.topic) for one in found.changes if one.subject in SUBJECTS}
    assert {topic for _, topic in changed} == {"home/light", "garden/gate"}
    assert all(one.lost and not one.gained for one in found.changes)
    assert {one.rule.partition(": ")[2] for one in found.changes if one.publisher in PUBLISHERS} == {"admit token"}


def test_replay_cannot_say_what_trust_would_do(tmp_path: Path, replaying: Replaying) -> None:
    some = play(tmp_path / "journal", Random(3), trusted(trust=None), steps=5)
    with pytest.raises(PipelineError, match="the draft uses `trust` between nodes"):
        replaying(some.journal, _on_disk(tmp_path, trusted()))
