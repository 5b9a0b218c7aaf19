"""A new domain while nodes run: policies, rights to set them and overlays hold from then on, of what waits too."""

import json
from itertools import pairwise
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine import governing
from penstock.engine.federation import overlay
from penstock.engine.rehearsal.rehearsal import Rehearsal

ON_PUBLICATIONS = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
TRIM = ON_PUBLICATIONS.format("If {} Then {RemoveAttributes(secret)}")
BLOCK = ON_PUBLICATIONS.format("If {} Then {BlockMessage()}")
ASKS = ON_PUBLICATIONS.format("If {secret == 2} Then {RemoveAttributes(secret)}")
FIREWALL = "PolicyStatement { On(Insert, Subscription) { If {} Then {UninsertMessage()} } }"
GRANT = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*", "others": "#"}
MESSAGE = {"a": 1, "secret": 2}


def domain(count: int = 1, overlays: tuple[str, ...] = (), **statements: Any) -> Domain:
    names = [f"n{number}" for number in range(count)]
    made = {name: {"listen": "127.0.0.1:0"} for name in names}
    for name, one in zip(names, overlays, strict=False):
        made[name]["overlay"] = one
    clients = {name: {"node": names} for name in ("p", "s", "other")}
    links = [{"between": pair} for pair in pairwise(names)]
    said = {"grants": [GRANT], **statements}
    return Domain.model_validate({"nodes": made, "links": links, "clients": clients, "statements": said})


def given(policy: str, to: str = "subscription", of: str = "s") -> dict[str, Any]:
    return {"policies": {"one": policy}, "apply": [{"policy": "one", "to": to, "of": of}]}


class Reloading(Rehearsal):
    """Nodes that take a new domain as a server does."""

    def reload(self, new: Domain) -> None:
        self.ensemble = ensemble(new)
        for name, node in self.nodes.items():
            governing.govern(node, new.nodes[name].limits, None, None, self.ensemble, self.now)
            overlay.prepare(node)
        self.wait(1)

    def says(self, topic: str = "t", **more: Any) -> None:
        self.publish("p", topic, json.dumps(MESSAGE).encode(), qos=1, **more)
        self.run()

    def got(self, who: str) -> list[Any]:
        return [json.loads(one.payload) for one in self.deliveries(who)]

    def told(self, kind: str) -> list[str]:
        return [one.reason for one in self.notices if one.kind == kind]


def play(start: Domain, p: str = "n0", s: str = "n0") -> Reloading:
    rehearsal = Reloading(start, ensemble(start))
    rehearsal.connect("p", p)
    rehearsal.connect("s", s)
    return rehearsal


LIVE = {
    "a policy for the reader": ({}, given(TRIM), [MESSAGE, {"a": 1}]),
    "another policy for the reader": (given(TRIM), given(BLOCK), [{"a": 1}]),
    "a policy for the reader that is gone": (given(TRIM), {}, [{"a": 1}, MESSAGE]),
    "a policy for the publisher": ({}, given(TRIM, "publication", "p"), [MESSAGE, {"a": 1}]),
    "a policy for what the publisher advertises": ({}, given(BLOCK, "advertisement", "p"), [MESSAGE]),
    "a policy for the publisher that is gone": (given(BLOCK, "publication", "p"), {}, [MESSAGE]),
    "a policy for another": ({}, given(BLOCK, "publication", "other"), [MESSAGE, MESSAGE]),
}


@pytest.mark.parametrize("title", LIVE)
@pytest.mark.parametrize("at", ["n0", "n1"], ids=["at the publisher's node", "at the next node"])
def test_other_policies_hold_at_once(title: str, at: str) -> None:
    before, after, expected = LIVE[title]
    rehearsal = play(domain(2, **before), s=at)
    rehearsal.subscribe("s", "t")
    rehearsal.says()
    rehearsal.reload(domain(2, **after))
    rehearsal.says()
    assert rehearsal.got("s") == expected


WAITING = {
    "nothing else": ({}, {}, [MESSAGE]),
    "the same, which asks for what it has taken out": (given(ASKS), given(ASKS), [{"a": 1}]),
    "a policy for the reader": ({}, given(TRIM), [{"a": 1}]),
    "a policy that blocks": ({}, given(BLOCK), []),
    "a policy for the publisher": ({}, given(BLOCK, "publication", "p"), []),
    "a policy that comes before matching": (
        {},
        given(ON_PUBLICATIONS.format("@matching: Before If {} Then {BlockMessage()}"), "publication", "p"),
        [],
    ),
    "a policy that is attached": (
        {},
        given(ON_PUBLICATIONS.format("@attach: Always If {} Then {BlockMessage()}"), "advertisement", "p"),
        [],
    ),
    "a policy for content that there is not": (
        {},
        {"policies": {"one": BLOCK}, "apply": [{"policy": "one", "to": "publication", "of": "p", "where": "a == 9"}]},
        [MESSAGE],
    ),
    "a policy that is gone": (given(TRIM), {}, [{"a": 1}]),
}


@pytest.mark.parametrize("title", WAITING)
def test_what_waits_is_judged_again(title: str) -> None:
    before, after, expected = WAITING[title]
    rehearsal = play(domain(**before))
    rehearsal.subscribe("s", "t")
    rehearsal.disconnect("s")
    rehearsal.says()
    rehearsal.reload(domain(**after))
    rehearsal.connect("s", "n0")
    assert rehearsal.got("s") == expected


