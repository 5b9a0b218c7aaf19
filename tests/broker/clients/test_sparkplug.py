"""Sparkplug clients of others on live nodes with access policies: they go on as if nothing was withheld from them."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from examples.sparkplug import Program, edge, host
from tests.support.clients.paho import Paho
from tests.support.clients.strict_host import StrictHost
from tests.support.memory.sparkplug import PAYLOAD, encode
from tests.support.processes.commands import until
from tests.support.processes.federation import Nodes, federated
from tests.support.processes.node import passwords

TAHU = Path(__file__).parents[2] / "support" / "clients" / "tahu" / "client.py"
METRICS = {"a": 0, "b": 0.5, "secret": "SECRET-0", "hide": 0, "hidden/x": 0}
PATIENCE = 60.0


@cache
def password_file() -> str:
    """Tahu's host gives this password."""
    file = Path(tempfile.mkdtemp(prefix="tahu-")) / "passwords"
    file.write_text(passwords(**{"tahu-host": "-"}))
    return str(file)


def domain(*nodes: str, **settings: Any) -> dict[str, Any]:
    """The nodes in a line; edge nodes at the first of them."""
    first, last = nodes[0], nodes[-1]
    readers = ["strict5", "strict4", "outside", "late", "lasting", "tahu-host"]
    return {
        "nodes": {name: {**settings, "passwords": password_file(), "anonymous": True} for name in nodes},
        "links": [{"between": list(pair)} for pair in pairwise(nodes)],
        "clients": {
            "E1": {"node": first, "edge": "G1/E1"},
            "T1": {"node": first, "edge": "G1/T1"},
            "scada": {"node": [*nodes]},
            **{name: {"node": last} for name in readers[:-1]},
            "tahu-host": {"node": last, "user": "tahu-host", "id": None},  # it comes with any client id
        },
        "access": [
            {"subject": ["G1/E1", "G1/T1"], "topics": "spBv1.0/G1/#", "may": ["read", "write"]},
            {"subject": "scada", "topics": "spBv1.0/#", "may": ["read", "write"]},
            {"subject": readers, "topics": ["spBv1.0/+/+/+", "spBv1.0/+/+/+/+"], "may": "read", "except": "*secret"},
            {"subject": readers, "topics": "spBv1.0/G1/NDATA/E1", "may": "read", "except": "hidden/*",
             "when": "hide.value == 1"},
            {"subject": readers, "topics": "spBv1.0/+/NCMD/+", "may": "write",
             "when": "metrics.all(name, name.endsWith('Rebirth'))"},
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def plant() -> Iterator[Nodes]:
    with federated(domain("plant", store="memory")) as nodes:
        yield nodes


def told(program: Program, **parts: Any) -> None:
    assert program.hears(patience=PATIENCE, **parts), program.said[-5:]


def test_over_a_thousand_messages_with_metrics_withheld_nobody_asks_for_a_rebirth(plant: Nodes) -> None:
    port = plant.ports["plant"]
    with ExitStack() as stack:
        strict = [
            StrictHost(stack.enter_context(Paho(f"strict{version}", version).connects(port)), "spBv1.0/G1/+/E1")
            for version in (4, 5)
        ]
        outside = stack.enter_context(host(port, "outside", "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"))
        told(outside, ready=True)
        edge_node = stack.enter_context(edge(port, "G1/E1", METRICS, "E1"))
        told(edge_node, born=True)
        for number in range(1, 1101):
            more = {} if number % 3 else {"hide": number % 2}
            edge_node.tell(report={"a": number, "secret": f"SECRET-{number}", **more})
            if number % 5 == 0:
                edge_node.tell(report={"secret": f"SECRET-{number}"})
            if number % 7 == 0:
                edge_node.tell(report={"hidden/x": number})
        count = 1 + 1100 + 1100 // 5 + 1100 // 7
        for host_ in strict:
            host_.read(count)
            assert host_.asked == []
            assert host_.values["G1/E1"]["a"] == 1100
            assert "secret" not in host_.values["G1/E1"]
            assert host_.values["G1/E1"]["bdSeq"] == 0
            assert host_.values["G1/E1"]["Node Control/Rebirth"] is False
        assert outside.hears(count - 1, PATIENCE, type="NDATA")
        assert outside.heard(error=None) == outside.said
        assert edge_node.heard(ordered={"Node Control/Rebirth": True}) == []
        assert "secret" not in str(outside.said).lower()
        assert [message["seq"] for message in outside.heard(type="NDATA")] == [
            (1 + place) % 256 for place in range(count - 1)
        ]


def test_a_real_gap_is_seen_and_a_rebirth_mends_it(plant: Nodes) -> None:
    port = plant.ports["plant"]
    with ExitStack() as stack:
        strict = StrictHost(stack.enter_context(Paho("strict5").connects(port)), "spBv1.0/G1/+/E1")
        edge_node = stack.enter_context(edge(port, "G1/E1", METRICS, "E1"))
        strict.read(1)
        edge_node.tell(report={"secret": "SECRET"}, skip=1)
        edge_node.tell(report={"a": 7})
        strict.read(4)
        assert strict.counts == {"NBIRTH": 2, "NDATA": 2}
        assert strict.asked == ["seq 3 instead of 2"]
        assert strict.values["G1/E1"]["a"] == 7


def test_a_host_that_comes_in_the_middle_asks_and_has_it_from_then_on(plant: Nodes) -> None:
    port = plant.ports["plant"]
    with edge(port, "G1/E1", METRICS, "E1") as edge_node:
        told(edge_node, born=True)
        edge_node.tell(report={"a": 1}, done=1)
        told(edge_node, done=1)
        with Paho("late").connects(port) as client:
            strict = StrictHost(client, "spBv1.0/G1/+/E1")
            edge_node.tell(report={"a": 2, "secret": "SECRET"})
            while "NBIRTH" not in strict.counts:
                strict.read(sum(strict.counts.values()) + 1)
            requests = len(strict.asked)
            for number in range(20):
                edge_node.tell(report={"a": number, "secret": "SECRET"})
            while strict.values["G1/E1"]["a"] != 19:
                strict.read(sum(strict.counts.values()) + 1)
            assert strict.asked[0] in ("seq 1 instead of 0", "seq 2 instead of 0")
            assert strict.asked[requests:] == []


def test_other_aliases_after_a_rebirth(plant: Nodes) -> None:
    port = plant.ports["plant"]
    with edge(port, "G1/E1", METRICS, "E1") as edge_node, host(port, "outside", "spBv1.0/G1/+/E1") as outside:
        told(edge_node, born=True)
        told(outside, ready=True)
        edge_node.tell(rename={"a": 104, "secret": 102, "b": 4})
        edge_node.tell(report={"a": 1, "secret": "SECRET"})
        edge_node.tell(report={"b": 2.5})
        told(outside, type="NDATA", metrics={"a": 1})
        told(outside, type="NDATA", metrics={"b": 2.5})
        assert outside.heard(error=None) == outside.said


@pytest.mark.parametrize("kind", ["pysparkplug", "tahu"])
def test_a_death_that_nobody_said(plant: Nodes, kind: str) -> None:
    """pysparkplug leaves its will at QoS 0, as the norm does not; mqtt-spb-wrapper at QoS 1."""
    port = plant.ports["plant"]
    with host(port, "outside", "spBv1.0/G1/+/E1", "spBv1.0/G1/+/T1") as outside:
        told(outside, ready=True)
        dying = edge(port, "G1/E1", METRICS, "E1") if kind == "pysparkplug" else tahu("edge", port, "T1", "T1")
        told(outside, type="NBIRTH")
        dying.kill()
        assert outside.hears(patience=PATIENCE, type="NDEATH"), outside.said


def tahu(role: str, port: int, client_id: str, name: str) -> Program:
    return Program(TAHU, "mqtt-spb-wrapper", role, port, client_id, "G1", name)


def test_tahu_s_clients_go_on_through_views(plant: Nodes) -> None:
    port = plant.ports["plant"]
    birth = "spBv1.0/G1/NBIRTH/T1"
    with tahu("host", port, "tahu-host", "H1") as reader, ExitStack() as stack:
        told(reader, ready=True)  # connected: it does not say when it has subscribed, so the birth may come too early
        edge_node = stack.enter_context(tahu("edge", port, "T1", "T1"))
        if not reader.hears(patience=5.0, topic=birth):
            edge_node.kill()
            edge_node = stack.enter_context(tahu("edge", port, "T1", "T1"))
        told(reader, topic=birth)
        edge_node.tell(report={"temperature": 21.5, "secret": "SECRET-2"})
        edge_node.tell(report={"temperature": 22.5})
        assert reader.hears(2, PATIENCE, topic="spBv1.0/G1/NDATA/T1"), reader.said
        got = [message["metrics"] for message in reader.heard(topic="spBv1.0/G1/NDATA/T1")]
        assert [metrics.get("temperature") for metrics in got] == [21.5, 22.5]
        assert "SECRET" not in str(reader.said)


def test_an_application_may_order_a_rebirth_and_nothing_else(plant: Nodes) -> None:
    port = plant.ports["plant"]
    with edge(port, "G1/E1", METRICS, "E1") as edge_node, host(port, "outside", "spBv1.0/G1/+/E1") as outside:
        told(edge_node, born=True)
        told(outside, ready=True)
        outside.tell(order="G1/E1", metrics={"a": 99})
        outside.tell(order="G1/E1", metrics={"Node Control/Rebirth": True})
        told(edge_node, ordered={"Node Control/Rebirth": True})
        told(outside, type="NBIRTH")
        assert edge_node.heard(ordered={"a": 99}) == []
        assert len(edge_node.heard(ordered={"Node Control/Rebirth": True})) == 1


# --- several nodes, and time away


def test_a_lasting_host_is_away_while_the_node_begins_anew() -> None:
    with federated(domain("plant", store="plant.db", synchronous="normal")) as nodes:
        port = nodes.ports["plant"]
        birth = {"metrics": [{"name": "a", "alias": 1, "int_value": 0}, {"name": "secret", "alias": 2, "int_value": 0}]}
        with Paho("lasting", clean=False).connects(port, SessionExpiryInterval=3600) as lasting:
            lasting.subscribe("spBv1.0/G1/+/E1", 1)
        payloads = [
            encode({"metrics": [{"alias": 1, "int_value": at}, {"alias": 2, "int_value": at}], "seq": at})
            for at in (1, 2)
        ]
        with Paho("E1").connects(port) as edge_node:
            edge_node.publish("spBv1.0/G1/NBIRTH/E1", encode({**birth, "seq": 0}), 1)
            edge_node.publish("spBv1.0/G1/NDATA/E1", payloads[0], 1)
        nodes.kill("plant")
        nodes.start("plant")
        with Paho("E1").connects(port) as edge_node:
            edge_node.publish("spBv1.0/G1/NDATA/E1", payloads[1], 1)  # aliases end with the connection of their birth
            edge_node.publish("spBv1.0/G1/NBIRTH/E1", encode({**birth, "seq": 0}), 1)
            edge_node.publish("spBv1.0/G1/NDATA/E1", payloads[0], 1)
        with Paho("lasting", clean=False).connects(port, SessionExpiryInterval=3600) as lasting:
            got: list[Any] = [PAYLOAD.FromString(payload) for payload in lasting.payloads(5)]
            values = [[(metric.alias, metric.int_value) for metric in message.metrics] for message in got]
            assert values == [[(1, 0)], [(1, 1)], [], [(1, 0)], [(1, 1)]]
            assert [message.seq for message in got] == [0, 1, 2, 0, 1]


def test_an_edge_node_here_and_its_readers_elsewhere() -> None:
    """The last node knows aliases whether or not anybody there wants births, and whenever they come to want reports."""
    with federated(domain("here", "between", "there", store="memory")) as nodes, ExitStack() as stack:
        edge_node = stack.enter_context(edge(nodes.ports["here"], "G1/E1", METRICS, "E1"))
        told(edge_node, born=True)
        reports = stack.enter_context(Paho("late").connects(nodes.ports["there"]))
        reports.subscribe("spBv1.0/G1/NDATA/E1")

        def is_heard() -> bool:
            edge_node.tell(report={"a": 1, "secret": "SECRET"})
            return not reports.messages.empty()

        until(is_heard, "reports come to who asks for them only")
        first: Any = PAYLOAD.FromString(bytes(reports.receive().payload))
        assert [metric.alias for metric in first.metrics] == [2]
        strict = StrictHost(stack.enter_context(Paho("strict5").connects(nodes.ports["there"])), "spBv1.0/G1/+/E1")

        def is_born() -> bool:
            edge_node.tell(report={"a": 1, "secret": "SECRET"}, done=True)
            strict.read_all()
            return "NBIRTH" in strict.counts

        until(is_born, "a host elsewhere asks for a rebirth, and gets it")
        requests = len(strict.asked)
        for number in range(50):
            edge_node.tell(report={"a": number, "secret": "SECRET"})
        strict.read(sum(strict.counts.values()) + 50)
        assert strict.asked[requests:] == []
        certificates = stack.enter_context(Paho("outside").connects(nodes.ports["there"]))
        certificates.subscribe("$sparkplug/certificates/#")
        certificate: Any = PAYLOAD.FromString(bytes(certificates.receive().payload))
        assert {metric.name for metric in certificate.metrics} == {*METRICS, "Node Control/Rebirth", "bdSeq"} - {
            "secret"
        }
