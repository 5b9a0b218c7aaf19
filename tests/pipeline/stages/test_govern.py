"""The loop over the stages: it goes through the engine's tuple, whatever stages are in it."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages import runner
from penstock.journal.read.tables import read_all
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, as_it_stood
from penstock.pipeline.stages import govern
from penstock.pipeline.stages.govern import SPARK_SIDES, run, view
from penstock.pipeline.stages.stage import KeyDraft, SparkStage, Traffic
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F, small_table, small_tables
from tests.support.memory.recording import Got, Written, record, viewed

NAMES = runner.names()
ASKERS = (Asker("s"),)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a node recorded of three events on two topics."""
    nodes = {"n": {"listen": "127.0.0.1:0", "store": "memory"}}
    domain = Domain.model_validate({"nodes": nodes, "clients": {name: {"node": "n"} for name in "ps"}})
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for name in "ps":
        rehearsal.connect(name)
    rehearsal.subscribe("s", "#")
    for topic, payload in (("a", b"1"), ("b", b"2"), ("b", b"3")):
        rehearsal.publish("p", topic, payload, 1)
    rehearsal.run()
    written = Written(tmp_path_factory.mktemp("govern") / "journal")
    written.add_all(rehearsal.nodes.values(), written.keep(domain))
    return written.folder


def _governed(journal: Path) -> list[Got]:
    with small_tables():
        return viewed(view(small_table(read_all(journal)[0]), as_it_stood(journal), ASKERS))["s", "n"]


def test_what_a_foreign_broker_brings_is_governed_where_there_are_statements(tmp_path: Path) -> None:
    """The job ended with an error: it looked for the clients of the foreign broker."""
    text = "PolicyStatement { On(Forward, Publication) { If {x > 5} Then {BlockMessage()} } }"
    applied = {"policy": "p", "to": "subscription", "of": "s", "filter": "#"}
    settings = {
        "nodes": {"n": {"listen": "127.0.0.1:0", "store": "memory"}},
        "foreign": {"legacy": {"address": "127.0.0.1:1"}},
        "links": [{"between": ["n", "legacy"]}],
        "clients": {"s": {"node": "n"}},
        "statements": {"policies": {"p": text}, "apply": [applied]},
    }
    domain = Domain.model_validate(settings)
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    rehearsal.connect("s")
    rehearsal.subscribe("s", "#")
    for x in (1, 9):
        rehearsal.publish("legacy", "a", b'{"x": %d}' % x)
    rehearsal.run()
    written = Written(tmp_path)
    written.add_all(rehearsal.nodes.values(), written.keep(domain))
    assert _governed(tmp_path) == [("a", b'{"x": 1}', 0)]
    assert [delivered.payload for delivered in rehearsal.deliveries("s")] == [b'{"x": 1}']


class Probe:
    """A Spark side that notes when it is asked."""

    def __init__(self, name: str, side: SparkStage, asked: list[str]) -> None:
        self._name = name
        self._side = side
        self._asked = asked

    def plan(self, draft: KeyDraft) -> None:
        self._asked.append(f"plan {self._name}")
        self._side.plan(draft)

    def on_table(self, traffic: Traffic) -> Traffic:
        self._asked.append(f"on table {self._name}")
        return self._side.on_table(traffic)

    def on_stream(self, traffic: Traffic) -> Traffic:
        self._asked.append(f"on stream {self._name}")
        return traffic


class Bless:
    """The Spark side of a new stage, which lets only `b` through."""

    def plan(self, draft: KeyDraft) -> None:
        """Plan nothing."""

    def on_table(self, traffic: Traffic) -> Traffic:
        return traffic.with_rows(traffic.rows.filter(F.col("topic") == "b"))

    on_stream = on_table


def _with_bless(at: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a stage `bless` into the engine's tuple; returns the names of all stages."""
    stages, names = [*runner.STAGES], [*NAMES]
    stages.insert(at, ModuleType("penstock.engine.stages.bless"))
    names.insert(at, "bless")
    monkeypatch.setattr(runner, "STAGES", tuple(stages))
    return names


def test_without_it_all_comes(journal: Path) -> None:
    assert _governed(journal) == [("a", b"1", 1), ("b", b"2", 1), ("b", b"3", 1)]


def test_a_stage_that_the_pipeline_does_not_know_lets_nothing_through(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_bless(len(NAMES), monkeypatch)
    with pytest.raises(PipelineError, match="stage `bless` is not known to the pipeline"):
        _governed(journal)


@pytest.mark.parametrize("at", range(len(NAMES) + 1))
def test_a_new_stage_is_asked_in_its_place(journal: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Wherever it is put into the engine's tuple, it is asked there, for keys and for rows."""
    names, asked = _with_bless(at, monkeypatch), list[str]()
    sides = {name: Probe(name, side, asked) for name, side in {**SPARK_SIDES, "bless": Bless()}.items()}
    monkeypatch.setattr(govern, "SPARK_SIDES", sides)
    assert _governed(journal) == [("b", b"2", 1), ("b", b"3", 1)]
    keys, rows = asked[: -len(names)], asked[-len(names) :]
    assert keys == [f"plan {name}" for name in names] * 2, "the events have two topics"
    assert rows == [f"on table {name}" for name in names]


def test_a_stream_asks_the_same_stages_in_the_same_order(journal: Path) -> None:
    asked = list[str]()
    stages = tuple(Probe(name, side, asked) for name, side in SPARK_SIDES.items())
    with small_tables():
        traffic = Traffic(small_table(read_all(journal)[0]), Scope.of(as_it_stood(journal), ASKERS), stages)
    run(replace(traffic, is_stream=True))
    assert asked == [f"on stream {name}" for name in NAMES]
    asked.clear()
    run(replace(traffic, is_stream=True), since="match", before="release")
    assert asked == [f"on stream {name}" for name in ("match", "route", "judge", "shape")]
