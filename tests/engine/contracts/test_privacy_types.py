"""Numbers and booleans of clients' attributes in policies: cases on nodes, and what `check` says of other types."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.checks import contracts as checks
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.schema.contracts import compiled
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.errors import PolicyError
from tests.support.cases.privacy_types import CASES, CLIENTS, expected, film_club, got, story

KEYS = ("attributes", "rules")


def domain_of(case: dict[str, Any], folder: Path) -> Domain:
    policy = folder / "policy.yaml"
    policy.write_text(json.dumps({"policy": "p", **{key: case[key] for key in KEYS if key in case}}))
    return Domain.model_validate(
        {
            "nodes": {"a": {"listen": "127.0.0.1:0"}},
            "clients": {"kid": {"node": "a", "attributes": {"age": case.get("age", 9)}}},
            "privacy": [{"name": "films", "topics": "film/#", "policies": str(policy)}],
        }
    )


def test_who_gets_what(tmp_path: Path) -> None:
    domain = film_club(tmp_path)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in ("cinema", *CLIENTS):
        rehearsal.connect(client)
        rehearsal.subscribe(client, "#")
    for who, topic, content in story():
        rehearsal.publish(who, topic, json.dumps(content).encode())
    rehearsal.run()
    assert got({name: [one.topic for one in rehearsal.deliveries(name)] for name in CLIENTS}) == expected()
    assert not list(checks.check(domain))


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["title"])
def test_other_types_are_refused(case: dict[str, Any], tmp_path: Path) -> None:
    domain = domain_of(case, tmp_path)
    (said,) = checks.check(domain)
    assert case["says"] in str(said)
    with pytest.raises(PolicyError, match="policy `p` asks for"):
        compiled(domain)


@pytest.mark.parametrize("case", CASES["warned"], ids=lambda case: case["title"])
def test_other_types_are_warned_of(case: dict[str, Any], tmp_path: Path) -> None:
    domain = domain_of(case, tmp_path)
    assert not list(checks.check(domain))
    said = [str(one) for one in checks.warnings(domain)]
    assert [case["says"] in one for one in said] == ([True] if "says" in case else [])
