"""The supply chain of statements §3.3, as the example has it: its file, its page, and its demo."""

import subprocess
import sys
from pathlib import Path

from tests.support.processes.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "supply-chain"
FILE = FOLDER / "domain.yaml"


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


def test_the_demo_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "reports.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
