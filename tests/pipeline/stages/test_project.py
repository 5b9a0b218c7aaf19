"""Views of Sparkplug messages on Spark are those that a node delivered: byte for byte, in order."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.domain import Domain, ensemble
from penstock.engine.recorder import Recorder
from penstock.model.sparkplug.message import parse
from penstock.pipeline.jobs.govern import read_view, write_views
from penstock.pipeline.jobs.stream import Stream, StreamBatch, start
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.wire.packet import Publish
from tests.engine.sparkplug.test_aliases import RULES
from tests.support.generators.sparkplug import traffic
from tests.support.memory.node import MemoryNode
from tests.support.memory.recording import Views, Written, differences, viewed
from tests.support.memory.sparkplug import encode
from tests.support.spark.replays import Replaying

DOMAIN = """
nodes: {test: {listen: "127.0.0.1:0", store: memory}}
clients:
  gateway: {node: test}
  e0: {node: test, edge: G/E0}
  a1: {node: test, attributes: {level: 1}}
  a2: {node: test, attributes: {level: 2}}
  scada: {node: test}
  nobody: {node: test}
access:
  - {subject: [gateway, e0], topics: "spBv1.0/#", may: write, except: forbidden, when: "!has(never)"}
  - {subject: scada, topics: "spBv1.0/#", may: read}
  - {subject: [a1, a2], topics: ["spBv1.0/G/NBIRTH/+", "spBv1.0/G/DBIRTH/+/#"], may: read, except: "s*"}
  - {subject: [a1, a2], topics: "spBv1.0/+/+/+/#", may: read, when: "!has(drop) && message.type in ['NDATA', 'DDATA']"}
  - {subject: a1, topics: "spBv1.0/G/#", may: read, except: [secret, b], when: "hide.value > 1"}
  - {subject: a2, topics: "spBv1.0/G/#", may: read, except: secret, when: "subject.attributes.level > 1 && c.value > 1"}
