"""The supply chain of statements §3.3, as the example has it: its file, its page, and its demo."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import pages
from tests.support.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "supply-chain"
FILE = FOLDER / "domain.yaml"


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


def test_the_commands_of_its_page(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "examples" / "supply-chain")
    ports = pages.move(tmp_path / "examples" / "supply-chain" / "domain.yaml")
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    printed = pages.run(pages.commands(page, "Try it"), tmp_path, ports)
    assert "3 tests, all passed" in printed
    assert "good: 4 nodes" in printed
    assert [line for line in printed.splitlines() if line.startswith("stock/")] == [
        'stock/north/bolts {"class": "report", "d1": 950}'
    ]
    assert "Warning: message 1 was refused: Not authorized: not as its publisher advertises" in printed


def test_the_demo_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "reports.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
