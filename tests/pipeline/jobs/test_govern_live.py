"""A live node, its journal, and the command: views are what real clients got, also after a reload and a compaction."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.journal.write.compact import compact
from penstock.pipeline.jobs.govern import read_view, write_views
from penstock.pipeline.spark.policies import Asker, as_it_stood
from tests.support.clients.paho import Paho
from tests.support.memory.recording import Views, differences, viewed
from tests.support.processes.commands import PATIENCE, penstock
from tests.support.processes.node import LiveNode, passwords

pytestmark = pytest.mark.recorded

ACL = """\
topic readwrite t/#
topic readwrite alarm
topic readwrite reset
topic read news
topic readwrite end
user guest
topic readwrite news
topic read t/#
topic read end
"""
ACL_LATER = (
    ACL.replace("topic readwrite reset\n", "topic readwrite reset\ntopic read secret\n") + "topic write secret\n"
)
MASKS = """\
class Masks:
    alphabet = ("news",)

    def start(self):
        return 0

    def step(self, state, event, now):
        masked = event._replace(payload=b"%d of %d" % (state, len(event.payload)))
        return state + 1, [masked if event.topic == "t/1" else event]
"""
DOMAIN: dict[str, Any] = {
    "domain": "plant",
    "nodes": {
        "main": {"listen": "127.0.0.1:0", "store": "memory", "acl": "acl", "passwords": "passwords", "anonymous": True}
    },
    "journal": {"folder": "journal", "flush": 0.1},
    "content": [{"topics": "t/#", "format": "json", "schema": {"x": "double"}}],
    "clients": {
        "sensor": {"node": "main", "type": "field"},
        "office": {"node": "main", "type": "office", "where": {"t/#": "x > 20.0"}},
        "guest": {"node": "main", "type": "outside", "user": "guest"},
        "operator": {"node": "main", "type": "office"},
    },
    "brokering": {
        "types": ["field", "office", "outside"],
        "deny": [{"from": "field", "to": "outside"}],
    },
    "monitors": {
        "quiet": {
            "link": "sensor -> main",
            "states": {
                "q0": {"alarm": {"pass": True, "next": "q1"}, "*": "pass"},
                "q1": {"alarm": "suppress", "reset": {"rename": "alarm", "next": "q0"}, "*": "pass"},
            },
        },
        "masks": {"link": "main -> operator", "python": "masks:Masks"},
    },
}
TOPICS = ("t/1", "t/2", "alarm", "reset", "news", "secret", "end")
SUBJECTS = tuple(DOMAIN["clients"])
TRAFFIC = [
    ("sensor", "t/1", b'{"x": 19.5}', 0),
    ("sensor", "t/1", b'{"x": 21.5}', 0),
    ("sensor", "t/2", b'{"x": 31.5}', 1),
    ("sensor", "t/2", b'{"x": "text"}', 2),
    ("sensor", "t/1", b"no JSON", 0),
    ("sensor", "alarm", b"1", 1),
    ("sensor", "alarm", b"2", 1),
    ("guest", "news", b"hello", 1),
    ("guest", "t/1", b'{"x": 50.5}', 1),
    ("guest", "secret", b"psst", 1),
    ("sensor", "reset", b"3", 0),
    ("sensor", "alarm", b"4", 1),
    ("office", "t/1", b'{"x": 25.5}', 1),
]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Views]:
    """The folder of a node that has run, and what clients got from it."""
    node = LiveNode(tmp_path_factory.mktemp("plant"))
    node.write("acl", ACL)
    node.write("passwords", passwords(guest="secret"))
    node.write("masks.py", MASKS)
    node.write("domain.yaml", yaml.safe_dump(DOMAIN))
    node.start()
    try:
        clients = {name: Paho(name).is_user("guest", "secret") if name == "guest" else Paho(name) for name in SUBJECTS}
        for client in clients.values():
            client.connects(node.port)
            for topic in TOPICS:
                client.subscribe(topic, 2)
        _publish(clients)
        later = {**DOMAIN, "clients": {**DOMAIN["clients"], "office": {"node": "main", "type": "office"}}}
        node.write("domain.yaml", yaml.safe_dump(later))
        node.write("acl", ACL_LATER)
        node.reload()
        _publish(clients)
        got = {(name, "main"): _got(client) for name, client in clients.items()}
        for client in clients.values():
            client.leaves()
    finally:
        assert node.stop() == 0
    return node.folder, got


def _publish(clients: dict[str, Paho]) -> None:
    for name, topic, payload, qos in TRAFFIC:
        clients[name].publish(topic, payload, qos)
    clients["office"].publish("end", b"", 1)


def _got(client: Paho) -> list[tuple[str, bytes, int]]:
    """All messages up to the second that says that it is the last."""
    found: list[tuple[str, bytes, int]] = []
    while [topic for topic, _, _ in found].count("end") < 2:
        message = client.receive()
        found.append((message.topic, bytes(message.payload), message.qos))
    return found


def test_the_command_writes_what_clients_got(live: tuple[Path, Views], tmp_path: Path) -> None:
    folder, got = live
    options = ("--all-subjects", "--from", str(folder / "journal"), "--to", str(tmp_path), "--modules", str(folder))
    command = penstock("pipeline", "govern", *options, "--master", "local[1]", "--json")
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE, env={**os.environ, **quick})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["subjects"] == {name: len(got[name, "main"]) for name in SUBJECTS}
    table = (
        ds.dataset(tmp_path / "view", partitioning="hive")
        .to_table()
        .sort_by([("subject", "ascending"), ("seq", "ascending"), ("place", "ascending"), ("part", "ascending")])
    )
    views: Views = {}
    for row in table.to_pylist():
        views.setdefault((row["subject"], row["node"]), []).append((row["topic"], row["payload"], row["qos"]))
    assert differences(views, got) == []


def test_a_compacted_journal_gives_the_same(live: tuple[Path, Views], spark: SparkSession, tmp_path: Path) -> None:
    folder, got = live
    list(compact(folder / "journal"))
    policies = as_it_stood(folder / "journal", folder)
    made = write_views(spark, folder / "journal", tmp_path, policies, tuple(map(Asker, SUBJECTS)))
    assert made.quarantined == 0
    assert differences(viewed(read_view(spark, tmp_path)), got) == []


def test_tables_are_for_their_owner_and_its_group_and_quarantine_for_the_owner_alone(
    live: tuple[Path, Views], tmp_path: Path
) -> None:
    """Issue 17, item 11."""
    journal = tmp_path / "journal"
    shutil.copytree(live[0] / "journal", journal)
    segment = next(path for path in journal.rglob("*.arrow"))
    segment.with_name("9999999999999999-0.arrow").write_bytes(b"no segment")
    options = ("--all-subjects", "--from", str(journal), "--to", str(tmp_path / "tables"), "--modules", str(live[0]))
    command = penstock("pipeline", "govern", *options, "--master", "local[1]", "--json")
    before = os.umask(0o022)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    made = [tmp_path / "tables", *(tmp_path / "tables").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o640}
    modes = {path.name: path.stat().st_mode & 0o777 for path in made if path.is_dir()}
    assert modes.pop("quarantine") == 0o700
    assert set(modes.values()) == {0o750}