RETAINED = {
    **WAITING,
    "a policy that is gone": (given(TRIM), {}, [MESSAGE]),
    "a policy for the publisher that is gone": (given(BLOCK, "publication", "p"), {}, []),
}


@pytest.mark.parametrize("title", RETAINED)
def test_what_is_retained_is_judged_as_policies_are_now(title: str) -> None:
    before, after, expected = RETAINED[title]
    rehearsal = play(domain(**before))
    rehearsal.says(retain=True)
    rehearsal.reload(domain(**after))
    rehearsal.subscribe("s", "t")
    assert rehearsal.got("s") == expected


# --- what clients have set


def test_a_policy_that_is_granted_no_longer_is_dropped_and_the_operator_is_told() -> None:
    rehearsal = play(domain())
    rehearsal.subscribe("s", "t", policy=TRIM)
    rehearsal.advertise("p", "all", "t", policy=ON_PUBLICATIONS.format("If {} Then {AppendPrevHop()}"))
    rehearsal.says()
    rehearsal.reload(domain(grants=[{**GRANT, "elements": "AppendPrevHop"}]))
    rehearsal.says()
    rehearsal.reload(domain(grants=[]))
    rehearsal.says()
    assert rehearsal.got("s") == [{"a": 1, "PrevHop": "p"}, {**MESSAGE, "PrevHop": "p"}, MESSAGE]
    assert rehearsal.told("policy dropped") == [
        "a subscription's policy is dropped: `s` may not use `RemoveAttributes`",
        "the policy of advertisement `all` is dropped: `p` may not set policies on advertisements",
    ]


def test_a_policy_that_a_client_has_set_lasts_where_it_is_granted_still() -> None:
    rehearsal = play(domain())
    rehearsal.subscribe("s", "t", policy=TRIM)
    rehearsal.reload(domain(grants=[{"to": "s", "set": "subscription", "elements": "RemoveAttributes"}]))
    rehearsal.says()
    assert (rehearsal.got("s"), rehearsal.told("policy dropped")) == ([{"a": 1}], [])


def test_the_neighbour_is_told_of_a_subscription_without_the_policy_that_was_dropped() -> None:
    rehearsal = play(domain(2), s="n1")
    rehearsal.subscribe("s", "t", policy=TRIM)
    assert [one.policy is None for one in _wants(rehearsal)] == [False]
    rehearsal.reload(domain(2, grants=[]))
    rehearsal.wait(10)
    assert [one.policy is None for one in _wants(rehearsal)] == [True]
    rehearsal.says()
    assert rehearsal.got("s") == [MESSAGE]


def _wants(rehearsal: Rehearsal) -> list[Any]:
    return list(rehearsal.nodes["n0"].federation.neighbours["n1"].subscriptions.values())


# --- filters in the tables


def firewall(at: str) -> dict[str, Any]:
    return {"policies": {"one": FIREWALL}, "apply": [{"policy": "one", "to": "advertisement", "at": at}]}


def test_a_subscription_that_policies_no_longer_let_in_goes() -> None:
    rehearsal = play(domain())
    rehearsal.subscribe("s", "t")
    rehearsal.reload(domain(**firewall("n0")))
    rehearsal.says()
    assert rehearsal.got("s") == []
    (told,) = rehearsal.told("subscribe denied")
    assert told.startswith("policy `one` does not let it in")


def test_a_neighbour_s_want_goes_and_comes_back_with_the_policies() -> None:
    rehearsal = play(domain(2), s="n1")
    rehearsal.subscribe("s", "t")
    rehearsal.says()
    rehearsal.reload(domain(2, **firewall("n0")))
    rehearsal.says()
    rehearsal.reload(domain(2))
    rehearsal.says()
    assert rehearsal.got("s") == [MESSAGE, MESSAGE]


def test_a_neighbour_s_want_that_was_never_let_in_comes_with_other_policies() -> None:
    rehearsal = play(domain(2, **firewall("n0")), s="n1")
    rehearsal.subscribe("s", "t")
    rehearsal.subscribe("s", "taken back")
    rehearsal.wait(1)
    rehearsal.unsubscribe("s", "taken back")
    rehearsal.wait(1)
    rehearsal.says()
    rehearsal.reload(domain(2))
    rehearsal.says()
    assert rehearsal.got("s") == [MESSAGE]
    assert [one.filter for one in _wants(rehearsal)] == ["t"]


def test_a_node_that_comes_into_another_overlay_makes_an_edge() -> None:
    """n0 - n1 - n2: what p publishes leaves the overlay at n2, to a client; then at n1 too, to another overlay."""
    said = given(ON_PUBLICATIONS.format("@broker: Egress If {} Then {Log(edge)}"), "publication", "p")
    rehearsal = play(domain(3, **said), s="n2")
    rehearsal.subscribe("s", "t")
    rehearsal.says()
    assert len(rehearsal.told("policy log")) == 1
    rehearsal.reload(domain(3, ("east", "east", "west"), **said))
    rehearsal.says()
    assert len(rehearsal.told("policy log")) == 3
