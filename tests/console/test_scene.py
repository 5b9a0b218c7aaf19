"""The scene of the map without a page: many clients, silent nodes, rates, automata."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.broker.http.answers.status import Counters, NodeState
from penstock.console.map.automata import MAX_EDGES, MAX_STATES, drawn
from penstock.console.map.rates import Rate, Rates
from penstock.console.map.scene import FEW, Live, Scene, listed, live, scene
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import MonitorSettings
from penstock.engine.status import ClientPortrait, LinkPortrait, NodePortrait, PastPortrait
from tests.support.scenes.large_map import large

HOME = Domain.model_validate(
    {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("cloud", "gateway", "locks")},
        "links": [
            {"between": ["gateway", "cloud"], "type": "internet", "back": "door"},
            {"between": ["locks", "gateway"], "type": "door"},
        ],
        "clients": {"phone": {"node": "cloud", "type": "internet"}, "lock": {"node": "locks", "type": "door"}},
        "brokering": {"types": ["internet", "door"]},
    }
)


def told(node: str, links: dict[str, bool], clients: int = 0, took: int = 0, trouble: str = "") -> NodeState:
    """Return the state of a node: its neighbours, whether they are up, and the number of its clients."""
    return NodeState(
        (),
        0.0,
        trouble,
        0,
        Counters(took, 0, 0, 0, 0, 0, 0, 0),
        None,
        NodePortrait(
            node,
            tuple(LinkPortrait(other, False, up, "t", "t", took, took, 0, 0) for other, up in links.items()),
            tuple(ClientPortrait(f"c{at}", f"c{at}", None, True, "t", "t", 0, 0, 0, 0, 0) for at in range(clients)),
            (),
            0,
            (),
        ),
    )


def look(domain: Domain | None, states: dict[str, NodeState], *also: str) -> tuple[Scene, Live]:
    rates = Rates()
    rates.record(states, dict.fromkeys(states, 1.0))
    drawn_scene = scene(domain, listed(domain), states, also)
    return drawn_scene, live(drawn_scene, states, rates)


def test_a_domain_is_drawn_though_nothing_runs() -> None:
    picture, now = look(HOME, {})
    assert [(link.a, link.b, link.there, link.back) for link in picture.links] == [
        ("gateway", "cloud", "internet", "door"),
        ("locks", "gateway", "door", "door"),
        ("phone", "cloud", "internet", "internet"),
        ("lock", "locks", "door", "door"),
    ]
    assert {now_[0] for now_ in (*now.nodes, *now.links)} == {"silent"}
    assert all(node.at is not None for node in picture.nodes)


@pytest.mark.parametrize(
    ("states", "links", "nodes"),
    [
        (
            {"gateway": told("gateway", {"cloud": True, "locks": True})},
            ["up", "up"],
            ["silent", "up", "silent"],
        ),
        (
            {"gateway": told("gateway", {"cloud": False, "locks": True})},
            ["down", "up"],
            ["down", "up", "silent"],
        ),
        (
            {"gateway": told("gateway", {"cloud": True}), "cloud": told("cloud", {"gateway": False}, trouble="full")},
            ["down", "silent"],
            ["trouble", "up", "silent"],
        ),
    ],
    ids=["one end tells", "a neighbour does not reach it", "the ends do not agree: it is broken"],
)
def test_states(states: dict[str, NodeState], links: list[str], nodes: list[str]) -> None:
    _, now = look(HOME, states)
    assert [link[0] for link in now.links[:2]] == links
    assert [node[0] for node in now.nodes] == nodes


def test_many_clients_are_a_number_but_for_those_that_are_wanted() -> None:
    states = {"cloud": told("cloud", {}, FEW), "gateway": told("gateway", {}, FEW + 1)}
    picture, _ = look(None, states)
    assert {node.name: (node.drawn, node.clients) for node in picture.nodes} == {
        "cloud": (FEW, 0),
        "gateway": (0, FEW + 1),
    }
    picture, _ = look(None, states, "c3")
    assert [link.a for link in picture.links if link.b == "gateway"] == ["c3"]


def test_a_large_ensemble_is_short_to_tell() -> None:
    picture, now = look(None, large(3))
    assert (len(picture.nodes), sum(node.clients for node in picture.nodes)) == (200, 2000)
    assert not [link for link in picture.links if link.client]
    assert [
        (link.a, link.b) for link, (state, *_) in zip(picture.links, now.links, strict=True) if state == "down"
    ] == [("n1", "n7")]


def test_rates_are_differences_over_some_seconds() -> None:
    rates, key = Rates(), ("a", "link", "b")
    for at, took in ((0.0, 0), (1.0, 10), (2.0, 20), (2.0, 20)):
        rates.record({"a": told("a", {"b": True}, took=took)}, {"a": at})
    assert rates.rate(key) == Rate(10.0, 10.0, 0.0)
    for at in range(3, 12):
        rates.record({"a": told("a", {"b": True}, took=20)}, {"a": float(at)})
    assert rates.rate(key) == Rate(0.0, 0.0, 0.0)
    assert rates.rate(("a", "link", "nobody")) == Rate()


def test_counters_that_begin_anew_are_no_rate() -> None:
    rates = Rates()
    for at, took in ((0.0, 1000), (1.0, 5), (2.0, 7)):
        rates.record({"a": told("a", {"b": True}, took=took)}, {"a": at})
    assert rates.rate(("a", "link", "b")) == Rate(2.0, 2.0, 0.0)


def test_clients_that_are_told_of_less_often_have_rates_too() -> None:
    rates, key = Rates(), ("n1", "client", "c1")
    clients = large(1, 3, 3)["n1"].portrait.clients
    for at in range(1, 25):
        state = large(at, 3, 3)["n1"]
        if at % 10 == 1:
            clients = state.portrait.clients
        rates.record({"n1": replace(state, portrait=replace(state.portrait, clients=clients))}, {"n1": float(at)})
        if at > 11:
            assert rates.rate(key) == Rate(1.0, 1.0, 0.0)


def test_what_a_client_was_denied_is_told_when_it_has_gone() -> None:
    state = told("a", {}, clients=1)
    (client,) = state.portrait.clients
    now, past = replace(client, denied=2), (PastPortrait("c0", 10, 10, 5),)
    for clients, is_up, denied in (((now,), True, 7), ((), False, 5)):
        rates = Rates()
        rates.record({"a": replace(state, portrait=replace(state.portrait, clients=clients, past=past))}, {"a": 1.0})
        flow = rates.flow(("a", "client", "c0"))
        assert flow is not None
        assert (flow.up, flow.denied) == (is_up, denied)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (
            {"states": {"asked": {"x": {"suppress": True, "next": "q0"}}, "q0": {"a/#": "pass", "*": "suppress"}}},
            [
                ("q0", [("a/# / pass", None), ("all else / suppress", None)]),
                ("asked", [("x / suppress", 0), ("all else / suppress", None)]),
            ],
        ),
        ({"filter": "a/+"}, [("q0", [("a/+ / pass", None), ("all else / suppress", None)])]),
        ({"mapper": {"a/+": "b/{1}"}}, [("q0", [("a/+ / b/{1}", None), ("all else / pass", None)])]),
        (
            {"states": {"q0": {"a": [{"when": "v < 1", "emit": ["b", "c"]}, {"rename": "d"}]}}},
            [("q0", [("a if v < 1 / b, c", None), ("a / d", None), ("all else / suppress", None)])],
        ),
    ],
    ids=["the initial state is first", "filter", "mapper", "conditions and outputs"],
)
def test_automata(settings: dict[str, Any], shown: list[tuple[str, list[tuple[str, int | None]]]]) -> None:
    automaton = drawn(MonitorSettings.model_validate({"link": "a -> b", **settings}))
    assert automaton is not None
    assert [(state.name, [(edge.text, edge.next) for edge in state.edges]) for state in automaton.states] == shown


def test_automata_that_are_too_large_are_cut_or_left_to_words() -> None:
    many = {f"s{at}": {"*": "pass"} for at in range(MAX_STATES + 1)}
    assert drawn(MonitorSettings.model_validate({"link": "a -> b", "states": many})) is None
    assert drawn(MonitorSettings.model_validate({"link": "a -> b", "python": "mine:Monitor"})) is None
    edges: dict[str, Any] = {f"t{at}": "pass" for at in range(MAX_EDGES + 5)}
    edges["last"] = {"pass": True, "next": "other"}
    automaton = drawn(
        MonitorSettings.model_validate({"link": "a -> b", "states": {"q0": edges, "other": {"*": "pass"}}})
    )
    assert automaton is not None
    assert (automaton.states[0].edges[-1].text, automaton.states[0].more) == ("last / pass", 7)
