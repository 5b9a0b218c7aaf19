"""The page about flows has the picture that the command draws. `test_page_commands.py` runs its sessions."""

from pathlib import Path

from tests.support.processes.commands import penstock, run

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "smart-home" / "domain.yaml"


def test_the_picture_on_the_page() -> None:
    code, out, _ = run(penstock("flows", str(EXAMPLE), "--svg", "-"))
    assert code == 0
    picture = (ROOT / "docs" / "smart-home.svg").read_text("utf-8")
    assert out == picture, "make it with `penstock flows examples/smart-home/domain.yaml --svg docs/smart-home.svg`"
