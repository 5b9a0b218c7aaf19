"""`penstock pipeline stream` as its own process, killed: tables have each event once, topics at least once."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.pipeline.mqtt.publish import ID
from tests.support.clients.paho import Paho, value
from tests.support.memory.recording import differences
from tests.support.processes.commands import penstock
from tests.support.processes.node import running
from tests.support.scenes.counting_plant import Plant, plant, table_of

ENVIRONMENT = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
ACL = "user stream\ntopic write governed/#\nuser reader\ntopic read governed/#\n"
PATIENCE = 600.0


class Streaming:
    """The command, as often as it takes."""

    def __init__(self, folder: Path, made: Plant, *options: str) -> None:
        self._home, self.folder = folder, folder / "tables"
        self._log = folder / "log"
        self._command = penstock(
            *("pipeline", "stream", "--domain", str(made.domain), "--all-subjects", "--from", str(made.journal)),
            *("--to", str(self.folder), "--checkpoint", str(folder / "checkpoint"), "--max-bytes", "1"),
            *("--master", "local[1]", "--every", "0.1", *options),
        )

    def runs_to_its_end(self) -> None:
        """Run it up to what is there."""
        command = [*self._command, "--once"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr[-2000:]

    def is_killed_when_there_is(self, path: str, delay: float = 0.0) -> None:
        """Start it, and kill it with all that it has started when there is such a file, or so long after that."""
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True)
        try:
            end = time.monotonic() + PATIENCE
            while not (self._home / path).exists():
                assert process.poll() is None, f"it ended by itself:\n{self._log.read_text()[-2000:]}"
                assert time.monotonic() < end, f"there never was `{path}`:\n{self._log.read_text()[-2000:]}"
                time.sleep(0.001)
            time.sleep(delay)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _batch(number: int) -> str:
    return f"tables/view/batch={number:09d}"


def _place(chance: random.Random, number: int) -> str:
    """Where a batch may be: read, being written, in the table, known to be there."""
    return chance.choice(
        [f"checkpoint/offsets/{number}", f"tables/_drafts/{number}", _batch(number), f"checkpoint/commits/{number}"]
    )


def test_killed_between_table_and_checkpoint(tmp_path: Path) -> None:
    """The batch is in the table, and the checkpoint does not know yet; it goes out to topics of a node too."""
    made = plant(tmp_path, segments=2)
    with running({"acl": "acl"}, {"acl": ACL}) as node, Paho("reader").is_user("reader") as reader:
        reader.connects(node.port)
        reader.subscribe("governed/#", 1)
        streaming = Streaming(tmp_path, made, "--publish", f"mqtt://stream@127.0.0.1:{node.port}")
        streaming.is_killed_when_there_is(_batch(0))
        streaming.runs_to_its_end()
        assert differences(table_of(streaming.folder), made.delivered) == []
        expected = {
            (f"governed/{subject}/{topic}", payload)
            for (subject, _), got in made.delivered.items()
            for topic, payload, _ in got
        }
        ids: dict[tuple[str, bytes], set[str]] = {}
        while ids.keys() != expected:
            message = reader.receive()
            found = dict(value(message.properties, "UserProperty"))
            ids.setdefault((message.topic, bytes(message.payload)), set()).add(found[ID])
        assert {len(each) for each in ids.values()} == {1}, "what is published again has the same id"


@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """While a batch is being written, after it is, before the next: whatever happens to be."""
    chance = random.Random(seed)
    made = plant(tmp_path, segments=24)
    streaming = Streaming(tmp_path, made)
    for kill in range(5):
        streaming.is_killed_when_there_is(_place(chance, 4 * kill + seed), chance.choice((0, chance.uniform(0, 1.5))))
    streaming.runs_to_its_end()
    assert differences(table_of(streaming.folder), made.delivered) == []
