"""What nodes without sockets record, as a journal on disk; and what subjects got, to hold views against it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from penstock.domain import Domain
from penstock.engine.journal_rows import Rows
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.revision import Revision
from penstock.journal.write.segment import Segment

Got = tuple[str, bytes, int]
"""Topic, payload and QoS of a message."""
Views = dict[tuple[str, str], list[Got]]
"""By subject and node, in order."""


class Written:
    """A journal that tests write by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next: dict[str, int] = {}

    def keep(self, domain: Domain, folder: Path | None = None) -> str:
        """Keep the policies in force, with the monitors that are in the folder; returns their digest."""
        revision = Revision.of(domain, folder)
        revision.keep(self.folder)
        return revision.digest

    def add(self, node: str, rows: Rows, revision: str) -> range:
        """A segment with these rows; returns the sequence numbers that it may use."""
        first = seq = self._next.get(node, 0)
        if not rows.notes:
            return range(first, first)
        segment = Segment(self.folder, node, "test", seq, rows.times[0])
        seq = segment.revision(seq, rows.times[0], revision)
        self._next[node] = segment.write(seq, rows)
        segment.seal()
        return range(first, self._next[node])

    def add_all(self, nodes: Iterable[Node], revision: str) -> None:
        """What recorders of nodes have gathered since the last time."""
        for node in nodes:
            assert node.recorder is not None
            self.add(node.name, node.recorder.take(), revision)


def record(rehearsal: Rehearsal) -> None:
    """Let all nodes of a rehearsal record from now on."""
    for node in rehearsal.nodes.values():
        node.recorder = Recorder()


def delivered(rehearsal: Rehearsal, subjects: Iterable[str]) -> Views:
    """What subjects have got in a rehearsal."""
    views: Views = {}
    for subject in subjects:
        for one in rehearsal.deliveries(subject):
            views.setdefault((subject, one.node), []).append((one.topic, one.payload, one.qos))
    return views


def viewed(view: DataFrame) -> Views:
    """What a view gives them."""
    views: Views = {}
    rows = view.select("subject", "node", "seq", "place", "part", "topic", "payload", "qos").collect()
    for row in sorted(rows, key=lambda row: (row.subject, row.node, row.seq, row.place, row.part)):
        views.setdefault((row.subject, row.node), []).append((row.topic, bytes(row.payload), row.qos))
    return views


def differences(found: Mapping[tuple[str, str], list[Any]], expected: Mapping[tuple[str, str], list[Any]]) -> list[str]:
    """What is not the same, in words."""
    return [
        f"{subject} at {node}: the view has {found.get((subject, node), [])},"
        f" live it was {expected.get((subject, node), [])}"
        for subject, node in sorted(found.keys() | expected.keys())
        if found.get((subject, node), []) != expected.get((subject, node), [])
    ]
