"""Stage emit over tables: what leaves for subjects. A table has no windows: all that came so far leaves."""

from penstock.pipeline.stages.stage import KeyDraft, Traffic
from penstock.pipeline.tables.view import EVENT, VIEW

_LEAVING = (*EVENT, *(name for name in VIEW if name not in EVENT))


def plan(draft: KeyDraft) -> None:
    """Plan nothing."""


def on_table(traffic: Traffic) -> Traffic:
    """Leave events and views, without the columns that stages made for each other."""
    return traffic.with_rows(traffic.rows.select(*(name for name in _LEAVING if name in traffic.rows.columns)))


on_stream = on_table
