"""Capsules that a node runs: joined inputs, filters and inferences without windows, timers; judged as their client."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import IN_MEMORY, Store
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal

HEALTH: dict[str, Any] = {
    "client": "health",
    "runs": "node",
    "inputs": {
        "temperature": {"topics": "+/temperature"},
        "ecg": {"topics": "+/ecg", "silence": {"after": "30s", "set": {"situation": "unknown"}}},
    },
    "operations": [
        {
            "latest": {
                "by": {"person": 1},
                "values": {"celsius": "temperature.celsius", "pulse": "ecg.pulse"},
                "within": "60s",
            }
        },
        {
            "infer": [
                {"when": "pulse > 140.0 && celsius > 38.0", "set": {"situation": "danger"}},
                {"set": {"situation": "fine"}},
            ]
        },
    ],
    "output": {"topic": "{person}/health"},
}
WINDOWED = {
    **HEALTH,
    "window": {"length": "10s"},
    "operations": [
        {"aggregate": {"by": {"person": 1}, "values": {"celsius": "mean(temperature.celsius)", "n": "count()"}}}
    ],
}
FILTER = {
    "client": "filter",
    "runs": "node",
    "input": {"topics": "+/ecg"},
    "operations": [{"latest": {"by": {"person": 1}}}, {"where": "pulse > 100.0"}],
    "output": {"topic": "{person}/fast"},
}


def played(capsules: dict[str, Any], stores: dict[str, Store] | None = None, **more: Any) -> Rehearsal:
    clients = {name: {"node": "main"} for name in ("wrist", "reader", *(one["client"] for one in capsules.values()))}
    said = {"nodes": {"main": {"listen": "127.0.0.1:0"}}, "clients": clients, "capsules": capsules, **more}
    domain = Domain.model_validate(said)
    rehearsal = Rehearsal(domain, ensemble(domain), stores=stores)
    rehearsal.wait(1_700_000_000.0)  # a whole multiple of ten seconds
    for name in ("wrist", "reader"):
        rehearsal.connect(name)
    rehearsal.subscribe("reader", "#")
    return rehearsal


def says(rehearsal: Rehearsal, topic: str, **content: Any) -> None:
    rehearsal.publish("wrist", topic, json.dumps(content).encode(), 1)
    rehearsal.run()


def made(rehearsal: Rehearsal, ending: str = "health") -> list[dict[str, Any]]:
    got = rehearsal.deliveries("reader")
    return [json.loads(one.payload) for one in got if one.topic.endswith(ending)]


def test_two_kinds_of_events_are_joined_by_their_last_values() -> None:
    rehearsal = played({"health": HEALTH})
    says(rehearsal, "bob/temperature", celsius=38.5)
    says(rehearsal, "eve/ecg", pulse=150)
    assert made(rehearsal) == [], "of nobody both are known"
    says(rehearsal, "bob/ecg", pulse=150)
    says(rehearsal, "bob/ecg", pulse=80)
    assert made(rehearsal) == [
        {"person": "bob", "celsius": 38.5, "pulse": 150, "situation": "danger"},
        {"person": "bob", "celsius": 38.5, "pulse": 80, "situation": "fine"},
    ]
    rehearsal.wait(20.0)
    says(rehearsal, "bob/ecg", pulse=81)
    rehearsal.wait(29.0)
    says(rehearsal, "bob/ecg", pulse=82)
    rehearsal.wait(20.0)
    says(rehearsal, "bob/ecg", pulse=83)
    pulses = [one["pulse"] for one in made(rehearsal) if one["person"] == "bob"]
    assert pulses == [150, 80, 81, 82], "the temperature is of more than a minute ago"


def test_a_silent_sensor_raises_the_alarm_once() -> None:
    rehearsal = played({"health": HEALTH})
    says(rehearsal, "bob/ecg", pulse=80)
    rehearsal.wait(29.0)
    says(rehearsal, "bob/ecg", pulse=80)
    rehearsal.wait(29.0)
    assert made(rehearsal) == []
    rehearsal.wait(1.5)
    (alarm,) = made(rehearsal)
    assert {name: alarm[name] for name in ("person", "silent", "situation")} == {
        "person": "bob",
        "silent": "ecg",
        "situation": "unknown",
    }
    rehearsal.wait(300.0)
    assert len(made(rehearsal)) == 1
    says(rehearsal, "bob/ecg", pulse=80)
    rehearsal.wait(31.0)
    assert len(made(rehearsal)) == 2


def test_the_last_window_is_closed_by_the_clock_and_joins_its_inputs() -> None:
    rehearsal = played({"health": WINDOWED})
    for celsius in (37.0, 38.0):
        says(rehearsal, "bob/temperature", celsius=celsius)
    says(rehearsal, "bob/ecg", pulse=80)
    says(rehearsal, "eve/temperature", celsius=37.0)
    assert made(rehearsal) == []
    rehearsal.wait(11.0)
    assert [(one["person"], one["celsius"], one["n"]) for one in made(rehearsal)] == [("bob", 37.5, 3)]


def test_a_filter_needs_no_window_and_changes_nothing() -> None:
    rehearsal = played({"filter": FILTER})
    says(rehearsal, "bob/ecg", pulse=80, beats=[1, 2])
    says(rehearsal, "bob/ecg", pulse=120, beats=[1, 2], device={"id": 7})
    assert made(rehearsal, "fast") == [{"person": "bob", "pulse": 120, "beats": [1, 2], "device": {"id": 7}}]


def test_it_has_what_its_client_has_and_says_what_its_client_may() -> None:
    clients = {
        "wrist": {"node": "main"},
        "reader": {"node": "main"},
        "filter": {
            "node": "main",
            "where": {"#": "pulse < 200.0"},
            "advertises": [{"name": "a", "filter": "+/fast", "where": "pulse != 150.0"}],
        },
    }
    rehearsal = played({"filter": FILTER}, clients=clients)
    for pulse in (120.0, 250.0, 150.0, 130.0):
        says(rehearsal, "bob/ecg", pulse=pulse)
    assert [one["pulse"] for one in made(rehearsal, "fast")] == [120.0, 130.0]


def test_nobody_else_is_the_client_of_a_capsule_that_runs() -> None:
    rehearsal = played({"filter": FILTER})
    rehearsal.connect("filter")
    assert "which this node runs" in rehearsal.refusal("filter", "main")
    says(rehearsal, "bob/ecg", pulse=120)
    assert len(made(rehearsal, "fast")) == 1


@pytest.mark.parametrize("capsule", [HEALTH, WINDOWED], ids=["last values", "windows"])
def test_what_it_remembers_survives_a_restart(capsule: dict[str, Any]) -> None:
    rehearsal = played({"health": capsule}, {"main": Store(Path(IN_MEMORY), "full")})
    says(rehearsal, "bob/temperature", celsius=38.5)
    rehearsal.restart("main")
    says(rehearsal, "bob/ecg", pulse=150)
    rehearsal.restart("main")
    rehearsal.wait(11.0)
    assert [(one["person"], one["celsius"]) for one in made(rehearsal)] == [("bob", 38.5)]
    rehearsal.restart("main")
    rehearsal.wait(20.0)
    assert [one.get("silent") for one in made(rehearsal)] == [None, "ecg"]


def test_capsules_feed_each_other_in_one_turn() -> None:
    alarm = {
        "client": "alarm",
        "runs": "node",
        "input": {"topics": "+/fast"},
        "operations": [{"latest": {"by": {"person": 1}, "values": {"pulse": "pulse"}}}],
        "output": {"topic": "{person}/alarm", "payload": {"at": "pulse"}},
    }
    rehearsal = played({"filter": FILTER, "alarm": alarm})
    says(rehearsal, "bob/ecg", pulse=120)
    assert made(rehearsal, "alarm") == [{"at": 120}]
