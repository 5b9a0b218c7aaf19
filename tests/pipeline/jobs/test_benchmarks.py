"""The benchmarks of the pipeline, made small: they run, and say what came of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.recorded
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("part", ["govern", "capsules"])
def test_it_is_measured_and_written(part: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="it is measured with the tools for benchmarks")
    command = [sys.executable, "-m", "benchmarks", part, "--rows", "3000", "--repeats", "1"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "| plain" in (tmp_path / "var" / "bench" / f"{part}.md").read_text()
