"""The reproductions of the papers, made as small as they can be: each runs to its end, and writes tables and pictures.

Nodes are forked from a process that has the modules loaded, and the session of Spark is that of the other tests: so all
of it takes seconds. The figures mean nothing.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.processes.forking import PENSTOCK, Process

pytest.importorskip("matplotlib", reason="figures are drawn with the tools for benchmarks")

from benchmarks import brokers
from benchmarks.reproduce.brokering import __main__ as brokering
from benchmarks.reproduce.contracts import __main__ as contracts
from benchmarks.reproduce.contracts import live
from benchmarks.reproduce.sparkplug import __main__ as sparkplug
from benchmarks.reproduce.sparkplug import report as sparkplug_report
from benchmarks.reproduce.sparkplug import scaling
from benchmarks.reproduce.sparkplug.deployments import Deployment
from benchmarks.reproduce.trust import __main__ as trust
from benchmarks.reproduce.trust import trials


def _forked(command: list[str], **how: Any) -> subprocess.Popen[Any]:
    """As `Popen`, quickly where it is a node."""
    how.pop("start_new_session", None)
    if command[0] == brokers.penstock_program():
        command = [*PENSTOCK, *command[1:]]
    elif command[:2] == PENSTOCK[:2]:
        command = [*PENSTOCK, *command[3:]]
    return Process(command, **how)


class _Subprocess:
    """The module, but for how it starts processes."""

    Popen = staticmethod(_forked)

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


@pytest.fixture(autouse=True)
def quick_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(brokers, "subprocess", _Subprocess())
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)  # which a benchmark has its own way with


def test_contracts(tmp_path: Path) -> None:
    assert contracts.main(["--smoke", "--output", str(tmp_path)]) == 0
    for name, (title, paper, *_) in contracts.FIGURES.items():
        page = (tmp_path / f"{name}.md").read_text()
        assert title in page
        assert paper in page
        points = json.loads((tmp_path / f"{name}.json").read_text())
        assert page.count("\n| ") == 2 + len(points)
        assert all(point["prod"] > 0 and point["other"] > 0 for point in points)
        assert (tmp_path / f"fig-{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"fig-{name}.svg").exists()


def test_what_does_not_arrive_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    wants = {"pollution": {"filter": "paris/#", "needs": ["precision >= 40"]}}
    said = {
        "producers": {"pollution": {"producer": "producer", "filter": "paris/#"}},
        "consumers": {"consumer": {"consumer": "consumer0", "purpose": "health", "wants": wants}},
    }
    monkeypatch.setattr(live, "TIMEOUT", 1.0)
    with pytest.raises(TimeoutError):
        live.measure(live.Setup(1, more={"contracts": said}), live.Extent(1, 2, 1))


def test_brokering(tmp_path: Path) -> None:
    least = {"configurations": "NEW,SEM", "brokers": "1", "rates": "1", "seconds": "0.2", "repeats": "1", "tries": "1"}
    options = [word for name, value in least.items() for word in (f"--{name}", value)]
    assert brokering.main([*options, "--output", str(tmp_path)]) == 0
    assert list(tmp_path.glob("*.svg"))
    assert list(tmp_path.glob("*.md"))


def test_sparkplug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = (Deployment(1, "D1", 3, 2, 20, 8, (60, 65, 70)),)
    for module in (scaling, sparkplug_report):
        monkeypatch.setattr(module, "SIZES", (80, 160))
        monkeypatch.setattr(module, "READERS", (1, 2))
    monkeypatch.setattr(scaling, "_MESSAGES", 20)
    for part in (scaling, sparkplug):
        monkeypatch.setattr(part, "DEPLOYMENTS", tiny)
    monkeypatch.setattr(sparkplug, "LOADS", (2,))
    assert sparkplug.main(["--seconds", "0.3", "--repeats", "2", "--output", str(tmp_path)]) == 0
    rounds = json.loads((tmp_path / "sparkplug.json").read_text())["rounds"]
    of_sets = {(each["number"], each["repeat"], each["load"]) for each in rounds}
    assert of_sets == {(number, repeat, load) for repeat in (0, 1) for number, load in (*PLAYED, (0, 2), (3, 2))}
    assert all(each["cpu"] > 0 and each["memory"] > 1_000_000 and each["times"]["DDATA"] for each in rounds)
    page = (tmp_path / "sparkplug.md").read_text()
    assert all(row in page for row in ("| 1 D1 | NOAC |", "| 1 D1 | PS3 |", "| 2 | PS3 |", "processor, ms/s PS3"))
    assert {path.name for path in tmp_path.iterdir()} >= {"transmission-time.svg", "transmission-time.png"}


PLAYED = ((0, 1), (1, 1), (2, 1), (3, 1))
"""Policy sets of the paper, at its load."""


@pytest.mark.recorded
def test_trust(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        """The session of all tests, which goes on."""

        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(trust, "open_session", lambda master, name: Session())
    for name, value in (("SIZES", (40,)), ("SWEEP_SIZE", 40), ("SHARE_SIZE", 40), ("_ROUNDS", 18)):
        monkeypatch.setattr(trials, name, value)
    assert trust.main(["--quick", "--output", str(tmp_path)]) == 0
    assert list(tmp_path.glob("*.md"))
