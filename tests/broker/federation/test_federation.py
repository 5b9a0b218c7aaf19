"""Nodes joined to each other and to a foreign broker, as processes with real clients."""

import os
import tempfile
import threading
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.paho import Paho, value
from tests.support.processes.certificates import Authority
from tests.support.processes.commands import until
from tests.support.processes.federation import Nodes, chain, federated, settled
from tests.support.processes.mosquitto import free_port, mosquitto


def test_an_event_goes_along_a_chain_to_who_wants_it_and_back() -> None:
    with (
        federated(chain("a", "b", "c")) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["c"]) as right,
    ):
        right.subscribe("#", 2)
        settled(right, left)
        for qos in (0, 1, 2):
            left.publish(f"t/{qos}", b"x", qos)
        assert [(m.topic, m.qos) for m in (right.receive() for _ in range(3))] == [("t/0", 0), ("t/1", 1), ("t/2", 2)]
        left.subscribe("#", 2)
        settled(left, right)
        right.publish("back", b"y", 1)
        assert left.receive().topic == "back"


def test_what_nobody_beyond_wants_does_not_cross_a_link() -> None:
    with (
        federated(chain("a", "b")) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["b"]) as right,
    ):
        right.subscribe("wanted/+")
        right.subscribe("settled")
        right.subscribe("settle")
        settled(right, left)
        assert left.publish("unwanted", b"", 1) == 0x10, "no matching subscribers"
        assert left.publish("wanted/1", b"", 1) == 0
        assert right.receive().topic == "wanted/1"


def test_a_retained_message_reaches_a_subscriber_that_comes_later_at_another_node() -> None:
    with (
        federated(chain("a", "b", "c")) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["c"]) as right,
    ):
        left.publish("state", b"on", 1, retain=True)
        right.subscribe("state", 1)
        assert right.receive().payload == b"on"
        with Paho("later").connects(nodes.ports["c"]) as later:
            later.subscribe("state", 1)
            message = later.receive()
            assert message.payload == b"on"
            assert message.retain, "by now the node itself retains it"


def test_a_node_in_the_middle_of_a_chain_is_killed_and_nothing_acknowledged_is_lost() -> None:
    domain = chain("a", "b", "c", limits={"queued_messages": 100_000})
    for name, settings in domain["nodes"].items():
        settings["store"] = f"{name}.db"
    with federated(domain) as nodes, Paho("right", clean=False) as right, Paho("left") as left:
        right.connects(nodes.ports["c"], SessionExpiryInterval=3600).subscribe("#", 1)
        left.connects(nodes.ports["a"])
        settled(right, left)
        acknowledged: list[int] = []
        over = threading.Event()

        def publish() -> None:
            for number in count():
                if left.publish("stream", str(number).encode(), 1) < 0x80:
                    acknowledged.append(number)
                if over.is_set():
                    return

        stream = threading.Thread(target=publish)
        stream.start()
        for name in ("b", "c", "b"):
            reached = len(acknowledged)
            until(lambda reached=reached: len(acknowledged) > reached + 300, "the stream goes on")  # type: ignore[misc]
            nodes.kill(name)
            nodes.start(name)
        over.set()
        stream.join()
        received: set[int] = set()
        while not set(acknowledged) <= received:
            received.add(int(right.receive().payload))


def test_the_rest_goes_on_while_a_node_is_gone() -> None:
    with (
        federated(chain("cloud", "gateway", "locks")) as nodes,
        Paho("bell").connects(nodes.ports["gateway"]) as bell,
        Paho("lock").connects(nodes.ports["locks"]) as lock,
    ):
        lock.subscribe("#", 1)
        settled(lock, bell)
        nodes.kill("cloud")
        bell.publish("ring", b"", 1)
        assert lock.receive().topic == "ring"


def test_in_a_ring_of_nodes_an_event_comes_once() -> None:
    domain = chain("a", "b", "c")
    domain["links"].append({"between": ["a", "c"]})
    with (
        federated(domain) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["c"]) as right,
    ):
        right.subscribe("#", 1)
        settled(right, left)
        for number in range(20):
            left.publish(f"once/{number}", b"", 1)
        assert [right.receive().topic for _ in range(20)] == [f"once/{number}" for number in range(20)]
        right.nothing_arrives()


def test_a_client_cannot_pass_for_a_node() -> None:
    with federated(chain("a", "b")) as nodes:
        assert Paho("$node/b").tries(nodes.ports["a"]).reason.value == 0x87
        assert Paho("$node/b").is_user("b", "guess").tries(nodes.ports["a"]).reason.value == 0x87


