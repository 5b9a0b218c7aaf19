"""Every stage has its folder of cases, its module of tests, and its name."""

from pathlib import Path

import pytest

from penstock.engine.stages import path
from tests.support.cases.stages import FOLDER, STAGES, cases

NAMES = [stage.__name__.rpartition(".")[2] for stage in path.STAGES]
LEAST = 8
"""Cases of a stage."""


def test_the_folders_are_those_of_the_stages_in_their_order() -> None:
    assert [name for name in STAGES if name in NAMES] == NAMES
    assert all((FOLDER / stage).is_dir() for stage in STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_a_module_of_tests_and_enough_cases(stage: str) -> None:
    assert Path(__file__).with_name(f"test_{stage}.py").is_file()
    assert len(cases(stage)) >= LEAST


@pytest.mark.parametrize("stage", STAGES)
def test_a_topic_that_a_stage_does_not_concern_has_a_plan_without_it(stage: str) -> None:
    assert any("untouched" in step for case in cases(stage) for step in case.steps), "a case shows it"


def test_titles_are_unique_and_reasons_are_told() -> None:
    every = [case for stage in STAGES for case in cases(stage)]
    assert len({case.title for case in every}) == len(every)
    assert all(reason for case in every for reason in case.gap.values())


@pytest.mark.parametrize("stage", STAGES)
def test_most_of_a_stage_is_said_by_all_executors(stage: str) -> None:
    """Emit is about connections, which neither the reference nor a journal knows."""
    whole = [case for case in cases(stage) if not case.gap]
    assert len(whole) >= LEAST
