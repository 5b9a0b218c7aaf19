"""`penstock pipeline capsules` as its own process, killed: tables have each window once, topics at least once."""

import json
import random
from pathlib import Path

import pytest

from penstock.pipeline.mqtt.publish import ID
from tests.support.clients.paho import Paho, value
from tests.support.processes.killed_job import KilledJob
from tests.support.processes.node import running
from tests.support.scenes.air_capsules import City, differences, expected, readings, table

ACL = "user air\ntopic write zones/#\nuser reader\ntopic read zones/#\n"
TABLES = "tables/air"


def job(city: City, *options: str) -> KilledJob:
    """The command for the capsule `air`."""
    return KilledJob(
        city.folder,
        *("capsules", "--domain", str(city.domain), "--from", str(city.journal), "--capsule", "air"),
        *("--to", str(city.folder / "tables"), *options),
    )


def _place(chance: random.Random, number: int) -> str:
    """Where a batch may be: read, being summed up, summed up, its windows concluded, known to be done."""
    place = chance.choice(
        [
            f"_checkpoint/offsets/{number}",
            f"_drafts/_states-{number}",
            f"_states/batch={number:09d}",
            f"_drafts/results-{number}",
            f"results/batch={number:09d}",
            f"_checkpoint/commits/{number}",
        ]
    )
    return f"{TABLES}/{place}"


@pytest.mark.recorded
def test_killed_between_state_and_checkpoint(tmp_path: Path) -> None:
    """The windows are in the table, and the checkpoint does not know yet; they go out to topics of a node too."""
    city, some = City(tmp_path), readings(2, 160)
    city.record_all(some, 2)
    wanted = expected(city.capsule("air"), some)
    with running({"acl": "acl"}, {"acl": ACL}) as node, Paho("reader").is_user("reader") as reader:
        reader.connects(node.port)
        reader.subscribe("zones/#", 1)
        capsules = job(city, "--publish", f"mqtt://air@127.0.0.1:{node.port}")
        capsules.is_killed_when_there_is(f"{TABLES}/results/batch=000000000")
        capsules.runs_to_its_end()
        assert differences(table(city.folder / TABLES), wanted) == []
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
    capsules = job(city)
    for kill in range(5):
        place = _place(chance, 4 * kill + seed)
        capsules.is_killed_when_there_is(place, chance.choice((0, chance.uniform(0, 1.5))))
    capsules.runs_to_its_end()
    assert differences(table(city.folder / TABLES), expected(city.capsule("air"), some)) == []
