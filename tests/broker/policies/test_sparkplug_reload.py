"""Access policies at a live node: other policies take effect at once, on what waits too; and it says why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.sparkplug.plain import read_plain, write_plain
from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run
from tests.support.processes.federation import TOGETHER, Nodes, together
from tests.support.processes.mosquitto import free_port

NBIRTH, NDATA = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"
EDGE = {"subject": "G1/E1", "topics": "spBv1.0/G1/+/E1", "may": "write"}
OPEN = "subject,topics,except,may,when\na1,spBv1.0/G1/+/E1,,read,\n"
NARROW = "subject,topics,except,may,when\na1,spBv1.0/G1/+/E1,secret,read,\n"


def domain(admin: str, *policies: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": {"plant": {"store": "memory", "admin": admin}},
        "clients": {"e1": {"node": "plant", "edge": "G1/E1"}, "a1": {"node": "plant"}},
        "access": {"policies": [EDGE, *policies], "files": ["bulk.csv"]},
    }


class Plant:
    """One node with an edge node and a reader, and a file of policies beside its domain file."""

    def __init__(self, nodes: Nodes, admin: str) -> None:
        self.nodes = nodes
        self.admin = admin
        self.seq = -1

    def says(self, edge: Paho, topic: str, **metrics: int) -> None:
        self.seq += 1
        assert edge.publish(topic, write_plain(metrics, self.seq), qos=1) in (0, 0x10)

    def rules(self, bulk: str, *policies: dict[str, Any]) -> None:
        """Other policies, in the file and in the domain."""
        self.nodes.write(domain(self.admin, *policies))
        (self.nodes.folder / "bulk.csv").write_text(bulk)
        self.nodes.reload(TOGETHER)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    admin = f"127.0.0.1:{free_port()}"
    start = domain(admin)
    (tmp_path / "bulk.csv").write_text(OPEN)
    start["access"]["files"] = [str(tmp_path / "bulk.csv")]
    with together(start, links=0) as nodes:
        yield Plant(nodes, admin)


def values(client: Paho, count: int) -> list[dict[str, Any]]:
    return [read_plain(payload) for payload in client.payloads(count)]


def test_other_policies_take_effect_at_once_and_connections_stay(plant: Plant) -> None:
    port = plant.nodes.ports["plant"]
    with Paho("e1").connects(port) as edge, Paho("a1").connects(port) as reader:
        reader.subscribe("spBv1.0/#", 1)
        plant.says(edge, NBIRTH, a=0, secret=0)
        plant.says(edge, NDATA, secret=1)
        plant.rules(NARROW)  # the file alone
        plant.says(edge, NDATA, a=2, secret=2)
        plant.rules(OPEN, {"subject": "a1", "topics": NDATA, "may": "read", "except": "a"})  # and the domain
        plant.says(edge, NDATA, a=3)
        plant.rules("subject,topics,except,may,when\n")
        plant.says(edge, NDATA, a=4, secret=4)
        plant.rules(OPEN)
        plant.says(edge, NDATA, a=5)
        assert values(reader, 5) == [{"a": 0, "secret": 0}, {"secret": 1}, {"a": 2}, {"secret": 2}, {"a": 5}]
        assert edge.ends.empty()
        assert reader.ends.empty()


def test_what_waits_is_judged_again(plant: Plant) -> None:
    port = plant.nodes.ports["plant"]
    with Paho("e1").connects(port) as edge:
        reader = Paho("a1", clean=False).connects(port, SessionExpiryInterval=600)
        reader.subscribe("spBv1.0/#", 1)
        reader.leaves()
        plant.says(edge, NBIRTH, a=0, secret=0)
        plant.says(edge, NDATA, a=1, secret=1)
        plant.rules(NARROW)
        with Paho("a1", clean=False).connects(port, SessionExpiryInterval=600) as again:
            assert values(again, 2) == [{"a": 0}, {"a": 1}]


def test_a_file_that_is_wrong_changes_nothing_and_is_named_with_its_line(plant: Plant) -> None:
    port = plant.nodes.ports["plant"]
    with Paho("e1").connects(port) as edge, Paho("a1").connects(port) as reader:
        reader.subscribe("spBv1.0/#", 1)
        plant.rules(NARROW + "a1,spBv1.0/#,,reed,\n")
        plant.nodes.until_logged(TOGETHER, "not reloaded", "bulk.csv:3: unknown privilege `reed`")
        plant.says(edge, NBIRTH, a=0, secret=0)
        assert values(reader, 1) == [{"a": 0, "secret": 0}]


def test_the_node_says_why(plant: Plant) -> None:
    port = plant.nodes.ports["plant"]
    plant.rules(NARROW)
    arguments = ("--node", plant.admin, "--from", "e1", "--topic", NDATA, "--metrics", '{"a": 1, "secret": 2}')
    with Paho("e1").connects(port) as edge, Paho("a1").connects(port) as reader:
        reader.subscribe("spBv1.0/#", 1)
        plant.says(edge, NBIRTH, a=0, secret=0)
        code, out, err = run(penstock("explain", *arguments))
    assert (code, err) == (0, "")
    assert "without `secret` (excepted by `" in out
    assert "bulk.csv:2`)" in out
    assert f'a1 gets `{NDATA} {{"a": 1}}`' in out
