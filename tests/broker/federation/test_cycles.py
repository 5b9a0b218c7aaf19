"""Nodes and foreign brokers joined in cycles (issue 17, item 16), as processes with real clients."""

from queue import Empty
from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run, until
from tests.support.processes.federation import chain, federated, settled
from tests.support.processes.mosquitto import HOST, free_port, mosquitto


def _ring(*more: list[str]) -> dict[str, Any]:
    domain = chain("a", "b", "c")
    domain["links"] += [{"between": pair} for pair in (["a", "c"], *more)]
    return domain


def test_what_a_policy_blocks_on_one_way_comes_by_another() -> None:
    domain = _ring()
    domain["clients"] = {"left": {"node": "a"}, "near": {"node": "b"}, "right": {"node": "c"}}
    text = "PolicyStatement { On(Forward, Publication) { If {Sender() == 'a'} Then {BlockMessage()} } }"
    applied = {"policy": "not-from-a", "to": "subscription", "of": ["right"], "filter": "#"}
    domain["statements"] = {"policies": {"not-from-a": text}, "apply": [applied]}
    with (
        federated(domain) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["c"]) as right,
        Paho("near").connects(nodes.ports["b"]) as near,
    ):
        right.subscribe("#", 1)
        settled(right, near)
        for number in range(20):
            left.publish(f"once/{number}", b"", 1)
        assert [right.receive().topic for _ in range(20)] == [f"once/{number}" for number in range(20)]
        right.nothing_arrives()


@pytest.mark.parametrize("links", [[["c", "legacy"]], [["a", "legacy"], ["b", "legacy"]]], ids=["one", "two"])
@pytest.mark.parametrize("version", [4, 5])
def test_a_foreign_broker_on_a_cycle_gets_an_event_once(links: list[list[str]], version: int) -> None:
    port = free_port()
    domain = _ring(*links)
    domain["foreign"] = {"legacy": {"address": f"{HOST}:{port}", "version": version, "in": "from/#", "out": "to/#"}}
    with (
        mosquitto(port=port),
        federated(domain) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("there").connects(port) as there,
    ):
        there.subscribe("to/#", 1)
        _until_routed(left, there)
        for number in range(100):
            left.publish(f"to/{number}", b"", 1)
        assert [there.receive().topic for _ in range(100)] == [f"to/{number}" for number in range(100)]


def test_what_a_foreign_broker_brings_back_goes_to_nobody_who_has_had_it() -> None:
    port = free_port()
    domain = _ring(["a", "legacy"], ["b", "legacy"])
    domain["foreign"] = {"legacy": {"address": f"{HOST}:{port}"}}
    with (
        mosquitto(port=port),
        federated(domain) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["c"]) as right,
        Paho("there").connects(port) as there,
    ):
        right.subscribe("#", 1)
        there.subscribe("#", 1)
        settled(right, left)
        _drained(right)
        _drained(there)
        for number in range(100):
            left.publish(f"to/{number}", b"", 1)
        for client in (right, there):
            assert [client.receive().topic for _ in range(100)] == [f"to/{number}" for number in range(100)]
        assert not [*_drained(right), *_drained(there)]


@pytest.mark.parametrize(
    ("host", "version", "most"), [(HOST, 4, 1), (HOST, 5, 1), ("0.0.0.0", 5, 3), ("0.0.0.0", 4, 1500)]
)
def test_one_broker_under_two_names_does_not_loop(host: str, version: int, most: int) -> None:
    """`check` warns if the domain file shows it. If not, nodes know events again that come back; in MQTT 3.1.1 by their
    number.
    """
    port = free_port()
    domain = chain("a")
    domain["foreign"] = {
        "legacy": {"address": f"{HOST}:{port}", "version": version, "client_id": "one"},
        "archive": {"address": f"{host}:{port}", "version": version, "client_id": "two"},
    }
    domain["links"] = [{"between": ["a", "legacy"]}, {"between": ["a", "archive"]}]
    with (
        mosquitto(port=port),
        federated(domain) as nodes,
        Paho("here").connects(nodes.ports["a"]) as here,
        Paho("there").connects(port) as there,
    ):
        code, _, told = run(penstock("check", str(nodes.folder / "domain.yaml")))
        assert code == 0
        assert ("foreign broker `legacy` has this address too" in told) is (host == HOST)
        here.subscribe("t", 1)
        there.subscribe("t", 1)
        there.publish("t", b"x", 1)
        assert len(_drained(there, 2 * most)) <= most
        if most < 1000:
            assert 1 <= len(_drained(here)) <= 2, "both names bring it"


def _until_routed(left: Paho, there: Paho) -> None:
    def arrives() -> bool:
        left.publish("to/begin", b"", 1)
        return not there.messages.empty()

    until(arrives, "an event has come through")
    _drained(there)


def _drained(client: Paho, most: int = 50) -> list[str]:
    """The topics of what comes until nothing comes for a while; of what does not end, the first."""
    topics: list[str] = []
    while len(topics) < most:
        try:
            topics.append(client.messages.get(timeout=2).topic)
        except Empty:
            break
    return topics
