"""Redaction for callers that may read everything but payloads: no answer reveals a payload."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.broker.http.redaction import WITHHELD, redact_verdict
from penstock.model.verdict import Effect, Verdict
from tests.broker.http.test_api import ask, log_in
from tests.support.clients.paho import Paho
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

ZONE = "SecretPlace/" + "x" * 200
LEAKS: list[tuple[str, str, object, str]] = [
    ("a quality that is measured of it", "heart", {"heart": 177}, "177"),
    ("a quality of what passes", "heart", {"heart": 77}, "77"),
    ("a value with a backtick", "int", {"code": "pw`hunter2"}, "hunter2"),
    ("a value cut short", "zone", {"zone": ZONE}, "SecretPlace"),
    ("a short value in a longer text", "cat", {"code": "42"}, "42x"),
    ("a state that a monitor keeps", "seen", {"code": "remembered"}, "remembered"),
]
DOMAIN: dict[str, Any] = {
    "clients": {
        "pat": {
            "node": "main",
            "advertises": [
                {"name": "a", "filter": "int", "where": "int(code) > 3"},
                {"name": "b", "filter": "cat", "where": "int(code + 'x') > 3"},
                {"name": "c", "filter": "zone", "where": "timestamp('2026-01-01T00:00:00Z').getHours(zone) > 30"},
                {"name": "d", "filter": "heart"},
                {"name": "e", "filter": "seen"},
            ],
        },
        "doc": {"node": "main"},
        "spy": {"node": "main", "type": "outside"},
    },
    "quality": {
        "indicators": {
            "hr": {
                "criterion": "hr",
                "definitions": {"hr": {"unit": "bpm", "range": [0, 300], "better": "lower", "resolution": 1}},
            }
        },
        "collectors": [
            {"topics": "heart", "collect": [{"indicator": "hr", "formula": "value", "value": "double(heart)"}]}
        ],
    },
    "contracts": {"producers": {"p": {"producer": "pat", "filter": "heart", "guarantees": ["hr <= 100"]}}},
    "monitors": {"m": {"link": "pat -> main", "python": "keeps:Keeps"}},
    "brokering": {
        "types": ["default", "outside"],
        "default": "default",
        "deny": [{"from": "default", "to": "outside"}],
    },
    "admin": {"passwords": "people", "users": {"eve": "read", "cai": "content"}},
}
KEEPS = '''
class Keeps:
    """Its state is the payload that it saw last."""

    def start(self):
        return ""

    def step(self, state, event, now):
        return event.payload.decode(), (event,)
'''


@pytest.fixture(scope="module")
def live() -> Iterator[LiveNode]:
    files = {"people": passwords(eve="reads", cai="sees"), "keeps.py": KEEPS}
    with running({"admin": ANY_PORT}, files, **DOMAIN) as node:
        yield node


@pytest.mark.parametrize(("topic", "payload", "quoted"), [case[1:] for case in LEAKS], ids=[case[0] for case in LEAKS])
def test_no_reason_tells_of_a_payload(live: LiveNode, topic: str, payload: object, quoted: str) -> None:
    eve, cai = log_in(live, "eve", "reads"), log_in(live, "cai", "sees")
    since = ask(live, "GET", "/api/decisions")[1]["next"]
    with Paho("doc").connects(live.port) as doc, Paho("pat").connects(live.port) as pat:
        doc.subscribe("#", 1)
        pat.publish(topic, json.dumps(payload).encode(), 1)
    path = f"/api/decisions?since={since}&topic={topic}"
    rows = ask(live, "GET", path, cai)[1]["rows"]
    details = [ask(live, "GET", f"/api/decision?id={row['id']}", cai)[1] for row in rows]
    assert quoted in json.dumps([detail["decision"]["verdicts"] for detail in details]), "else there is nothing to hide"
    shown = [ask(live, "GET", path, eve)[1]["rows"]]
    shown += [ask(live, "GET", f"/api/decision?id={row['id']}", eve)[1] for row in rows]
    assert all(row["bytes"] is None for row in shown[0]), "of few values, the length is one"
    for answer in shown:
        assert quoted not in json.dumps(
            [_without_numbers(item) for item in (answer if isinstance(answer, list) else [answer])]
        )


@pytest.mark.parametrize("shared", ["", "$share/g/"])
def test_who_may_not_have_an_event_finds_nothing_out_by_a_condition(live: LiveNode, shared: str) -> None:
    eve, cai = log_in(live, "eve", "reads"), log_in(live, "cai", "sees")
    by_caller = dict[str, set[tuple[str, ...]]]()
    for code, caller in ((3, eve), (4, eve), (3, cai), (4, cai)):
        since = ask(live, "GET", "/api/decisions")[1]["next"]
        with Paho("spy").connects(live.port) as spy, Paho("pat").connects(live.port) as pat:
            spy.subscribe(f"{shared}seen", 1, said={"where": "code == 4"})
            pat.publish("seen", json.dumps({"code": code}).encode(), 1)
        for stage in ("", "match", "route"):
            rows = ask(live, "GET", f"/api/decisions?since={since}&subject=spy&topic=seen&stage={stage}", caller)[1][
                "rows"
            ]
            shown = [ask(live, "GET", f"/api/decision?id={row['id']}", caller)[1] for row in rows]
            verdicts = {tuple(row[name] for name in ("effect", "stage", "rule", "reason")) for row in rows}
            verdicts |= {tuple(map(str, detail["decision"]["verdicts"])) for detail in shown}
            by_caller[f"{caller == eve} {code} {stage}"] = verdicts
    for stage in ("", "match", "route"):
        assert by_caller[f"True 3 {stage}"] == by_caller[f"True 4 {stage}"], stage
        assert by_caller[f"False 3 {stage}"] != by_caller[f"False 4 {stage}"], "else there is nothing to hide"
    assert by_caller["True 3 "]


def _without_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    """Without times and counts, in which any digits may stand."""
    return {name: value for name, value in answer.items() if name not in ("row", "id", "at", "bytes")}


def test_an_explanation_tells_who_asks_of_its_own_payload_only(live: LiveNode) -> None:
    eve = log_in(live, "eve", "reads")
    with Paho("pat").connects(live.port) as pat:
        pat.publish("seen", b"of another", 1)
        status, answer = ask(live, "POST", "/api/explain?from=pat&topic=seen", eve, {"code": 1})
    assert status == 200
    assert "of another" not in json.dumps(answer)
    own = ask(live, "POST", "/api/explain?from=pat&topic=int", eve, {"code": "mine"})[1]
    assert "mine" in own["decisions"][0]["verdicts"][-1]["reason"]


@pytest.mark.parametrize(
    ("verdict", "is_told"),
    [
        (Verdict("route", Effect.SUPPRESS, "brokering", "x"), True),
        (Verdict("admit", Effect.SUPPRESS, "acl", "x"), True),
        (Verdict("match", Effect.SUPPRESS, "no local", "x"), True),
        (Verdict("admit", Effect.PASS, "feedback", "x"), False),
        (Verdict("match", Effect.PASS, "acl", "x"), False),
        (Verdict("emit", Effect.SUPPRESS, "once", "x"), False),
        (Verdict("a stage to come", Effect.PASS, "", "x"), False),
    ],
    ids=str,
)
def test_reasons_that_look_at_no_content_are_told(verdict: Verdict, is_told: bool) -> None:
    assert redact_verdict(verdict).reason == ("x" if is_told else WITHHELD)
    assert redact_verdict(verdict)[:3] == verdict[:3]
