"""For how long what is released may be kept counts from when it was published; what is over is not delivered."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.policy.contracts.release import RETAIN_UNTIL, read_retain
from tests.support.memory.node import START, Client, MemoryNode

TOPIC = "bob/location"
PLACE = b'{"lat":48.9}'
POLICY = """
policy: kept
combine: deny-unless-permit
rules: [{permit: {subject.purpose: health}, obligations: [{id: retain, set: {seconds: 100}}]}]
"""
KINDS = pytest.mark.parametrize("kind", ["contract", "xacml"])


def whole(kind: str, folder: Path, more: dict[str, Any] | None = None) -> Ensemble:
    """A doctor who may keep what bob says for 100 seconds; by other rules, as long as these say."""
    (folder / "policy.yaml").write_text(POLICY)
    rules = {"kept": {"purpose": "health", "retention": 100}, **(more or {})}
    bob = {"producer": "bob", "filter": TOPIC, **({"rules": rules} if kind == "contract" else {})}
    doctor = {"consumer": "doctor", "purpose": "health", "retention": 100, "wants": {}}
    private = {"name": "kept", "topics": TOPIC, "policies": str(folder / "policy.yaml")}
    domain = Domain.model_validate(
        {
            "nodes": {"test": {"listen": "127.0.0.1:0"}},
            "clients": {name: {"node": "test"} for name in ("bob", "doctor")},
            "contracts": {"producers": {"bob": bob}, "consumers": {"doctor": doctor}},
            **({"privacy": [private]} if kind == "xacml" else {}),
        }
    )
    return ensemble(domain)


def connect(joined: MemoryNode, clean_start: bool = True) -> Client:
    return joined.connect("doctor", session_expiry=100_000, clean_start=clean_start)


def untils(client: Client) -> list[float]:
    """When what has come is to be deleted, in seconds from the beginning."""
    return [
        round(read_retain(text) - START, 3)
        for one in client.messages()
        for name, text in one.properties.user_properties
        if name == RETAIN_UNTIL
    ]


@KINDS
def test_what_is_retained_has_the_same_date_for_everybody_and_is_not_given_after_it(kind: str, tmp_path: Path) -> None:
    joined = MemoryNode(whole=whole(kind, tmp_path))
    joined.connect("bob").publish(TOPIC, PLACE, 1, retain=True)
    doctor = connect(joined)
    for _ in range(3):
        doctor.subscribe(TOPIC, 1)
        assert untils(doctor) == [100]
        joined.wait(30)
    joined.wait(20)
    doctor.subscribe(TOPIC, 1)
    assert [one.payload for one in doctor.messages()] == []


@KINDS
@pytest.mark.parametrize(("seconds", "is_told"), [(99, True), (101, False)])
@pytest.mark.parametrize("is_away", [True, False])
def test_what_waits_past_its_date_does_not_go_out(
    kind: str, seconds: int, is_told: bool, is_away: bool, tmp_path: Path
) -> None:
    joined = MemoryNode(whole=whole(kind, tmp_path))
    doctor = connect(joined)
    doctor.subscribe(TOPIC, 1)
    doctor.take()
    if is_away:
        doctor.lose()
    joined.connect("bob").publish(TOPIC, PLACE, 1)
    if not is_away:
        doctor.lose()  # sent, and not acknowledged
    joined.wait(seconds)
    assert untils(connect(joined, clean_start=False)) == [100] * is_told


def test_another_rule_may_release_what_is_over(tmp_path: Path) -> None:
    coarse = {"coarse": {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}}
    joined = MemoryNode(whole=whole("contract", tmp_path, coarse))
    joined.connect("bob").publish(TOPIC, PLACE, 1, retain=True)
    joined.wait(101)
    doctor = connect(joined)
    doctor.subscribe(TOPIC, 1)
    assert [json.loads(one.payload) for one in doctor.messages()] == [{"lat": 45.0}]
