"""Every policy of the statements paper does on nodes what its section says."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.wire.reason import Reason

CASES = Path(__file__).parents[2] / "cases" / "statements" / "paper.yaml"
TEXTS = {case["title"]: case["text"] for case in yaml.safe_load(CASES.read_text())}


def policy(start: str) -> str:
    """The text of a figure, or of a section's inline policy."""
    return str(next(text for title, text in TEXTS.items() if title.startswith(start)))


EVERYTHING = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*", "others": "#"}


def play(count: int = 1, mode: str = "subscribed", **more: Any) -> Rehearsal:
    """Nodes in a line, `n0 - n1 - ...`, where anybody may set any policy."""
    names = [f"n{number}" for number in range(count)]
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0", **more.get("nodes", {}).get(name, {})} for name in names},
            "links": [{"between": pair, "forward": mode} for pair in pairwise(names)],
            "brokering": {"default": "default", "types": ["default"]},
            "statements": {"grants": [EVERYTHING], **more.get("statements", {})},
            "trust_groups": more.get("trust_groups", {}),
        }
    )
    return Rehearsal(domain, ensemble(domain))


def got(rehearsal: Rehearsal, who: str) -> list[Any]:
    return [json.loads(one.payload) for one in rehearsal.deliveries(who)]


def say(rehearsal: Rehearsal, who: str, content: Any, topic: str = "t", **more: Any) -> None:
    rehearsal.publish(who, topic, json.dumps(content).encode(), **more)
    rehearsal.run()


def said(rehearsal: Rehearsal) -> list[str]:
    """What policies have had logged."""
    return [re.findall(r": (T\w+): ", one.reason)[0] for one in rehearsal.notices if one.kind == "policy log"]


def join(rehearsal: Rehearsal, **clients: str) -> None:
    for client, node in clients.items():
        rehearsal.connect(client, node)


# --- 3.2 and 3.3


def test_section_3_2_content_decides_which_policies_are_applied() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    put = "PolicyStatement {{ On(Forward, Publication) {{ If {{}} Then {{Log({})}} }} }}"
    rehearsal.advertise("p", "A1", "t", "x < 100 && y < 50", policy=put.format("Ta1"))
    rehearsal.advertise("p", "A2", "t", "x > 75 && y < 100", policy=put.format("Ta2"))
    rehearsal.subscribe("s", "t", where="x > 25 && y < 75", policy=put.format("Ts1"))
    say(rehearsal, "p", {"x": 90, "y": 30})
    logged = said(rehearsal)
    assert logged == ["Ta1", "Ta2", "Ts1"]
    say(rehearsal, "p", {"x": 30, "y": 30})
    logged = said(rehearsal)
    assert logged[3:] == ["Ta1", "Ts1"]


def test_section_3_2_subscriptions_are_judged_by_the_advertisements_that_they_meet() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    put = "PolicyStatement {{ On(Insert, Subscription) {{ If {{}} Then {{Log({})}} }} }}"
    rehearsal.advertise("p", "A1", "t", "x < 100 && y < 50", policy=put.format("Ta1"))
    rehearsal.advertise("p", "A2", "t", "x > 75 && y < 100", policy=put.format("Ta2"))
    rehearsal.subscribe("s", "t", where="x > 25 && y < 75", name="S1")
    rehearsal.subscribe("s", "t", where="x < 100 && y > 75", name="S2")
    logged = said(rehearsal)
    assert logged == ["Ta1", "Ta2", "Ta2"]


@pytest.mark.parametrize(
    ("d1", "expected"),
    [
        (95, {"class": "report", "d1": 95, "d2": 2, "d3": 3, "PrevHop": "p"}),
        (5, {"class": "report", "d1": 5}),
        (50, {"class": "report", "d1": 50, "PrevHop": "p"}),
    ],
)
def test_section_3_3_the_supply_chain_s_policies_compose(d1: int, expected: dict[str, Any]) -> None:
    rehearsal = play()
    join(rehearsal, p="n0", management="n0", other="n0")
    rehearsal.subscribe("management", "t", where="class == 'report' && d1 > 40", name="S1", policy=policy("§3.3, T1"))
    rehearsal.subscribe("management", "t", where="class == 'report' && d1 < 20", name="S2", policy=policy("§3.3, T2"))
    rehearsal.subscribe("other", "t")
    report = {"class": "report", "d1": d1, "d2": 2, "d3": 3}
    say(rehearsal, "p", report)
    if d1 == 50:
        expected |= {"d2": 2, "d3": 3}
    assert got(rehearsal, "management") == [expected]
    assert got(rehearsal, "other") == [report]


