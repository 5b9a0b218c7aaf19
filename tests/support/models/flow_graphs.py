"""Graphs for flow analysis: of the paper's ensembles, and random ones; and the definition of §6.1.1, word for word."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from hypothesis import strategies as st

from penstock.analysis.graph import Editor, EntityKind, FlowGraph
from penstock.language.condition import make_condition
from penstock.model.link import Link
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.monitors.action import PASS, Action, MonitorOutput
from penstock.policy.monitors.automaton import Automaton
from penstock.semantics.schema import Pair, Schema
from tests.support.models.automata import M1, M2, automaton


def graph_of(schema: Schema, editors: Mapping[Pair, tuple[Editor, ...]] | None = None) -> FlowGraph:
    """What flow analysis sees of a schema, given what it may know of the monitors."""
    brokering = schema.brokering
    kinds = dict.fromkeys(sorted(schema.graph.brokers), EntityKind.NODE)
    kinds |= dict.fromkeys(sorted(schema.graph.devices), EntityKind.DEVICE)
    tables = {
        node: BrokeringTable.of_allow(brokering.overrides.get(node, brokering.allow), brokering.types)
        for node in schema.graph.brokers
    }
    links = tuple(Link(x, y, brokering.type[x, y]) for x, y in sorted(schema.graph.link))
    return FlowGraph(kinds, links, tables, editors or {})


SMART_HOME_EDITORS: Mapping[Pair, tuple[Editor, ...]] = {
    ("I", "H"): (automaton(M1, "M1"),),
    ("H", "S"): (automaton(M2, "M2"),),
}


def is_flow_path(graph: FlowGraph, xs: Sequence[str], routes: bool = False) -> bool:
    """§6.1.1: a sequence x0 x1 ... xn of entities is a flow path if
    (a) (x_i, x_i+1) is in link for 0 <= i < n,
    (b) for 0 < i < n, if x_i is a broker, then x_i-1 != x_i+1 and propagate(x_i-1, x_i, x_i+1).
    It is a flow route when none of the entities other than the two ends is a device.
    """
    link, n = graph.by_ends, len(xs) - 1
    if not all((xs[i], xs[i + 1]) in link for i in range(n)):
        return False
    for i in range(1, n):
        before, here, after = xs[i - 1 : i + 2]
        if graph.kinds[here] is EntityKind.DEVICE:
            if routes:
                return False
        elif before == after or not graph.allows(here, link[before, here].type, link[here, after].type):
            return False
    return True


def flow_paths(graph: FlowGraph, most: int, routes: bool) -> Iterator[tuple[str, ...]]:
    """Every flow path of one link up to `most`, by trying every sequence."""
    paths: list[tuple[str, ...]] = [(name,) for name in graph.kinds]
    for _ in range(most):
        longer = ((*path, name) for path, name in product(paths, graph.kinds))
        paths = [path for path in longer if is_flow_path(graph, path, routes)]
        yield from paths


def floyd_warshall(graph: FlowGraph, routes: bool) -> set[tuple[Link, Link]]:
    """The paper's own algorithm, O(M^3): all pairs of links of which the second is on a flow path from the first."""
    links = graph.links
    found = {(a, a) for a in links}
    found |= {(a, b) for a, b in product(links, links) if a[1] == b[0] and is_flow_path(graph, (*a[:2], b[1]), routes)}
    for via in links:
        before = [a for a in links if (a, via) in found]
        after = [b for b in links if (via, b) in found]
        found |= set(product(before, after))
    return found


@st.composite
def graphs(draw: st.DrawFn, most_brokers: int = 5, most_devices: int = 3) -> FlowGraph:
    """Any connection graph, cyclic ones included, with any types and any table, for each broker its own."""
    brokers = [f"b{at}" for at in range(draw(st.integers(1, most_brokers)))]
    devices = [f"d{at}" for at in range(draw(st.integers(0, most_devices)))]
    types = ["r", "s", "t"][: draw(st.integers(1, 3))]
    connections = [(x, y) for at, x in enumerate(brokers) for y in [*brokers[at + 1 :], *devices]]
    ends = draw(st.sets(st.sampled_from(connections))) if connections else set()
    links = tuple(
        Link(*link, draw(st.sampled_from(types))) for pair in sorted(ends) for link in (pair, (pair[1], pair[0]))
    )
    pairs = st.sets(st.sampled_from(list(product(types, types))))
    tables = {broker: BrokeringTable.of_deny(draw(pairs), types) for broker in brokers}
    return FlowGraph(dict.fromkeys(brokers, EntityKind.NODE) | dict.fromkeys(devices, EntityKind.DEVICE), links, tables)


@st.composite
def automata(draw: st.DrawFn, topics: Sequence[str], name: str = "m") -> Automaton:
    """Small automata that pass, suppress, rename and inject, by state and by content."""
    states = ["q0", "q1"][: draw(st.integers(1, 2))]
    made = st.sampled_from(topics).map(MonitorOutput)
    outputs = st.one_of(st.just(PASS.outputs), st.lists(made, max_size=2).map(tuple))
    following = st.sampled_from([*states, None])
    sure = st.builds(Action, outputs, following)
    guarded = st.builds(Action, outputs, following, st.sampled_from([make_condition("value == 1")]))
    actions = st.one_of(sure, guarded, st.tuples(guarded, sure))
    edges = st.dictionaries(st.sampled_from([*topics, "*"]), actions, min_size=1)
    return Automaton.of_states(name, {state: draw(edges) for state in states})
