"""The constraint of Listing 1 of the contracts paper, as a condition over reports in XML."""

from typing import Any

import pytest

from penstock.language.condition import make_condition
from penstock.language.errors import Failure
from penstock.model.content.content import Content
from tests.support.cases.contents import load

LISTING = load("listing-1.yaml")


@pytest.mark.parametrize("report", LISTING["reports"], ids=lambda report: report["title"])
def test_listing_1(report: dict[str, Any]) -> None:
    outcome = make_condition(LISTING["condition"]).holds(Content(report["text"].encode()))
    assert (outcome.kind if isinstance(outcome, Failure) else outcome) == report.get("fails", report.get("holds"))
