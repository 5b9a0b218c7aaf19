"""What the page about content says is what the cases and the conditions in it say."""

import re
from pathlib import Path

from penstock.language.condition import make_condition
from penstock.model.content.content import Content
from tests.support.cases.contents import cases, load

PAGE = (Path(__file__).parent.parent.parent / "docs" / "content.md").read_text("utf-8")


def test_what_the_page_cites_are_cases() -> None:
    text = re.sub(r"`+[^`]+`+", "", " ".join(PAGE.split()))
    cited = set(re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", text)) - {"unreadable"}
    assert sorted(cited - {case.title for case in cases()} - {case["title"] for case in load("choosing.yaml")}) == []
    assert len(cited) > 30


def test_the_conditions_of_the_page_hold_for_its_xml() -> None:
    (document,) = re.findall(r"```xml\n(.*?)```", PAGE, re.DOTALL)
    conditions = [line for block in re.findall(r"```cel\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    outcomes = {line: make_condition(line).holds(Content(document.encode())) for line in conditions}
    assert outcomes == dict.fromkeys(conditions, True) | {"xpath('count(//alarm) > 0')": False}
