"""Texts that are not conditions: each has one error, and this is all that it says."""

from collections import Counter
from typing import Any

import pytest
import yaml

from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.language.types import ANYTHING
from tests.support.cases.conditions import FOLDER, declared

MISTAKES = yaml.safe_load((FOLDER / "mistakes.yaml").read_text("utf-8"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["title"])
def test_mistake(mistake: dict[str, Any]) -> None:
    with pytest.raises(ConditionError) as caught:
        make_condition(mistake["text"], declared() if mistake.get("declared") else ANYTHING)
    assert str(caught.value) == mistake["error"].removesuffix("\n")


def test_there_are_many_kinds() -> None:
    assert len(MISTAKES) >= 60
    assert [title for title, count in Counter(each["title"] for each in MISTAKES).items() if count > 1] == []


GOOD = ["temperature > 30", "room.floor + 1 > 2", "'x' in tags", "tags.exists(t, t.startsWith('a'))", "open && !open"]
GOOD += [
    "at < timestamp('2030-01-01T00:00:00Z')",
    "has(room.floor) && has(name)",
    "room['floor'] == 1.0",
    "'floor' in room",
]


@pytest.mark.parametrize("text", GOOD)
def test_over_declared_attributes(text: str) -> None:
    assert make_condition(text, declared()).text == text


def test_the_canonical_form_is_a_condition_too() -> None:
    with pytest.raises(ConditionError, match="at most 10000 characters, this has 12007 in canonical form"):
        make_condition("a == '" + "\u2028" * 2000 + "'")
    text = make_condition("a == '" + "\u2028" * 1600 + "'").text
    assert make_condition(text).text == text
