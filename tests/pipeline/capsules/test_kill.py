"""`penstock pipeline capsules` as its own process, killed: tables have each window once, topics at least once."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.pipeline.mqtt.publish import ID
from tests.support.clients.paho import Paho, value
from tests.support.processes.commands import penstock
from tests.support.processes.node import running
from tests.support.scenes.air_capsules import City, differences, expected, readings, table

ENVIRONMENT = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
ACL = "user air\ntopic write zones/#\nuser reader\ntopic read zones/#\n"
PATIENCE = 600.0


class Capsules:
    """The command for the capsule `air`, as often as it takes."""

    def __init__(self, city: City, *options: str) -> None:
        self.tables = city.folder / "tables" / "air"
        self._log = city.folder / "log"
        self._command = penstock(
            *("pipeline", "capsules", "--domain", str(city.domain), "--from", str(city.journal), "--capsule", "air"),
            *("--to", str(city.folder / "tables"), "--max-bytes", "1", "--master", "local[1]", "--every", "0.1"),
            *options,
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
            while not (self.tables / path).exists():
                assert process.poll() is None, f"it ended by itself:\n{self._log.read_text()[-2000:]}"
                assert time.monotonic() < end, f"there never was `{path}`:\n{self._log.read_text()[-2000:]}"
                time.sleep(0.001)
            time.sleep(delay)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _place(chance: random.Random, number: int) -> str:
    """Where a batch may be: read, being summed up, summed up, its windows concluded, known to be done."""
    return chance.choice(
        [
            f"_checkpoint/offsets/{number}",
            f"_drafts/_states-{number}",
            f"_states/batch={number:09d}",
            f"_drafts/results-{number}",
            f"results/batch={number:09d}",
            f"_checkpoint/commits/{number}",
        ]
    )


@pytest.mark.recorded
def test_killed_between_state_and_checkpoint(tmp_path: Path) -> None:
    """The windows are in the table, and the checkpoint does not know yet; they go out to topics of a node too."""
    city, some = City(tmp_path), readings(2, 160)
    city.record_all(some, 2)
    wanted = expected(city.capsule("air"), some)
    with running({"acl": "acl"}, {"acl": ACL}) as node, Paho("reader").is_user("reader") as reader:
        reader.connects(node.port)
        reader.subscribe("zones/#", 1)
        capsules = Capsules(city, "--publish", f"mqtt://air@127.0.0.1:{node.port}")
        capsules.is_killed_when_there_is("results/batch=000000000")
        capsules.runs_to_its_end()
        assert differences(table(capsules.tables), wanted) == []
        ids: dict[str, bytes] = {}
        while len(ids) < len(wanted.results):
            message = reader.receive()
            said = value(message.properties, "UserProperty")
            id = dict(said)[ID]
            assert ids.setdefault(id, bytes(message.payload)) == bytes(message.payload), "one id, two results"
            assert {json.loads(text)["indicator"] for name, text in said if name == "qoc"} >= {"precision", "freshness"}
        assert len({(start, group) for start, group in wanted.results}) == len(ids)


@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """While a batch is summed up, while windows are concluded, after that, before the next: whatever happens to be."""
    chance, city, some = random.Random(seed), City(tmp_path), readings(seed, 960)
    city.record_all(some, 24)
    capsules = Capsules(city)
    for kill in range(5):
        place = _place(chance, 4 * kill + seed)
        capsules.is_killed_when_there_is(place, chance.choice((0, chance.uniform(0, 1.5))))
    capsules.runs_to_its_end()
    assert differences(table(capsules.tables), expected(city.capsule("air"), some)) == []
