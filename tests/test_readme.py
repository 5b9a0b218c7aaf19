"""The commands of the README, run as they stand there, on ports that are free."""

import re
import shutil
from pathlib import Path

from tests.support.mosquitto import free_port
from tests.support.pages import commands, move, run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def with_example(folder: Path, name: str) -> dict[str, str]:
    """Copy an example to where the README's commands look for it; the ports that it has there, by those it had."""
    shutil.copytree(ROOT / "examples" / name, folder / "examples" / name)
    return move(folder / "examples" / name / "domain.yaml")


def test_the_quick_tour(tmp_path: Path) -> None:
    script = commands(README, "A quick tour").replace("penstock run", "penstock run -p 1883")
    printed = run(script, tmp_path, {"1883": str(free_port())})
    wanted = ("plant/pump-7/temperature 71.2", "plant/pump-7/temperature retained=1 71.2", "pump 7 is hot")
    assert [line for line in wanted if line not in printed.splitlines()] == [], printed


def test_the_quick_tour_of_brokering(tmp_path: Path) -> None:
    ports = with_example(tmp_path, "smart-home")
    printed = run(commands(README, "A quick tour of brokering"), tmp_path, ports)
    wanted = (
        "assertions proved",
        "does not reach",
        "all passed",
        "phone gets nothing",
        "lock gets nothing",
        "monitor `unlock-after-grant` suppresses `DL_unlock` in state `q0`",
    )
    assert [text for text in wanted if text not in printed] == [], printed


def test_the_configuration_example(tmp_path: Path) -> None:
    ports = with_example(tmp_path, "one-node")
    printed = run(commands(README, "Configuration by example"), tmp_path, ports)
    assert "publish denied" in printed
    assert "Not authorized" in printed
    assert "penstock version" in printed


def test_the_configuration_that_is_shown_is_the_example() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    example = (ROOT / "examples" / "one-node" / "domain.yaml").read_text(encoding="utf-8")
    assert [line for line in shown.splitlines() if line not in example.splitlines()] == []
