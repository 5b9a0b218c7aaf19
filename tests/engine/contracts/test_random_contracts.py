"""Random contracts: what nodes deliver is what a direct reading of them says, and what `explain` says."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.contracts.fit import FitLevel, match_all
from tests.support.generators.examples import some
from tests.support.models.abac import standing_in

CLIENTS = {"bob": "b1", "near": "b1", "far": "b2", "capsule": "b1"}
TOPIC = "bob/location"
PURPOSES = ("health", "ads")
SCOPES = st.sampled_from(("global", "local"))
QUALITY = 60


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    made = {}
    for number in range(draw(st.integers(0, 3))):
        rule: dict[str, Any] = {}
        if draw(st.booleans()):
            rule["purpose"] = draw(st.lists(st.sampled_from(PURPOSES), min_size=1, max_size=2, unique=True))
        if draw(st.booleans()):
            rule["visible_to"] = {"group": ["staff"]}
        rule["situation"] = draw(st.sampled_from(([], ["hazard"], [{"not": "hazard"}])))
        if draw(st.booleans()):
            rule["degrade"] = [{"step": {"attribute": "lat", "size": draw(st.sampled_from((5, 10)))}}]
        if draw(st.booleans()):
            rule["retention"] = 100
        made[f"r{number}"] = rule
    return made


@st.composite
def consumers(draw: st.DrawFn) -> dict[str, Any]:
    return {
        name: {
            "consumer": name,
            "purpose": draw(st.lists(st.sampled_from(PURPOSES), max_size=2, unique=True)),
            "situation": draw(st.sampled_from(([], ["hazard"]))),
            **({"retention": 50} if draw(st.booleans()) else {}),
            "attributes": {"group": draw(st.sampled_from(("staff", "guests")))},
            "wants": {
                "it": {
                    "filter": draw(st.sampled_from((TOPIC, "bob/+", "elsewhere"))),
                    "scope": draw(SCOPES),
                    **draw(st.sampled_from(NEEDS)),
                    **draw(st.sampled_from(WHERE)),
                }
            },
        }
        for name in ("near", "far")
        if draw(st.integers(0, 3))
    }


WHERE: list[dict[str, Any]] = [{}, {"where": "lat > 47.0"}, {"where": "lat < 47.0"}]
NEEDS: list[dict[str, Any]] = [{}, {"needs": ["location-quality >= 50"]}, {"needs": ["location-quality >= 90"]}]


def read_directly(rules: dict[str, Any], said: dict[str, Any] | None, scope: str, is_first: bool, is_open: bool) -> Any:
    """What a consumer gets, as the page says it; None: nothing."""
    is_about = said is not None and said["wants"]["it"]["filter"] != "elsewhere"
    lat = _released(rules, said if is_about else None, scope, is_first, is_open)
    where = said["wants"]["it"].get("where") if is_about and said is not None else None
    if lat is None or where is None:
        return lat
    return lat if (lat > 47) == (where == "lat > 47.0") else None


def _released(rules: dict[str, Any], said: dict[str, Any] | None, scope: str, is_first: bool, is_open: bool) -> Any:
    if said is None:
        return None if rules else 48.9
    want = said["wants"]["it"]
    bound = 0 if "needs" not in want else int(want["needs"][0][-2:])
    if not rules:
        return 48.9 if bound <= QUALITY else None
    if scope == "local" and want["scope"] == "local" and not is_first:
        return None
    for rule in rules.values():
        during = rule["situation"] == ["hazard"]
        outside = bool(rule["situation"]) and not during
        fits = (
            ("purpose" not in rule or (said["purpose"] and set(said["purpose"]) <= set(rule["purpose"])))
            and ("visible_to" not in rule or said["attributes"]["group"] == "staff")
            and ("retention" not in rule or said.get("retention", 1e9) <= rule["retention"])
            and (not during or (is_open and said["situation"]))
            and (not outside or (not is_open and not said["situation"]))
        )
        # the step has no span: what is left of the quality is not known
        if fits and (not bound if "degrade" in rule else bound <= QUALITY):
            size = rule["degrade"][0]["step"]["size"] if "degrade" in rule else 0
            return (48.9 // size + 0.5) * size if size else 48.9
    return None


@given(rules=rules(), consumers=consumers(), scope=SCOPES, is_open=st.booleans())
@settings(max_examples=some(60), deadline=None)
def test_what_is_delivered_is_what_contracts_say_and_what_is_explained(
    rules: dict[str, Any], consumers: dict[str, Any], scope: str, is_open: bool
) -> None:
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2")},
            "links": [{"between": ["b1", "b2"], "forward": "all"}],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "quality": {
                "indicators": {"location-quality": {"like": "precision"}},
                "collectors": [
                    {
                        "topics": TOPIC,
                        "collect": [{"indicator": "location-quality", "formula": "value", "value": str(QUALITY)}],
                    }
                ],
            },
            "contracts": {
                "producers": {"p": {"producer": "bob", "filter": "bob/#", "scope": scope, "rules": rules}},
                "consumers": consumers,
                "situations": {"hazard": {"sources": ["capsule"], "opens": "open", "lasts": "1h"}},
            },
        }
    )
    play = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        play.connect(client)
    for client in ("near", "far"):
        play.subscribe(client, TOPIC)
    if is_open:
        play.publish("capsule", "open", b"{}")
        play.run()
    payload = json.dumps({"lat": 48.9}).encode()
    told = explain(play.nodes, arrival(play.nodes["b1"], "bob", hypothetical(TOPIC, payload)), play.now)
    explained = {
        one.goes_by.target: json.loads(one.outputs[0].payload)["lat"]
        for one in told
        if one.goes_by is not None and one.goes_by.target in CLIENTS and one.outputs
    }
    play.publish("bob", TOPIC, payload)
    play.run()
    got = {name: json.loads(play.deliveries(name)[0].payload)["lat"] for name in CLIENTS if play.deliveries(name)}
    read = {name: read_directly(rules, consumers.get(name), scope, name == "near", is_open) for name in ("near", "far")}
    assert got == {name: lat for name, lat in read.items() if lat is not None}
    assert explained == got
    assert play.ensemble.contracts is not None
    pairs = list(match_all(play.ensemble.contracts))
    fits = {pair.client: standing_in(pair.fit.wants[0], {"hazard"} if is_open else ()) for pair in pairs}
    if rules:
        assert all(fits[name] > FitLevel.FAILS for name in got), "what never fits is never released"
    refused = [verdict for one in told for verdict in one.verdicts if verdict.stage == "release"]
    assert all(verdict.reason for verdict in refused)
