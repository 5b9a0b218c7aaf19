"""Random plays over time, recorded and then governed.

A domain that changes in the middle leaves rows of several revisions, and a message may leave under another one than it
came under. So this is held:

- What sockets got, the journal says was sent, byte for byte, whatever changed; `tests/journal/test_record.py` has the
  other direction, of plays in which no connection breaks.
- *As it stood*: of what came to a reader's node while the reader was there and subscribed, and took what it was sent,
  the view has exactly what the reader got.
- *By the last domain*: all that readers got since it holds, also of what had waited, is in the view that it gives of
  all that was ever recorded: what left was permitted both when it came and when it left.
"""

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.domain import Domain
from penstock.engine.recorder import Recorder
from penstock.engine.rehearsal.peer import Delivered
from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.tables import read_all
from penstock.model.topic import matches
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.generators.aims import AimedPlay
from tests.support.generators.examples import some
from tests.support.memory.recording import Written, sent
from tests.support.models.present_domain import Present

RUNS = some(30)
CHUNK = 5
FIRST = 1_000_000
"""Other plays than those that are not governed."""
VALUE = re.compile(rb"\w+!\d+;")
NUMBER = re.compile(rb'"n": ?(\d+)')
Message = tuple[str, bytes]


class Recorded(AimedPlay):
    """A play whose nodes record."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.folder = folder
        self.journal = Written(folder / "journal")
        self.begun_at: list[float] = []
        """When each step began; time goes on a little with each, so that rows tell their step."""
        self.steady: list[dict[str, set[str]]] = []
        """By step, the readers that were there and took all they were sent, with their filters."""
        self.got: defaultdict[tuple[int, str], list[Message]] = defaultdict(list)
        self.last_change = 0
        self.killed = set[str]()
        super().__init__(seed)

    def begin(self) -> None:
        self.revision = self.journal.keep(self.domain())
        start = self.rehearsal.assembly.start

        def record(name: str) -> None:
            self.flush()
            self.killed.add(name)
            start(name)
            self.rehearsal.nodes[name].recorder = Recorder()

        self.rehearsal.assembly.start = record  # type: ignore[method-assign]
        for node in self.rehearsal.nodes.values():
            node.recorder = Recorder()

    def domain(self) -> Domain:
        """The present domain with its files."""
        settings = self.present.as_domain()
        self.folder.mkdir(exist_ok=True)
        for name, node in settings["nodes"].items():
            node["acl"] = str(self.folder / f"{name}.acl")
            (self.folder / f"{name}.acl").write_text(self.present.access_list(name))
        return Domain.model_validate(settings)

    def flush(self) -> None:
        self.journal.add_all(self.rehearsal.nodes.values(), self.revision)

    def _begin(self) -> None:
        """Begin a step, or in the middle of one another, as the domain changes."""
        self.rehearsal.assembly.now += 0.001
        self.begun_at.append(self.now)

    def step(self) -> None:
        self._begin()
        self.killed = set[str]()
        before, readers = self.present, self._steady()
        super().step()
        self._rest()
        same = {name: filters for name, filters in self._steady().items() if readers.get(name) == filters}
        self.steady.append(same if self.present is before else {})

    def _steady(self) -> dict[str, set[str]]:
        peers = [self.peers[name] for name in self.shape.readers]
        return {
            peer.name: set(peer.subscriptions)
            for peer in peers
            if peer.is_open
            and not peer.is_slow
            and peer.node not in self.killed
            and not any("$share" in filter for filter in peer.subscriptions)
        }

    def fit(self, present: Present) -> Present:
        """What a contract delays is governed on Spark only. Where a condition of a reader, a contract, and a monitor or
        a statement speak of one event, the pipeline says that it does not know, and governs nothing.
        """
        contracts = {name: "plain" if rule == "delay" else rule for name, rule in present.contracts.items()}
        is_known = not (contracts and (present.monitors or present.statements))
        return replace(present, contracts=contracts, where=present.where if is_known else {})

    def changes(self) -> None:
        self.flush()
        self.revision = self.journal.keep(self.domain())
        self.steady.append({})
        self._begin()
        self.last_change = len(self.begun_at) - 1

    def took(self, reader: str, delivered: Delivered) -> None:
        if reader in self.shape.readers and self.begun_at:
            self.got[len(self.begun_at) - 1, reader].append((delivered.topic, delivered.payload))

    def step_at(self, time: float) -> int:
        return sum(begun <= time + 0.0005 for begun in self.begun_at) - 1


class Views:
    """What views of a play give its readers."""

    def __init__(self, play: Recorded, policies: Policies) -> None:
        rows = read_all(play.journal.folder)[0]
        with small_tables():
            found = view(small_table(rows), policies, tuple(map(Asker, play.shape.readers))).collect()
        self.rows = [row for row in found if row.node == play.shape.readers[row.subject]]

    def messages(self, reader: str) -> list[tuple[float, Message]]:
        return [(row.time.timestamp(), (row.topic, bytes(row.payload))) for row in self.rows if row.subject == reader]


def played(seed: int, folder: Path) -> Recorded:
    play = Recorded(seed, folder)
    play.play()
    play.flush()
    return play


def unrecorded(play: Recorded) -> list[str]:
    """What connections brought, and the journal does not say."""
    got = sum((peer.got_bytes for peer in play.peers.values()), Counter[bytes]())
    return [f"not recorded: {seen!r}" for seen in got - sent(play.journal.folder)]


def number_of(payload: bytes) -> int:
    found = NUMBER.search(payload)
    assert found is not None
    return int(found[1])


def arrivals(play: Recorded) -> dict[str, dict[int, int]]:
    """By node, the numbers of what came there, with the step in which they first did."""
    found: dict[str, dict[int, int]] = {name: {} for name in play.shape.nodes}
    for row in read_all(play.journal.folder)[0].to_pylist():
        if row["kind"] == ARRIVAL and row["topic"].startswith("t/"):
            step = play.step_at(row["time"].timestamp())
            found[row["node"]].setdefault(number_of(row["payload"]), step)
    return found


def differing_as_it_stood(play: Recorded) -> list[str]:
    views, came, wrong = Views(play, as_it_stood(play.journal.folder)), arrivals(play), []
    for reader, node in play.shape.readers.items():
        shown: defaultdict[int, list[Message]] = defaultdict(list)
        for time, message in views.messages(reader):
            shown[play.step_at(time)].append(message)
        for step, readers in enumerate(play.steady):
            if reader in readers:
                fresh = {number for number, at in came[node].items() if at == step}
                expected = _counted(shown[step], fresh, readers[reader])
                got = _counted(play.got[step, reader], fresh, readers[reader])
                if expected != got:
                    wrong.append(f"step {step}, {reader}: the view has {expected - got}, got {got - expected}")
    return wrong


def _counted(messages: list[Message], numbers: set[int], filters: set[str]) -> Counter[Message]:
    return Counter(
        (topic, payload)
        for topic, payload in messages
        if topic.startswith("t/")
        and number_of(payload) in numbers
        and any(matches(filter, topic) for filter in filters)
    )


def missing_by_the_last_domain(play: Recorded) -> list[str]:
    """What readers got since the last change, and its views of all that was recorded do not have.

    Views leave what publishers' policy statements do at other nodes to these, and bind what comes from other nodes by
    the contracts of all (docs/pipeline.md): so a view may have more attributes, and lack what contracts may concern.
    """
    domain = play.domain()
    views = Views(play, judged_by(domain.model_copy(update={"domain": "last"}), play.folder, play.journal.folder))
    wrong = []
    for reader, node in play.shape.readers.items():
        shown = [message for _, message in views.messages(reader)]
        attributes = {
            number_of(payload): set(json.loads(payload)) for topic, payload in shown if topic.startswith("t/")
        }
        values = {value for topic, payload in shown for value in VALUE.findall(payload)}
        for (step, name), messages in play.got.items():
            for topic, payload in messages if name == reader and step >= play.last_change else ():
                if not topic.startswith("t/"):
                    is_there = values.issuperset(VALUE.findall(payload))
                elif play.present.contracts and play.published[number_of(payload)].node != node:
                    continue
                else:
                    is_there = attributes.get(number_of(payload), set()).issuperset(json.loads(payload))
                if not is_there:
                    wrong.append(f"step {step}, {reader} got {topic} {payload!r}")
    return wrong


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_governed_is_what_sockets_got(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        play = played(FIRST + seed, tmp_path / str(seed))
        found = [*unrecorded(play), *differing_as_it_stood(play), *missing_by_the_last_domain(play)]
        assert not found, "\n".join((f"seed {FIRST + seed}", *play.log, *found))
