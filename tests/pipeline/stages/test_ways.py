"""Where nodes are joined in a cycle, views learn from an edge node's messages once, by the first way that they came."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.read.tables import read_all
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.stream import Stream, start
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.clients.paho import Paho
from tests.support.memory.recording import Views, Written, delivered, differences, record, viewed
from tests.support.memory.sparkplug import encode
from tests.support.processes.federation import federated, settled

DOMAIN = """
nodes: {n1: {listen: "127.0.0.1:0"}, n2: {listen: "127.0.0.1:0"}, n3: {listen: "127.0.0.1:0"}}
links: [{between: [n1, n2]}, {between: [n2, n3]}, {between: [n1, n3]}]
clients:
  edge: {node: n1, edge: G/E}
  near: {node: n1}
  guest: {node: n2}
  analyst: {node: n3}
  panel: {node: n3}
access:
  - {subject: [edge, near, panel], topics: "spBv1.0/#", may: [read, write]}
  - {subject: [guest, analyst], topics: "spBv1.0/#", may: read, except: "s*"}
  - {subject: guest, topics: "spBv1.0/+/NCMD/#", may: write, except: "s*"}
"""
SUBJECTS = ("near", "guest", "analyst", "panel")
NAMES = ("a", "b", "secret", "shut")
TOPICS = ("spBv1.0/G/NBIRTH/E", "spBv1.0/G/NDATA/E", "spBv1.0/G/NCMD/E", "$sparkplug/certificates/spBv1.0/G/NBIRTH/E")


def _message(draw: random.Random, at: int, aliases: list[str]) -> tuple[str, str, bytes]:
    """Who publishes what where, in the order of the edge node: births, each with other aliases, reports and commands
    by alias.
    """
    kind = draw.choice(["NBIRTH", "NDATA", "NDATA", "NDATA", "NCMD"]) if at else "NBIRTH"
    if kind == "NBIRTH":
        draw.shuffle(aliases)
    chosen = range(len(aliases)) if kind == "NBIRTH" else draw.sample(range(len(aliases)), draw.randrange(1, 4))
    metrics = [_metric(alias, aliases[alias] if kind == "NBIRTH" else "", at) for alias in chosen]
    payload: dict[str, Any] = {"timestamp": at, "metrics": metrics}
    if kind != "NCMD":
        payload["seq"] = at % 256
    return draw.choice(["guest", "near"]) if kind == "NCMD" else "edge", f"spBv1.0/G/{kind}/E", encode(payload)


def _metric(alias: int, name: str, at: int) -> dict[str, Any]:
    return {"alias": alias, "int_value": at, "datatype": 3} | ({"name": name} if name else {})


def played(domain: Domain, folder: Path, seed: int) -> Views:
    """Publish at three nodes whose connections are served in any order, and return what subjects got."""
    draw = random.Random(seed)

    rehearsal = Rehearsal(domain, ensemble(domain), choose=lambda wires: draw.choice(wires))
    record(rehearsal)
    for name in ("edge", *SUBJECTS):
        rehearsal.connect(name)
    for name in SUBJECTS:
        for topic in TOPICS if name != "near" else TOPICS[:-1]:  # where births come in, certificates are the node's own
            rehearsal.subscribe(name, topic, no_local=False)
    journal = Written(folder)
    revision = journal.keep(domain)
    aliases = list(NAMES)
    for at in range(60):
        who, topic, payload = _message(draw, at, aliases)
        rehearsal.publish(who, topic, payload, draw.randrange(2))
        if draw.random() < 0.2:
            rehearsal.run()
            rehearsal.wait(0.001)
        if at % 20 == 19:
            rehearsal.run()
            journal.add_all(rehearsal.nodes.values(), revision)
    return delivered(rehearsal, SUBJECTS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("again", [False, True], ids=["as it stood", "decided again"])
def test_copies_that_came_by_another_way_are_not_learnt_from(tmp_path: Path, seed: int, again: bool) -> None:
    """Issue 17, item 9."""
    domain = Domain.model_validate(yaml.safe_load(DOMAIN))
    live = played(domain, tmp_path / "journal", seed)
    assert {name for name, _ in live} == set(SUBJECTS)
    policies = as_it_stood(tmp_path / "journal")
    if again:
        policies = judged_by(domain.model_copy(update={"domain": "again"}), tmp_path, tmp_path / "journal")
    with small_tables():
        rows = view(small_table(read_all(tmp_path / "journal")[0]), policies, tuple(map(Asker, SUBJECTS)))
        assert differences(viewed(rows), live) == []


@pytest.mark.recorded
def test_the_same_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    live = played(Domain.model_validate(yaml.safe_load(DOMAIN)), tmp_path / "journal", 1)
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    places = tmp_path / "journal", tmp_path / "domain.yaml", tmp_path / "views", tmp_path / "checkpoint"
    stream = Stream(*places, tuple(map(Asker, SUBJECTS)), max_bytes=1, partitions=1)
    start(spark, stream, once=True).awaitTermination()
    assert differences(viewed(read_view(spark, stream.folder)), live) == []


def test_live_nodes_in_a_cycle_and_the_view_show_the_same() -> None:
    """Issue 17, item 9: births that come again by the slower way, after newer ones, give no alias its old meaning."""
    settings: dict[str, Any] = yaml.safe_load(DOMAIN) | {"journal": {"folder": "journal", "flush": 0.05}}
    settings["nodes"] = {name: {"store": "memory"} for name in settings["nodes"]}
    draw, aliases = random.Random(9), list(NAMES)
    published = [(topic, payload) for who, topic, payload in (_message(draw, at, aliases) for at in range(80))]
    got: list[tuple[str, bytes, int]] = []

    def wait_for(topic: str) -> None:
        while (message := analyst.receive()).topic != topic:
            got.append((message.topic, bytes(message.payload), message.qos))

    with federated(settings) as nodes, Paho("edge") as edge, Paho("analyst") as analyst, Paho("guest") as guest:
        analyst.connects(nodes.ports["n3"])
        edge.connects(nodes.ports["n1"])
        guest.connects(nodes.ports["n2"])
        for filter in ("first", "settled", "settle"):
            guest.subscribe(filter, 2)
        settled(guest, edge)  # before it is frozen, n2 has told the others what it wants
        for filter in ("spBv1.0/#", "first", "last", "by n2", "settled", "settle"):
            analyst.subscribe(filter, 2)
        settled(analyst, edge)
        nodes.freeze("n2")
        for topic, payload in published[:40]:
            edge.client.publish(topic, payload)
        edge.client.publish("first")
        wait_for("first")
        nodes.thaw("n2")
        while guest.receive().topic != "first":
            pass
        guest.publish("by n2", b"", 1)
        wait_for("by n2")  # so all that came to n3 by way of n2 has come
        for topic, payload in published[40:]:
            edge.client.publish(topic, payload)
        edge.client.publish("last")
        wait_for("last")
        nodes.stop()
        with small_tables():
            journal = nodes.folder / "journal"
            rows = view(small_table(read_all(journal)[0]), as_it_stood(journal), (Asker("analyst"),))
            shown = [row for row in viewed(rows)["analyst", "n3"] if row[0] in TOPICS[:-1]]
    assert shown == got
    assert len(got) > 40
