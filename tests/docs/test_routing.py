"""docs/routing.md: its domain does what the page says of it, and it names every mode."""

import re
from pathlib import Path
from typing import get_args

import pytest

from penstock.cli.main import main
from penstock.domain.schema.federation import Mode

PAGE = (Path(__file__).parent.parent.parent / "docs" / "routing.md").read_text("utf-8")
DOMAINS = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "tests:" in block]


@pytest.mark.parametrize("text", DOMAINS, ids=lambda text: text.partition("\n")[0])
def test_the_tests_of_the_page_pass(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "domain.yaml"
    file.write_text(text, "utf-8")
    assert main(["test", str(file)]) == 0, capsys.readouterr().out


def test_every_mode_has_its_row_and_its_link() -> None:
    modes = set(get_args(Mode))
    assert set(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)) == modes
    assert set(re.findall(r"forward: (\w+)", DOMAINS[0])) == modes
