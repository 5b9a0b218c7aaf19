"""Domain files that are wrong or odd about contracts: `check` says where and what."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main

FILE = Path("domain.yaml")
CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "domain" / "contract-mistakes.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in CASES])
def test_check_says_it(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    FILE.write_text(case["text"], "utf-8")
    code = main(["check", str(FILE)])
    printed = capsys.readouterr().err
    if "error" in case:
        assert code == 3
        assert printed.startswith(case["error"])
    else:
        assert code == 0
        for warning in case["warnings"]:
            assert warning in printed
