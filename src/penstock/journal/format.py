"""The format of journal segments, version 5: Arrow IPC streams. `docs/journal.md` describes it for readers.

A segment is self-contained: what a row names by number (`source`, `plan`) is defined in an earlier row of the same.
"""

from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path

import pyarrow as pa

VERSION = 5
READABLE = (1, 2, 3, 4, 5)
"""Versions that can be read: 1 has no rows of kind `RETAINED`, 2 has no `statements` and `facts`, 3 no rows of kind
`VIEW`, `SENT` and `WITHDRAWN`, 4 does not say from whom events were withheld.
"""


class RowKind(IntEnum):
    """The kinds of rows."""

    ARRIVAL = 0
    """An event as it came to the node."""
    OUTPUT = 1
    """The output of a monitor on the link for the last arrival; without a packet if the monitor did not change it."""
    SOURCE = 2
    """Defines the number in `source`: the publisher."""
    PLAN = 3
    """Defines the number in `plan`: the decision for all events of a topic from such a source."""
    REVISION = 4
    """The policies in force from here on."""
    GAP = 5
    """Rows that are missing: the journal could not be written, and the node was configured to go on."""
    RETAINED = 6
    """A retained event as it was sent to a later subscriber."""
    VIEW = 7
    """The last arrival or output, as it was sent to receivers that did not get it as it is."""
    SENT = 8
    """An event that was sent and is no arrival: one that a contract had held back, a mean, or the node's own."""
    WITHDRAWN = 9
    """An event that was queued for a receiver, which an earlier row names as reached, and was not sent to it."""


EVENT_KINDS = (RowKind.ARRIVAL, RowKind.OUTPUT, RowKind.RETAINED, RowKind.VIEW, RowKind.SENT, RowKind.WITHDRAWN)


SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("source", pa.int32()),
        pa.field("plan", pa.int32()),
        pa.field("packet", pa.binary()),
        pa.field("detail", pa.string()),
    ]
)
"""`packet` is an MQTT PUBLISH in the version of its source; `detail` is JSON."""

COMPACT = "compact"
"""Folder of compacted files; `QUARANTINE` holds the rows that could not be read when they were compacted."""
QUARANTINE = "quarantine"

OPEN = "_open-"
"""Prefix of the segment that is being written. Spark ignores names that begin with an underscore."""
DRAFT = "_draft-"
"""Prefix of a file that is not complete yet and is useless until it is."""
ENDING = ".arrow"
COMPACT_ENDING = ".parquet"


def schema_of(node: str, domain: str) -> pa.Schema:
    """Return the schema with the metadata of a segment."""
    return SCHEMA.with_metadata({"penstock.journal": str(VERSION), "node": node, "domain": domain})


def segment_name(first: int, time: float) -> str:
    """Return the name of a segment. Names sort as their rows do."""
    return f"{first:016d}-{int(time * 1000):x}{ENDING}"


def compact_name(first: int, last: int) -> str:
    """Return the name of a compacted file, with its first and last row number: so duplicates are recognised."""
    return f"{first:016d}-{last:016d}{COMPACT_ENDING}"


def partition(folder: Path, node: str, time: float) -> Path:
    """Return the folder of a node's segments of one day."""
    day = datetime.fromtimestamp(time, UTC).date().isoformat()
    return folder / f"node={node}" / f"date={day}"
