"""Policies in XACML at nodes: the contracts paper's Listing 2 as it stands, obligations, and what cannot be decided."""

import json
from pathlib import Path
from typing import Any

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal

LISTING_2 = Path(__file__).parents[2] / "cases" / "xacml" / "listing-2.xml"
EXAMPLE = "urn:oasis:names:tc:xacml:3.0:example:attribute:"
LOCATION = {"lat": 48.864716, "lon": 2.275432}


def play(policy: Path, **more: Any) -> Rehearsal:
    """Bob's phone at the first node, and at the second who would like to know where it is."""
    domain = Domain.model_validate(
        {
            "nodes": {"b1": {"listen": "127.0.0.1:0"}, "b2": {"listen": "127.0.0.1:0"}},
            "links": [{"between": ["b1", "b2"]}],
            "clients": {
                "phone": {"node": "b1"},
                "doctor": {"node": "b2", "groups": "INCOME"},
                "shop": {"node": "b2", "groups": "INCOME"},
                "stranger": {"node": "b2"},
            },
            "contracts": {
                "consumers": {
                    "doctor": {"consumer": "doctor", "purpose": "health", "wants": {}},
                    "shop": {"consumer": "shop", "purpose": "advertising", "wants": {}},
                }
            },
            "privacy": [{"name": "location", "topics": "bob/location", "policies": str(policy), **more}],
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in ("phone", "doctor", "shop", "stranger"):
        rehearsal.connect(client)
        if client != "phone":
            rehearsal.subscribe(client, "#")
    return rehearsal


def got(rehearsal: Rehearsal, topic: str = "bob/location") -> dict[str, Any]:
    rehearsal.publish("phone", topic, json.dumps(LOCATION).encode())
    rehearsal.run()
    names = ("doctor", "shop", "stranger")
    return {name: json.loads(one.payload) for name in names for one in rehearsal.deliveries(name) if one.topic == topic}


def test_listing_2_lets_people_of_income_have_the_location_for_health() -> None:
    names = {"subject.group": f"{EXAMPLE}group", "subject.purpose": f"{EXAMPLE}purpose"}
    rehearsal = play(LISTING_2, resource={"id": "location"}, attributes=names)
    assert got(rehearsal) == {"doctor": LOCATION}
    assert set(got(rehearsal, "bob/mood")) == {"doctor", "shop", "stranger"}


def test_an_obligation_is_done_before_anything_is_released(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "policy: grid\n"
        "combine: deny-unless-permit\n"
        "rules:\n"
        "  - permit: {subject.purpose: health}\n"
        "    obligations: [{id: grid, set: {metres: 500}}]\n"
    )
    found = got(play(policy))
    assert set(found) == {"doctor"}
    assert found["doctor"] != LOCATION


def test_an_obligation_that_is_not_known_releases_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: p\nrules:\n  - permit: {}\n    obligations: [{id: sing, set: {what: a song}}]\n")
    assert got(play(policy)) == {}


def test_what_cannot_be_decided_releases_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: p\nrules:\n  - permit: {}\n    when: subject.age > 3\n")
    assert got(play(policy)) == {}


def test_who_has_published_is_known_at_every_node_also_when_it_has_waited(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: p\ncombine: deny-unless-permit\nrules:\n  - permit: {resource.producer: phone}\n")
    rehearsal = play(policy)
    assert set(got(rehearsal)) == {"doctor", "shop", "stranger"}
    before = len(rehearsal.deliveries("doctor"))
    rehearsal.publish("shop", "bob/location", b"{}")
    rehearsal.run()
    assert len(rehearsal.deliveries("doctor")) == before, "another one has published it"
