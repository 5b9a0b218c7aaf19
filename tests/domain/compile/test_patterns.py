"""The usage patterns of brokering §6: what they expand to is what the paper defines."""

import random
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.flows import reach
from penstock.analysis.graph import flow_graph
from penstock.domain import Domain, diff, ensemble, expand, load
from penstock.domain.patterns.roles import pub, sub
from penstock.domain.yaml.write import domain_text
from penstock.model.errors import DomainError
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.policy.monitors.monitor import Monitor
from tests.support.scenes.domains import allow_of, as_written, compiled, loaded, monitor_names, nodes, types_of

TOPICS = ["p", "q/1", "q/2"]
LEVELS = ["unclassified", "confidential", "secret", "top-secret"]
FIG_1 = {"C": ["A"], "D": ["A", "B"], "E": ["B"], "device1": "C", "device2": "C", "device3": "D", "device4": "E"}


def plain_domain(*names: str, **keys: Any) -> Domain:
    return Domain.model_validate({"nodes": nodes(*names), **keys})


def passes(monitors: tuple[Monitor, ...], topic: str) -> bool:
    """Return whether monitors on a link let an event through unchanged."""
    events: tuple[Event, ...] = (Event(topic, b""),)
    for monitor in monitors:
        events = tuple(out for event in events for out in monitor.step(monitor.start(), event, 0.0)[1])
    return events == (Event(topic, b""),)


# --- §6.1.1, information flow control in the style of Bell and LaPadula


@pytest.mark.parametrize("order", [LEVELS, ["unclassified < confidential < secret < top-secret"]])
def test_blp_allows_just_what_does_not_fall(tmp_path: Path, order: list[str]) -> None:
    whole = compiled(tmp_path, nodes=nodes("b"), patterns=[{"pattern": "levels", "order": order}])
    rank = {label: number for number, label in enumerate(LEVELS)}
    assert allow_of(whole, "b") == {(low, high) for low, high in product(LEVELS, LEVELS) if rank[low] <= rank[high]}


def test_blp_labels_may_be_partially_ordered(tmp_path: Path) -> None:
    pattern = {
        "pattern": "levels",
        "order": ["public < army", "public < navy", "army < joint", "navy < joint", "alone"],
    }
    whole = compiled(tmp_path, nodes=nodes("b"), patterns=[pattern])
    labels = {"public", "army", "navy", "joint", "alone"}
    above = {("public", "army"), ("public", "navy"), ("public", "joint"), ("army", "joint"), ("navy", "joint")}
    assert allow_of(whole, "b") == above | {(label, label) for label in labels}


@pytest.mark.parametrize(("reads", "writes"), list(product(LEVELS, LEVELS)))
def test_blp_label_side_condition(tmp_path: Path, reads: str, writes: str) -> None:
    """type(x, y) <= type(y, z) whenever y is a device: what it reads is at most what it writes."""
    keys = {
        "nodes": nodes("b"),
        "clients": {"y": {"node": "b", "type": {"publish": writes, "notify": reads}}},
        "patterns": [{"pattern": "levels", "order": LEVELS}],
    }
    if LEVELS.index(reads) <= LEVELS.index(writes):
        assert types_of(compiled(tmp_path, **keys)) == {("y", "b"): writes, ("b", "y"): reads}
    else:
        with pytest.raises(DomainError, match=f"found the device `y` that reads `{reads}` and writes `{writes}`,"):
            loaded(tmp_path, **keys)


def test_blp_label_side_condition_is_about_every_publication_link_of_a_device(tmp_path: Path) -> None:
    keys = {
        "nodes": nodes("b", "c"),
        "clients": {"y": {"node": {"b": "secret", "c": {"publish": "unclassified", "notify": "unclassified"}}}},
        "patterns": [{"pattern": "levels", "order": LEVELS}],
    }
    with pytest.raises(DomainError, match="reads `secret` at `b` and writes `unclassified` at `c`"):
        loaded(tmp_path, **keys)


