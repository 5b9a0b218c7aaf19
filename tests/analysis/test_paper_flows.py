"""What the brokering paper says of flows: hierarchies, labels, roles, the smart home; and its semantics."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.analysis.flows import all_pairs, nearest, reach
from penstock.analysis.graph import EntityKind, FlowGraph
from penstock.model.link import Link
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.monitors.automaton import Automaton
from penstock.semantics.explore import DevicePublication, explore
from penstock.semantics.ordering import by_publication, unordered
from penstock.semantics.schema import BrokeringPolicy, ConnectionGraph, EventPolicy, Pair, Schema
from tests.support.generators.domains import as_semantics, parts, words
from tests.support.generators.examples import some
from tests.support.models.ensembles import both_ways, figure_1, hierarchy, roles, smart_home, subscribed_to_all
from tests.support.models.flow_graphs import SMART_HOME_EDITORS, automata, flow_paths, graph_of

TOPICS = ("a", "b")


def test_figure_1_scoping() -> None:
    pairs = all_pairs(graph_of(figure_1()), routes=True)
    seen = {device: {other for other in "1234" if pairs.can(device, other)} for device in "1234"}
    assert seen == {"1": {"2", "3"}, "2": {"1", "3"}, "3": {"1", "2", "4"}, "4": {"3"}}


def test_figure_1_a_broker_does_not_pass_on_from_parent_to_parent() -> None:
    graph = graph_of(figure_1())
    assert reach(graph, "A", "B", routes=True) is None
    assert reach(graph, Link("A", "D"), Link("D", "B"), routes=True) is None
    assert reach(graph, Link("A", "D"), "3", routes=True) is not None


@st.composite
def hierarchies(draw: st.DrawFn) -> tuple[frozenset[Pair], list[str]]:
    """Brokers with any earlier ones as parents, and devices with one parent each."""
    brokers = [f"b{at}" for at in range(draw(st.integers(1, 7)))]
    parents = {(x, y) for at, x in enumerate(brokers) for y in brokers[:at] if draw(st.integers(0, 2)) == 0}
    devices = [f"d{at}" for at in range(draw(st.integers(2, 4)))]
    parents |= {(device, draw(st.sampled_from(brokers))) for device in devices}
    return frozenset(parents), devices


def ancestors(parents: frozenset[Pair], x: str) -> set[str]:
    """x, and what is above it."""
    return {x}.union(*(ancestors(parents, parent) for child, parent in parents if child == x))


@given(hierarchies())
def test_an_event_is_visible_if_and_only_if_there_is_a_common_ancestor(made: tuple[frozenset[Pair], list[str]]) -> None:
    parents, devices = made
    pairs = all_pairs(graph_of(hierarchy(parents, devices, ["a"])), routes=True)
    for x, y in product(devices, devices):
        if x != y:
            assert pairs.can(x, y) is bool(ancestors(parents, x) & ancestors(parents, y))


# A partial order that is not total: a diamond, with one label beside it.
LABELS = ("public", "left", "right", "top", "beside")
LOWER = {("public", "left"), ("public", "right"), ("public", "top"), ("left", "top"), ("right", "top")}


def at_most(low: str, high: str) -> bool:
    return low == high or (low, high) in LOWER


@st.composite
def labelled(draw: st.DrawFn) -> FlowGraph:
    """Any ensemble with any labels that meet §6.1.1: what a device reads is at most what it writes."""
    brokers = [f"b{at}" for at in range(draw(st.integers(1, 4)))]
    devices = {f"d{at}": draw(st.sampled_from(sorted(LOWER) + [(x, x) for x in LABELS])) for at in range(3)}
    label = st.sampled_from(LABELS)
    joined = draw(st.sets(st.sampled_from([(x, y) for x, y in product(brokers, brokers) if x < y] or [("", "")])))
    links = [Link(x, y, draw(label)) for x, y in both_ways(pair for pair in joined if pair[0])]
    for device, (reads, writes) in devices.items():
        for broker in draw(st.sets(st.sampled_from(brokers), min_size=1)):
            links += [Link(device, broker, writes), Link(broker, device, reads)]
    pairs = draw(st.sets(st.sampled_from(sorted(LOWER) + [(x, x) for x in LABELS])))
    kinds = dict.fromkeys(brokers, EntityKind.NODE) | dict.fromkeys(devices, EntityKind.DEVICE)
    return FlowGraph(kinds, tuple(links), dict.fromkeys(brokers, BrokeringTable.of_allow(pairs, LABELS)))


@given(labelled())
def test_labels_never_decrease_along_a_flow_path(graph: FlowGraph) -> None:
    for path in flow_paths(graph, 4, routes=False):
        types = [graph.by_ends[ends].type for ends in pairwise(path)]
        assert all(at_most(low, high) for low, high in pairwise(types))
    pairs = all_pairs(graph)
    assert all(at_most(a.type, b.type) for a in graph.links for b in pairs.links(a)), "on paths of any length"


def role_graph(members: dict[str, list[str]], pub: dict[str, set[str]], sub: dict[str, set[str]]) -> FlowGraph:
    schema = roles(
        members, {r: frozenset(some) for r, some in pub.items()}, {r: frozenset(some) for r, some in sub.items()}
    )
    editors = {(f"{r}_pub", "Bus"): (Automaton.of_filter(f"{r}-publishes", some),) for r, some in pub.items()}
    editors |= {("Bus", f"{r}_sub"): (Automaton.of_filter(f"{r}-hears", some),) for r, some in sub.items()}
    return graph_of(schema, editors)


def test_roles_limit_flows_to_what_one_publishes_and_the_other_hears() -> None:
    graph = role_graph(
        {"nurse": ["n"], "ward": ["w"], "guest": ["g"]},
        pub={"nurse": {"call"}, "ward": {"pulse", "door"}, "guest": {"door"}},
        sub={"nurse": {"pulse"}, "ward": {"call"}, "guest": {"door"}},
    )
    seen = {
        (x, y, topic)
        for x, y, topic in product("nwg", "nwg", ("call", "pulse", "door"))
        if x != y and reach(graph, x, y, topic, routes=True)
    }
    assert seen == {("n", "w", "call"), ("w", "n", "pulse"), ("w", "g", "door")}


def test_a_device_in_two_roles_has_the_flows_of_both_and_joins_them() -> None:
    graph = role_graph(
        {"one": ["s", "d"], "two": ["d", "t"]},
        pub={"one": {"a"}, "two": {"b"}},
        sub={"one": {"a"}, "two": {"b"}},
    )
    hears = {x: reach(graph, x, "d", topic, routes=True) is not None for x, topic in (("s", "a"), ("t", "b"))}
    assert hears == {"s": True, "t": True}
    assert reach(graph, "s", "t", "#", routes=True) is None
    joined = reach(graph, "s", "t", "#")
    assert joined is not None
    assert "d" in joined.entities[1:-1], "what `d` hears in one role it may publish in the other"


HOME = graph_of(smart_home(), SMART_HOME_EDITORS)


def test_policy_2_motion_takes_no_route_out_of_the_home() -> None:
    assert reach(HOME, "MD", "SP", "#", routes=True) is None
    near = nearest(HOME, "MD", "SP", "MD_motion", routes=True)
    assert near is not None
    assert [str(closure) for closure in near[1]] == [
        "denied: `allow` does not list from `sensitive` to `internet` at `H`"
    ]
    assert reach(HOME, "MD", "DB", "MD_motion", routes=True) is not None


def test_policy_2_what_the_bell_knows_of_motion_can_leak() -> None:
    """The brokering policy of §4.3 closes routes; a device that hears of motion may still tell the phone."""
    leak = reach(HOME, "MD", "SP", "MD_motion")
    assert leak is not None
    assert set(leak.entities[1:-1]) & {"DB", "SC"}


def test_policy_3_no_unlock_comes_from_the_internet() -> None:
    assert reach(HOME, "SP", "DL", "DL_unlock") is None
    near = nearest(HOME, "SP", "DL", "DL_unlock")
    assert near is not None
    assert [str(closure) for closure in near[1]] == ["`M1` suppresses `DL_unlock` at `I -> H`"]
    assert reach(HOME, "DB", "DL", "DL_unlock", routes=True) is not None
    assert reach(HOME, "SP", "DL", "AC_grant", routes=True) is not None


@st.composite
def trees(draw: st.DrawFn, monitored: bool) -> tuple[Schema, FlowGraph]:
    """A random tree of brokers with devices at them, everything subscribed to; with monitors on some links."""
    brokers = [f"b{at}" for at in range(draw(st.integers(1, 3)))]
    pairs = [(x, draw(st.sampled_from(brokers[:at]))) for at, x in enumerate(brokers) if at]
    devices = [f"d{at}" for at in range(draw(st.integers(2, 3)))]
    pairs += [(device, draw(st.sampled_from(brokers))) for device in devices]
    connections = ConnectionGraph(frozenset(devices), frozenset(brokers), both_ways(pairs))
    types = frozenset("rs")
    brokering = BrokeringPolicy(
        types,
        {link: draw(st.sampled_from("rs")) for link in sorted(connections.link)},
        frozenset(draw(st.sets(st.sampled_from(sorted(product(types, types))), min_size=1))),
    )
    some = draw(st.sets(st.sampled_from(sorted(connections.link)), max_size=3)) if monitored else set()
    monitors = {link: draw(automata(TOPICS)) for link in sorted(some)}
    events = EventPolicy(words(TOPICS), {link: as_semantics(monitor) for link, monitor in monitors.items()})
    sub = subscribed_to_all(connections, events.topics)
    schema = Schema(connections, brokering, events, sub, unordered)
    return schema, graph_of(schema, {link: (monitor,) for link, monitor in monitors.items()})


@settings(max_examples=some(60))
@given(trees(monitored=True), st.data())
def test_what_the_semantics_can_deliver_flow_analysis_finds(
    made: tuple[Schema, FlowGraph], data: st.DataObject
) -> None:
    schema, graph = made
    publishing = sorted(link for link in schema.graph.link if schema.graph.publish(*link))
    some = st.sampled_from(sorted(schema.events.topics))
    flow = [DevicePublication(*data.draw(st.sampled_from(publishing)), data.draw(some)) for _ in range(2)]
    for ordering in (by_publication, unordered):
        slow = Schema(schema.graph, schema.brokering, schema.events, schema.sub, ordering)
        for outcome in explore(slow, flow):
            for device, history in outcome.histories:
                last = {Link(told.broker, device) for told in history}
                for link in last:
                    assert any(reach(graph, one.device, link, parts(one.topic)[0], routes=True) for one in flow)


@given(trees(monitored=False))
def test_without_monitors_flow_routes_are_just_what_the_semantics_delivers(made: tuple[Schema, FlowGraph]) -> None:
    schema, graph = made
    pairs = all_pairs(graph, routes=True)
    for device, broker in sorted(link for link in schema.graph.link if schema.graph.publish(*link)):
        (outcome,) = explore(schema, [DevicePublication(device, broker, min(schema.events.topics))])
        told = {name for name, _ in outcome.histories}
        assert told == {name for name in pairs.entities(Link(device, broker)) if name in schema.graph.devices}
