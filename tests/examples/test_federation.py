"""The federation of the trust paper as the example has it: its file, its page, its demo, and its picture."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "federation"
FILE = FOLDER / "domain.yaml"


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


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
