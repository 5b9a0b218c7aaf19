"""The views of an operator: `$SYS`, `/metrics`, `/health`."""

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from tests.support.clients.paho import Paho
from tests.support.processes.admin import ask
from tests.support.processes.commands import until
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode, running

# What Mosquitto 2.0 has and its users watch; see mosquitto(8), BROKER STATUS.
MOSQUITTO_TOPICS = """
version, uptime, clients/total, clients/connected, clients/disconnected, clients/maximum, clients/active,
clients/inactive, messages/received, messages/sent, messages/stored, publish/messages/received,
publish/messages/sent, publish/messages/dropped, bytes/received, bytes/sent, subscriptions/count,
retained messages/count, store/messages/count, store/messages/bytes, load/messages/received/1min,
load/messages/sent/5min, load/publish/received/15min, load/bytes/sent/1min, load/connections/1min
"""


def _get(node: LiveNode, path: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    return ask(f"http://{HOST}:{node.ports('http')[0]}{path}")


def _metrics(node: LiveNode) -> dict[str, float]:
    _, _, body = _get(node, "/metrics")
    return {sample.name: sample.value for family in text_string_to_metric_families(body) for sample in family.samples}


def test_sys_topics(node: LiveNode) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe("$SYS/#", 1)
        seen: dict[str, bytes] = {}
        expected = {f"$SYS/broker/{name.strip()}" for name in MOSQUITTO_TOPICS.split(",")}
        while not expected <= seen.keys():
            message = ann.receive()
            seen[message.topic] = bytes(message.payload)
        assert re.fullmatch(rb"penstock version \d+\.\d+\.\d+.*", seen["$SYS/broker/version"])
        assert re.fullmatch(rb"\d+ seconds", seen["$SYS/broker/uptime"])
        assert int(seen["$SYS/broker/clients/connected"]) >= 0


def test_sys_topics_go_on(node: LiveNode) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe("$SYS/broker/uptime", 1)
        first = ann.receive()
        second = ann.receive()
        assert (first.retain, second.retain) == (True, False)
        assert second.payload != first.payload


def test_sys_topics_are_not_for_wildcards(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe("+/broker/version", 1)
        ann.subscribe(name, 1)
        ann.publish(name, b"only this", 1)
        assert ann.receive().payload == b"only this"


def test_no_sys_topics() -> None:
    with running({"sys_interval": 0}) as live, Paho().connects(live.port) as ann:
        ann.subscribe("#", 1)
        ann.subscribe("$SYS/#", 1)
        ann.publish("a", b"only this", 1)
        assert ann.receive().payload == b"only this"


def test_metrics_count(node: LiveNode, name: str) -> None:
    before = _metrics(node)
    with Paho().connects(node.port) as ann:
        ann.subscribe(name, 1)
        for _ in range(10):
            ann.publish(name, b"x", 1)
        ann.payloads(10)
        ann.publish(f"{name}/kept", b"x", 1, retain=True)
        assert ann.publish("$SYS/denied", b"x", 1) == 0x87
        now = _metrics(node)
        ann.publish(f"{name}/kept", b"", 1, retain=True)
    assert now["penstock_connections"] >= 1
    assert now["penstock_publications_received_total"] - before["penstock_publications_received_total"] == 12
    assert now["penstock_publications_sent_total"] - before["penstock_publications_sent_total"] >= 10
    assert now["penstock_connects_total"] - before["penstock_connects_total"] == 1
    assert now["penstock_denied_total"] - before["penstock_denied_total"] == 1
    assert now["penstock_retained_messages"] - before["penstock_retained_messages"] == 1
    assert now["penstock_subscriptions"] >= 1
    assert now["penstock_bytes_received_total"] > before["penstock_bytes_received_total"]


def test_connections_go_down_again(node: LiveNode, name: str) -> None:
    before = _metrics(node)["penstock_connections"]
    ann = Paho(name).connects(node.port)
    assert _metrics(node)["penstock_connections"] == before + 1
    ann.breaks()
    until(lambda: _metrics(node)["penstock_connections"] <= before, "the broken connection is no longer counted")


def test_metrics_are_prometheus_text(node: LiveNode) -> None:
    status, kind, body = _get(node, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    families = list(text_string_to_metric_families(body))
    assert all(family.documentation for family in families)
    assert all(sample.labels["node"] == "main" for family in families for sample in family.samples)


def test_health(node: LiveNode) -> None:
    status, kind, body = _get(node, "/health")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body)["status"] == "ok"


def test_other_paths(node: LiveNode) -> None:
    assert _get(node, "/other")[0] == 404


def test_without_admin_there_is_no_http() -> None:
    with running() as live:
        assert live.ports("http") == []
