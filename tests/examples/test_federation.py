"""The federation of the trust paper as the example has it: its file, its page, its demo, and its picture."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "federation"
FILE = FOLDER / "domain.yaml"


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


def test_the_commands_of_its_page(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "examples" / "federation")
    ports = pages.move(tmp_path / "examples" / "federation" / "domain.yaml")
    script = pages.commands((FOLDER / "README.md").read_text(encoding="utf-8"), "Try it")
    script = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: ports[found[0]], script)
    printed = pages.run(script, tmp_path, ports)
    assert "7 tests, all passed" in printed
    why = "no signer has trusted paths only: the least trustworthy path from `b2` is rated"
    refused = f"{{}}: admit: suppress by trust: {why} {{}}, below 0.5"
    assert refused.format("b6", 0.45) in printed
    assert 'air/b2/temperature {"celsius": 35.0}' in printed.splitlines()
    assert re.search(r"^b4 +b2 +up +10 +14 .* 0\.423 +no, below 0\.6$", printed, re.M)
    assert refused.format("b4", 0.423) in printed


def test_the_demo_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "week.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="for who draws only: `make bench` installs it")
    from examples.federation.company import Moment
    from examples.federation.picture import draw

    said = ((True, 2, 0.9), (False, 2, 0.6), (False, 0, 0.4), (True, 0, 0.4), (True, 2, 0.8))
    moments = [Moment(is_true, reached, rating, 0.9) for is_true, reached, rating in said]
    draw(moments, tmp_path / "of" / "it.svg")
    drawn = (tmp_path / "of" / "it.svg").read_text("utf-8")
    assert all(f"<!-- {words} -->" in drawn for words in ("b2 lies", "b2, as b4 rates it"))
