"""A capsule in a live node, over sockets: joined inputs, timers, rights; killed with `kill -9`, it goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.node import LiveNode, running

HEALTH: dict[str, Any] = {
    "client": "health",
    "runs": "node",
    "inputs": {"temperature": {"topics": "+/temperature"}, "ecg": {"topics": "+/ecg"}},
    "operations": [
        {"latest": {"by": {"person": 1}, "values": {"celsius": "temperature.celsius", "pulse": "ecg.pulse"}}},
        {"infer": [{"when": "pulse > 140.0", "set": {"danger": True}}, {"set": {"danger": False}}]},
    ],
    "output": {"topic": "{person}/health"},
}
COUNT: dict[str, Any] = {
    "client": "count",
    "runs": "node",
    "input": {"topics": "+/temperature", "silence": {"after": "2s", "set": {"alarm": True}}},
    "window": {"length": "2s"},
    "operations": [{"aggregate": {"values": {"n": "count()"}}}],
    "output": {"topic": "count"},
}
CLIENTS = {name: {"node": "main"} for name in ("wrist", "reader", "health", "count")}
DOMAIN: dict[str, Any] = {"clients": CLIENTS, "capsules": {"health": HEALTH, "count": COUNT}}


def says(client: Paho, topic: str, **content: Any) -> None:
    client.publish(topic, json.dumps(content).encode(), 1)


def test_inputs_are_joined_and_silence_is_heard() -> None:
    with running({}, **DOMAIN) as node, Paho("wrist") as wrist, Paho("reader") as reader:
        wrist.connects(node.port)
        reader.connects(node.port)
        reader.subscribe("+/health", 1)
        reader.subscribe("count", 1)
        says(wrist, "bob/temperature", celsius=38.5)
        says(wrist, "bob/ecg", pulse=150)
        got = [reader.receive() for _ in range(3)]
        assert [one.topic for one in got] == ["bob/health", "count", "count"]
        first, second, third = (json.loads(one.payload) for one in got)
        assert first == {"person": "bob", "celsius": 38.5, "pulse": 150, "danger": True}
        window, alarm = (second, third) if "n" in second else (third, second)
        assert window["n"] == 1, "nothing came after it, and its window was closed"
        assert (alarm["silent"], alarm["alarm"]) == ("input", True)


def test_nobody_connects_as_the_client_of_a_capsule() -> None:
    with running({}, **DOMAIN) as node, Paho("health") as other, pytest.raises(Exception, match="Not authorized"):
        other.connects(node.port)


def test_killed_it_goes_on_with_what_was_acknowledged(tmp_path: Path) -> None:
    node, people = LiveNode(tmp_path), [f"p{number}" for number in range(40)]
    node.configure({"store": "main.db"}, **DOMAIN)
    node.start()
    try:
        with Paho("reader", clean=False) as reader:
            reader.connects(node.port, SessionExpiryInterval=3600)
            reader.subscribe("+/health", 1)
            reader.subscribe("count", 1)
        with Paho("wrist") as wrist:
            wrist.connects(node.port)
            for person in people:
                says(wrist, f"{person}/temperature", celsius=37.0)
            node.kill()
        node.start()
        with Paho("wrist") as wrist:
            wrist.connects(node.port)
            for person in people:
                says(wrist, f"{person}/ecg", pulse=150)
            node.kill()
        node.start()
        results, counted = dict[str, list[bytes]](), 0
        with Paho("reader", clean=False) as reader:
            reader.connects(node.port, SessionExpiryInterval=3600)
            while len(results) < len(people) or counted < len(people):
                message = reader.receive()
                if message.topic == "count":
                    counted += json.loads(message.payload).get("n", 0)
                else:
                    results.setdefault(message.topic, []).append(bytes(message.payload))
        assert results.keys() == {f"{person}/health" for person in people}
        assert all(len(several) == 1 for several in results.values()), "in one transaction with what made it"
        assert counted == len(people)
    finally:
        node.stop()