def test_blp_keeps_what_else_the_file_allows(tmp_path: Path) -> None:
    whole = compiled(
        tmp_path,
        nodes=nodes("b"),
        brokering={"types": ["clock"], "allow": [{"from": "clock", "to": ["clock", "low"]}]},
        patterns=[{"pattern": "levels", "order": ["low", "high"]}],
    )
    levels = {("low", "low"), ("low", "high"), ("high", "high")}
    assert allow_of(whole, "b") == levels | {("clock", "clock"), ("clock", "low")}


def test_types_beside_a_pattern_are_not_opened_towards_it(tmp_path: Path) -> None:
    """Of a `deny` list only the pairs of its own types are left when a pattern lists what is allowed."""
    whole = compiled(
        tmp_path,
        nodes=nodes("b"),
        brokering={"types": ["in", "out"], "deny": [{"from": "out", "to": "in"}]},
        patterns=[{"pattern": "levels", "order": ["low", "high"]}],
    )
    levels = {("low", "low"), ("low", "high"), ("high", "high")}
    assert allow_of(whole, "b") == levels | {("in", "in"), ("in", "out"), ("out", "out")}


# --- §6.1.2, component architecture


def test_hierarchy_types_encode_the_parenthood_relation(tmp_path: Path) -> None:
    """type(x, y) = up if parent(x, y), and down otherwise, on the hierarchy of Fig. 1."""
    whole = compiled(
        tmp_path, nodes=nodes("A", "B", "C", "D", "E"), patterns=[{"pattern": "hierarchy", "parents": FIG_1}]
    )
    parent = {(child, above) for child, parents in FIG_1.items() for above in parents}
    link = parent | {(above, child) for child, above in parent}
    assert types_of(whole) == {(x, y): "up" if (x, y) in parent else "down" for x, y in link}
    assert (set(whole.nodes), set(whole.devices)) == (set("ABCDE"), {"device1", "device2", "device3", "device4"})


def test_hierarchy_allows_all_but_down_to_up(tmp_path: Path) -> None:
    whole = compiled(
        tmp_path, nodes=nodes("A", "B", "C", "D", "E"), patterns=[{"pattern": "hierarchy", "parents": FIG_1}]
    )
    for broker in "ABCDE":
        assert allow_of(whole, broker) == {("up", "up"), ("up", "down"), ("down", "down")}


def test_hierarchy_takes_parents_from_links_and_clients_too(tmp_path: Path) -> None:
    names = nodes("A", "B", "C", "D", "E")
    spelt = compiled(tmp_path, nodes=names, patterns=[{"pattern": "hierarchy", "parents": FIG_1}])
    mixed = compiled(
        tmp_path,
        nodes=names,
        links=[{"between": ["C", "A"], "queue": 5}, {"between": ["E", "B"]}],
        clients={"device1": {"node": "C", "user": "bob"}, "device2": {"node": "C"}, "device4": {"node": "E"}},
        patterns=[{"pattern": "hierarchy", "parents": {"D": ["A", "B"], "device3": "D"}}],
    )
    assert types_of(mixed) == types_of(spelt)
    assert [link.queue for link in mixed.connections] == [5, 10_000, 10_000, 10_000]
    assert mixed.client("C", "any", "bob") is not None


def test_hierarchy_side_condition_a_device_is_never_a_parent(tmp_path: Path) -> None:
    for keys in (
        {"clients": {"phone": {"node": "A"}}, "parents": {"B": "phone"}},
        {"parents": {"phone": "A", "watch": "phone"}},
    ):
        pattern = {"pattern": "hierarchy", "parents": keys.pop("parents")}
        with pytest.raises(DomainError, match="a client is never a parent"):
            loaded(tmp_path, nodes=nodes("A", "B"), patterns=[pattern], **keys)


@pytest.mark.parametrize(
    ("parents", "cycle"),
    [
        ({"A": "A"}, "`A` -> `A`"),
        ({"A": "B", "B": "A"}, "`A` -> `B` -> `A`"),
        ({"C": ["A", "B"], "B": "D", "D": "C"}, "`C` -> `B` -> `D` -> `C`"),
    ],
)
def test_hierarchy_side_condition_no_cycle_not_even_a_loop(tmp_path: Path, parents: dict[str, Any], cycle: str) -> None:
    with pytest.raises(DomainError, match=f"found a cycle, {cycle}, expected parents without a cycle"):
        loaded(tmp_path, nodes=nodes("A", "B", "C", "D"), patterns=[{"pattern": "hierarchy", "parents": parents}])


