"""The journal says from whom policies withheld an event, at which stage and why: as explanations of the event do."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.journal_rows import MAX_NAMED
from penstock.engine.recorder import Recorder
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.read.tables import read_all
from penstock.model.decision import Decision
from penstock.model.verdict import Effect
from penstock.policy.access.acl import Acl
from tests.support.generators.examples import some
from tests.support.generators.governed import PUBLISHERS, READERS, random_domain, random_messages
from tests.support.memory.node import MemoryNode
from tests.support.memory.recording import Written, record

FILTERS = ("#", "p/#", "s/#", "c/#", "m/#", "spBv1.0/#")
WHERE = ("", "", "", "x > 4", "y < 5")
RIGHTS = ("topic readwrite #", "topic write #\ntopic read s/#", "topic write #\ntopic read p/#\ntopic read spBv1.0/#")
EARLY = {("match", "acl"), ("route", "brokering")}
LATE = ("judge", "shape", "release", "project")
"""Rules of the first stages that withhold; of the later ones all do."""
Said = set[tuple[str, str, str]]
"""Node, receiver and stage."""


@pytest.mark.fuzz
def test_what_is_recorded_as_withheld_or_sent_is_what_explanations_say(tmp_path: Path) -> None:
    total = set()
    for seed in range(some(40)):
        total |= _check(Random(seed), tmp_path / str(seed), f"seed {seed}")
    assert {stage for _, _, stage in total} == {"match", "route", "judge", "shape", "release", "project"}


def _check(random: Random, folder: Path, about: str) -> Said:
    rehearsal, domain = _rehearsal(random)
    journal = Written(folder)
    revision, seen = journal.keep(domain), set[tuple[str, str, str]]()
    for number in range(12):
        publisher = random.choice(PUBLISHERS)
        for topic, payload in random_messages(random):
            qos = random.randrange(3)
            start = arrival(rehearsal.nodes["n"], publisher, hypothetical(topic, payload, qos))
            decisions = explain(rehearsal.nodes, start, rehearsal.now)
            rehearsal.publish(publisher, topic, payload, qos)
            rehearsal.run()
            own = Written(folder / f"{number}-{topic.replace('/', '-')}-{payload.hex()[:20]}")
            for node in rehearsal.nodes.values():
                assert isinstance(node.recorder, Recorder)
                own.add(node.name, node.recorder.take(), revision)
            rows = read_all(own.folder)[0].to_pylist() if own.folder.exists() else []
            what = f"{about}, {publisher} {topic} {payload!r}"
            withheld, watched = _withheld(rows), _watched(decisions)
            assert {each for each in withheld if each[:2] not in watched} == _denied(decisions), what
            assert _sent(rows) == _delivered(decisions), what
            seen |= withheld
    return seen


def _rehearsal(random: Random) -> tuple[Rehearsal, Domain]:
    nodes = random.choice(["n", "nm"])
    settings: dict[str, Any] = random_domain(random, 0.5, nodes)
    for producer in settings.get("contracts", {}).get("producers", {}).values():
        degrade = producer["rules"]["all"].get("degrade", [{}])
        if "delay" in degrade[0] or "aggregate" in degrade[0]:  # explained as withheld: it goes out later
            del producer["rules"]["all"]["degrade"]
    domain = Domain.model_validate(settings | {"nodes": {name: {"listen": "127.0.0.1:0"} for name in nodes}})
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for node in rehearsal.nodes.values():
        node.admission.acl = Acl.parse(random.choice(RIGHTS), "acl")
    for name in (*PUBLISHERS, *READERS):
        rehearsal.connect(name)
    for name in READERS:
        for filter in random.sample(FILTERS, random.randint(1, 3)):
            rehearsal.subscribe(name, filter, qos=random.randrange(3), where=random.choice(WHERE), no_local=False)
    rehearsal.run()
    for node in rehearsal.nodes.values():
        assert node.recorder is not None
        node.recorder.take()
    return rehearsal, domain


def _withheld(rows: list[dict[str, Any]]) -> Said:
    return {
        (row["node"], receiver, entry["stage"])
        for row in rows
        for entry in row["withheld"] or ()
        for receiver in entry["receivers"]
        if entry["effect"] == "suppress" and receiver in READERS
    }


def _denied(decisions: tuple[Decision, ...]) -> Said:
    said = set()
    for decision in decisions:
        if decision.goes_by is not None and decision.goes_by.target in READERS and not decision.outputs:
            reason = decision.reason
            is_asked_for = any(verdict.stage == "match" and verdict.rule for verdict in decision.verdicts)
            if is_asked_for and (reason.stage in LATE or (reason.stage, reason.rule) in EARLY):
                said.add((decision.node, decision.goes_by.target, reason.stage))
    return said


def _watched(decisions: tuple[Decision, ...]) -> set[tuple[str, str]]:
    """Receivers of which explanations say only that the monitors of their link see the event, and not who asks."""
    return {
        (decision.node, decision.goes_by.target)
        for decision in decisions
        if decision.goes_by is not None
        and any(verdict[:3] == ("match", Effect.PASS, "") for verdict in decision.verdicts)
    }


def _sent(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["node"], to["entity"]) for row in rows for to in row["reached"] if to["entity"] in READERS}


def _delivered(decisions: tuple[Decision, ...]) -> set[tuple[str, str]]:
    return {
        (decision.node, decision.goes_by.target)
        for decision in decisions
        if decision.goes_by is not None and decision.goes_by.target in READERS and decision.outputs
    }


def test_many_are_counted_once_for_all_events_and_nobody_costs_nothing() -> None:
    joined = MemoryNode(acl=Acl.parse("topic write #\nuser boss\ntopic read #", "acl"))
    recorder = joined.node.recorder = Recorder()
    for number in range(300):
        joined.connect(f"c{number}").subscribe("#")
    ann = joined.connect("ann")
    for _ in range(5):
        ann.publish("a", b"1", qos=1)
    rows = recorder.take()
    assert rows.withheld == {}
    assert len({id(note) for note in rows.notes}) == 1
    (kept,) = rows.notes[0].withheld
    assert (kept.verdict.rule, len(kept.receivers), kept.total) == ("acl", MAX_NAMED, 300)
    joined.govern(None)
    ann.publish("a", b"1")
    assert [note.withheld for note in recorder.take().notes] == [()]
