"""Flow paths and routes: by the definition of §6.1.1, by the semantics, and on the paper's own ensembles."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.analysis.flows import Witness, all_pairs, nearest, reach
from penstock.analysis.graph import EntityKind, FlowError, FlowGraph
from penstock.analysis.moves import Moves, Vertex
from penstock.model.link import Link
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.monitors.automaton import Automaton
from tests.support.generators.examples import some
from tests.support.models.automata import automaton
from tests.support.models.ensembles import both_ways
from tests.support.models.flow_graphs import flow_paths, floyd_warshall, graphs, is_flow_path

OPEN = BrokeringTable.of_deny((), ["t"])


def chain(names: str, monitors: dict[str, tuple[Automaton, ...]] | None = None) -> FlowGraph:
    """Entities in a row, such as `d x y e`: x, y and z are nodes, f is foreign, others are devices. All is allowed."""
    ends = names.split()
    kinds = {
        name: EntityKind.NODE if name in "xyz" else EntityKind.FOREIGN if name == "f" else EntityKind.DEVICE
        for name in ends
    }
    pairs = sorted(both_ways(pairwise(ends)))
    editors = {(link[0], link[1]): some for link, some in (monitors or {}).items()}
    nodes = [name for name, kind in kinds.items() if kind is EntityKind.NODE]
    return FlowGraph(kinds, tuple(Link(*pair, "t") for pair in pairs), dict.fromkeys(nodes, OPEN), editors)


def way(witness: Witness | None) -> str:
    return "" if witness is None else " ".join(witness.entities)


@given(graphs(), st.booleans())
def test_all_pairs_of_links_are_those_that_the_papers_algorithm_finds(graph: FlowGraph, routes: bool) -> None:
    pairs = all_pairs(graph, routes)
    assert {(a, b) for a in graph.links for b in pairs.links(a)} == floyd_warshall(graph, routes)


@given(graphs(), st.booleans())
def test_pairs_of_entities_are_those_of_their_links(graph: FlowGraph, routes: bool) -> None:
    pairs, closure = all_pairs(graph, routes), floyd_warshall(graph, routes)
    expected = {(a.source, b.target) for a, b in closure}
    assert {(x, y) for x in graph.kinds for y in pairs.entities(x)} == expected
    assert {(x, y) for x, y in product(graph.kinds, graph.kinds) if pairs.can(x, y)} == expected
    assert all(pairs.can(a, b) is ((a, b) in closure) for a, b in product(graph.links, graph.links))


@settings(max_examples=some(50))
@given(graphs(most_brokers=4, most_devices=2), st.booleans())
def test_a_witness_is_a_shortest_flow_path(graph: FlowGraph, routes: bool) -> None:
    most = 4
    shortest: dict[tuple[str, str], int] = {}
    for path in flow_paths(graph, most, routes):
        shortest.setdefault((path[0], path[-1]), len(path) - 1)
    for x, y in product(graph.kinds, graph.kinds):
        witness = reach(graph, x, y, routes=routes)
        if witness is not None:
            assert (witness.entities[0], witness.entities[-1]) == (x, y)
            assert is_flow_path(graph, witness.entities, routes)
        length = most + 1 if witness is None else len(witness.links)
        assert min(length, most + 1) == shortest.get((x, y), most + 1)


@given(graphs(), st.booleans())
def test_one_search_finds_what_all_pairs_say(graph: FlowGraph, routes: bool) -> None:
    pairs = all_pairs(graph, routes)
    ends: list[str | Link] = [*graph.kinds, *graph.links]
    for a, b in product(ends, ends):
        assert (reach(graph, a, b, routes=routes) is not None) is pairs.can(a, b)


@given(graphs(), st.booleans())
def test_the_nearest_way_is_open_if_any_is_and_says_what_closes_it_if_none_is(graph: FlowGraph, routes: bool) -> None:
    for x, y in product(graph.kinds, graph.kinds):
        witness, near = reach(graph, x, y, routes=routes), nearest(graph, x, y, routes=routes)
        if near is None:
            assert witness is None
        else:
            assert (near[1] == ()) is (witness is not None)


def test_an_event_is_not_sent_back_but_a_device_may_publish_it_again() -> None:
    graph = chain("d x e")
    assert way(reach(graph, "d", "e")) == "d x e"
    assert way(reach(graph, "d", "d")) == "d x e x d"
    assert reach(graph, "d", "d", routes=True) is None


def test_a_device_relays_on_paths_and_not_on_routes() -> None:
    graph = chain("d x e y g")
    assert way(reach(graph, "d", "g")) == "d x e y g"
    assert reach(graph, "d", "g", routes=True) is None
    assert way(reach(graph, "e", "g", routes=True)) == "e y g"


def test_a_foreign_broker_is_passed_by_routes_too_and_may_send_back() -> None:
    graph = chain("d x f y g")
    assert way(reach(graph, "d", "g", routes=True)) == "d x f y g"
    assert way(reach(graph, "d", "d", routes=True)) == "d x f x d"


def test_a_link_can_be_either_end() -> None:
    graph = chain("d x y e")
    assert way(reach(graph, Link("d", "x"), Link("y", "e"))) == "d x y e"
    assert way(reach(graph, Link("x", "y"), "e")) == "x y e"
    assert way(reach(graph, Link("d", "x"), Link("d", "x"))) == "d x"
    assert reach(graph, Link("y", "e"), Link("x", "d"), routes=True) is None


@pytest.mark.parametrize("end", ["nobody", Link("d", "e")], ids=str)
def test_an_end_that_is_not_there_is_an_error(end: str | Link) -> None:
    for ends in ((end, "d"), ("d", end)):
        with pytest.raises(FlowError, match="there is no"):
            reach(chain("d x e"), *ends)


def test_a_witness_shows_the_types_of_its_links() -> None:
    assert str(reach(chain("d x e"), "d", "e")) == "d -[t]-> x -[t]-> e"


# Topics: what monitors surely suppress ends the way, what they rename goes on under its new name.

KEEP_A = Automaton.of_filter("keep-a", ["a/#"])
RENAME = Automaton.of_mapper("rename", {"a/+": "b/{1}"})
KEEP_B = Automaton.of_filter("keep-b", ["b/#"])


def test_without_a_filter_monitors_are_not_asked() -> None:
    assert reach(chain("d x y e", {"xy": (KEEP_A,), "ye": (KEEP_B,)}), "d", "e") is not None


@pytest.mark.parametrize(("on", "is_open"), [("a/1", True), ("a/+", True), ("#", True), ("c", False), ("b/1", False)])
def test_a_filter_lets_its_topics_through(on: str, is_open: bool) -> None:
    graph = chain("d x y e", {"xy": (KEEP_A,)})
    assert (reach(graph, "d", "e", on) is not None) is is_open
    assert all_pairs(graph, on=on).can("d", "e") is is_open


def test_two_filters_that_share_nothing_leave_nothing_of_any_topic() -> None:
    assert reach(chain("d x y e", {"xy": (KEEP_A,), "ye": (KEEP_B,)}), "d", "e", "#") is None
    assert reach(chain("d x y e", {"xy": (KEEP_A, KEEP_B)}), "d", "e", "#") is None


def test_a_renamed_topic_goes_on_under_its_new_name() -> None:
    graph = chain("d x y e", {"dx": (RENAME,), "xy": (KEEP_B,)})
    witness = reach(graph, "d", "e", "a/1")
    assert witness is not None
    assert witness.topics == ("b/1", "b/1", "b/1")
    assert reach(graph, "d", "e", "a/1/2") is None


def test_a_monitor_on_the_last_link_counts() -> None:
    assert reach(chain("d x e", {"xe": (KEEP_A,)}), "d", "e", "b") is None


def test_a_monitor_on_the_first_link_counts() -> None:
    assert reach(chain("d x e", {"dx": (KEEP_A,)}), "d", "e", "b") is None


@pytest.mark.parametrize("relay", ["e", "f"])
def test_a_device_or_a_foreign_broker_may_pass_it_on_under_any_topic(relay: str) -> None:
    graph = chain(f"d x {relay} y g", {"yg": (KEEP_B,)})
    assert reach(graph, "d", "g", "a/1") is not None
    assert reach(chain("d x y g", {"yg": (KEEP_B,)}), "d", "g", "a/1") is None


def test_an_event_that_a_monitor_makes_in_some_state_may_come() -> None:
    later = automaton({"q0": {"go": {"suppress": True, "next": "q1"}}, "q1": {"a": {"emit": ["b/x"]}}})
    graph = chain("d x e", {"dx": (later,), "xe": (KEEP_B,)})
    assert reach(graph, "d", "e", "a") is not None
    assert reach(graph, "d", "e", "go") is None


def test_what_a_condition_decides_may_come_either_way() -> None:
    by_content = automaton({"q0": {"a": [{"when": "x", "suppress": True}, {"when": "y", "emit": ["b/x"]}, "pass"]}})
    assert reach(chain("d x e", {"dx": (by_content,)}), "d", "e", "a") is not None, "it may not be suppressed"
    assert reach(chain("d x e", {"dx": (by_content, KEEP_B)}), "d", "e", "a") is not None, "another may be in its place"
    always = automaton({"q0": {"a": [{"when": "x", "suppress": True}, "suppress"], "*": "pass"}})
    assert reach(chain("d x e", {"dx": (always,)}), "d", "e", "a") is None, "whatever the content is"


def test_renaming_for_ever_comes_to_an_end() -> None:
    longer = Automaton.of_mapper("longer", {"#": "a/{topic}"})
    ends = both_ways([("x", "y"), ("y", "z"), ("z", "x"), ("d", "x"), ("e", "x")])
    ring = FlowGraph(
        {
            "x": EntityKind.NODE,
            "y": EntityKind.NODE,
            "z": EntityKind.NODE,
            "d": EntityKind.DEVICE,
            "e": EntityKind.DEVICE,
        },
        tuple(Link(*pair, "t") for pair in sorted(ends)),
        dict.fromkeys("xyz", OPEN),
        {("x", "y"): (longer,), ("x", "e"): (Automaton.of_filter("none", ["c"]),)},
    )
    assert reach(ring, "d", "e", "a") is not None, "after so many names any topic is taken as possible"
    assert reach(ring, "d", "z", "a") is not None


def test_what_closes_the_nearest_way() -> None:
    graph = chain("d x y e", {"xy": (KEEP_A,)})
    near = nearest(graph, "d", "e", "b")
    assert near is not None
    assert way(near[0]) == "d x y e"
    assert [str(closure) for closure in near[1]] == ["`keep-a` suppresses `b` at `x -> y`"]


def test_a_monitor_on_the_first_link_is_named() -> None:
    near = nearest(chain("d x e", {"dx": (KEEP_B, KEEP_A)}), "d", "e", "b/1")
    assert near is not None
    assert [str(closure) for closure in near[1]] == ["`keep-a` suppresses `b/1` at `d -> x`"]


def test_a_device_in_the_middle_closes_a_route() -> None:
    near = nearest(chain("d x e y g"), "d", "g", routes=True)
    assert near is not None
    assert [str(closure) for closure in near[1]] == ["a route has no device in the middle at `e`"]


def test_a_table_is_named_by_its_entry() -> None:
    graph = FlowGraph(
        {"d": EntityKind.DEVICE, "x": EntityKind.NODE, "e": EntityKind.DEVICE},
        (Link("d", "x", "in"), Link("x", "d", "in"), Link("e", "x", "in"), Link("x", "e", "out")),
        {"x": BrokeringTable.of_deny([("in", "out")], ["in", "out"])},
    )
    near = nearest(graph, "d", "e")
    assert near is not None
    assert [str(closure) for closure in near[1]] == ["denied by `deny` from `in` to `out` at `x`"]


def test_no_links_no_way() -> None:
    graph = FlowGraph({"d": EntityKind.DEVICE, "x": EntityKind.NODE}, (), {"x": OPEN})
    assert nearest(graph, "d", "x") is None


BAD_GRAPHS = {
    "an unknown entity": lambda: FlowGraph({"x": EntityKind.NODE}, (Link("d", "x"),), {"x": OPEN}),
    "two links have the same ends": lambda: FlowGraph(
        {"d": EntityKind.DEVICE, "x": EntityKind.NODE}, (Link("d", "x", "t"), Link("d", "x", "u")), {"x": OPEN}
    ),
    "does not join a node": lambda: FlowGraph({"d": EntityKind.DEVICE, "e": EntityKind.DEVICE}, (Link("d", "e"),), {}),
    "just nodes have a brokering table": lambda: FlowGraph({"x": EntityKind.NODE}, (), {}),
    "which is not a link": lambda: FlowGraph({"x": EntityKind.NODE}, (), {"x": OPEN}, {("x", "y"): ()}),
}


@pytest.mark.parametrize("mistake", BAD_GRAPHS)
def test_a_graph_that_does_not_fit_together_is_refused(mistake: str) -> None:
    with pytest.raises(FlowError, match="unknown entity" if "unknown" in mistake else mistake):
        BAD_GRAPHS[mistake]()


def test_the_steps_at_a_busy_node_grow_with_its_links_and_not_with_pairs_of_them() -> None:
    devices, types = [f"d{at}" for at in range(300)], ["r", "s", "t"]
    links = [Link(*ends, types[at % 3]) for at, ends in enumerate(sorted(both_ways((d, "x") for d in devices)))]
    kinds = {"x": EntityKind.NODE, **dict.fromkeys(devices, EntityKind.DEVICE)}
    moves = Moves(FlowGraph(kinds, tuple(links), {"x": BrokeringTable.of_deny((), types)}), routes=True)
    seen = set[Vertex](start for link in links for start in moves.starts(link))
    pending, steps = list(seen), 0
    while pending:
        after = list(moves.open(pending.pop()))
        steps += len(after)
        pending += set(after) - seen
        seen |= set(after)
    assert steps < 3 * len(links) * len(types)
