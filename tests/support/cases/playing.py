"""The cases of a stage as tests: on the engine, with and without a store, and on the reference.

`tests/pipeline/stages/test_cases.py` plays the same cases on Spark, all in one journal.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cases.reference import ReferencePlayer
from tests.support.cases.stages import Case, Player, cases
from tests.support.models.reference_node import NotModelled


def case_tests(stage: str) -> Callable[[Case, str, Path], None]:
    """Make the test that plays every case of a stage."""

    @pytest.mark.parametrize("executor", ["engine", "durable engine", "reference"])
    @pytest.mark.parametrize("case", cases(stage), ids=str)
    def test(case: Case, executor: str, tmp_path: Path) -> None:
        if executor != "reference":
            Player(case, executor == "durable engine", tmp_path).play()
        elif "reference" in case.gap:
            with pytest.raises((NotModelled, AssertionError)):  # else there is no gap
                ReferencePlayer(case, tmp_path).play()
        else:
            ReferencePlayer(case, tmp_path).play()

    return test
