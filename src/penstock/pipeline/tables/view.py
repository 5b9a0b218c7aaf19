"""The columns of events on their way through the stages, and of the views that subjects get of them."""

from pyspark.sql import Column, DataFrame

from penstock.journal.read.events import WITHDRAWN
from penstock.journal.read.packets import PUBLISHER
from penstock.pipeline.tables.executor import F

NOT_BEFORE, UNTIL = "not_before", "retain_until"
"""The columns that say from when on, and up to when, a subject may have a row; NULL: always."""

VIEW = (
    *("subject", "node", "seq", "place", "part", "time"),
    *("topic", "payload", "qos", "retain", "content_type", "properties", "expiry"),
    *(NOT_BEFORE, UNTIL),
)
"""What a subject sees of an event; at a node in the order of `seq`, `place`, `part`. It does not name the publisher."""

EVENT = (
    *("revision", "node", "seq", "arrival", "place", "time", "kind"),
    *("client_id", "user", "entity", "link_type", "neighbour"),
    *PUBLISHER,
    *("topic", "payload", "qos", "retain", "content_type", "properties", "expiry", "path", "id"),
    *("effect", "stage", "rule", "open", "facts"),
)
"""What the stages read of an event."""


def current(rows: DataFrame) -> DataFrame:
    """Return the rows that subjects may have now: neither those for later nor those that are to be deleted."""
    now, later, until = F.current_timestamp(), F.col(NOT_BEFORE), F.col(UNTIL)
    return rows.filter((later.isNull() | (later <= now)) & (until.isNull() | (until > now)))


def times_sent() -> Column:
    """Return the column `times`: 1 for each who is in `reached`, -1 if the row takes back that it was sent."""
    return F.when(F.col("kind") == WITHDRAWN, -1).otherwise(1).alias("times")
