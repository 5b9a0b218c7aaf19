"""Evidence as nodes hold it and as their recorders note it; and what the journal keeps for judging it again."""

from pathlib import Path
from typing import Any

from penstock.domain import Domain
from penstock.domain.schema.trust import TrustSettings
from penstock.engine.trust.state import Ratings
from penstock.journal.revision import Revision
from penstock.pipeline.spark.policies import judged_by
from penstock.policy.trust.rating import Thresholds
from tests.engine.trust.test_trust import begin, line, play
from tests.support.memory.recording import record


def test_what_the_domain_gives_at_first_does_not_age_before_anything_is_seen() -> None:
    settings = TrustSettings.model_validate({"begin": [begin("b1", "b2", 0.9)], "half_life": 60})
    ratings = Ratings("b2", 2, settings, Thresholds())
    assert round(ratings.rating("b1", 1_800_000_000.0), 9) == 0.9
    seen = ratings.of("b1", 1_800_000_000.0).with_message(True, settings.weights, 1_800_000_000.0)
    assert (seen.good, seen.bad) == (18.0, 1.0)


def test_a_repetition_of_what_is_retained_is_no_new_evidence() -> None:
    rehearsal = line(2, {"sign": 0.5, "evidence": {"evaluate": "tests.engine.trust.test_evidence:everything"}})
    record(rehearsal)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1", retain=True)
    rehearsal.run()
    for _ in range(3):
        rehearsal.unsubscribe("bob", "home/#")
        rehearsal.run()
        rehearsal.subscribe("bob", "home/#")
        rehearsal.run()
    ratings, recorder = rehearsal.nodes["b2"].trust.ratings, rehearsal.nodes["b2"].recorder
    assert ratings is not None
    assert recorder is not None
    assert ratings.counts == {("b1", "evaluate", True): 1}
    assert sum(len(facts.evidence) for facts in recorder.take().facts.values()) == 1


def everything(_interaction: object) -> bool:
    return True


def test_what_a_client_s_token_does_not_grant_is_refused_by_the_rule_token() -> None:
    rehearsal = play([("b1", "b2")])
    record(rehearsal)
    rehearsal.connect("ann", "b1")
    rehearsal.publish("ann", "garden", b"wet")
    rehearsal.run()
    recorder = rehearsal.nodes["b1"].recorder
    assert recorder is not None
    assert [(note.verdict.stage, note.verdict.rule) for note in recorder.take().notes] == [("admit", "token")]


def test_the_journal_keeps_the_function_by_which_neighbours_are_judged(tmp_path: Path) -> None:
    (tmp_path / "own_judgement.py").write_text("def good(interaction):\n    return True\n")
    plain: dict[str, Any] = {
        "nodes": {"b1": {"listen": "127.0.0.1:0", "signing_key": "b1.pem"}},
        "tokens": {"keys": "keys.json"},
        "trust": {"evidence": {"evaluate": "own_judgement:good"}},
    }
    domain = Domain.model_validate(plain)
    assert "monitors/own_judgement.py" in dict(Revision.of(domain, tmp_path).files)
    (policy,) = judged_by(domain, tmp_path).judging
    assert policy.ensemble.evaluate is not None


def test_evidence_that_cannot_be_is_refused_and_nothing_else_happens() -> None:
    rehearsal = line(2, {"operators": "op"})
    rehearsal.connect("op", "b2")
    for said in (
        b'{"neighbour":"b1","good":-1,"bad":0,"at":1}',
        b'{"neighbour":"b1","good":1e999,"bad":0,"at":1}',
        b'{"neighbour":"b1","good":1,"bad":0,"at":-1}',
        b'{"neighbour":"b1","good":1,"bad":0,"at":-1e300}',
    ):
        rehearsal.publish("op", "$penstock/evidence", said, qos=1)
        rehearsal.run()
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    assert not ratings.evidence
    assert [one.kind for one in rehearsal.notices].count("feedback denied") == 4
