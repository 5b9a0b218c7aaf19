"""The job `trust`: what it makes of recorded history is what the nodes that recorded it hold."""

import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.statements.facts import EvidenceNote
from penstock.journal.read.tables import read_all
from penstock.model.content.content import Content
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.trust import Fleet, TrustOptions, rate
from penstock.pipeline.spark.policies import Policies, judged_by
from penstock.pipeline.stages.judge import remembered
from penstock.policy.trust.evaluation import Evaluate, Interaction, evaluated
from penstock.policy.trust.rating import Evidence, Weights
from penstock.policy.trust.vectors import TrustTable
from tests.support.memory.recording import Written, record

pytestmark = pytest.mark.recorded

NODES = ("b1", "b2", "b3")
JUDGES = "tests.pipeline.trust.test_trust"
STOPPED = {"link": "b1 -> b2", "states": {"q0": {"home/loud": "suppress", "*": "pass"}}}


def by_length(interaction: Interaction) -> bool | None:
    """An E: what is short is good, what is empty no evidence; some things it cannot judge."""
    if interaction.payload == b"odd":
        raise ValueError("not to be judged")
    return len(interaction.payload) < 3 if interaction.payload else None


def everything(interaction: Interaction) -> bool:
    return True


def domain(**trust: Any) -> Domain:
    said = {"sign": 0.0, "feedback": {"least": 1, "from": "*", "most": 1000}, "operators": "op", **trust}
    return Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem"} for name in NODES},
            "links": [{"between": pair} for pair in pairwise(NODES)],
            "brokering": {"default": "default", "types": ["default"]},
            "tokens": {"keys": "keys.json", "grants": [{"clients": "*", "publish": "#", "subscribe": "#"}]},
            "monitors": {"loud": STOPPED},
            "trust": said,
        }
    )


def feedback(topic: str, payload: bytes, is_good: bool) -> bytes:
    return json.dumps({"topic": topic, "good": is_good, "payload": sha256(payload).hexdigest()}).encode()


class Play:
    """Random events, feedback and settings on three nodes, recorded."""

    def __init__(self, folder: Path, random: Random, played: Domain, steps: int = 60) -> None:
        self.rehearsal = rehearsal = Rehearsal(played, ensemble(played))
        record(rehearsal)
        for name in NODES:
            for client in ("ann", "bob", "op"):
                rehearsal.connect(f"{client}-{name}" if client != "op" else "op", name)
            rehearsal.subscribe(f"bob-{name}", "home/#")
        sent: list[tuple[str, bytes]] = []
        for number in range(steps):
            match random.choice(["publish", "publish", "publish", "rate", "rate", "wait", "set"]):
                case "publish":
                    topic = random.choice(["home/door", "home/loud", "home/light"])
                    payload = random.choice([b"", b"odd", str(number).encode(), b"long %d" % number])
                    rehearsal.publish(f"ann-{random.choice(NODES)}", topic, payload)
                    sent.append((topic, payload))
                case "rate" if sent:
                    said = feedback(*random.choice(sent), random.random() < 0.6)
                    rehearsal.publish(f"bob-{random.choice(NODES)}", "$penstock/feedback", said, qos=1)
                case "wait":
                    rehearsal.wait(random.choice([0.5, 7.25, 40.0]))
                case "set" if random.random() < 0.5:
                    at = rehearsal.now - random.choice([0.0, 30.0, -5.0])
                    node, neighbour = random.choice([("b1", "b2"), ("b2", "b1"), ("b2", "b3"), ("b3", "b2")])
                    held = {"neighbour": neighbour, "good": random.choice([0, 4.5]), "bad": 2, "at": at}
                    rehearsal.publish("op", "$penstock/evidence", json.dumps(held).encode(), qos=1, node=node)
            rehearsal.run()
        journal = Written(folder)
        journal.add_all(rehearsal.nodes.values(), journal.keep(played))

    def held(self) -> dict[tuple[str, str], Evidence]:
        """What the nodes hold."""
        found = {}
        for name, node in self.rehearsal.nodes.items():
            assert node.trust.ratings is not None
            for neighbour in node.federation.neighbours:
                found[name, neighbour] = node.trust.ratings.of(neighbour, 0.0)
        return found


def close(found: Fleet, held: dict[tuple[str, str], Evidence], weights: Weights) -> None:
    assert {(one.node, one.neighbour) for one in found.ratings} == held.keys()
    for one in found.ratings:
        live = held[one.node, one.neighbour]
        assert one.good == pytest.approx(live.good, abs=1e-5), one
        assert one.bad == pytest.approx(live.bad, abs=1e-5), one
        assert (one.at or 0.0) == pytest.approx(live.at, abs=1e-5), one
        aged = live if one.at is not None else Evidence(live.good, live.bad, found.at)
        assert one.rating == pytest.approx(aged.rating(weights, found.at), abs=1e-6), one