@given(st.sets(st.sampled_from(list(combinations("ABCDEFG", 2))), max_size=12))
def test_hierarchy_accepts_every_relation_without_a_cycle(pairs: set[tuple[str, str]]) -> None:
    """Parents that come later in the alphabet never form a cycle."""
    parents = {child: sorted(high for low, high in pairs if low == child) for child, _ in pairs}
    domain = plain_domain(*"ABCDEFG", patterns=[{"pattern": "hierarchy", "parents": parents}])
    assert types_of(ensemble(domain)) == dict.fromkeys(pairs, "up") | {pair[::-1]: "down" for pair in pairs}


@given(st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=5, unique=True))
def test_hierarchy_refuses_every_cycle(ring: list[str]) -> None:
    parents = {child: [above] for child, above in zip(ring, ring[1:] + ring[:1], strict=True)}
    with pytest.raises(DomainError, match="a cycle"):
        expand(plain_domain(*"ABCDE", patterns=[{"pattern": "hierarchy", "parents": parents}]))


# --- §6.2.1, event filtering


def test_interface_is_a_filter_in_each_direction(tmp_path: Path) -> None:
    """For node x and parent y, Δ(x, y) = filter(export) and Δ(y, x) = filter(import)."""
    whole = compiled(
        tmp_path,
        nodes=nodes("x", "y"),
        links=[{"between": ["x", "y"]}],
        patterns=[{"pattern": "interface", "node": "x", "import": ["cmd/#"], "export": ["state/+", "alarm"]}],
    )
    outwards, inwards = whole.monitors(Link("x", "y")), whole.monitors(Link("y", "x"))
    topics = ["cmd/a", "state/a", "state/a/b", "alarm", "other"]
    assert [topic for topic in topics if passes(outwards, topic)] == ["state/a", "alarm"]
    assert [topic for topic in topics if passes(inwards, topic)] == ["cmd/a"]


def test_interface_of_nothing_lets_nothing_through(tmp_path: Path) -> None:
    whole = compiled(
        tmp_path,
        nodes=nodes("x", "y"),
        links=[{"between": ["x", "y"]}],
        patterns=[{"pattern": "interface", "node": "x", "import": [], "export": []}],
    )
    assert not passes(whole.monitors(Link("x", "y")), "a")
    assert not passes(whole.monitors(Link("y", "x")), "a")


def test_interface_is_to_each_parent_or_to_those_that_are_named(tmp_path: Path) -> None:
    """The parents may come from a hierarchy, wherever that stands in the file."""
    keys = {"import": ["a"], "export": ["b"]}
    names = nodes("x", "y", "z")
    hierarchy = {"pattern": "hierarchy", "parents": {"x": ["y", "z"]}}
    all_parents = compiled(tmp_path, nodes=names, patterns=[{"pattern": "interface", "node": "x", **keys}, hierarchy])
    one_parent = compiled(
        tmp_path, nodes=names, patterns=[{"pattern": "interface", "node": "x", "parent": "z", **keys}, hierarchy]
    )
    assert {ends for ends in all_parents.links if monitor_names(all_parents, *ends)} == set(all_parents.links)
    assert {ends for ends in one_parent.links if monitor_names(one_parent, *ends)} == {("x", "z"), ("z", "x")}


# --- §6.2.3, RBAC-style protection domains

UA = {("ann", "operator"), ("bob", "operator"), ("bob", "auditor"), ("cid", "auditor")}
"""User-role assignment; bob is a device in two roles."""
PUB = {"operator": ["cmd/#"], "auditor": ["note"]}
SUB = {"operator": ["state/#"], "auditor": ["log/+", "cmd/#"]}


def rbac(**more: Any) -> dict[str, Any]:
    roles = {
        name: {
            "publish": PUB[name],
            "subscribe": SUB[name],
            "members": sorted(device for device, role in UA if role == name),
        }
        for name in ("operator", "auditor")
    }
    pattern = {"pattern": "roles", "listen": "127.0.0.1:0", "store": "memory", "roles": roles, **more}
    return {"nodes": nodes("bus"), "patterns": [pattern]}


