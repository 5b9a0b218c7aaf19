"""Subscriptions with a condition, and rules that give means: it is asked of the mean, never of what that is made of."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.engine.contracts.test_delayed import MEAN, TOPIC, whole
from tests.support.memory.node import Client, MemoryNode

COARSE = {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}


def said(joined: MemoryNode, bob: Client, *values: float) -> None:
    """A whole time, in which these come."""
    joined.wait(60 - joined.now % 60)
    for value in values:
        bob.publish(TOPIC, json.dumps({"lat": value, "name": "bob"}).encode(), 1)
    joined.wait(60)


@pytest.mark.parametrize(
    ("title", "where", "values", "mean"),
    [
        ("it holds of the mean", "lat > 11.0", (10, 20), 15.0),
        ("and of none of the events", "lat > 14.0 && lat < 16.0", (10, 20), 15.0),
        ("of all events and not of the mean", "lat != 15.0", (10, 20), None),
        ("of some events only", "lat > 16.0", (10, 20, 30), 20.0),
        ("it fails of the mean", "name == 'bob'", (10, 20), None),
        ("the mean has not what events have", "!has(name)", (10, 20), 15.0),
    ],
)
@pytest.mark.parametrize("version", [5, 4])
def test_a_condition_is_asked_of_the_mean(
    title: str, where: str, values: tuple[float, ...], mean: float | None, version: int
) -> None:
    """By the client's own word, or by the domain's for a client that cannot say it."""
    clients = {name: {"node": "test"} for name in ("bob", "capsule")}
    asked = (("where", where),) if version == 5 else ()
    doctor = {"node": "test"} | ({} if version == 5 else {"where": {"bob/#": where}})
    joined = MemoryNode(whole=whole({"mean": MEAN}, clients={**clients, "doctor": doctor}))
    got = joined.connect("doctor", version=version).subscribe("bob/#", 1, user_properties=asked)
    said(joined, joined.connect("bob"), *values)
    assert [json.loads(one.payload)["lat"] for one in got.messages()] == ([] if mean is None else [mean]), title


def test_each_mean_is_asked_of_for_itself_and_for_each_subscription() -> None:
    joined = MemoryNode(whole=whole({"mean": MEAN}))
    doctor, bob = joined.connect("doctor"), joined.connect("bob")
    doctor.subscribe("bob/#", 1, 1, user_properties=(("where", "lat > 10.0"),))
    doctor.subscribe("bob/+", 0, 2, user_properties=(("where", "lat > 20.0"),))
    doctor.subscribe(TOPIC, 0, 3, user_properties=(("where", "lat < 0.0"),))
    said(joined, bob, 11, 13)
    said(joined, bob, 1, 3)
    said(joined, bob, 21, 23)
    got = [(json.loads(one.payload)["lat"], one.qos, one.properties.subscription_ids) for one in doctor.messages()]
    assert got == [(12.0, 1, (1,)), (22.0, 1, (1, 2))]


def test_a_want_and_a_subscription_both_ask_of_the_mean() -> None:
    joined = MemoryNode(whole=whole({"mean": MEAN}, want={"where": "lat < 20.0"}))
    doctor, bob = joined.connect("doctor"), joined.connect("bob")
    doctor.subscribe("bob/#", 1, user_properties=(("where", "lat > 10.0"),))
    for values in ((10, 20), (20, 30), (0, 5)):
        said(joined, bob, *values)
    assert [json.loads(one.payload)["lat"] for one in doctor.messages()] == [15.0]


def test_who_gets_means_is_not_chosen_for_an_event_of_a_shared_subscription() -> None:
    """It would get nothing of it, and another member may have it."""
    consumers = {
        name: {"consumer": name, "purpose": name, "wants": {"all": {"filter": "bob/#"}}} for name in ("means", "events")
    }
    rules = {"mean": {**MEAN, "purpose": "means"}, "all": {"purpose": "events"}}
    producers = {"bob": {"producer": "bob", "filter": "bob/#", "rules": rules}}
    domain = {
        "nodes": {"test": {"listen": "127.0.0.1:0"}},
        "clients": {name: {"node": "test"} for name in ("bob", "means", "events")},
        "contracts": {"producers": producers, "consumers": consumers},
    }
    joined = MemoryNode(whole=ensemble(Domain.model_validate(domain)))
    asked = {"means": (("where", "lat > 1.0"),), "events": ()}
    for where in asked.values():
        got = {name: joined.connect(name) for name in consumers}
        for name, client in got.items():
            client.subscribe("$share/group/bob/#", 1, user_properties=where if name == "means" else ())
        said(joined, joined.connect("bob"), 10, 20, 30)
        assert {name: len(client.messages()) for name, client in got.items()} == {"means": 0, "events": 3}


def verdicts(rules: dict[str, Any], where: str, filter: str = "bob/#") -> list[str]:
    """What is said of an event of bob's towards the doctor, who subscribes so."""
    consumer = {"consumer": "doctor", "purpose": "health", "wants": {}}
    domain = Domain.model_validate(
        {
            "nodes": {"test": {"listen": "127.0.0.1:0"}},
            "clients": {name: {"node": "test"} for name in ("bob", "doctor")},
            "contracts": {
                "producers": {"bob": {"producer": "bob", "filter": "bob/#", "rules": rules}},
                "consumers": {"doctor": consumer},
            },
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in ("bob", "doctor"):
        rehearsal.connect(client)
    rehearsal.subscribe("doctor", filter, no_local=False, where=where)
    asked = arrival(rehearsal.nodes["test"], "bob", hypothetical(TOPIC, b'{"lat": 48.9}'))
    return [
        str(verdict)
        for one in explain(rehearsal.nodes, asked, rehearsal.now)
        for verdict in one.verdicts
        if one.goes_by is not None and one.goes_by.target == "doctor"
    ]


@pytest.mark.parametrize(
    ("title", "rule", "where", "told"),
    [
        ("of a mean", MEAN, "lat > 50.0", "`lat > 50.0` is asked of the mean"),
        ("and into which it goes", MEAN, "lat > 50.0", "it goes into a mean over 60 s"),
        ("it holds", COARSE, "lat < 48.0", "match: pass by bob/#: `lat < 48.0` holds"),
        (
            "it is false of what is shown",
            COARSE,
            "lat > 48.0",
            "to `bob/#`: of what it is shown, `lat > 48.0` is false",
        ),
        ("nothing is shown", {"purpose": "law"}, "lat > 48.0", "to `bob/#`: it is shown nothing of it: contract `bob`"),
    ],
)
def test_explanations_say_of_what_a_condition_is_asked(title: str, rule: dict[str, Any], where: str, told: str) -> None:
    found = verdicts({"rule": rule}, where)
    assert any(told in one for one in found), (title, found)


def test_explanations_say_that_who_shares_a_subscription_gets_no_means() -> None:
    found = verdicts({"mean": MEAN}, "lat > 1.0", "$share/group/bob/#")
    assert any("who shares a subscription gets no means" in one for one in found), found


PUBLISHERS = ("p0", "p1", "p2", "reader", "guest-1", "guest-2")
MEANS = """
policy: means
combine: deny-unless-permit
rules:
  - permit: {{subject.purpose: health}}
    obligations: [{{id: aggregate, set: {{seconds: 60, attribute: x, least: {least}, events: {events}}}}}]
"""


@pytest.mark.parametrize("seed", range(60))
def test_a_mean_is_of_several_publishers_who_do_not_get_it(seed: int, tmp_path: Path) -> None:
    """The oracle counts by hand: who is listed counts alone, all others together, and who reads not at all."""
    draw = random.Random(seed)
    least, events = draw.randint(1, 3), draw.randint(1, 4)
    (tmp_path / "means.yaml").write_text(MEANS.format(least=least, events=events))
    reader = draw.choice(("reader", "p1", "guest-1"))
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("a", "b")},
            "links": [{"between": ["a", "b"], "type": "open"}],
            "clients": {name: {"node": ["a", "b"]} for name in PUBLISHERS[:4]},
            "brokering": {"types": ["open"], "default": "open"},
            "contracts": {"bring": "*"},
            "privacy": [{"name": "means", "topics": "all", "policies": str(tmp_path / "means.yaml")}],
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    for number, name in enumerate(PUBLISHERS):
        rehearsal.connect(name, "b" if name == reader else "ab"[number % 2], user="me" if name == "guest-2" else None)
    rehearsal.bring(reader, "health", {"consumes": {"purpose": "health", "wants": {"all": {"filter": "all"}}}})
    rehearsal.subscribe(reader, "all", no_local=False)
    rehearsal.run()
    means = list[float]()
    for _ in range(4):
        rehearsal.wait(60 - rehearsal.now % 60)
        said = [(draw.choice(PUBLISHERS), draw.randrange(100)) for _ in range(draw.randrange(6))]
        for name, x in said:
            rehearsal.publish(name, "all", b'{"x": %d}' % x, draw.randrange(2))
            rehearsal.run()
        names = {"guest" if name.startswith("guest") else name for name, _ in said}
        others = names - {"guest" if reader == "guest-1" else reader}
        if said and len(others) >= least and len(said) >= events:
            means.append(sum(x for _, x in said) / len(said))
        rehearsal.wait(60 - rehearsal.now % 60)
    got = [json.loads(delivered.payload)["x"] for delivered in rehearsal.deliveries(reader)]
    assert got == pytest.approx(means)
