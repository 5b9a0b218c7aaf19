"""The cases of monitors between nodes, `tests/cases/shape/between-nodes/*.yaml`, played without sockets."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.read.tables import read_all
from tests.support.cases.stages import FOLDER
from tests.support.memory.recording import Views, Written, delivered, record

RECEIVERS = ("ben", "bob")


class LinkCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one client publishes, and what others get of it."""

    title: str
    monitors: dict[str, Any]
    publish: tuple[str, ...]
    gets: dict[str, list[str]]
    stopped: dict[str, list[list[str]]] = {}
    states: dict[str, str] = {}

    def __str__(self) -> str:
        return self.title


def link_cases() -> list[LinkCase]:
    paths = sorted((FOLDER / "shape" / "between-nodes").glob("*.yaml"))
    return [msgspec.convert(raw, LinkCase) for path in paths for raw in yaml.safe_load(path.read_text())]


def play(case: LinkCase, folder: Path) -> Views:
    """Play a case and write its journal; check what everybody got, and what each node says that it kept back."""
    clients = {"ann": {"node": "here"}, "ben": {"node": "here"}, "bob": {"node": "there"}}
    node = {"listen": "127.0.0.1:0"}
    nodes = {"nodes": {"here": node, "there": node}, "links": [{"between": ["here", "there"]}], "clients": clients}
    domain = Domain.model_validate({**nodes, "monitors": case.monitors})
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for name in clients:
        rehearsal.connect(name)
    for name in RECEIVERS:
        rehearsal.subscribe(name, "#")
    for number, topic in enumerate(case.publish):
        rehearsal.publish("ann", topic, f"{number}".encode(), 1)
    rehearsal.run()
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    got = delivered(rehearsal, RECEIVERS)
    topics = {name: [topic for topic, _, _ in messages] for (name, _), messages in got.items()}
    assert topics == case.gets
    assert {name: list(rehearsal.states(name).values()) for name in case.states} == {
        name: [state] for name, state in case.states.items()
    }
    rows = read_all(folder)[0].to_pylist()
    for at, expected in case.stopped.items():
        assert [kept for row in rows if row["node"] == at for kept in _kept(row)] == expected, at
    return got


def _kept(row: dict[str, Any]) -> list[list[str]]:
    """Topic, stage and rule of what a row of the journal says was kept back or changed: from all, or from some."""
    found = [[row["topic"], row["stage"], row["rule"]]] if row["effect"] == "suppress" else []
    return found + [[row["topic"], kept["stage"], kept["rule"]] for kept in row["withheld"] or ()]
