"""Live nodes with tokens and trust, their journals, and the jobs: ratings, settings, views are those of the nodes."""

import json
import os
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.audit import audit
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.replay import replay
from penstock.pipeline.jobs.stream import Stream, start
from penstock.pipeline.spark.policies import Asker, as_it_stands, as_it_stood
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.cli.node.test_trust_apply import applied, joined, two_nodes
from tests.support.clients.paho import Paho, properties
from tests.support.memory.recording import Got, Views, differences, viewed
from tests.support.processes.commands import PATIENCE, penstock, until

pytestmark = pytest.mark.recorded

SUBJECTS = ("bob", "eve")
TOPICS = ("home/door", "home/light", "home/end", "home/settle")
"""At last the one by which it is seen that the other node knows of them."""
CLIENTS = {"ann": {"node": "b1"}, "bob": {"node": "b2"}, "eve": {"node": "b2"}, "op": {"node": "b2"}}
GRANTS = [
    {"clients": "ann", "publish": "home/#"},
    {"clients": "bob", "subscribe": "home/#", "publish": "home/bob"},
    {"clients": "eve", "subscribe": "home/light"},
    {"clients": "op"},
]


@dataclass(frozen=True)
class Recorded:
    folder: Path
    delivered: Views
    codes: dict[str, int]
    """What the command said at each point: its exit codes."""
    told: dict[str, Any]
    """What it printed."""

    @property
    def journal(self) -> Path:
        return self.folder / "journal"


