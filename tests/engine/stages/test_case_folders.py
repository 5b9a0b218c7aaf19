"""Every stage has its folder of cases, its module of tests, and its name."""

from pathlib import Path

import pytest

from tests.support.cases.stages import FOLDER, STAGES, cases

LEAST = 8
"""Cases of a stage."""


def test_there_are_no_folders_of_other_stages() -> None:
    """Cases of stages have steps, other cases have not."""
    with_steps = {file.parent.name for file in FOLDER.glob("*/*.yaml") if "\n  steps:\n" in file.read_text("utf-8")}
    assert with_steps == set(STAGES)


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