"""
NAMES = ("a", "b", "c", "secret", "hide", "drop", "forbidden", "never")
SUBJECTS = ("a1", "a2", "scada", "nobody")


def messages(seed: int) -> list[tuple[str, str, bytes]]:
    """Who publishes what where: births now and then, reports, deaths, and things that are no Sparkplug."""
    draw = random.Random(seed)
    found = []
    seqs: dict[str, int] = {}
    for _ in range(400):
        edge = f"E{draw.randrange(4)}"
        kind = draw.choice(["NBIRTH", "DBIRTH", *["NDATA", "DDATA"] * 6, "NDEATH", "NCMD", "WRONG"])
        names = draw.sample(NAMES[:5], 5) if "BIRTH" in kind else draw.sample(NAMES, draw.randrange(4))
        topic = f"spBv1.0/G/{kind}/{edge}" + ("/d" if kind[0] == "D" else "")
        seqs[edge] = 0 if kind == "NBIRTH" else (seqs.get(edge, 0) + draw.choice([1, 1, 1, 2])) % 256
        payload: dict[str, Any] = {"timestamp": 5, "metrics": [_metric(draw, kind, name) for name in names]}
        if kind not in ("NDEATH", "NCMD"):
            payload["seq"] = seqs[edge]
        found.append((draw.choice(["gateway", "e0"]), topic, encode(payload) if kind != "WRONG" else b"\x12\x09x"))
    return found


def _metric(draw: random.Random, kind: str, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "int_value": draw.randrange(4), "datatype": 3}
    if name in NAMES[:5]:
        made["alias"] = NAMES.index(name)
        if "DATA" in kind and draw.random() < 0.7:
            del made["name"]
    return made


def played(domain: Domain, folder: Path, seed: int) -> Views:
    """Publish it all at a node that records, and return what subjects got."""
    joined = MemoryNode(whole=ensemble(domain))
    joined.node.recorder = Recorder()
    publishers = {name: joined.connect(name) for name in ("gateway", "e0")}
    readers = {name: joined.connect(name) for name in SUBJECTS}
    for client in readers.values():
        client.subscribe("spBv1.0/#").take()
    journal = Written(folder)
    revision = journal.keep(domain)
    for number, (who, topic, payload) in enumerate(messages(seed), 1):
        publishers[who].publish(topic, payload)
        joined.now += 1
        if number % 100 == 0:
            journal.add_all([joined.node], revision)
    got: Views = {}
    for name, client in readers.items():
        for packet in client.take():
            if isinstance(packet, Publish):
                got.setdefault((name, "test"), []).append((packet.topic, packet.payload, packet.qos))
    return got


@pytest.mark.parametrize("again", [False, True], ids=["as it stood", "decided again"])
def test_views_are_what_was_delivered(spark: SparkSession, tmp_path: Path, again: bool) -> None:
    domain = Domain.model_validate(yaml.safe_load(DOMAIN))
    live = played(domain, tmp_path / "journal", 1 + again)
    assert all(len(live[name, "test"]) > 20 for name in SUBJECTS[:3])
    assert ("nobody", "test") not in live
    policies = as_it_stood(tmp_path / "journal")
    if again:
        same = domain.model_copy(update={"domain": "again"})
        policies = judged_by(same, tmp_path, tmp_path / "journal")
    found = viewed(view(tables.events(spark, tmp_path / "journal"), policies, tuple(map(Asker, SUBJECTS))))
    assert differences(found, live) == []


@pytest.mark.parametrize("again", [False, True], ids=["as it stood", "decided again"])
def test_views_after_births_that_were_refused_are_what_was_delivered(
    spark: SparkSession, tmp_path: Path, again: bool
) -> None:
    """Issue 17, item 5: by write policies, advertisements, monitors, or as malformed."""
    domain = Domain.model_validate(RULES)
    joined = MemoryNode(whole=ensemble(domain))
    joined.node.recorder = Recorder()
    clients = {name: joined.connect(name) for name in RULES["clients"]}
    for name in ("host", "reader"):
        clients[name].subscribe("spBv1.0/#").take()
    live: Views = {}
    for said in traffic(random.Random(7), 400):
        clients["other" if said.is_intruder else "e1"].publish(said.topic, said.payload, said.qos)
        joined.now += 1
        for name in ("host", "reader"):
            packets = (packet for packet in clients[name].take() if isinstance(packet, Publish))
            live.setdefault((name, "test"), []).extend((one.topic, one.payload, said.qos) for one in packets)
    journal = Written(tmp_path / "journal")
    journal.add_all([joined.node], journal.keep(domain))
    policies = as_it_stood(tmp_path / "journal")
    if again:
        policies = judged_by(domain.model_copy(update={"domain": "again"}), tmp_path, tmp_path / "journal")
    found = viewed(view(tables.events(spark, tmp_path / "journal"), policies, (Asker("host"), Asker("reader"))))
    assert differences(found, live) == []


def test_metrics_as_a_tidy_table(spark: SparkSession, tmp_path: Path) -> None:
    live = played(Domain.model_validate(yaml.safe_load(DOMAIN)), tmp_path / "journal", 5)
    askers = tuple(map(Asker, SUBJECTS))
    made = write_views(spark, tmp_path / "journal", tmp_path / "tables", as_it_stood(tmp_path / "journal"), askers)
    rows = spark.read.parquet(str(made.metrics)).collect()
    seen = sum(len(parse(payload).metrics) for got in live.values() for topic, payload, _ in got)
    assert len(rows) == seen
    assert {row.subject for row in rows} == {"a1", "a2", "scada"}
    assert {row.metric for row in rows if row.subject == "scada"} == {*NAMES} - {"forbidden", "never"}
    births = [row for row in rows if row.subject == "a1" and row.type == "NBIRTH"]
    assert {row.metric for row in births} == {"a", "b", "c", "hide"}
    assert all(row.integer == row.number and row.json == str(row.integer) for row in births)
    assert {(row.datatype, row.group, row.device) for row in births} == {("Int32", "G", None)}
    learnt = [row for row in rows if row.subject == "scada" and row.type == "DDATA" and row.alias is not None]
    assert any(row.metric is not None and NAMES.index(row.metric) == row.alias for row in learnt)


def test_a_draft_that_lets_a_metric_out_is_told_by_metric(replaying: Replaying, tmp_path: Path) -> None:
    played(Domain.model_validate(yaml.safe_load(DOMAIN)), tmp_path / "journal", 6)
    (tmp_path / "draft.yaml").write_text(DOMAIN.replace("except: [secret, b], when", "except: b, when"))
    found = replaying(tmp_path / "journal", tmp_path / "draft.yaml")
    assert {(one.subject, one.metric) for one in found.metrics if one.gained} >= {("a1", "secret")}
    assert {one.subject for one in found.metrics} == {"a1"}
    assert {one.metric for one in found.metrics if one.lost} <= {"secret"}
    total = next(one for one in found.totals if one.subject == "a1")
    assert (total.gained, total.lost) == (0, 0)
    assert total.changed > 0


@pytest.mark.recorded
def test_streamed_views_are_what_was_delivered(spark: SparkSession, tmp_path: Path) -> None:
    domain = Domain.model_validate(yaml.safe_load(DOMAIN))
    live = played(domain, tmp_path / "journal", 4)
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    places = tmp_path / "journal", tmp_path / "domain.yaml", tmp_path / "views", tmp_path / "checkpoint"
    batches: list[StreamBatch] = []
    stream = Stream(*places, tuple(map(Asker, SUBJECTS)), max_bytes=1, partitions=1)
    start(spark, stream, once=True, on_batch=batches.append).awaitTermination()
    assert differences(viewed(read_view(spark, stream.folder)), live) == []
    assert len(batches) == 4


def test_policies_in_files_are_kept_with_what_they_decided(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("subject,topics,except,may,when\nnobody,spBv1.0/#,,read,\n")
    plain = yaml.safe_load(DOMAIN)
    plain["access"] = {"policies": plain["access"], "files": str(tmp_path / "more.csv")}
    live = played(Domain.model_validate(plain), tmp_path / "journal", 3)
    (tmp_path / "more.csv").write_text("subject,topics,except,may,when\n")
    assert live["nobody", "test"] == live["scada", "test"]
    events = tables.events(spark, tmp_path / "journal")
    found = viewed(view(events, as_it_stood(tmp_path / "journal"), tuple(map(Asker, SUBJECTS))))
    assert differences(found, live) == []


TIMED = """
nodes: {test: {listen: "127.0.0.1:0", store: memory}}
clients:
  e0: {node: test, edge: G/E0}
  a1: {node: test}
  a2: {node: test}