def test_rbac_introduces_a_bus_and_two_brokers_for_each_role(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **rbac())
    assert set(whole.nodes) == {"bus", "operator-pub", "operator-sub", "auditor-pub", "auditor-sub"}
    assert set(whole.devices) == {"ann", "bob", "cid"}


def test_rbac_links_are_the_symmetric_closure_of_link_0(tmp_path: Path) -> None:
    link_0 = {(node, "bus") for role in PUB for node in (pub(role), sub(role))}
    link_0 |= {(device, node) for device, role in UA for node in (pub(role), sub(role))}
    whole = compiled(tmp_path, **rbac())
    assert set(whole.links) == link_0 | {(y, x) for x, y in link_0}


def test_rbac_type_function(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **rbac())
    b_sub, b_pub = {sub(role) for role in PUB}, {pub(role) for role in PUB}

    def paper(x: str, y: str) -> str:
        if x in b_sub and y == "bus":
            return "SubUp"
        if x == "bus" and y in b_sub:
            return "SubDown"
        if x in b_pub and y == "bus":
            return "PubUp"
        if x == "bus" and y in b_pub:
            return "PubDown"
        return "DevUp" if y in b_sub | b_pub else "DevDown"

    assert types_of(whole) == {ends: paper(*ends) for ends in whole.links}


def test_rbac_allow_relation(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **rbac())
    paper = {("PubUp", "SubDown"), ("DevUp", "PubUp"), ("SubDown", "DevDown")}
    for broker in whole.nodes:
        assert allow_of(whole, broker) == paper
        assert whole.table(broker).types == {"SubUp", "SubDown", "PubUp", "PubDown", "DevUp", "DevDown"}


def test_rbac_filters_on_the_links_to_and_from_the_bus(tmp_path: Path) -> None:
    """Δ(Bus, r_sub) = filter(sub(r)), Δ(r_pub, Bus) = filter(pub(r)), and no other link has a monitor."""
    domain = loaded(tmp_path, **rbac())
    paper = {("bus", sub(role)): SUB[role] for role in SUB} | {(pub(role), "bus"): PUB[role] for role in PUB}
    assert {monitor.link: list(monitor.filter or ()) for monitor in domain.monitors.values()} == {
        (ends,): filters for ends, filters in paper.items()
    }


def test_rbac_admits_only_members_of_a_role_to_its_brokers(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **rbac())
    places = {(device, role) for device in whole.devices for role in PUB if whole.client(pub(role), device)}
    assert places == UA
    assert whole.client("operator-sub", "stranger") is None
    assert whole.client("bus", "ann") is None


def test_rbac_a_device_in_two_roles_has_the_brokers_of_both(tmp_path: Path) -> None:
    whole = compiled(tmp_path, **rbac())
    assert {target for source, target in whole.links if source == "bob"} == set(whole.nodes) - {"bus"}


def test_rbac_a_senior_role_inherits(tmp_path: Path) -> None:
    """All the publishable and subscribable events of its juniors, and of theirs."""
    roles = {
        "chief": {"publish": "x", "inherits": "operator", "members": "eve"},
        "operator": {"publish": ["cmd/#", "x"], "subscribe": "state/#", "inherits": ["guest"]},
        "guest": {"subscribe": ["time", "state/#"]},
    }
    domain = loaded(tmp_path, **rbac(roles=roles))
    filters = {name: monitor.filter for name, monitor in domain.monitors.items()}
    assert filters == {
        "chief-pub": ("x", "cmd/#"),
        "chief-sub": ("state/#", "time"),
        "operator-pub": ("cmd/#", "x"),
        "operator-sub": ("state/#", "time"),
        "guest-pub": (),
        "guest-sub": ("time", "state/#"),
    }


CHIEF = {
    "chief": {"publish": "x", "subscribe": "own", "inherits": ["operator"], "members": ["eve"]},
    "operator": {"publish": ["cmd/#"], "subscribe": ["state/#"], "inherits": ["guest"], "members": ["ann"]},
    "guest": {"publish": "hello", "subscribe": ["time"], "members": ["bob"]},
}


