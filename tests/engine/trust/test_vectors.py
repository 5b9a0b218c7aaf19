"""Least-trustworthy paths, as nodes compute them over their links: what an exhaustive search finds, again and again."""

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.trust.rating import Average, in_millionths
from tests.support.generators.examples import some
from tests.support.models.trust_graphs import Edge, Graph, acyclic, exhaustive, linked, nodes_of

SEEN = 1_000_000.0


def play(graph: Graph) -> Rehearsal:
    """Nodes with these links, whose evidence of each other makes these ratings."""
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem"} for name in nodes_of(graph)},
            "links": [{"between": list(pair)} for pair in links_of(graph)],
            "tokens": {"keys": "keys.json"},
            "trust": {"rule": "path", "interval": 0.05, "begin": [begin(*edge, graph[edge]) for edge in graph]},
        }
    )
    return Rehearsal(domain, ensemble(domain))


def begin(of: str, by: str, rating: float) -> dict[str, Any]:
    """Evidence that is rated so: the two that count for uncertainty are halves."""
    good = min(SEEN, max(0.0, rating * (SEEN + 2) - 1))
    return {"of": of, "by": by, "good": good, "bad": SEEN - good}


def links_of(graph: Graph) -> list[Edge]:
    return sorted({(min(pair), max(pair)) for pair in graph})


def rated(rehearsal: Rehearsal, graph: Graph, cut: frozenset[Edge]) -> dict[Edge, float]:
    """The ratings that there are: of links that are up, as the nodes themselves have them."""
    found: dict[Edge, float] = {}
    for first, second in links_of(graph):
        for of, by in ((first, second), (second, first)):
            ratings = rehearsal.nodes[by].trust.ratings
            assert ratings is not None
            if (first, second) not in cut:
                found[of, by] = ratings.rating(of, rehearsal.now)
                assert abs(found[of, by] - graph.get((of, by), 0.5)) < 2e-6
    return found


def by_walking(graph: Mapping[Edge, float], links: list[Edge], target: str, longest: int) -> dict[str, Average]:
    """The least average over all walks that never turn back at once nor return to where they began (0031).

    A node believes a neighbour only about nodes that are beyond it by the domain's links, whether or not these are up.
    """
    found: dict[str, Average] = {}
    for origin in nodes_of(graph):
        steps = {edge: rating for edge, rating in graph.items() if is_beyond(links, origin, *edge)}
        for total, edges in _walks(steps, target, longest, (origin,), 0):
            average = Average(total, edges)
            found[origin] = min(found.get(origin, average), average)
    return found


def is_beyond(links: list[Edge], origin: str, neighbour: str, node: str) -> bool:
    """Whether the neighbour can be reached from the origin without the node."""
    found, before = {origin} - {node}, set[str]()
    while found != before:
        before = set(found)
        found |= {two for pair in links for one, two in (pair, pair[::-1]) if one in found and two != node}
    return neighbour in found


def _walks(
    graph: Mapping[Edge, float], target: str, longest: int, walk: tuple[str, ...], total: int
) -> Iterator[tuple[int, int]]:
    if walk[-1] == target and len(walk) > 1:
        yield total, len(walk) - 1
    if len(walk) <= longest:
        for (before, after), rating in graph.items():
            if before == walk[-1] and after != walk[0] and after not in walk[-2:-1]:
                yield from _walks(graph, target, longest, (*walk, after), total + in_millionths(rating))


def least(rehearsal: Rehearsal, node: str) -> dict[str, Average]:
    ratings = rehearsal.nodes[node].trust.ratings
    assert ratings is not None
    return dict(ratings.least)


def change(rehearsal: Rehearsal, data: st.DataObject, graph: Graph, cut: frozenset[Edge]) -> frozenset[Edge]:
    """Cut a link, let one come back, or kill a node; which links are cut then."""
    links = links_of(graph)
    match data.draw(st.sampled_from(["cut", "restore", "restart"])):
        case "cut":
            link = data.draw(st.sampled_from(links))
            rehearsal.cut(*link)
            return cut | {link}
        case "restore" if cut:
            link = data.draw(st.sampled_from(sorted(cut)))
            rehearsal.restore(*link)
            return cut - {link}
        case _:
            rehearsal.restart(data.draw(st.sampled_from(nodes_of(graph))))
            return cut


@settings(max_examples=some(15))
@given(linked(extra=0, most=6), st.data())
def test_on_trees_it_is_the_exhaustive_search_over_all_paths(graph: Graph, data: st.DataObject) -> None:
    rehearsal, cut = play(graph), frozenset[Edge]()
    for _ in range(4):
        there = rated(rehearsal, graph, cut)
        for node in nodes_of(graph):
            assert least(rehearsal, node) == exhaustive(there, node), (node, cut)
        cut = change(rehearsal, data, graph, cut)


@settings(max_examples=some(15))
@given(acyclic(most=5), st.data())
def test_on_directed_acyclic_graphs_whose_links_also_lead_back(graph: Graph, data: st.DataObject) -> None:
    """A link is a connection, which each end rates: the way back is there too. So it is all walks that are compared."""
    rehearsal, cut = play(graph), frozenset[Edge]()
    for _ in range(4):
        check_walks(rehearsal, graph, cut)
        cut = change(rehearsal, data, graph, cut)


def test_walks_through_a_node_back_to_it_are_not_believed_where_there_is_no_other_way() -> None:
    """n3 is beyond nobody but n0: n0 does not believe n2, which has it from n0 itself, over n1."""
    graph = {("n0", at): 0.0 for at in ("n1", "n2", "n3", "n4")} | {("n1", "n2"): 0.0}
    rehearsal = play(graph)
    check_walks(rehearsal, graph, frozenset())
    assert least(rehearsal, "n0")["n3"].edges == 1


def check_walks(rehearsal: Rehearsal, graph: Graph, cut: frozenset[Edge]) -> None:
    there, longest = rated(rehearsal, graph, cut), max(1, len(nodes_of(graph)) - 1)
    for node in nodes_of(graph):
        found = least(rehearsal, node)
        assert found == by_walking(there, links_of(graph), node, longest), (node, cut)
        paths = exhaustive(there, node)
        assert found.keys() == paths.keys()
        assert all(found[origin] <= paths[origin] for origin in paths), "it errs on the safe side"
