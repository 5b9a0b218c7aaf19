"""What the README shows is what is there. `test_page_commands.py` runs its commands."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_configuration_that_is_shown_is_the_example() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    example = (ROOT / "examples" / "one-node" / "domain.yaml").read_text(encoding="utf-8")
    assert [line for line in shown.splitlines() if line not in example.splitlines()] == []
