"""The cases of the stages, played on a node that records, and what views make of the recording."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Row

from penstock.domain import Domain, ensemble
from penstock.engine.recorder import Recorder
from penstock.language.condition import make_condition
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.pipeline.spark.policies import Asker
from penstock.wire.packet import Publish
from penstock.wire.stream import StreamDecoder
from tests.support.cases.stages import _VERBS, Case, Player
from tests.support.memory.node import Client
from tests.support.memory.recording import Written

Message = tuple[str, bytes]


class Asked(NamedTuple):
    """A subscription as a client has it at some time."""

    filter: str
    where: str
    no_local: bool
    is_shared: bool

    def takes(self, row: Row, is_own: bool, domain: Domain) -> bool:
        event = Event(row.topic, bytes(row.payload), properties=bytes(row.properties))
        content = ensemble(domain).reader.read(event)
        return (
            matches(self.filter, row.topic)
            and (not self.where or make_condition(self.where).holds(content) is True)
            and not (self.no_local and is_own)
        )


@dataclass
class Step:
    """What was recorded while nothing else changed: which rows, by what domain, and who had subscribed to what."""

    rows: range
    domain: Domain
    asked: dict[Asker, list[Asked]]


@dataclass
class Recording:
    """A case that was played."""

    case: Case
    node: str
    """What the journal calls the node: all cases are in one journal, those without policies at one node."""
    steps: list[Step] = field(default_factory=list)
    got: dict[Asker, list[Message]] = field(default_factory=dict)

    def expected(self, publishers: Mapping[int, str], view: Sequence[Row], asker: Asker) -> list[Message]:
        """What a client should have got of its view, by what it had subscribed to; `publishers` by sequence number."""
        return [
            (row.topic, bytes(row.payload))
            for step in self.steps
            for row in view
            if row.seq in step.rows
            and any(one.takes(row, publishers[row.seq] == asker.name, step.domain) for one in step.asked.get(asker, ()))
        ]

    def authorised(self, view: Sequence[Row]) -> set[Message]:
        """All of its view."""
        return {(row.topic, bytes(row.payload)) for step in self.steps for row in view if row.seq in step.rows}


class RecordingPlayer(Player):
    """Plays a case, and writes what the node recorded after each verb."""

    def __init__(self, case: Case, node: str, folder: Path, journal: Written) -> None:
        super().__init__(case, False, folder)
        self.recording = Recording(case, node)
        self._journal = journal
        self._keys, self._has_acl = case.domain, case.acl is not None
        self._connections: list[tuple[Asker, Client]] = []
        self.joined.node.recorder = Recorder()

    def play(self) -> None:
        for step in self._case.steps:
            for verb, what in step.items():
                domain, asked = self._domain(), self._subscribed()
                revision = self._journal.keep(domain)
                _VERBS[verb](self, what)
                self._note_connections()
                recorder = self.joined.node.recorder
                assert recorder is not None
                rows = self._journal.add(self.recording.node, recorder.take(), revision)
                if rows:
                    self.recording.steps.append(Step(rows, domain, asked))
                if verb == "acl":
                    self._has_acl = True
                if verb == "domain":
                    self._keys = what
        for asker, client in self._connections:
            self.recording.got.setdefault(asker, []).extend(_messages(client))

    def _domain(self) -> Domain:
        name, node = self.recording.node, {"listen": "127.0.0.1:0", "store": "memory"}
        if self._has_acl:
            node["acl"] = str(self._folder / "acl")
        keys = json.loads(re.sub(r"\btest\b", name, json.dumps(self._keys)))
        return Domain.model_validate({"nodes": {name: node}, **keys})

    def _subscribed(self) -> dict[Asker, list[Asked]]:
        found: dict[Asker, list[Asked]] = {}
        for session in self.joined.node.sessions.values():
            asker = Asker(session.client_id, session.subject.user)
            for one in session.subscriptions.values():
                filter = parse_filter(one.filter)
                asked = Asked(filter.filter, one.asked, one.no_local, filter.group is not None)
                found.setdefault(asker, []).append(asked)
        return found

    def _note_connections(self) -> None:
        for client in self._clients.values():
            if client.session is not None and all(client is not one for _, one in self._connections):
                self._connections.append((Asker(client.session.client_id, client.session.subject.user), client))


def _messages(client: Client) -> Iterator[Message]:
    """What came over a connection; not what was only repeated."""
    topics: dict[int, str] = {}
    decoder = StreamDecoder(version=client.version)
    for data in client.raw:
        for packet in decoder.feed(data):
            if isinstance(packet, Publish) and not packet.dup:
                alias = packet.properties.topic_alias
                topic = packet.topic or topics[alias or 0]
                if alias is not None:
                    topics[alias] = topic
                yield topic, packet.payload
