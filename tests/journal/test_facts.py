"""Facts that policies ask a node for are in the journal, with the events they were asked for."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.domain import Domain, ensemble
from penstock.engine.events import user_properties
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.read.events import ARRIVAL, EVENTS
from penstock.journal.read.tables import parts, read_all, read_part
from penstock.journal.write.compact import compact
from tests.support.memory.recording import Written, record

RULE = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
ASKS = {
    "busy": "If {BrokerLoadIndex() > 0.9} Then {BlockMessage()}",
    "traced": "If {} Then {AugmentBrokerHostInfo(), AugmentProcessingTime()}",
    "members": "If {AuthenticateReceiver(G)} Then {} Elseif {} Then {RemoveAttributes(secret)}",
    "senders": "If {AuthenticateSender(G)} Then {} Elseif {} Then {BlockMessage()}",
    "plain": "If {secret == 2} Then {RemoveAttributes(secret)}",
}
BOTH = b'{"a":1,"secret":2}'


def _domain() -> Domain:
    return Domain.model_validate(
        {
            "nodes": {"n": {"listen": "127.0.0.1:0", "store": "memory"}},
            "clients": {name: {"node": "n"} for name in "pqst"},
            "trust_groups": {"G": {"secret": {"env": "NONE"}, "nodes": ["n"], "clients": ["t", "p"]}},
            "statements": {
                "policies": {name: RULE.format(chain) for name, chain in ASKS.items()},
                "apply": [{"policy": name, "to": "publication", "of": "p", "filter": f"{name}/#"} for name in ASKS],
                "grants": [{"to": ["p", "q"], "set": ["advertisement", "publication"], "elements": "*"}],
            },
        }
    )


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The events of a play: one on each topic, and one on a topic that no policy is about."""
    domain = _domain()
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    node = rehearsal.nodes["n"]
    node.runtime.load, node.runtime.host, node.runtime.clock = 0.25, "machine", lambda: rehearsal.now + 0.5
    for name in "pqst":
        rehearsal.connect(name)
    for name in "st":
        rehearsal.subscribe(name, "#")
    rehearsal.advertise("q", "own", "own/#", "a > 0", policy=RULE.format("If {} Then {RemoveAttributes(secret)}"))
    rehearsal.publish("q", "own/1", BOTH)
    for topic in (*(f"{name}/1" for name in ASKS), "free"):
        rehearsal.publish("p", topic, BOTH)
    rehearsal.publish("p", "free", BOTH, policy=RULE.format(ASKS["plain"]))
    rehearsal.run()
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return _arrivals(folder)


def _arrivals(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read_all(folder)[0].to_pylist() if row["kind"] == ARRIVAL]


def test_only_what_was_asked_is_recorded_and_events_are_as_they_came(tmp_path: Path) -> None:
    rows = recorded(tmp_path)
    facts = {row["topic"]: json.loads(row["facts"] or "null") for row in rows[:-1]}
    assert {row["payload"] for row in rows} == {BOTH}
    statement = {"name": "q: own", "filter": "own/#", "where": "a > 0"}
    (fact,) = facts.pop("own/1")["statements"]
    assert fact.pop("policy").startswith("PolicyStatement")
    assert fact == statement
    assert facts == {
        "busy/1": {"load": 0.25},
        "traced/1": {"host": "machine", "elapsed": 0.5},
        "members/1": {"receivers": {"s": {"G": False}, "t": {"G": True}}},
        "senders/1": {"sender": {"G": True}},
        "plain/1": None,
        "free": None,
    }


def test_a_policy_that_a_client_attaches_is_among_the_properties(tmp_path: Path) -> None:
    *others, last = recorded(tmp_path)
    (pair,) = user_properties.carried(last["properties"]).user_properties
    assert pair[0] == user_properties.POLICY
    assert {row["properties"] for row in others} == {b""}


def test_facts_stay_when_a_journal_is_compacted_and_files_without_them_are_read(tmp_path: Path) -> None:
    before = recorded(tmp_path)
    assert list(compact(tmp_path))
    assert _arrivals(tmp_path) == before
    (part,) = parts(tmp_path)
    old = pa.parquet.read_table(part.path).drop_columns(["facts"])
    pa.parquet.write_table(old, part.path)
    read = read_part(part).events
    assert read.schema == EVENTS
    assert read["facts"].null_count == len(read)
