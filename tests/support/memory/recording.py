"""What nodes without sockets record, as a journal on disk; and what subjects got, to hold views against it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from penstock.domain import Domain
from penstock.engine.journal_rows import Rows
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder
from penstock.engine.rehearsal.peer import Peer
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.read.tables import read_all
from penstock.journal.revision import Revision
from penstock.journal.write.segment import Segment
from penstock.wire.codec import encode, encode_varint
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import Packet, Publish
from penstock.wire.properties import Properties, decode_properties

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


@contextmanager
def sockets() -> Iterator[Counter[bytes]]:
    """All publications that connections bring to the peers of rehearsals, as `seen_by` gives them."""
    got: Counter[bytes] = Counter()
    handle = Peer._handle

    def tapped(peer: Peer, packet: Packet) -> None:
        if isinstance(packet, Publish):
            got[seen_by(peer.name, packet)] += 1
        handle(peer, packet)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Peer, "_handle", tapped)
        yield got


def sent(journal: Path, without_properties: Collection[str] = ()) -> Counter[bytes]:
    """What a journal says that clients were sent: of each row, who was reached, what clients see of it.

    `without_properties` are the clients that speak MQTT 3.1.1.
    """
    said: Counter[bytes] = Counter()
    for row in read_all(journal)[0].to_pylist():
        wire = encode_varint(len(row["properties"])) + row["properties"]
        properties, _ = decode_properties(wire, 0, PUBLISH)
        packet = Publish(row["topic"], row["payload"], row["qos"], properties=properties)
        for receiver in row["reached"]:
            if receiver["neighbour"] is None:
                name = receiver["entity"]
                seen = seen_by(name, packet, receiver["qos"], name not in without_properties)
                said[seen] += -1 if row["kind"] == "withdrawn" else 1
    return said


def seen_by(client: str, packet: Publish, qos: int = 2, has_properties: bool = True) -> bytes:
    """The client's name, and the bytes of a publication but for what only its session knows: identifiers, what is left
    of the time, whether it is told as retained.
    """
    own = packet.properties
    shown = ("penstock-trace", "penstock-retain-until")
    pairs = [pair for pair in own.user_properties if not pair[0].startswith("penstock-") or pair[0].startswith(shown)]
    kept = Properties(
        payload_format=own.payload_format,
        content_type=own.content_type,
        response_topic=own.response_topic,
        correlation_data=own.correlation_data,
        user_properties=tuple(pairs),
    )
    qos = min(packet.qos, qos)
    plain = Publish(packet.topic, packet.payload, qos, packet_id=1 if qos else 0, properties=kept)
    return client.encode() + b" " + encode(plain, 5 if has_properties else 4)


def differing(said: Counter[bytes], got: Counter[bytes]) -> tuple[str, ...]:
    """What is recorded and was not sent, and what was sent and is not recorded."""
    return (
        *(f"recorded and not sent: {seen!r}" for seen in (said - got).elements()),
        *(f"sent and not recorded: {seen!r}" for seen in (got - said).elements()),
    )


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
