"""A domain as entities and links: who a client is, what governs a link."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import ClientEntry, Domain, ensemble
from penstock.model.link import Link
from tests.support.scenes.domains import allow_of, compiled, monitor_names, nodes, types_of

HOME: dict[str, Any] = {
    "nodes": nodes("cloud", "gateway", "locks"),
    "links": [
        {"between": ["gateway", "cloud"], "type": "internet"},
        {"between": ["gateway", "locks"], "type": "door", "back": "sensitive"},
    ],
    "clients": {
        "phone": {"node": "cloud", "type": "internet"},
        "motion": {"node": "gateway", "type": {"publish": "sensitive", "notify": "door"}},
        "lock": {"node": ["locks", "gateway"], "type": "door"},
    },
    "brokering": {"types": ["internet", "door", "sensitive"], "deny": [{"from": "sensitive", "to": "internet"}]},
}


def with_monitors(folder: Path, **monitors: Any) -> Any:
    named = {name: {**settings, "filter": "#"} for name, settings in monitors.items()}
    return compiled(folder, **{**HOME, "monitors": named})


def test_every_direction_is_a_link_with_its_type(tmp_path: Path) -> None:
    assert types_of(compiled(tmp_path, **HOME)) == {
        ("gateway", "cloud"): "internet",
        ("cloud", "gateway"): "internet",
        ("gateway", "locks"): "door",
        ("locks", "gateway"): "sensitive",
        ("phone", "cloud"): "internet",
        ("cloud", "phone"): "internet",
        ("motion", "gateway"): "sensitive",
        ("gateway", "motion"): "door",
        ("lock", "locks"): "door",
        ("locks", "lock"): "door",
        ("lock", "gateway"): "door",
        ("gateway", "lock"): "door",
    }


def test_who_dials_is_the_child(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **HOME)
    assert {name: (whole.parents(name), whole.children(name)) for name in whole.nodes} == {
        "cloud": ((), ("gateway",)),
        "gateway": (("cloud", "locks"), ()),
        "locks": ((), ("gateway",)),
    }
    assert [link.between for link in whole.dials("gateway")] == [("gateway", "cloud"), ("gateway", "locks")]
    assert [link.between for link in whole.accepts("locks")] == [("gateway", "locks")]


def test_one_open_type_where_nothing_is_said() -> None:
    """The most liberal brokering policy of §6.1."""
    whole = ensemble(Domain.model_validate({"nodes": nodes("a", "b"), "links": [{"between": ["a", "b"]}]}))
    assert types_of(whole) == {("a", "b"): "default", ("b", "a"): "default"}
    assert allow_of(whole, "a") == {("default", "default")}
    assert whole.client("a", "anybody") == ClientEntry("anybody", "default", "default", listed=False)


def test_a_node_may_have_a_table_of_its_own(tmp_path: Path) -> None:
    own = {
        **HOME["nodes"],
        "gateway": {**HOME["nodes"]["gateway"], "brokering": {"allow": [{"from": "door", "to": "door"}]}},
    }
    whole = compiled(tmp_path, **{**HOME, "nodes": own})
    assert allow_of(whole, "gateway") == {("door", "door")}
    assert allow_of(whole, "cloud") == allow_of(whole, "locks") != {("door", "door")}
    assert ("sensitive", "internet") not in allow_of(whole, "cloud")


@pytest.mark.parametrize(
    ("pairs", "cyclic"),
    [
        ([], False),
        (["ab", "bc", "cd"], False),
        (["ab", "ac", "ad"], False),
        (["ab", "bc", "ca"], True),
        (["ab", "cb", "ca"], True),
        (["ab", "cd"], False),
        (["ab", "ax", "bx"], True),
    ],
)
def test_cycles_are_those_of_connections_whoever_dials(pairs: list[str], cyclic: bool) -> None:
    plain = {
        "nodes": nodes("a", "b", "c", "d"),
        "foreign": {"x": {"address": "localhost:1"}},
        "links": [{"between": list(pair)} for pair in pairs],
    }
    assert ensemble(Domain.model_validate(plain)).is_cyclic is cyclic


@pytest.mark.parametrize(
    ("one", "other", "cyclic"),
    [
        ({"address": "h:1"}, {"address": "g:1"}, True),
        ({"address": "h:1", "in": "cmd/#", "out": "t/#"}, {"address": "g:1", "in": "cmd/#", "out": "t/#"}, False),
        ({"address": "h:1", "in": "cmd/#", "out": "t/#"}, {"address": "H:1", "in": "cmd/#", "out": "t/#"}, True),
        ({"address": "h:1", "in": "cmd/#", "out": "t/#"}, {"address": "g:1", "in": "t/1", "out": "u"}, True),
    ],
    ids=["all topics", "nothing goes through", "one address", "some topics go through"],
)
def test_foreign_brokers_that_may_be_joined_without_nodes_close_a_cycle(
    one: dict[str, str], other: dict[str, str], cyclic: bool
) -> None:
    links = [{"between": ["a", "b"]}, {"between": ["a", "x"]}, {"between": ["b", "y"]}]
    plain = {"nodes": nodes("a", "b"), "foreign": {"x": one, "y": other}, "links": links}
    assert ensemble(Domain.model_validate(plain)).is_cyclic is cyclic


# --- clients

CLIENTS: dict[str, Any] = {
    "nodes": {"a": {"listen": ["127.0.0.1:1", "127.0.0.1:2"], "store": "memory"}, **nodes("b")},
    "clients": {
        "by-name": {"node": "a", "type": "t"},
        "by-id": {"node": "a", "type": "t", "id": "id/1"},
        "by-user": {"node": "a", "type": "t", "user": "bob"},
        "by-both": {"node": "a", "type": "t", "user": "bob", "id": "id/2"},
        "by-listener": {"node": ["a", "b"], "type": "t", "listener": "127.0.0.1:2"},
        "by-user-there": {"node": "a", "type": "t", "user": "eve", "listener": "127.0.0.1:2"},
    },
    "brokering": {"types": ["t", "u", "v"]},
}


@pytest.mark.parametrize(
    ("node", "client_id", "user", "listener", "name"),
    [
        ("a", "by-name", None, "a/0", "by-name"),
        ("b", "by-name", None, "b/0", None),
        ("a", "id/1", None, "a/0", "by-id"),
        ("a", "by-id", None, "a/0", None),
        ("a", "anything", "bob", "a/0", "by-user"),
        ("a", "id/2", "bob", "a/0", "by-both"),
        ("a", "id/2", "ann", "a/0", None),
        ("a", "anything", None, "a/1", "by-listener"),
        ("b", "anything", None, "b/0", None),
        ("a", "anything", "bob", "a/1", "by-user"),
        ("a", "anything", "eve", "a/1", "by-user-there"),
        ("a", "anything", "eve", "a/0", None),
        ("a", "by-name", "bob", "a/1", "by-name"),
    ],
)
def test_a_client_is_who_it_shows_to_be(
    tmp_path: Path, node: str, client_id: str, user: str | None, listener: str, name: str | None
) -> None:
    entry = compiled(tmp_path, **CLIENTS).client(node, client_id, user, listener)
    assert (entry.name if entry else None) == name


def test_a_client_by_its_certificate() -> None:
    plain = {
        "nodes": nodes("a"),
        "clients": {"meter": {"node": "a", "certificate": "meter-7"}, "other": {"node": "a"}},
    }
    whole = ensemble(Domain.model_validate(plain))
    entry = whole.client("a", "anything", "meter-7", "a/0", "meter-7")
    assert entry is not None
    assert entry.name == "meter"
    assert whole.client("a", "anything", "meter-7", "a/0") is None


@pytest.mark.parametrize(
    ("client_id", "entry"),
    [
        ("stranger", ClientEntry("stranger", "u", "v", listed=False)),
        ("by-name", ClientEntry("by-name", "t", "t")),
        ("by-user", None),
        ("id/2", None),
        ("b", None),
    ],
)
def test_clients_that_are_not_listed_get_the_default_but_no_name_of_another(
    tmp_path: Path, client_id: str, entry: ClientEntry | None
) -> None:
    brokering = {**CLIENTS["brokering"], "default": {"publish": "u", "notify": "v"}}
    whole = compiled(tmp_path, **{**CLIENTS, "brokering": brokering})
    assert whole.client("a", client_id, None, "a/0") == entry


@pytest.mark.parametrize("seed", range(40))
def test_a_client_id_that_is_listed_is_had_by_its_entry_only(seed: int) -> None:
    draw = random.Random(seed)
    names = ("a1", "b1", "c1")
    users = (None, "ann", "bob")
    clients: dict[str, dict[str, Any]] = {}
    for name in names:
        shown = {"id": draw.choice((None, *names, "d1")), "user": draw.choice(users)}
        clients[name] = {"node": draw.choice(("a", "b")), **{key: part for key, part in shown.items() if part}}
    default = {"types": ["t"], "default": "t"} if draw.random() < 0.5 else {}
    plain = {"nodes": nodes("a", "b"), "clients": clients, "brokering": default}
    whole = ensemble(Domain.model_validate(plain))
    ids = {name: client.get("id", None if "user" in client else name) for name, client in clients.items()}
    for node, client_id, user in product(("a", "b"), (*names, "d1", "e1"), users):
        listing = {name for name in names if ids[name] == client_id}
        owners = listing or ({client_id} & set(names))
        for entry in (whole.client(node, client_id, user), whole.publisher(node, client_id, user)):
            if owners:
                assert entry is None or (entry.name in owners and entry.listed)
            elif entry is None:
                fitting = [
                    name for name in names if clients[name]["node"] == node and clients[name].get("user") == user
                ]
                assert not default
                assert not any(ids[name] is None for name in fitting)


@pytest.mark.parametrize("key", ["clients", "types"])
def test_clients_that_are_not_listed_are_refused_where_clients_or_types_are(key: str) -> None:
    more: dict[str, Any] = {"clients": {"clients": {"x": {"node": "a"}}}, "types": {"brokering": {"types": ["t"]}}}
    assert ensemble(Domain.model_validate({"nodes": nodes("a"), **more[key]})).client("a", "y") is None


def test_a_node_may_have_a_default_of_its_own(tmp_path: Path) -> None:
    own = {**HOME["nodes"], "cloud": {**HOME["nodes"]["cloud"], "brokering": {"default": "internet"}}}
    whole = compiled(tmp_path, **{**HOME, "nodes": own})
    assert whole.client("cloud", "x") == ClientEntry("x", "internet", "internet", listed=False)
    assert whole.client("locks", "x") is None


def test_the_links_of_a_client() -> None:
    assert ClientEntry("x", "t", "u").links("a") == (Link("x", "a", "t"), Link("a", "x", "u"))


# --- monitors


def test_monitors_are_on_the_links_that_they_name_in_the_order_of_the_file(tmp_path: Path) -> None:
    whole = with_monitors(
        tmp_path,
        one={"link": "cloud -> gateway"},
        star={"link": "* -> gateway"},
        two={"link": ["motion -> gateway", "cloud -> gateway"]},
        out={"link": "gateway -> *"},
    )
    assert monitor_names(whole, "cloud", "gateway") == ["one", "star", "two"]
    assert monitor_names(whole, "locks", "gateway") == ["star"]
    assert monitor_names(whole, "motion", "gateway") == ["star", "two"]
    assert monitor_names(whole, "gateway", "cloud") == monitor_names(whole, "gateway", "lock") == ["out"]
    assert monitor_names(whole, "cloud", "phone") == []


@pytest.mark.parametrize(
    ("direction", "ends"),
    [
        ("im_pub", {("motion", "gateway"), ("lock", "gateway")}),
        ("im_sub", {("gateway", "motion"), ("gateway", "lock")}),
        ("ex_pub", {("cloud", "gateway"), ("locks", "gateway")}),
        ("ex_sub", {("gateway", "cloud"), ("gateway", "locks")}),
    ],
)
def test_the_four_directions_of_7_3_2(tmp_path: Path, direction: str, ends: set[tuple[str, str]]) -> None:
    whole = with_monitors(tmp_path, m={"on": {"node": "gateway", "direction": direction}})
    assert {pair for pair in whole.links if monitor_names(whole, *pair)} == ends


def test_a_child_node_is_on_the_side_of_clients(tmp_path: Path) -> None:
    whole = with_monitors(tmp_path, m={"on": {"node": "cloud", "direction": "im_pub"}})
    assert {pair for pair in whole.links if monitor_names(whole, *pair)} == {("gateway", "cloud"), ("phone", "cloud")}


def test_clients_that_are_not_listed_have_the_monitors_on_any_entity() -> None:
    monitors: dict[str, dict[str, Any]] = {
        "any": {"link": "* -> a"},
        "unlisted": {"link": "? -> a"},
        "listed": {"link": "x -> a"},
        "side": {"on": {"node": "a", "direction": "im_sub"}},
    }
    plain = {
        "nodes": nodes("a"),
        "clients": {"x": {"node": "a"}},
        "brokering": {"types": ["t"], "default": "t"},
        "monitors": {name: {**settings, "filter": "#"} for name, settings in monitors.items()},
    }
    whole = ensemble(Domain.model_validate(plain))
    assert monitor_names(whole, "stranger", "a") == ["any", "unlisted"]
    assert monitor_names(whole, "x", "a") == ["any", "listed"]
    assert monitor_names(whole, "a", "stranger") == ["side"]


def test_an_automaton_begins_in_q0_wherever_that_stands() -> None:
    """Convention 1, rule 1."""
    states = {"later": {"#": "pass"}, "q0": {"#": {"pass": True, "next": "later"}}}
    plain = {"nodes": nodes("a"), "monitors": {"m": {"link": "* -> a", "states": states}}}
    (monitor,) = ensemble(Domain.model_validate(plain)).monitors(Link("x", "a"))
    assert monitor.start() == "q0"


def test_a_python_monitor_is_looked_for_beside_the_domain_file(tmp_path: Path) -> None:
    code = "class Count:\n    def __init__(self, limit):\n        self.limit = limit\n"
    code += "    def start(self):\n        return self.limit\n"
    code += "    def step(self, state, event, now):\n        return state - 1, (event,) if state else ()\n"
    (tmp_path / "counting_here.py").write_text(code)
    monitor = {"link": "* -> a", "python": "counting_here:Count", "with": {"limit": 3}}
    whole = compiled(tmp_path, nodes=nodes("a"), monitors={"m": monitor})
    assert [monitor.start() for monitor in whole.monitors(Link("x", "a"))] == [3]
