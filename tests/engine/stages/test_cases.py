"""The cases of the stages, played on a node that keeps nothing and on one that waits for its store."""

from pathlib import Path

import pytest

from tests.support.cases.script import Case, Player, cases


@pytest.fixture(params=[False, True], ids=["memory", "durable"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("case", cases("admit"), ids=str)
def test_admit(case: Case, durable: bool, tmp_path: Path) -> None:
    Player(case, durable, tmp_path).play()


@pytest.mark.parametrize("case", cases("conform"), ids=str)
def test_conform(case: Case, durable: bool, tmp_path: Path) -> None:
    Player(case, durable, tmp_path).play()


@pytest.mark.parametrize("case", cases("match"), ids=str)
def test_match(case: Case, durable: bool, tmp_path: Path) -> None:
    Player(case, durable, tmp_path).play()


@pytest.mark.parametrize("case", cases("emit"), ids=str)
def test_emit(case: Case, durable: bool, tmp_path: Path) -> None:
    Player(case, durable, tmp_path).play()
