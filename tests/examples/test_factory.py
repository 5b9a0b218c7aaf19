"""The factory of the sparkplug paper's Example 1, with Sparkplug clients of others."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "examples" / "factory"


def test_the_demo_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "shift.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
