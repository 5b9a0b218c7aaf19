"""`penstock pipeline stream` as its own process, killed: tables have each event once, topics at least once."""

import random
from pathlib import Path

import pytest

from penstock.pipeline.mqtt.publish import ID
from tests.support.clients.paho import Paho, value
from tests.support.memory.recording import differences
from tests.support.processes.killed_job import KilledJob
from tests.support.processes.node import running
from tests.support.scenes.counting_plant import Plant, plant, table_of

ACL = "user stream\ntopic write governed/#\nuser reader\ntopic read governed/#\n"


def job(folder: Path, made: Plant, *options: str) -> KilledJob:
    """The command for all subjects."""
    return KilledJob(
        folder,
        *("stream", "--domain", str(made.domain), "--all-subjects", "--from", str(made.journal)),
        *("--to", str(folder / "tables"), "--checkpoint", str(folder / "checkpoint"), *options),
    )


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
        streaming = job(tmp_path, made, "--publish", f"mqtt://stream@127.0.0.1:{node.port}")
        streaming.is_killed_when_there_is(_batch(0))
        streaming.runs_to_its_end()
        assert differences(table_of(tmp_path / "tables"), made.delivered) == []
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
    streaming = job(tmp_path, made)
    for kill in range(5):
        streaming.is_killed_when_there_is(_place(chance, 4 * kill + seed), chance.choice((0, chance.uniform(0, 1.5))))
    streaming.runs_to_its_end()
    assert differences(table_of(tmp_path / "tables"), made.delivered) == []