def test_rbac_nested_mirrors_the_role_hierarchy(tmp_path: Path) -> None:
    domain = loaded(tmp_path, **rbac(roles=CHIEF, nested=True))
    found = {link.between: (link.type, link.back) for link in domain.links if "bus" not in link.between}
    assert found == {
        ("chief-pub", "operator-pub"): ("PubUp", "PubDown"),
        ("chief-sub", "operator-sub"): ("SubUp", "SubDown"),
        ("operator-pub", "guest-pub"): ("PubUp", "PubDown"),
        ("operator-sub", "guest-sub"): ("SubUp", "SubDown"),
    }
    filters = {name: monitor.filter for name, monitor in domain.monitors.items()}
    assert filters == {
        "chief-pub": ("x",),
        "operator-pub": ("cmd/#",),
        "guest-pub": ("hello",),
        "chief-sub": ("own",),
        "operator-sub": ("state/#",),
        "guest-sub": ("time",),
    }


@pytest.mark.parametrize("nested", [False, True])
def test_rbac_a_role_can_do_what_it_and_its_juniors_can_nested_or_not(tmp_path: Path, nested: bool) -> None:
    """Of random hierarchies of roles, all routes that there are from member to member, and no others."""
    rng = random.Random(7)
    names = ["a", "b", "c", "d"]
    for round in range(6):
        roles: dict[str, Any] = {}
        for at, name in enumerate(names):
            juniors = rng.sample(names[:at], k=rng.randint(0, min(at, 2)))
            publish, subscribe = (rng.sample(TOPICS, k=rng.randint(0, 2)) for _ in range(2))
            roles[name] = {"publish": publish, "subscribe": subscribe, "inherits": juniors, "members": [f"of-{name}"]}
        folder = tmp_path / str(round)
        folder.mkdir()
        graph = flow_graph(compiled(folder, **rbac(roles=roles, nested=nested)))

        def rights(name: str, key: str, roles: Any = roles) -> set[str]:
            return {*roles[name][key], *(each for junior in roles[name]["inherits"] for each in rights(junior, key))}

        for speaker, hearer, topic in product(names, names, TOPICS):
            if speaker != hearer:
                way = reach(graph, f"of-{speaker}", f"of-{hearer}", topic, routes=True)
                assert (way is not None) is (topic in rights(speaker, "publish") & rights(hearer, "subscribe"))


def test_rbac_members_are_those_whose_attributes_satisfy_a_condition(tmp_path: Path) -> None:
    """One that the condition fails on, because it has no such attribute, is none. (§6.2.3)"""
    roles = {
        "ward": {"publish": "call", "members": {"when": "subject.attributes.ward == 3"}},
        "staff": {"subscribe": "call", "members": {"when": "'staff' in subject.groups || subject.name == 'eve'"}},
    }
    keys = rbac(roles=roles)
    keys["clients"] = {
        "ann": {"attributes": {"ward": 3}, "groups": ["staff"]},
        "bob": {"attributes": {"ward": 4}, "groups": ["staff"]},
        "eve": {},
    }
    whole = compiled(tmp_path, **keys)
    places = {(device, role) for device in whole.devices for role in roles if whole.client(pub(role), device)}
    assert places == {("ann", "ward"), ("ann", "staff"), ("bob", "staff"), ("eve", "staff")}


def test_rbac_ports_of_the_brokers_that_are_made_count_up(tmp_path: Path) -> None:
    keys = rbac(listen="0.0.0.0:2000", bus="hub")
    keys["nodes"] = nodes("other", "operator-sub")
    domain = loaded(tmp_path, **keys)
    assert {name: str(node.listen[0].address) for name, node in domain.nodes.items()} == {
        "other": "127.0.0.1:0",
        "operator-sub": "127.0.0.1:0",
        "hub": "0.0.0.0:2000",
        "operator-pub": "0.0.0.0:2001",
        "auditor-pub": "0.0.0.0:2002",
        "auditor-sub": "0.0.0.0:2003",
    }


def test_rbac_stores_of_the_brokers_that_are_made_are_beside_the_domain_file(tmp_path: Path) -> None:
    keys = rbac()
    del keys["patterns"][0]["store"]
    assert loaded(tmp_path, **keys).nodes["auditor-pub"].store == str(tmp_path / "auditor-pub.db")