def test_a_client_cannot_set_what_only_nodes_set() -> None:
    with (
        federated(chain("a", "b")) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["b"]) as right,
    ):
        right.subscribe("#", 1)
        settled(right, left)
        left.publish("t", b"refused", 1, UserProperty=[("penstock-path", "b"), ("mine", "kept")])
        left.publish("t", b"cleaned", 1, UserProperty=[("penstock-other", "b"), ("mine", "kept")])
        message = right.receive()
        assert message.payload == b"cleaned"
        assert value(message.properties, "UserProperty") == [("mine", "kept")]


def test_two_nodes_with_different_secrets_do_not_link() -> None:
    domain = chain("a", "b")
    domain["links"][0]["secret"] = "one"
    with federated(domain) as nodes:
        nodes.kill("b")
        domain["links"][0]["secret"] = "another"
        nodes.write(domain)
        before = nodes.log("a").count("linked")
        nodes.start("b")
        nodes.until_logged("a", "a neighbour refuses us", "neighbour=b", "cannot show that it is")
        assert nodes.log("a").count("linked") == before > 0


def test_a_node_proves_itself_by_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (cert, key), own, other = authority.sign("server"), authority.sign("a"), authority.sign("mallory")
    tls = {"cert": str(cert), "key": str(key), "ca": str(authority.file), "identity": "cn"}
    port = free_port()

    def domain(secret: str, shown: tuple[Path, Path]) -> dict[str, Any]:
        settings = chain("a", "b")
        settings["nodes"]["b"]["listen"] = {"address": f"127.0.0.1:{port}", "tls": tls}
        dialling = {"ca": str(authority.file), "cert": str(shown[0]), "key": str(shown[1])}
        settings["links"][0] |= {"tls": dialling, "secret": secret}
        return settings

    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder), domain("one", own))
        try:
            nodes.start("b")
            nodes.write(domain("another", other))
            nodes.start("a")
            nodes.until_logged("a", "a neighbour refuses us", "neighbour=b")
            assert "linked" not in nodes.log("a"), "the certificate is good, but another's"
            nodes.kill("a")
            nodes.write(domain("another", own))
            nodes.start("a")
            nodes.until_logged("a", "linked", "neighbour=b")
        finally:
            nodes.stop()


@pytest.mark.parametrize("version", [4, 5])
def test_a_foreign_broker_as_neighbour(version: int) -> None:
    port = free_port()
    topics = {"in": ["from/#", "settle", "settled"], "out": ["to/#"]} if version == 4 else {}
    domain = {
        "nodes": {"a": {"store": "memory"}},
        "links": [{"between": ["a", "legacy"]}],
        "foreign": {"legacy": {"address": f"127.0.0.1:{port}", "version": version, **topics}},
    }
    with (
        mosquitto(port=port),
        federated(domain) as nodes,
        Paho("here").connects(nodes.ports["a"]) as here,
        Paho("there").connects(port) as foreign,
    ):
        here.subscribe("#", 1)
        foreign.subscribe("#", 1)
        settled(here, foreign)
        while not foreign.messages.empty():
            foreign.receive()
        here.publish("to/them", b"x", 1)
        assert foreign.receive().topic == "to/them"
        foreign.publish("from/them", b"y", 1)
        assert {here.receive().topic for _ in range(2)} == {"to/them", "from/them"}
        here.nothing_arrives()


def test_what_waits_for_a_foreign_broker_arrives_when_it_is_back() -> None:
    port = free_port()
    domain = {
        "nodes": {"a": {"store": "memory"}},
        "links": [{"between": ["a", "legacy"]}],
        "foreign": {"legacy": {"address": f"127.0.0.1:{port}"}},
    }
    # Mosquitto keeps the session of the subscriber that is away, so that what comes first is not missed.
    config = "allow_anonymous true\npersistence true\nautosave_interval 1\nautosave_on_changes true\n"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as later:
        config += f"persistence_location {folder}/\n"
        os.chmod(folder, 0o777)
        with mosquitto(config, port=port):
            nodes = later.enter_context(federated(domain))
            with Paho("there", clean=False).connects(port, SessionExpiryInterval=600) as foreign:
                foreign.subscribe("#", 1)
        nodes.until_logged("a", "the link is down")
        with Paho("here").connects(nodes.ports["a"]) as here:
            here.publish("kept", b"x", 1)
        with mosquitto(config, port=port), Paho("there", clean=False) as foreign:
            foreign.connects(port, SessionExpiryInterval=600)
            assert foreign.receive().topic == "kept"