def job(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """`penstock pipeline trust` over the journal."""
    where = ("--domain", str(folder / "domain.yaml"), "--from", str(folder / "journal"), "--master", "local[1]")
    command = penstock("pipeline", "trust", *where, "--json", *options)
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE, env={**os.environ, **quick})
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Two nodes that have run; ann's events were accepted, refused after an operator's setting, accepted again."""
    folder = tmp_path_factory.mktemp("trusting")
    codes, told = {}, {}
    light = frozenset({"home/light"})
    more = {"journal": {"folder": "journal", "flush": 0.1}, "clients": CLIENTS, "tokens_more": {"grants": GRANTS}}
    with two_nodes(folder, **more) as (nodes, admin), joined(nodes, "b1", "ann") as ann:
        url = f"http://127.0.0.1:{admin}"
        with joined(nodes, "b2", "bob") as bob, joined(nodes, "b2", "eve", subscribe=light) as eve:
            for topic in TOPICS:
                eve.subscribe(topic, 2)
                bob.subscribe(topic, 2)
            until(lambda: _comes(ann, bob), "it comes through")
            said = properties("publish", ContentType="text/plain", UserProperty=[("room", "hall")])
            ann.client.publish("home/door", b"open", 1, properties=said).wait_for_publish(PATIENCE)
            ann.publish("home/light", b"on", qos=2)
            rated = {"topic": "home/door", "good": False, "payload": sha256(b"open").hexdigest()}
            until(lambda: _has(bob, "home/light"), "the light is on")
            assert bob.publish("$penstock/feedback", json.dumps(rated).encode(), qos=1) == 0
            ann.publish("home/door", b"shut", qos=1)
            until(lambda: _has(bob, "home/door", 2), "the door is shut")
            _recorded(folder, "$penstock/feedback")
            codes["as it is"], told["as it is"] = job(folder, "--compare", url, "--paths")
            tabled = ("--penalty", "9", "--to", str(folder / "tables"))
            codes["another penalty"], told["another penalty"] = job(folder, "--compare", url, *tabled)
            assert applied(nodes, folder / "tables")[0] == 0
            ann.publish("home/door", b"refused", qos=1)
            nodes.until_logged("b2", "publish denied", "`b1` is rated 0.412, below 0.6")
            _recorded(folder, "$penstock/evidence")
            codes["applied"], told["applied"] = job(folder, "--compare", url, "--penalty", "9")
            higher = {"ratings": [{"node": "b2", "neighbour": "b1", "good": 9, "bad": 0, "at": 1e12}]}
            (folder / "higher.json").write_text(json.dumps(higher))
            assert applied(nodes, folder / "higher.json")[0] == 0
            ann.publish("home/light", b"off", qos=1)
            ann.publish("home/end", b"", qos=1)
            until(lambda: _has(bob, "home/end"), "it ends")
            until(lambda: _has(eve, "home/light", 2), "the light is off")
            delivered = {("bob", "b2"): _got(bob), ("eve", "b2"): _got(eve)}
    return Recorded(folder, delivered, codes, told)


def _comes(ann: Paho, bob: Paho) -> bool:
    ann.publish("home/settle", b"?", qos=1)
    return not bob.messages.empty()


def _has(client: Paho, topic: str, times: int = 1) -> bool:
    return [message.topic for message in list(client.messages.queue)].count(topic) >= times


def _got(client: Paho) -> list[Got]:
    return [(one.topic, bytes(one.payload), one.qos) for one in list(client.messages.queue)]


def _recorded(folder: Path, topic: str) -> None:
    def is_there() -> bool:
        return any(topic.encode() in path.read_bytes() for path in folder.glob("journal/node=b2/*/*.arrow"))

    until(is_there, f"`{topic}` is in the journal")


def test_ratings_are_what_the_node_holds(live: Recorded) -> None:
    assert live.codes == {"as it is": 0, "another penalty": 1, "applied": 0}
    (held,) = [one for one in live.told["as it is"]["ratings"] if one["node"] == "b2"]
    assert (held["good"], held["bad"], round(held["rating"], 6)) == (6.0, 2.0, 0.7)
    assert held["sources"] == [{"source": "feedback", "good": 0, "bad": 1}]
    (one,) = live.told["another penalty"]["differences"]
    assert (one["held"]["bad"], one["recorded"]["bad"], one["differs"]) == (2.0, 9.0, True)
    assert {(path["origin"], path["node"]) for path in live.told["as it is"]["paths"]} == {("b1", "b2"), ("b2", "b1")}


def test_there_is_something_to_compare(live: Recorded) -> None:
    assert [payload for topic, payload, _ in live.delivered["bob", "b2"] if topic == "home/door"] == [b"open", b"shut"]
    assert [payload for _, payload, _ in live.delivered["eve", "b2"]] == [b"on", b"off"]


def test_views_as_it_stood_and_decided_again(live: Recorded, spark: SparkSession) -> None:
    askers = tuple(map(Asker, SUBJECTS))
    events = tables.events(spark, live.journal).cache()
    for policies in (as_it_stood(live.journal), as_it_stands(_draft(live), live.journal)):
        found = view(events, policies, askers).cache()
        assert differences(viewed(found), live.delivered) == []
        (door,) = found.filter("payload = CAST('open' AS BINARY) AND subject = 'bob'").collect()
        assert door.content_type == "text/plain"
        assert b"hall" in bytes(door.properties)
        assert b"penstock-" not in bytes(door.properties)


def test_streamed(live: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    places = live.journal, _draft(live), tmp_path / "views", tmp_path / "checkpoint"
    query = start(spark, Stream(*places, tuple(map(Asker, SUBJECTS)), partitions=1), once=True)
    query.awaitTermination()
    assert differences(viewed(read_view(spark, tmp_path / "views")), live.delivered) == []


def test_audit_tells_of_what_was_refused(live: Recorded, interpreted: SparkSession) -> None:
    found = audit(interpreted, live.journal)
    assert ("b2", "trust", "home/door", 1) in [(one.node, one.rule, one.topic, one.events) for one in found.denials]
    assert not [one for one in found.seen if one.topic.startswith("$penstock/")]


def test_replay_fails_rather_than_guess_the_ways_of_what_was_refused(live: Recorded, interpreted: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"node `b2` refused \d+ events of `b1` by `trust`"):
        replay(interpreted, live.journal, _draft(live))


def _draft(live: Recorded) -> Path:
    """The same domain under another name, so that everything is decided again."""
    plain = yaml.safe_load((live.folder / "domain.yaml").read_text())
    made = live.folder / "draft.yaml"
    made.write_text(yaml.safe_dump({**plain, "domain": "draft"}))
    return made
