"""Mutations of the engine: one stage is skipped for what has waited at one place, or has not waited."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.engine.events.plan import WaitingPlace
from penstock.engine.stages import judge, route, runner
from penstock.engine.stages.draft import Draft

Place = WaitingPlace | None
STAGES = {stage.__name__.rpartition(".")[2]: stage for stage in runner.STAGES}
PLACES: dict[str, Place] = {"live": None, **{place.name.lower(): place for place in WaitingPlace}}
DELIVERS = {("emit", place) for place in PLACES} | {("match", "live")}
"""Without these nothing leaves."""


@contextmanager
def skipped(name: str, place: Place) -> Iterator[None]:
    """Skip a stage in the plans for what has waited at a place. Stage match also begins what stage judge does."""
    stage = STAGES[name]
    plan, begin, begin_retained = stage.plan, judge.begin, judge.begin_retained

    def planned(draft: Draft) -> None:
        if draft.waits is not place:
            plan(draft)
        elif name == "match":
            draft.end_link_part()
            if place is WaitingPlace.RETAINED:
                draft.for_each_delivery(begin_retained)
        elif name == "route" and place is None:
            draft.for_each_delivery(route.run)  # or cycles never come to rest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "plan", planned)
        if name == "judge" and place is None:
            patch.setattr(judge, "begin", lambda passage: None)
        if name == "judge" and place is WaitingPlace.RETAINED:
            patch.setattr(judge, "begin_retained", lambda delivery: None)
        yield
    assert judge.begin is begin