# --- 5.1


def test_figure_4_notifications_are_trimmed_to_what_the_subscription_names() -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n1", whole="n1")
    rehearsal.subscribe("s", "t", where="class == 'event' && a1 > 1", policy=policy("Fig. 4"))
    rehearsal.subscribe("whole", "t")
    say(rehearsal, "p", {"class": "event", "a1": 2, "a2": 3, "a3": 4})
    assert got(rehearsal, "s") == [{"class": "event", "a1": 2}]
    assert got(rehearsal, "whole") == [{"class": "event", "a1": 2, "a2": 3, "a3": 4}]


def test_section_5_1_trimmed_and_then_written_as_xml() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="a1 > 1", policy=policy("§5.1, trimmed"))
    say(rehearsal, "p", {"class": "event", "a1": 2})
    assert [one.payload for one in rehearsal.deliveries("s")] == [b"<event><a1>2</a1></event>"]


def test_figure_6_every_node_on_the_way_tells_of_itself() -> None:
    rehearsal = play(3)
    for number, node in enumerate(rehearsal.nodes.values()):
        node.runtime.host, node.runtime.load = f"host{number}", number / 10
    join(rehearsal, p="n0", s="n2")
    rehearsal.subscribe("s", "t")
    say(rehearsal, "p", {"a": 1}, policy=policy("Fig. 6"))
    say(rehearsal, "p", {"a": 2})
    traced, plain = rehearsal.deliveries("s")
    told = [pair for pair in traced.properties if pair[0] != "penstock-trace-time"]
    assert told == [
        (f"penstock-trace-{what}", f"n{number}={value}")
        for number, host, load in ((0, "host0", 0.0), (1, "host1", 0.1), (2, "host2", 0.2))
        for what, value in (("host", host), ("load", load))
    ]
    assert [value.split("=")[0] for name, value in traced.properties if name.endswith("time")] == ["n0", "n1", "n2"]
    assert plain.properties == ()


def test_figure_6_attached_by_an_advertisement_or_only_for_one_subscriber() -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", q="n0", s="n0", t="n1")
    always = policy("Fig. 6").replace("@broker", "@attach: Always\n    @broker")
    rehearsal.advertise("p", "A", "t", policy=always)
    rehearsal.subscribe("s", "t")
    rehearsal.subscribe("t", "t", policy=policy("Fig. 6"))
    say(rehearsal, "p", {"a": 1})
    say(rehearsal, "q", {"a": 2})
    hosts = {
        who: [[value for name, value in one.properties if name.endswith("host")] for one in rehearsal.deliveries(who)]
        for who in "st"
    }
    assert hosts == {"s": [["n0="], []], "t": [["n0=", "n1="], ["n0=", "n1="]]}


LARGE = "x == '" + 9000 * "a" + "'"


@pytest.mark.parametrize("load", [0.9, 0.1])
def test_figure_7_large_subscriptions_are_dropped_by_a_busy_node_and_that_is_told(load: float) -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n0", watcher="n1")
    rehearsal.subscribe("watcher", "$penstock/meta/DropMessage")
    about = ("t", "class == 'CustomerOrder' && priority < 5")
    rehearsal.advertise("p", "A", *about, policy=policy("Fig. 7"))
    rehearsal.nodes["n0"].runtime.load = load
    rehearsal.subscribe("s", "t", where=LARGE, name="large")
    rehearsal.subscribe("s", "t", where=f"{LARGE} && priority > 7", name="urgent")
    rehearsal.subscribe("s", "t", where="x == 'b'", name="small")
    names = {one.name for one in rehearsal.nodes["n0"].sessions["s"].subscriptions.values()}
    if load < 0.75:
        assert names == {"large", "urgent", "small"}
        assert got(rehearsal, "watcher") == []
        return
    assert names == {"urgent", "small"}
    (told,) = got(rehearsal, "watcher")
    assert told == {"class": "DropMessage", "cause": "Broker load", "message": f"""t where {LARGE}"""}
    assert wants(rehearsal, "n1", "n0") == {f"{LARGE} && priority > 7", "x == 'b'"}


def wants(rehearsal: Rehearsal, at: str, of: str) -> set[str]:
    """The conditions that a node has been told of by another."""
    return {
        one.asked for one in rehearsal.nodes[at].federation.neighbours[of].subscriptions.values() if one.filter == "t"
    }