def test_a_monitor_goes_on_in_its_state_after_a_restart() -> None:
    domain = chain("a", "b")
    for name, settings in domain["nodes"].items():
        settings["store"] = f"{name}.db"
    domain["monitors"] = {
        "order": {
            "link": "a -> b",
            "states": {
                "q0": {"first": {"pass": True, "next": "q1"}, "*": "pass", "second": "suppress"},
                "q1": {"*": "pass"},
            },
        }
    }
    with federated(domain) as nodes, Paho("left").connects(nodes.ports["a"]) as left:
        with Paho("right").connects(nodes.ports["b"]) as right:
            right.subscribe("#", 1)
            settled(right, left)
            left.publish("second", b"", 1)
            left.publish("first", b"", 1)
            assert right.receive().topic == "first", "the second before the first was suppressed"
        nodes.kill("b")
        nodes.start("b")
        with Paho("right").connects(nodes.ports["b"]) as right:
            right.subscribe("#", 1)
            settled(right, left)
            left.publish("second", b"", 1)
            assert right.receive().topic == "second"


def test_a_reload_changes_the_table_without_dropping_connections() -> None:
    domain: dict[str, Any] = {
        "nodes": {"a": {"store": "memory"}},
        "brokering": {"types": ["inner", "outer"]},
        "clients": {"left": {"node": "a", "type": "inner"}, "right": {"node": "a", "type": "outer"}},
    }
    with (
        federated(domain) as nodes,
        Paho("left").connects(nodes.ports["a"]) as left,
        Paho("right").connects(nodes.ports["a"]) as right,
    ):
        right.subscribe("#", 1)
        left.publish("open", b"", 1)
        assert right.receive().topic == "open"
        domain["brokering"]["deny"] = [{"from": "inner", "to": "outer"}]
        nodes.write(domain)
        nodes.reload("a")
        left.publish("closed", b"", 1)
        right.nothing_arrives()
        assert right.ends.empty()
        assert left.ends.empty()


def test_the_access_lists_of_a_node_are_for_its_own_clients() -> None:
    domain = chain("a", "b", acl="acl")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "acl").write_text("topic readwrite open/#\ntopic readwrite settle\ntopic readwrite settled\n")
        for settings in domain["nodes"].values():
            settings["acl"] = str(Path(folder) / "acl")
        with (
            federated(domain) as nodes,
            Paho("left").connects(nodes.ports["a"]) as left,
            Paho("right").connects(nodes.ports["b"]) as right,
        ):
            right.subscribe("#", 1)
            settled(right, left)
            assert left.publish("closed/1", b"", 1) == 0x87
            left.publish("open/1", b"", 1)
            assert right.receive().topic == "open/1"


@pytest.mark.parametrize("version", [4, 5])
def test_what_a_foreign_broker_retains_comes_once(version: int) -> None:
    port = free_port()
    domain = {
        "nodes": {"a": {"store": "memory"}},
        "links": [{"between": ["a", "legacy"]}],
        "foreign": {
            "legacy": {"address": f"127.0.0.1:{port}", "version": version, "in": ["kept", "live"], "out": ["x"]}
        },
    }
    with mosquitto(port=port), Paho("there").connects(port) as foreign:
        foreign.publish("kept", b"once", 1, retain=True)
        with federated(domain) as nodes, Paho("here").connects(nodes.ports["a"]) as here:
            here.subscribe("#", 1)
            assert here.receive().payload == b"once"
            # Takes the link's client id, and with it its session, so that the node must dial again.
            with Paho("test-a", clean=False).connects(port, SessionExpiryInterval=600):
                nodes.until_logged("a", "the link is down")
            nodes.until_logged("a", "linked", times=2)
            foreign.publish("live", b"", 1)
            assert here.receive().topic == "live", "what is retained has not come again"


def test_interest_that_is_larger_than_a_packet_is_told_and_the_link_stays_up() -> None:
    with (
        federated(chain("a", "b", limits={"max_packet_size": 2000})) as nodes,
        Paho("right").connects(nodes.ports["b"]) as right,
    ):
        long = f"long/{'x' * 1900}"
        for filter in (long, *(f"t/{number}" for number in range(200)), "settled", "settle"):
            right.subscribe(filter, 1)
        nodes.until_logged("b", "too long to tell", "$node/a", "`long/#`")
        for times in (1, 2):  # one by one, and all at once when the other node has lost all that it knew
            nodes.until_logged("a", " linked ", times=times)
            with Paho("left").connects(nodes.ports["a"]) as left:
                settled(right, left)
                for topic in ("t/0", "t/100", "t/199", long):
                    left.publish(topic, b"", 1)
                    assert right.receive().topic == topic
            if times == 1:
                nodes.kill("a")
                nodes.start("a")
        assert nodes.log("a").count(" linked ") == 2
