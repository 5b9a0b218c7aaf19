"""The program on the page of the client library, run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.processes.commands import PATIENCE
from tests.support.processes.node import LiveNode

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]  # type: ignore[no-any-return]


def test_the_first_program(node: LiveNode) -> None:
    program = block("python").replace('"localhost", 1883', f'"127.0.0.1", {node.port}')
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.stdout, done.stderr) == (block("text"), "")
