"""The security zones and the firewall of statements §5.2, as the example has them: its file, its page, and its demo."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.language.statements.parser import parse_statement
from tests.support.processes.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "zones"
FILE = FOLDER / "domain.yaml"
PAPER = Path(__file__).parent.parent / "cases" / "statements" / "paper.yaml"


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


@pytest.mark.parametrize(
    ("name", "figure", "added"),
    [("zones", "Fig. 16", 1), ("firewall", "Fig. 22", 1), ("discretion", "§5.2, firewall for subscriptions", 2)],
)
def test_its_policies_are_those_of_the_paper(name: str, figure: str, added: int) -> None:
    texts = {case["title"]: case["text"] for case in yaml.safe_load(PAPER.read_text("utf-8"))}
    text = next(text for title, text in texts.items() if title.startswith(figure))
    papers = parse_statement(text.replace("a, b, n", "name, salary")).rules
    ours = parse_statement(yaml.safe_load(FILE.read_text("utf-8"))["statements"]["policies"][name]).rules
    assert ours[: len(papers)] == papers
    assert len(ours) - len(papers) == added


def test_the_demo_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "day.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
