"""docs/statements.md: its example is the same in all forms, and its bounds are those of the code."""

import re
from pathlib import Path

import yaml

from penstock.language import limits
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.plain import from_plain
from penstock.language.statements.printer import show_statement
from penstock.language.statements.table import ABOUT, INHERITED
from penstock.language.statements.xml import from_xml
from penstock.policy.statements.elements.table import BUILT_IN
from tests.support.cases.statements import same

PAGE = (Path(__file__).parents[2] / "docs" / "statements.md").read_text("utf-8")


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_one_statement_in_all_forms() -> None:
    statement = parse_statement(block("statement"))
    assert show_statement(statement) == block("statement")
    assert same(from_plain(yaml.safe_load(block("yaml"))), statement)
    assert same(from_xml(block("xml").encode()), statement)


def test_every_element_is_told_of() -> None:
    told = re.search(r"^## Elements\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert told is not None
    names = set(re.findall(r"`([A-Z][A-Za-z]+)\(", told[1]))
    assert names == {element.name for element in BUILT_IN}


def test_bounds() -> None:
    stated = [int(number.replace(",", "")) for number in re.findall(r"^\| [^|]+ \| ([\d,]+) \|$", PAGE, re.MULTILINE)]
    assert stated == [
        limits.MAX_STATEMENT,
        25 * limits.MAX_STATEMENT,
        limits.MAX_RULES,
        limits.MAX_CLAUSES,
        limits.MAX_ACTIONS,
        limits.MAX_ARGUMENTS,
        limits.MAX_STRING,
        limits.MAX_TEXT,
    ]


def test_table_1() -> None:
    rows = re.findall(r"^\| (\w+) \| ((?:\w+s)(?:, \w+s)*) \| ([\w, ]*)\|$", PAGE, re.MULTILINE)
    stated = {carrier: (listed(about), listed(inherited)) for carrier, about, inherited in rows}
    assert stated == {
        carrier.lower(): ([each.lower() for each in about], [each.lower() for each in INHERITED.get(carrier, ())])
        for carrier, about in ABOUT.items()
    }


def listed(words: str) -> list[str]:
    return [word.removesuffix("s") for word in words.split(", ") if word] if (words := words.strip()) else []