def test_figure_8_subscriptions_are_flooded_in_place_of_advertisements() -> None:
    given = {
        "policies": {"flooding": policy("Fig. 8")},
        "apply": [
            {"policy": "flooding", "to": "advertisement", "at": [f"n{n}" for n in range(3)], "filter": "moving/#"}
        ],
    }
    rehearsal = play(3, "routed", statements=given)
    join(rehearsal, p="n0", s="n2")
    rehearsal.subscribe("s", "moving/#")
    rehearsal.subscribe("s", "other/#")
    told = rehearsal.nodes["n0"].federation.neighbours["n1"].subscriptions.values()
    assert [one.filter for one in told] == ["moving/#"]
    rehearsal.advertise("p", "A", "moving/#", policy=policy("Fig. 8"))
    rehearsal.advertise("p", "B", "other/#")
    assert [
        one.offer.filter for one in rehearsal.nodes["n1"].federation.neighbours["n0"].federation.offers.values()
    ] == ["other/#"]
    say(rehearsal, "p", {"a": 1}, "moving/1")
    say(rehearsal, "p", {"a": 2}, "other/1")
    assert got(rehearsal, "s") == [{"a": 1}, {"a": 2}]


# --- 5.2: firewall


def test_figure_22_the_firewall_blocks_just_what_matches_strictly() -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", application="n1", guard="n1")
    rehearsal.subscribe("application", "t", where="class == 'C'")
    rehearsal.subscribe("guard", "t", where="class == 'C' && a < 10", policy=policy("Fig. 22"))
    say(rehearsal, "p", {"class": "C", "a": 9})
    say(rehearsal, "p", {"class": "C", "a": 9, "b": 5})
    say(rehearsal, "p", {"class": "C", "a": 11})
    assert got(rehearsal, "application") == [{"class": "C", "a": 9, "b": 5}, {"class": "C", "a": 11}]
    rehearsal.unsubscribe("guard", "t")
    say(rehearsal, "p", {"class": "C", "a": 9})
    assert got(rehearsal, "application")[-1] == {"class": "C", "a": 9}


def test_section_5_2_subscriptions_are_blocked_by_the_policy_of_an_advertisement() -> None:
    rehearsal = play(2)
    join(rehearsal, guard="n0", s="n1")
    blocking = policy("Fig. 22").replace("Publication", "Subscription")
    rehearsal.advertise("guard", "wall", "t", "a < 10", policy=blocking)
    rehearsal.subscribe("s", "t", where="a < 10", name="same")
    rehearsal.subscribe("s", "t", where="a < 9", name="another")
    assert wants(rehearsal, "n0", "n1") == {"a < 9"}


# --- 5.2: trust groups


def groups(**members: list[str]) -> dict[str, Any]:
    """Trust groups and the nodes that are in each."""
    return {name: {"secret": {"env": name}, "nodes": nodes} for name, nodes in members.items()}


def offered(rehearsal: Rehearsal, at: str) -> set[str]:
    """The advertisements that a node has been told of."""
    node = rehearsal.nodes[at]
    return {
        one.offer.filter
        for session in node.federation.neighbours.values()
        for one in session.federation.offers.values()
    }


@pytest.mark.parametrize(
    ("start", "seen"), [("Fig. 13", {"n1", "n2", "n3"}), ("§5.2, both", {"n1", "n2"})], ids=["Elseif", "&&"]
)
def test_figure_13_advertisements_are_told_only_within_trust_groups(start: str, seen: set[str]) -> None:
    within = groups(TrustGroup1=["n0", "n1", "n2"], TrustGroup2=["n0", "n1", "n2", "n3"])
    rehearsal = play(5, "routed", trust_groups=within)
    join(rehearsal, p="n0")
    rehearsal.advertise("p", "A", "t", policy=policy(start))
    rehearsal.advertise("p", "B", "u")
    assert {name for name in rehearsal.nodes if "t" in offered(rehearsal, name)} == seen
    assert "u" in offered(rehearsal, "n4")


def test_figure_14_publications_of_a_node_that_is_in_all_groups_pass_and_of_others_do_not() -> None:
    everywhere = {f"G{number}": ["n0", "n1"] for number in range(1, 6)}
    for within, expected in ((everywhere, [{"a": 1}]), ({**everywhere, "G5": ["n1"]}, [])):
        rehearsal = play(2, trust_groups=groups(**within))
        join(rehearsal, p="n0", s="n1")
        at_egress = policy("Fig. 14").replace("On(Forward,Publication) {", "On(Forward,Publication) { @broker: Egress")
        rehearsal.subscribe("s", "t", policy=at_egress)
        say(rehearsal, "p", {"a": 1})
        assert got(rehearsal, "s") == expected


