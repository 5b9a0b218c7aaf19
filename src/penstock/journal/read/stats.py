"""Statistics of a journal."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.listing import parts
from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.tables import read_part

Denial = tuple[str, str]
"""A stage and its rule."""


@dataclass(slots=True)
class JournalStats:
    """The statistics of one node's rows."""

    node: str
    files: int = 0
    open_files: int = 0
    compacted_files: int = 0
    bytes: int = 0
    events: int = 0
    """Number of rows: arrivals and monitors' outputs."""
    arrivals: int = 0
    first: datetime | None = None
    last: datetime | None = None
    topics: Counter[str] = field(default_factory=Counter)
    """Arrivals by topic; `denials` counts suppressed events by stage and rule."""
    denials: Counter[Denial] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    """Rows that are missing or cannot be read, by reason."""

    @property
    def rate(self) -> float:
        """Return arrivals per second between the first and the last."""
        seconds = (self.last - self.first).total_seconds() if self.first and self.last else 0.0
        return self.arrivals / seconds if seconds else 0.0


def stats(folder: Path, nodes: frozenset[str] | None = None) -> list[JournalStats]:
    """Return the statistics of each node of a journal."""
    by_node: dict[str, JournalStats] = {}
    for part in parts(folder, nodes):
        try:
            size, read = part.path.stat().st_size, read_part(part)
        except FileNotFoundError:  # sealed or compacted at this moment
            continue
        node_stats = by_node.setdefault(part.node, JournalStats(part.node))
        node_stats.files += 1
        node_stats.open_files += part.is_open
        node_stats.compacted_files += part.last is not None
        node_stats.bytes += size
        _count(node_stats, read.events)
        node_stats.problems.update(read.lost["problem"].to_pylist())
    return list(by_node.values())


def _count(stats: JournalStats, events: pa.Table) -> None:
    if not events.num_rows:
        return
    arrivals = events.filter(pc.equal(events["kind"], ARRIVAL))
    stats.events += events.num_rows
    stats.arrivals += arrivals.num_rows
    times = pc.min_max(events["time"]).as_py()
    stats.first = times["min"] if stats.first is None else min(stats.first, times["min"])
    stats.last = times["max"] if stats.last is None else max(stats.last, times["max"])
    stats.topics.update({row["values"]: row["counts"] for row in pc.value_counts(arrivals["topic"]).to_pylist()})
    denied = (
        events.filter(pc.not_equal(events["effect"], "pass")).group_by(["stage", "rule"]).aggregate([([], "count_all")])
    )
    stats.denials.update({(row["stage"], row["rule"]): row["count_all"] for row in denied.to_pylist()})
