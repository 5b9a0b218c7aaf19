"""What `explain` says of contracts: which rule has released what, where, or why not; and nothing changes by it."""

import json
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.engine.contracts.test_paris import LOCATION, paris, paris_domain, say

METRIC = "`location-quality/location-quality/location-quality`"


def release(rehearsal: Rehearsal, who: str, topic: str, content: dict[str, Any]) -> dict[str, str]:
    """By receiver, what the stage release says."""
    asked = arrival(rehearsal.nodes["b1"], who, hypothetical(topic, json.dumps(content).encode()))
    return {
        one.goes_by.target: str(verdict)
        for one in explain(rehearsal.nodes, asked, rehearsal.now)
        for verdict in one.verdicts
        if verdict.stage == "release" and one.goes_by is not None
    }


ENABLED = "contract `bob-location`, rule `{}`: enabled by the producer's node"
CASES = [
    (
        "b2",
        False,
        f"release: replace: for `free-air`, who has subscribed locally beyond `b2`; quality {METRIC} 95 -> 78.9841",
    ),
    ("free-air", False, f"release: pass by bob-location.rule-1: {ENABLED.format('rule-1')}"),
    (
        "b3",
        False,
        "release: suppress: nobody beyond `b3` may have it: `city-emergency`: contract `bob-location`: rule `rule",
    ),
    ("b3", False, "`city-emergency`: contract `bob-location`: rule `rule-2`: the situation is not `life-hazard`"),
    ("b3", False, "`ads`: contract `bob-location`: rule `rule-1`: subject purpose is `advertising`"),
    ("curious", False, "it is private, and who would get it has no consumer's contract for this topic"),
    ("city-emergency", True, f"release: pass by bob-location.rule-2: {ENABLED.format('rule-2')}; open: `life-hazard`"),
    ("free-air", True, "the situation is `life-hazard`"),
]


@pytest.mark.parametrize(("receiver", "is_open", "said"), CASES)
def test_what_is_said_of_a_release(receiver: str, is_open: bool, said: str) -> None:
    rehearsal = paris()
    if is_open:
        say(rehearsal, "bob-health-capsule", "paris/bob/health", {"danger": True, "q": 90})
    assert said in release(rehearsal, "bob-phone", "paris/bob/location", LOCATION)[receiver]


def test_that_it_expires_before_it_may_go_out_is_said() -> None:
    said = paris_domain()
    rules = said["contracts"]["producers"]["bob-location"]["rules"]
    rules["rule-1"] = {**rules["rule-1"], "degrade": [*rules["rule-1"]["degrade"], {"delay": 10}]}
    domain = Domain.model_validate(said)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in ("bob-phone", "free-air"):
        rehearsal.connect(client)
    rehearsal.subscribe("free-air", "paris/#")
    for expiry, is_said in ((5, True), (15, False)):
        event = hypothetical("paris/bob/location", json.dumps(LOCATION).encode())
        asked = arrival(rehearsal.nodes["b1"], "bob-phone", event._replace(expires=rehearsal.now + expiry))
        verdicts = [one for each in explain(rehearsal.nodes, asked, rehearsal.now) for one in each.verdicts]
        assert any("expires before it may go out" in one.reason for one in verdicts) is is_said


def test_an_event_that_would_open_a_situation_opens_none() -> None:
    rehearsal = paris()
    release(rehearsal, "bob-health-capsule", "paris/bob/health", {"danger": True, "q": 90})
    assert not any(node.contracts.open for node in rehearsal.nodes.values() if node.contracts is not None)


def test_what_breaks_its_producers_guarantee_is_said() -> None:
    rehearsal = paris()
    asked = arrival(rehearsal.nodes["b1"], "paris-sensors", hypothetical("paris/pollution/45", b'{"pm": 1, "q": 12}'))
    (one,) = explain(rehearsal.nodes, asked, rehearsal.now)
    assert "not as its producer guarantees: its quality" in str(one.verdicts[-1])