ZONES = groups(Restricted=["n0", "n1"], Controlled=["n0", "n1", "n2"], AuthorizedSubscribers=["n0", "n1", "n2"])


def test_figure_16_attributes_and_events_stay_in_their_zones() -> None:
    rehearsal = play(4, "routed", trust_groups=ZONES)
    join(rehearsal, p="n0", restricted="n1", controlled="n2", outside="n3", officer="n1")
    rehearsal.subscribe("officer", "$penstock/meta/UnauthorizedSubscribe")
    rehearsal.advertise("p", "A", "t", "a > 0 && c > 0", policy=policy("Fig. 16"))
    told = {
        name: [one.offer.where for one in rehearsal.nodes[name].federation.neighbours[of].federation.offers.values()]
        for name, of in (("n1", "n0"), ("n2", "n1"), ("n3", "n2"))
    }
    assert told == {"n1": ["a > 0 && c > 0"], "n2": ["c > 0"], "n3": []}
    for who in ("restricted", "controlled"):
        rehearsal.prove(who, ["AuthorizedSubscribers"])
    for who in ("restricted", "controlled", "outside"):
        rehearsal.subscribe(who, "#")
    say(rehearsal, "p", {"a": 1, "b": 2, "c": 3, "n": 4})
    assert got(rehearsal, "restricted") == [{"a": 1, "b": 2, "c": 3, "n": 4}]
    assert got(rehearsal, "controlled") == [{"c": 3}]
    assert got(rehearsal, "outside") == []
    assert got(rehearsal, "officer") == []


def test_figure_16_an_unauthorised_subscription_is_told() -> None:
    rehearsal = play(3, "routed", trust_groups=ZONES)
    join(rehearsal, p="n0", officer="n0", stranger="n2")
    rehearsal.subscribe("officer", "$penstock/meta/UnauthorizedSubscribe")
    rehearsal.advertise("p", "A", "t", policy=policy("Fig. 16"))
    rehearsal.subscribe("stranger", "t", where="c > 0")
    assert got(rehearsal, "officer") == [{"class": "UnauthorizedSubscribe", "message": "t where c > 0"}]


# --- what a client may do


def test_a_policy_that_is_not_granted_is_refused_and_the_session_goes_on() -> None:
    rehearsal = play(statements={"grants": [{"to": "s", "set": "subscription", "elements": "TrimAttributes"}]})
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="a > 1", policy=policy("Fig. 4"))
    rehearsal.subscribe("s", "u", where="a > 1", policy=policy("Fig. 6"))
    rehearsal.subscribe("p", "v", policy=policy("Fig. 6"))
    reasons = [one.reason for one in rehearsal.notices if one.kind == "subscribe denied"]
    assert reasons[0].startswith("policy: `s` may not use `AugmentBrokerHostInfo`")
    assert reasons[1] == "policy: `p` may not set policies on subscriptions"
    rehearsal.publish("p", "t", b'{"a": 2}', 1, policy=policy("Fig. 6"))
    rehearsal.run()
    assert rehearsal.assembly.peers["p", "n0"].answers[-1] is Reason.NOT_AUTHORIZED
    say(rehearsal, "p", {"a": 2, "b": 1})
    assert got(rehearsal, "s") == [{"a": 2}]


def test_a_policy_set_later_counts_from_then_on() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="a > 1")
    say(rehearsal, "p", {"a": 2, "b": 1})
    rehearsal.set_policy("s", policy("Fig. 4"), subscription="t")
    say(rehearsal, "p", {"a": 2, "b": 1})
    rehearsal.set_policy("s", None, subscription="t")
    say(rehearsal, "p", {"a": 2, "b": 1})
    assert got(rehearsal, "s") == [{"a": 2, "b": 1}, {"a": 2}, {"a": 2, "b": 1}]


def test_a_meta_event_that_causes_itself_is_stopped_and_that_is_said() -> None:
    again = """PolicyStatement { On(Forward, Publication) { If {} Then {Publish("[class,Echo]")} } }"""
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "$penstock/meta/Echo", policy=again)
    rehearsal.subscribe("s", "t", policy=again)
    say(rehearsal, "p", {"a": 1})
    assert len(got(rehearsal, "s")) == 3
    assert [one.kind for one in rehearsal.notices] == ["policy loop"]
