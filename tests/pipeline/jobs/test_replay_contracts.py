"""Drafts with other contracts over what was recorded in Paris: who gains by it, and who loses."""

from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.yaml.write import domain_text
from tests.engine.contracts.test_paris import CLIENTS, paris_domain
from tests.support.scenes.contracts import STORY, played
from tests.support.spark.replays import Replaying

LOCATION = "paris/bob/location"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(
        Domain.model_validate(paris_domain()), tmp_path_factory.mktemp("paris"), STORY, tuple(CLIENTS)
    ).journal


def _changes(replaying: Replaying, journal: Path, folder: Path, **more: Any) -> dict[str, tuple[int, int]]:
    """By subject, how many events on where Bob is it gains and loses."""
    draft = folder / "draft.yaml"
    draft.write_text(domain_text(Domain.model_validate({**paris_domain(), **more})))
    found = [one for one in replaying(journal, draft).changes if one.topic == LOCATION]
    return {one.subject: (one.gained, one.lost) for one in found}


def test_without_contracts_everybody_gains(replaying: Replaying, journal: Path, tmp_path: Path) -> None:
    found = _changes(replaying, journal, tmp_path, contracts=None, quality=None)
    said = sum(isinstance(one, tuple) and one[1] == LOCATION for one in STORY)
    assert found["curious"] == (said, 0)
    assert found["city-emergency"] == (said - 2, 0), "the two of the emergency it had"


def test_where_nothing_opens_a_situation_what_it_released_is_lost(
    replaying: Replaying, journal: Path, tmp_path: Path
) -> None:
    contracts = paris_domain()["contracts"]
    hazard = contracts["situations"]["life-hazard"]
    contracts["situations"]["life-hazard"] = {**hazard, "lasts": "1ms"}
    assert _changes(replaying, journal, tmp_path, contracts=contracts)["city-emergency"] == (0, 2)
