"""A small plant whose monitors count: if events were lost or doubled, everything after would be otherwise."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds

from penstock.domain import ensemble, load
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.recording import Got, Views, Written, delivered, record

SUBJECTS = ("office", "guest")
TOPICS = ("t", "alarm", "counted")
COUNTS = """\
class Counts:
    alphabet = ("t",)

    def start(self):
        return 0

    def step(self, state, event, now):
        return state + 1, [event._replace(topic="counted", payload=b"%d: " % state + event.payload)]
"""
DOMAIN = """\
domain: plant
nodes: {main: {listen: "127.0.0.1:0", store: memory}}
clients:
  sensor: {node: main, type: field}
  office: {node: main, type: office}
  guest: {node: main, type: outside}
brokering: {types: [field, office, outside], allow: [{from: field, to: office}, {from: office, to: outside}]}
monitors:
  every-other:
    link: sensor -> main
    states: {q0: {t: {pass: true, next: q1}, "*": pass}, q1: {t: {suppress: true, next: q0}, "*": pass}}
  counts: {link: main -> office, python: "counts:Counts"}
"""


@dataclass(frozen=True)
class Plant:
    """A journal of the plant in many segments, and what its subjects got."""

    domain: Path
    journal: Path
    delivered: Views


def plant(folder: Path, segments: int, events: int = 7) -> Plant:
    """Play it: a segment for each round of so many events, and one of the office's own."""
    (folder / "counts.py").write_text(COUNTS)
    path = folder / "domain.yaml"
    path.write_text(DOMAIN)
    domain = load(path)
    rehearsal = Rehearsal(domain, ensemble(domain, folder), {})
    record(rehearsal)
    for name in SUBJECTS:
        rehearsal.connect(name)
        for topic in TOPICS:
            rehearsal.subscribe(name, topic, no_local=False)
    rehearsal.connect("sensor")
    journal = Written(folder / "journal")
    # Monitors of another name: they are run by the stream, and what the journal has of them is no use.
    revision = journal.keep(domain, folder)
    for number in range(segments):
        for event in range(events):
            rehearsal.publish("sensor", "t", b"%d.%d" % (number, event), 1)
        rehearsal.publish("office", "alarm", b"%d" % number, 1)
        rehearsal.run()
        journal.add_all(rehearsal.nodes.values(), revision)
    return Plant(path, journal.folder, delivered(rehearsal, SUBJECTS))


def table_of(folder: Path) -> Views:
    """What a table of views has, as any program reads it."""
    places = [(name, "ascending") for name in ("subject", "node", "seq", "place", "part")]
    rows = ds.dataset(folder / "view", partitioning="hive").to_table().sort_by(places).to_pylist()
    views: Views = {}
    for row in rows:
        got: Got = (row["topic"], row["payload"], row["qos"])
        views.setdefault((row["subject"], row["node"]), []).append(got)
    return views