access:
  - {subject: e0, topics: "spBv1.0/#", may: write}
  - {subject: a1, topics: "spBv1.0/#", may: read, valid: {from: "08:00", until: "18:00", "on": [mon, tue, thu]}}
  - {subject: a2, topics: "spBv1.0/#", may: read, except: secret, valid: {from: "06:00", until: "14:00"}}
  - {subject: a2, topics: "spBv1.0/#", may: read, except: [a, b], valid: {from: "12:00", until: "03:00"}}
"""


def played_over_days(folder: Path, seed: int) -> Views:
    """Births, reports and deaths of one edge node and its device over a week; time goes on in steps of an hour."""
    draw = random.Random(seed)
    domain = Domain.model_validate(yaml.safe_load(TIMED))
    joined = MemoryNode(whole=ensemble(domain))
    joined.node.recorder = Recorder()
    joined.now = 1_767_225_600.0
    edge = joined.connect("e0")
    readers = {name: joined.connect(name) for name in ("a1", "a2")}
    for client in readers.values():
        client.subscribe("spBv1.0/#").take()
    journal = Written(folder)
    revision = journal.keep(domain)
    seq = 0
    for number in range(168):
        joined.wait(3600)
        for _ in range(draw.choice([0, 0, 1, 2]) if number else 1):
            kinds = (
                ["NBIRTH"] if not number or number == 167 else ["NDATA", "NDATA", "DBIRTH", "DDATA", "NDEATH", "NBIRTH"]
            )
            kind = draw.choice(kinds)
            names = NAMES[:4] if "BIRTH" in kind else [] if "DEATH" in kind else draw.sample(NAMES[:4], 2)
            seq = 0 if kind == "NBIRTH" else seq if kind == "NDEATH" else (seq + 1) % 256
            payload: dict[str, Any] = {"timestamp": 5, "metrics": [_metric(draw, kind, name) for name in names]}
            topic = f"spBv1.0/G/{kind}/E0" + ("/d" if kind[0] == "D" else "")
            edge.publish(topic, encode(payload if kind == "NDEATH" else payload | {"seq": seq}))
        if number % 40 == 0:
            journal.add_all([joined.node], revision)
    edge.publish("spBv1.0/G/NBIRTH/E0", encode({"timestamp": 5, "seq": 0, "metrics": []}))
    edge.publish("spBv1.0/G/DBIRTH/E0/d", encode({"timestamp": 5, "seq": 1, "metrics": []}))
    journal.add_all([joined.node], revision)
    return {
        (name, "test"): [(one.topic, one.payload, one.qos) for one in client.take() if isinstance(one, Publish)]
        for name, client in readers.items()
    }


def test_what_the_time_shows_later_is_what_was_delivered(spark: SparkSession, tmp_path: Path) -> None:
    live = played_over_days(tmp_path / "journal", 1)
    assert all(len(some) > 20 for some in live.values())
    found = viewed(
        view(tables.events(spark, tmp_path / "journal"), as_it_stood(tmp_path / "journal"), (Asker("a1"), Asker("a2")))
    )
    assert differences(found, live) == []


@pytest.mark.recorded
def test_streamed_views_have_what_the_time_shows_later(spark: SparkSession, tmp_path: Path) -> None:
    live = played_over_days(tmp_path / "journal", 2)
    (tmp_path / "domain.yaml").write_text(TIMED)
    places = tmp_path / "journal", tmp_path / "domain.yaml", tmp_path / "views", tmp_path / "checkpoint"
    stream = Stream(*places, (Asker("a1"), Asker("a2")), max_bytes=1, partitions=1)
    start(spark, stream, once=True).awaitTermination()
    assert differences(viewed(read_view(spark, stream.folder)), live) == []
