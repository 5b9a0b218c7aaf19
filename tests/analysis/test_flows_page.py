"""The page about flows shows what the command says."""

import re
from pathlib import Path

import pytest

from tests.support.commands import penstock, run

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "flows.md"
EXAMPLE = ROOT / "examples" / "smart-home" / "domain.yaml"
SESSIONS = re.findall(r"```console\n\$ penstock (.*?)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_a_session_on_the_page(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert run(penstock(*command.split())) == (0, shown, "")


def test_the_picture_on_the_page() -> None:
    code, out, _ = run(penstock("flows", str(EXAMPLE), "--svg", "-"))
    assert code == 0
    picture = (ROOT / "docs" / "smart-home.svg").read_text("utf-8")
    assert out == picture, "make it with `penstock flows examples/smart-home/domain.yaml --svg docs/smart-home.svg`"
