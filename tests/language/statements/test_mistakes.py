"""What is not a policy statement, in each form, or not one here: each has one error, and this is all that it says."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.language.errors import StatementError
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.plain import from_plain
from penstock.language.statements.statement import Message
from penstock.language.statements.table import check_place
from penstock.language.statements.xml import from_xml
from tests.support.cases.statements import cases

Case = dict[str, Any]

READERS: dict[str, Callable[[Case], object]] = {
    "mistakes.yaml": lambda case: parse_statement(case["text"]),
    "plain-mistakes.yaml": lambda case: from_plain(case["value"]),
    "xml-mistakes.yaml": lambda case: from_xml(case["xml"].encode()),
    "place-mistakes.yaml": lambda case: check_place(parse_statement(case["text"]), Message(case["on_message"])),
}
MISTAKES = [(file, case) for file in READERS for case in cases(file)]


@pytest.mark.parametrize(("file", "case"), MISTAKES, ids=[f"{file}: {case['title']}" for file, case in MISTAKES])
def test_mistake(file: str, case: Case) -> None:
    with pytest.raises(StatementError) as caught:
        READERS[file](case)
    assert str(caught.value) == case["error"].removesuffix("\n")


def test_there_are_many_kinds() -> None:
    assert len(cases("mistakes.yaml")) >= 60
    named = Counter((file, case["title"]) for file, case in MISTAKES)
    assert [name for name, count in named.items() if count > 1] == []


def test_the_place_is_told_apart() -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement("PolicyStatement {\n  Off")
    assert (caught.value.what, caught.value.at) == ("expected `On`, found `Off`", 20)
