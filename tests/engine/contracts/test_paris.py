"""Section 3 of the contracts paper on rehearsed nodes: who gets what before, during and after a life hazard."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.recorder import Recorder
from penstock.engine.rehearsal.rehearsal import Rehearsal

PARIS = yaml.safe_load((Path(__file__).parents[2] / "cases" / "contracts" / "paris.yaml").read_text())
CLIENTS = {
    "paris-sensors": "b1",
    "bob-phone": "b1",
    "bob-wrist": "b1",
    "bob-health-capsule": "b1",
    "free-air": "b2",
    "city-emergency": "b3",
    "ads": "b3",
    "nobody": "b2",
    "curious": "b1",
}
LOCATION = {"lat": 48.864716, "lon": 2.275432, "q": 95}


def paris_domain(scope: str = "global", want: str = "global", mode: str = "subscribed") -> dict[str, Any]:
    """Three nodes in a line; the sensors and Bob at the first."""
    told = deepcopy(PARIS)  # who asks may change it
    producers: dict[str, Any] = {name: {**said, "scope": scope} for name, said in told["producers"].items()}
    consumers: dict[str, Any] = {
        name: {**said, "wants": {key: {**one, "scope": want} for key, one in said["wants"].items()}}
        for name, said in told["consumers"].items()
    }
    metric = {"formula": "value", "value": "q"}
    return {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2", "b3")},
        "links": [{"between": ["b1", "b2"], "forward": mode}, {"between": ["b2", "b3"], "forward": mode}],
        "clients": {name: {"node": node} for name, node in CLIENTS.items()},
        "quality": {
            "indicators": told["indicators"],
            "collectors": [
                {"topics": "paris/#", "collect": [{"indicator": "location-quality", **metric}]},
                {"topics": "paris/pollution/#", "collect": [{"indicator": "precision", **metric}]},
                {"topics": "paris/bob/vitals", "collect": [{"indicator": "precision", **metric}]},
            ],
        },
        "contracts": {"producers": producers, "consumers": consumers, "situations": told["situations"]},
    }


def paris(scope: str = "global", want: str = "global", mode: str = "subscribed") -> Rehearsal:
    """The same, rehearsed, with all clients connected."""
    domain = Domain.model_validate(paris_domain(scope, want, mode))
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        rehearsal.connect(client)
        if client not in ("paris-sensors", "bob-phone", "bob-wrist", "bob-health-capsule"):
            rehearsal.subscribe(client, "paris/#")
    return rehearsal


def say(rehearsal: Rehearsal, who: str, topic: str, content: dict[str, Any]) -> dict[str, Any]:
    """Publish; who gets what of it."""
    before = {name: len(rehearsal.deliveries(name)) for name in CLIENTS}
    rehearsal.publish(who, topic, json.dumps(content).encode())
    rehearsal.run()
    return {
        name: json.loads(rehearsal.deliveries(name)[-1].payload)
        for name in CLIENTS
        if len(rehearsal.deliveries(name)) > before[name]
    }


@pytest.mark.parametrize("scope", ["global", "local"])
def test_a_life_hazard_opens_the_precise_location_to_the_emergency_service_only(scope: str) -> None:
    rehearsal = paris(scope)
    got = say(rehearsal, "bob-phone", "paris/bob/location", LOCATION)
    assert set(got) == {"free-air"}
    assert got["free-air"]["lat"] == pytest.approx(48.865882, abs=1e-6)
    assert say(rehearsal, "bob-wrist", "paris/bob/vitals", {"pulse": 71, "q": 90}) == {}
    say(rehearsal, "bob-health-capsule", "paris/bob/health", {"danger": True, "q": 90})
    assert say(rehearsal, "bob-phone", "paris/bob/location", LOCATION) == {"city-emergency": LOCATION}
    assert set(say(rehearsal, "bob-wrist", "paris/bob/vitals", {"pulse": 171, "q": 90})) == {"city-emergency"}
    say(rehearsal, "bob-health-capsule", "paris/bob/health", {"danger": False, "q": 90})
    assert set(say(rehearsal, "bob-phone", "paris/bob/location", LOCATION)) == {"free-air"}


def test_what_is_not_private_is_for_all_and_what_is_bad_for_nobody() -> None:
    rehearsal = paris()
    got = say(rehearsal, "paris-sensors", "paris/pollution/45", {"pm": 12, "q": 91})
    assert set(got) == set(CLIENTS) - {"paris-sensors", "bob-phone", "bob-wrist", "bob-health-capsule"}
    assert say(rehearsal, "paris-sensors", "paris/pollution/45", {"pm": 12, "q": 12}) == {}


def test_nobody_else_opens_a_situation() -> None:
    rehearsal = paris()
    say(rehearsal, "curious", "paris/bob/health", {"danger": True})
    assert set(say(rehearsal, "bob-phone", "paris/bob/location", LOCATION)) == {"free-air"}
    assert any("may not say" in one.reason for one in rehearsal.notices if one.kind == "situation")


def test_the_journal_names_those_who_were_sent_it_and_nobody_else() -> None:
    rehearsal = paris()
    for node in rehearsal.nodes.values():
        node.recorder = Recorder()
    got = say(rehearsal, "bob-phone", "paris/bob/location", LOCATION)
    seen = say(rehearsal, "paris-sensors", "paris/pollution/45", {"pm": 12, "q": 91})
    for name, node in rehearsal.nodes.items():
        assert node.recorder is not None
        rows = node.recorder.take()
        here = {client for client, at in CLIENTS.items() if at == name}
        sent: dict[bytes, set[str]] = {}
        for row, packet in enumerate(rows.packets):
            topic = b"location" if b"/bob/location" in packet else b"pollution"
            reached = {one.entity for one in rows.notes[row].reached} - {one.entity for one in rows.missed.get(row, ())}
            sent.setdefault(topic, set()).update(reached, (one.entity for one in rows.chosen.get(row, ())))
        assert sent.get(b"location", set()) & here == set(got) & here
        assert (b"location" in sent) is (name != "b3"), "nobody may have it there"
        assert sent[b"pollution"] & here == set(seen) & here, "pollution is for all"
