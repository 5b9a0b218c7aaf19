"""Fig. 6 of the brokering paper, made small: every configuration carries messages, and what is written is whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reproduce.brokering.configurations import ALL, ORI

pytest.importorskip("matplotlib", reason="it is drawn with the tools for benchmarks")
ROOT = Path(__file__).parents[2]
NAMES = [configuration.name for configuration in ALL if configuration is not ORI]


@pytest.mark.parametrize(("brokers", "names"), [("1", NAMES), ("3", ["NEW"])], ids=["all", "chain"])
def test_the_figure_is_measured_drawn_and_written(brokers: str, names: list[str], tmp_path: Path) -> None:
    arguments = ["--rates", "1", "--seconds", "0.5", "--repeats", "1", "--tries", "1", "--brokers", brokers]
    arguments += ["--configurations", ",".join(names), "--output", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.reproduce.brokering", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rounds = json.loads((tmp_path / "brokering.json").read_text())["rounds"]
    assert {entry["configuration"] for entry in rounds} == set(names)
    assert all(entry["throughput"] > 0 and entry["lost"] == 0 for entry in rounds)
    assert (tmp_path / "brokering.md").read_text().startswith("# ")
    for picture in ("throughput", "loss", "processor-time"):
        assert (tmp_path / f"{picture}.svg").stat().st_size > 1_000