def policies(played: Domain, folder: Path) -> Policies:
    return judged_by(played, folder, folder / "journal")


BEGIN = [{"of": "b1", "by": "b2", "good": 3, "bad": 1.5}, {"of": "b3", "by": "b2", "good": 7}]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("without ageing", {"begin": BEGIN, "evidence": {"evaluate": f"{JUDGES}:by_length"}}),
    ("with ageing", {"begin": BEGIN, "half_life": 30, "penalty": 5}),
]


@pytest.mark.parametrize(("title", "trust"), SETTINGS, ids=[title for title, _ in SETTINGS])
def test_ratings_from_the_journal_are_what_nodes_hold(
    title: str, trust: dict[str, Any], tmp_path: Path, interpreted: SparkSession
) -> None:
    played = domain(**trust)
    play = Play(tmp_path / "journal", Random(), played)
    assert played.trust is not None
    found = rate(interpreted, tmp_path / "journal", policies(played, tmp_path), with_paths=True, to=tmp_path / "tables")
    close(found, play.held(), played.trust.weights)
    _as_nodes_tell(found)
    table = interpreted.read.parquet(str(tmp_path / "tables" / "ratings"))
    assert sorted((row.node, row.neighbour) for row in table.collect()) == [
        (one.node, one.neighbour) for one in found.ratings
    ]
    assert any(one.sources for one in found.ratings)


def _as_nodes_tell(found: Fleet) -> None:
    """Least-trustworthy paths are those of the nodes' own vectors, told until nothing is new."""
    vectors = {name: TrustTable(name, len(NODES)) for name in NODES}
    for one in found.ratings:
        vectors[one.node].set_rating(one.neighbour, one.rating)
    for _ in NODES:
        for teller, hearer in [ends for pair in pairwise(NODES) for ends in (pair, pair[::-1])]:
            update = vectors[teller].update_for(hearer)
            if update is not None:
                vectors[hearer].receive(teller, update)
    expected = {(origin, name): one.rating for name in NODES for origin, one in vectors[name].least().items()}
    assert found.paths is not None
    assert {(one.origin, one.node): pytest.approx(one.rating) for one in found.paths} == expected


def folded(journal: Path, weights: Weights, judge: Evaluate) -> dict[tuple[str, str], Evidence]:
    """The same one after the other, as a node would do it."""
    held = {pair: Evidence() for one in pairwise(NODES) for pair in (one, one[::-1])}
    for row in sorted(read_all(journal)[0].to_pylist(), key=lambda row: (row["node"], row["seq"])):
        if row["kind"] != "arrival":
            continue
        now, known = row["time"].timestamp(), remembered(row["facts"]).evidence
        seen = [one for one in known if one.source != "evaluate"]
        if row["neighbour"] is not None and row["rule"] not in ("token", "trust"):
            interaction = Interaction(row["neighbour"], row["topic"], row["payload"], Content(row["payload"]))
            said = evaluated(judge, interaction)
            seen += [EvidenceNote(row["neighbour"], said, "evaluate")] if isinstance(said, bool) else []
        for one in seen:
            ends = row["node"], one.neighbour
            held[ends] = (
                Evidence(*one.held) if one.held is not None else held[ends].with_message(one.good, weights, now)
            )
    return held


def test_another_penalty_half_life_and_function(tmp_path: Path, interpreted: SparkSession) -> None:
    then = domain(evidence={"evaluate": f"{JUDGES}:everything"})
    Play(tmp_path / "journal", Random(), then)
    asked = TrustOptions(penalty=7, half_life=25.0, evaluate=f"{JUDGES}:by_length")
    found = rate(interpreted, tmp_path / "journal", policies(then, tmp_path), asked)
    close(found, folded(tmp_path / "journal", found.weights, by_length), Weights(7, 0.5, 25.0))
    assert (found.problem == "ValueError: not to be judged") is (found.failed > 0)


def test_a_domain_without_trust_rates_nobody(tmp_path: Path, interpreted: SparkSession) -> None:
    Written(tmp_path / "journal").folder.mkdir()
    plain = Domain.model_validate({"nodes": {"b1": {"listen": "127.0.0.1:0"}}})
    with pytest.raises(PipelineError, match="has no `trust`"):
        rate(interpreted, tmp_path / "journal", policies(plain, tmp_path))