def test_rbac_a_member_may_be_known_by_something_else_than_its_name(tmp_path: Path) -> None:
    whole = compiled(tmp_path, clients={"ann": {"user": "ann@home"}}, **rbac())
    entry = whole.client("operator-pub", "any", "ann@home")
    assert entry is not None
    assert (entry.name, entry.publish, entry.notify) == ("ann", "DevUp", "DevDown")


# --- the expansion as a file

SAMPLES: dict[str, dict[str, Any]] = {
    "roles": rbac(),
    "hierarchy": {
        "nodes": nodes("A", "B", "C", "D", "E"),
        "patterns": [
            {"pattern": "hierarchy", "parents": FIG_1},
            {"pattern": "interface", "node": "D", "import": [], "export": ["x/#", "on"]},
        ],
    },
    "levels": {
        "nodes": nodes("b"),
        "brokering": {"default": {"publish": "secret", "notify": "unclassified"}},
        "patterns": [{"pattern": "levels", "order": LEVELS}],
    },
    "protocol": {
        "nodes": nodes("b", "c"),
        "links": [{"between": ["c", "b"]}],
        "clients": {"bell": {"node": "b"}, "phone": {"node": "b"}, "lock": {"node": "c"}},
        "protocols": {
            "unlock": {
                "protocol": "AC_request (AC_grant DL_unlock? | AC_deny)",
                "senders": {"AC_request": "bell", "AC_grant": "phone", "AC_deny": "phone", "DL_unlock": "bell"},
                "protects": "lock",
            }
        },
    },
    "all forms": {
        "domain": "forms",
        "nodes": {
            "a": {
                "listen": ["127.0.0.1:0", {"address": "[::1]:0", "max_connections": 5}],
                "brokering": {"allow": [{"from": ["x", "y"], "to": "x"}], "default": "x"},
                "limits": {"session_expiry": "2h"},
            },
            "b": {"listen": "127.0.0.1:0", "store": "data.db"},
        },
        "links": [{"between": ["a", "b"], "type": "x", "back": "y", "forward": "all", "secret": "s: #1", "queue": 0}],
        "foreign": {"legacy": {"address": "localhost:1999", "version": 4, "in": ["#"], "out": ["a/#"], "user": "yes"}},
        "clients": {
            "one": {"node": {"a": "x", "b": {"publish": "x", "notify": "y"}}, "id": "one/1"},
            "two": {"node": ["a", "b"], "type": {"publish": "y", "notify": "x"}, "user": "12"},
        },
        "brokering": {"types": ["x", "y"], "deny": [{"from": "y", "to": ["x", "y"]}]},
        "monitors": {
            "m1": {
                "link": ["a -> b", "* -> a"],
                "states": {"q1": {"#": "pass"}, "q0": {"a": {"rename": "b", "next": "q1"}}},
            },
            "m2": {"on": {"node": "a", "direction": "ex_sub"}, "mapper": {"a/+": "b/{1}"}},
            "m3": {
                "link": "? -> a",
                "states": {"q0": {"t": {"emit": ["u", {"topic": "v", "payload": "{payload}\n\t\u2028!", "qos": 1}]}}},
            },
            "m4": {"link": "b -> a", "filter": ["x", "$SYS/#"]},
        },
        "assertions": [{"never": "two to one", "on": "nothing"}, {"can": "one to two", "routes": True}],
    },
}


@pytest.mark.parametrize("title", SAMPLES)
def test_an_expansion_has_neither_patterns_nor_protocols_and_expands_to_itself(tmp_path: Path, title: str) -> None:
    domain = expand(as_written(tmp_path, **SAMPLES[title]))
    assert (domain.patterns, domain.protocols) == ((), {})
    assert expand(domain) == domain


@pytest.mark.parametrize("title", SAMPLES)
def test_an_expansion_that_is_written_down_is_the_same_domain(tmp_path: Path, title: str) -> None:
    domain = loaded(tmp_path, **SAMPLES[title])
    again = tmp_path / "again.yaml"
    again.write_text(domain_text(domain, tmp_path), "utf-8")
    assert str(diff(domain, load(again, {}))) == "nothing changes"
    assert load(again, {}) == domain
    assert domain_text(load(again, {}), tmp_path) == again.read_text("utf-8")
