"""The format of journal segments, version 3: Arrow IPC streams. `docs/journal.md` is the page for who reads them.

A segment is whole by itself: what a row names by number (`source`, `plan`) is defined in an earlier row of it.
"""

from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path

import pyarrow as pa

VERSION = 3
READABLE = (1, 2, 3)
"""Versions that are read. A segment of version 1 has no rows of kind `RETAINED`, one of version 2 no `statements` and
`facts`; they are the same otherwise.
"""


class Kind(IntEnum):
    """What a row is."""

    ARRIVAL = 0
    """An event as it came to the node."""
    OUTPUT = 1
    """What a monitor on the link made of the last arrival; without a packet if it is the same."""
    SOURCE = 2
    """Defines the number in `source`: who publishes."""
    PLAN = 3
    """Defines the number in `plan`: what is decided for all events of a topic from such a source."""
    REVISION = 4
    """The policies in force from here on."""
    GAP = 5
    """Rows that are missing: the journal could not be written, and the node was told to go on."""
    RETAINED = 6
    """A retained event as it was sent to somebody who subscribed later."""


EVENT_KINDS = (Kind.ARRIVAL, Kind.OUTPUT, Kind.RETAINED)


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
"""Folder of what was compacted, and in `QUARANTINE` of what could not be read then."""
QUARANTINE = "quarantine"

OPEN = "_open-"
"""Before the name of the segment that is being written. Spark leaves out names that begin so."""
DRAFT = "_draft-"
"""Before the name of a file that is not whole yet and is of no use before it is."""
ENDING = ".arrow"
COMPACT_ENDING = ".parquet"


def schema_of(node: str, domain: str) -> pa.Schema:
    """The schema with what holds of a whole segment."""
    return SCHEMA.with_metadata({"penstock.journal": str(VERSION), "node": node, "domain": domain})


def segment_name(first: int, time: float) -> str:
    """Names that sort as their rows do."""
    return f"{first:016d}-{int(time * 1000):x}{ENDING}"


def compact_name(first: int, last: int) -> str:
    """The name says which rows are inside, so that segments with the same rows can be told."""
    return f"{first:016d}-{last:016d}{COMPACT_ENDING}"


def partition(folder: Path, node: str, time: float) -> Path:
    """Where a node's segments of a day are."""
    day = datetime.fromtimestamp(time, UTC).date().isoformat()
    return folder / f"node={node}" / f"date={day}"
