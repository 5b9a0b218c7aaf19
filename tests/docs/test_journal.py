"""The page of the journal says what is there."""

import re

from penstock.journal.format import SCHEMA
from penstock.journal.read.events import EVENTS, QUARANTINE
from scripts.settings_table import JOURNAL_PAGE, with_tables

PAGE = JOURNAL_PAGE.read_text(encoding="utf-8")


def _columns(section: str) -> set[str]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_table_of_settings_is_as_the_schema_is() -> None:
    assert with_tables(PAGE) == PAGE, "run `.venv/bin/python -m scripts.settings_table`"


def test_every_column_of_a_segment_is_on_the_page() -> None:
    assert _columns("Segments") == set(SCHEMA.names)


def test_every_column_of_events_is_on_the_page() -> None:
    assert _columns("Events") == {*EVENTS.names, "content_<n>", "unreadable"}


def test_every_column_of_the_quarantine_is_on_the_page() -> None:
    (said,) = re.findall(r"is a row in another table: ([^.]*)\.", PAGE)
    assert re.findall(r"`(\w+)`", said) == QUARANTINE.names
