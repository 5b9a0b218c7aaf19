"""The example of "Add a stage" in CONTRIBUTING.md: its code is taken out of the page, added, and removed."""

import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import yaml

import penstock.engine.stages
import penstock.pipeline.stages
from penstock.domain import Domain, ensemble
from penstock.engine.events import link_plans
from penstock.engine.events.plan import WaitingPlace
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.policy_test import try_out
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages import runner
from penstock.engine.stages.draft import Draft
from penstock.journal.read.tables import read_all
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, as_it_stood
from penstock.pipeline.stages.govern import SPARK_SIDES, view
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.cases import stages
from tests.support.cases.reference import ReferencePlayer
from tests.support.cases.stages import Case, Player
from tests.support.memory.recording import Written, record, viewed
from tests.support.memory.rehearsed import domain, stage
from tests.support.models.reference_node import NotModelled
from tests.support.page.blocks import ROOT, blocks

GUIDE = {
    block.file: block.text for block in blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) if block.file
}
LONG, SHORT = b"x" * 51, b"x" * 50
HOME = """
nodes: {n: {listen: "127.0.0.1:0", store: memory}}
clients: {ann: {node: n}, bob: {node: n}}
"""


def _module(package: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that the guide shows for a package: from a file elsewhere, as if it were in the package."""
    inside = package.__name__.removeprefix("penstock.").replace(".", "/")
    file = folder / f"{inside.replace('/', '-')}-fit.py"
    file.write_text(GUIDE[f"src/penstock/{inside}/fit.py"], encoding="utf-8")
    module = ModuleType(f"{package.__name__}.fit")
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), module.__dict__)
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(package, "fit", module, raising=False)
    return module


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The stage, in the tuple before emit."""
    module = _module(penstock.engine.stages, tmp_path, monkeypatch)
    monkeypatch.setattr(runner, "STAGES", (*runner.STAGES[:-1], module, runner.STAGES[-1]))
    return module


def _got(rehearsal: Rehearsal, topic: str) -> list[bytes]:
    """What `bob` gets of a long and of a short payload that `ann` publishes."""
    before = len(rehearsal.deliveries("bob"))
    for payload in (LONG, SHORT):
        rehearsal.publish("ann", topic, payload)
    rehearsal.run()
    return [delivery.payload for delivery in rehearsal.deliveries("bob")[before:]]


def _explained(rehearsal: Rehearsal, payload: bytes) -> list[str]:
    found = explain(
        rehearsal.nodes, arrival(rehearsal.nodes["n"], "ann", hypothetical("radio/1", payload)), rehearsal.now
    )
    return [str(decision.verdicts[-1]) for decision in found if decision.goes_by and decision.goes_by.target == "bob"]


def test_it_decides_what_is_delivered_on_its_topics_only(fit: ModuleType) -> None:
    rehearsal = stage(HOME)
    assert _got(rehearsal, "radio/1") == [SHORT]
    assert _got(rehearsal, "wire/1") == [LONG, SHORT]


def test_without_it_everything_is_delivered() -> None:
    assert "fit" not in runner.names()
    assert _got(stage(HOME), "radio/1") == [LONG, SHORT]


@pytest.mark.parametrize("waits", WaitingPlace)
def test_what_has_waited_is_asked_about_too(fit: ModuleType, waits: WaitingPlace) -> None:
    node = stage(HOME).nodes["n"]
    plans = [
        runner.compile_plan(Draft(node, topic, link_plans.own_plans(node), waits)) for topic in ("radio/1", "wire/1")
    ]
    assert [fit.run in plan.delivery_steps for plan in plans] == [True, False]


def test_it_is_explained(fit: ModuleType) -> None:
    rehearsal = stage(HOME)
    assert _explained(rehearsal, LONG) == ["fit: suppress by radio: 51 bytes, more than 50"]
    assert "fit" not in _explained(rehearsal, SHORT)[0]


def test_policy_tests_see_it(fit: ModuleType) -> None:
    written = domain(f"""{HOME}
tests:
  a long payload is stopped:
    - publish: {{ann: {{topic: radio/1, payload: {LONG.decode()}}}}}
      expect: {{bob: []}}
      verdicts: {{at: n, to: bob, effect: suppress, rule: radio}}
  a short one is not:
    - {{publish: {{ann: {{topic: radio/1, payload: short}}}}, expect: {{bob: radio/1}}}}
""")
    results = [try_out(title, test, Rehearsal(written, ensemble(written))) for title, test in written.tests.items()]
    assert [result.passed for result in results] == [True, True], results


def test_its_case_is_played(fit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The example has no key of the domain file, by which the player would know that plans have steps."""
    monkeypatch.setattr(stages, "check_node", lambda *_: None)
    monkeypatch.setattr(stages, "code_of", lambda _: Path(fit.__file__ or ""))
    (case,) = msgspec.convert(yaml.safe_load(GUIDE["tests/cases/fit/payloads.yaml"]), list[Case])
    case = msgspec.structs.replace(case, stage="fit")
    Player(case, False, tmp_path).play()
    with pytest.raises((AssertionError, NotModelled)):  # the reference is told of a stage by who adds it
        ReferencePlayer(case, tmp_path).play()


def test_govern_refuses_until_it_has_a_spark_side(
    fit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home: Domain = domain(HOME)
    rehearsal = Rehearsal(home, ensemble(home))
    record(rehearsal)
    for client in home.clients:
        rehearsal.connect(client)
    for topic in ("radio/1", "wire/1"):
        for payload in (LONG, SHORT):
            rehearsal.publish("ann", topic, payload)
    rehearsal.run()
    written = Written(tmp_path / "journal")
    written.add_all(rehearsal.nodes.values(), written.keep(home))

    def governed() -> list[tuple[str, bytes]]:
        with small_tables():
            rows = view(small_table(read_all(written.folder)[0]), as_it_stood(written.folder), (Asker("bob"),))
            return [(topic, payload) for topic, payload, _ in viewed(rows)["bob", "n"]]

    with pytest.raises(PipelineError, match="stage `fit` is not known"):
        governed()
    monkeypatch.setitem(SPARK_SIDES, "fit", _module(penstock.pipeline.stages, tmp_path, monkeypatch))
    assert governed() == [("radio/1", SHORT), ("wire/1", LONG), ("wire/1", SHORT)]
