"""docs/conformance.md says of the code and of the tests what is so."""

import re

from tests.conformance.catalogue import PAGE, STATEMENT, cited_in_source, cited_in_tests, rows

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {row.statement: row for row in rows(TEXT)}


def names(cell: str) -> set[str]:
    """What a cell puts in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def test_no_statement_is_cited_that_is_not_on_the_page() -> None:
    """Because it does not exist, or because it was forgotten."""
    assert (set(cited_in_source()) | set(cited_in_tests())) - set(STATEMENT.findall(TEXT)) == set()


def test_no_statement_is_listed_twice() -> None:
    assert len(ROWS) == len(rows(TEXT))


def test_modules_cite_what_the_page_says_they_do() -> None:
    cited = cited_in_source()
    wrong = [row.statement for row in ROWS.values() if not names(row.cited) <= set(cited.get(row.statement, ()))]
    assert wrong == [], "run `.venv/bin/python -m tests.conformance.catalogue`"


def test_tests_cite_what_the_page_says_they_do() -> None:
    cited = cited_in_tests()
    wrong = [row.statement for row in ROWS.values() if not names(row.tested) <= set(cited.get(row.statement, ()))]
    assert wrong == [], "run `.venv/bin/python -m tests.conformance.catalogue`"


def test_every_statement_is_tested_or_has_a_remark() -> None:
    tested = cited_in_tests()
    bare = [row.statement for row in ROWS.values() if not (row.same_as or row.remark or row.statement in tested)]
    assert bare == []


def test_a_statement_that_is_said_elsewhere_is_listed_there() -> None:
    assert [row.statement for row in ROWS.values() if row.same_as and row.same_as not in ROWS] == []
