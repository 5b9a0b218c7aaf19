"""Nodes that exchange vectors come to what an exhaustive search finds, in whatever order messages arrive."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import UNIT, Average, ReceivedToken, Thresholds, by_path
from penstock.policy.trust.vectors import TrustTable, Update, Walk
from tests.support.generators.examples import some
from tests.support.models.trust_graphs import FIGURE_4, Graph, Network, acyclic, exhaustive, linked, nodes_of

seeds = st.integers(0, 2**32).map(random.Random)


def _check(network: Network) -> None:
    for node, table in network.tables.items():
        assert table.least() == exhaustive(network.graph, node), node


def test_the_worked_example_of_the_paper() -> None:
    """§II-D: 0.45 from b2, 0.4 from b3, 0.5 from b1; accepted at θ = 0.5 because b1 has signed."""
    network = Network(FIGURE_4, random.Random(1))
    network.deliver()
    least = network.tables["b6"].least(("b1", "b2", "b3"))
    assert {origin: average.rating for origin, average in least.items()} == {"b1": 0.5, "b2": 0.45, "b3": 0.4}
    thresholds = Thresholds(0.6, 0.5)
    through = network.tables["b6"].through("b4")
    assert through == {"b1", "b2", "b3", "b4"}
    assert by_path(ReceivedToken({"b1", "b2", "b3"}, "b4", through, 3), {}, least, thresholds).accepts
    assert not by_path(ReceivedToken({"b2", "b3"}, "b4", through, 3), {}, least, thresholds).accepts


def test_the_least_average_is_not_made_of_least_averages() -> None:
    """To c, the path over b is the worse one; but to d, the direct one is, because the rest weighs more on it."""
    graph = {("a", "c"): 0.5, ("a", "b"): 0.3, ("b", "c"): 0.6, ("c", "d"): 0.1}
    network = Network(graph, random.Random(1))
    network.deliver()
    assert network.tables["c"].least()["a"] == Average(900_000, 2)
    assert network.tables["d"].least()["a"] == Average(600_000, 2)


@given(acyclic(), seeds)
def test_on_acyclic_graphs_it_is_the_exhaustive_search(graph: Graph, draw: random.Random) -> None:
    network = Network(graph, draw)
    network.deliver()
    _check(network)


@given(linked(extra=0), seeds)
def test_on_trees_with_links_in_both_directions_too(graph: Graph, draw: random.Random) -> None:
    network = Network(graph, draw)
    network.deliver()
    _check(network)


@settings(max_examples=some(40))
@given(linked(most=5), seeds)
def test_on_graphs_with_cycles_it_errs_on_the_safe_side(graph: Graph, draw: random.Random) -> None:
    network = Network(graph, draw)
    network.deliver()
    for node, table in network.tables.items():
        paths = exhaustive(graph, node)
        found = table.least()
        assert found.keys() == paths.keys()
        assert all(found[origin] <= paths[origin] for origin in paths)


@settings(max_examples=some(60))
@given(acyclic(), seeds, st.data())
def test_it_converges_after_changes_losses_and_restarts(graph: Graph, draw: random.Random, data: st.DataObject) -> None:
    network = Network(graph, draw)
    for _ in range(data.draw(st.integers(1, 4))):
        network.deliver(most=draw.randrange(12), loss=0.2)
        edge = draw.choice(sorted(graph))
        match draw.choice(("rate", "cut", "restart")):
            case "rate":
                network.rate(edge, draw.random())
            case "cut" if edge in network.graph:
                network.cut(edge)
            case "restart":
                network.restart(edge[0])
    network.deliver(loss=0.2)
    _check(network)


@settings(max_examples=some(30))
@given(linked(most=5), seeds)
def test_what_is_no_longer_true_is_forgotten_on_cycles_too(graph: Graph, draw: random.Random) -> None:
    """No counting to infinity: cut one node off; nobody knows a path from it any more."""
    network = Network(graph, draw)
    network.deliver()
    gone = nodes_of(graph)[-1]
    for edge in [edge for edge in graph if gone in edge]:
        network.cut(edge)
    network.deliver()
    assert all(gone not in table.least() for table in network.tables.values())
    assert network.tables[gone].least() == {}


def test_a_change_is_told_as_a_difference() -> None:
    table = TrustTable("b", 4)
    table.set_rating("a", 0.5)
    first = table.update_for("c")
    assert first is not None
    assert first.is_whole
    assert table.update_for("c") is None
    table.set_rating("z", 0.25)
    assert table.update_for("c") == Update(2, False, {Walk("z", 1): 250_000})
    table.forget("a")
    assert table.update_for("c") == Update(3, False, {Walk("a", 1): None})
    table.resend_whole("c")
    assert table.update_for("c") == Update(4, True, {Walk("b", 0): 0, Walk("z", 1): 250_000})


def test_a_neighbour_is_not_told_of_walks_from_it_or_through_it() -> None:
    table = TrustTable("b", 4)
    for neighbour in ("a", "c"):
        table.set_rating(neighbour, 0.5)
    table.receive("a", Update(1, True, {Walk("z", 1): 0, Walk("c", 1): 0}))
    assert set(table.vector_for("a")) == {Walk("b", 0), Walk("c", 1)}
    assert set(table.vector_for("c")) == {Walk("b", 0), Walk("a", 1), Walk("z", 2)}


def test_a_neighbour_is_believed_only_about_paths_through_it() -> None:
    """What it says is continued by our rating of it, and does not touch what others say or what we know ourselves."""
    table = TrustTable("me", 5)
    table.set_rating("liar", 0.2)
    table.set_rating("friend", 0.9)
    table.receive("friend", Update(1, True, {Walk("x", 1): 800_000}))
    table.receive("liar", Update(1, True, {Walk("friend", 1): 1_000_000, Walk("me", 1): 0, Walk("liar", 1): 0}))
    least = table.least()
    assert least["friend"] == Average(1_200_000, 2), "the path over the liar counts, with our rating of the liar"
    assert least["liar"] == Average(200_000, 1), "not what it says of itself"
    assert least["x"] == Average(1_700_000, 2)
    assert "me" not in least


def test_a_neighbour_that_is_not_rated_is_rated_0() -> None:
    table = TrustTable("me", 3)
    table.receive("new", Update(1, True, {Walk("x", 1): 1_000_000}))
    assert table.least() == {"new": Average(0, 1), "x": Average(1_000_000, 2)}


@pytest.mark.parametrize(
    ("sums", "what"),
    [
        pytest.param({Walk("x", 1): 1_000_001}, "sum to", id="more than every edge can have"),
        pytest.param({Walk("x", 2): -1}, "sum to", id="less than nothing"),
        pytest.param({Walk("x", -1): 0}, "edges", id="fewer edges than none"),
        pytest.param({Walk("x", 0): 0}, "says that it is `x`", id="another name"),
        pytest.param({Walk(f"x{at}", 1): 0 for at in range(5)}, "more than 4 nodes", id="more nodes than there are"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(sums: dict[Walk, int | None], what: str) -> None:
    table = TrustTable("me", 4)
    table.set_rating("a", 0.5)
    table.receive("a", Update(1, True, {Walk("y", 1): 7}))
    before = table.sums()
    with pytest.raises(PolicyError, match=what):
        table.receive("a", Update(2, True, sums))
    assert table.sums() == before


def test_updates_that_come_late_are_left_out_and_a_missing_one_is_noticed() -> None:
    table = TrustTable("me", 4)
    table.set_rating("a", 0.5)
    assert table.receive("a", Update(2, True, {Walk("y", 1): 7}))
    assert table.receive("a", Update(1, True, {Walk("y", 1): 9}))
    assert table.sums()[Walk("y", 2)] == 500_007
    assert not table.receive("a", Update(4, False, {Walk("y", 1): None}))
    assert table.sums()[Walk("y", 2)] == 500_007


def test_walks_are_bounded() -> None:
    table = TrustTable("me", 9, longest=2)
    table.set_rating("a", 0.5)
    table.receive("a", Update(1, True, {Walk("y", 1): 7, Walk("z", 2): 7}))
    assert set(table.sums()) == {Walk("a", 1), Walk("y", 2)}
    assert set(table.vector_for("c")) == {Walk("me", 0), Walk("a", 1)}


NEIGHBOURS, ORIGINS = ("p", "q", "r"), ("p", "q", "x", "y", "me")
sums = st.dictionaries(st.builds(Walk, st.sampled_from(ORIGINS), st.integers(1, 3)), st.integers(0, UNIT) | st.none())


def all_sums(ratings: dict[str, int], announced: dict[str, dict[Walk, int]], but: str, longest: int) -> dict[Walk, int]:
    """Every walk that there is, anew: the oracle of what is told in pieces."""
    least: dict[Walk, int] = {Walk("me", 0): 0}
    for neighbour in announced.keys() - {but}:
        known = {Walk(neighbour, 0): 0, **announced[neighbour]}
        for walk, total in known.items():
            longer = Walk(walk.origin, walk.edges + 1)
            if walk.origin != but and longer.edges < longest:
                new = total + ratings.get(neighbour, 0)
                least[longer] = min(new, least.get(longer, new))
    return least


@settings(max_examples=some(100))
@given(st.data())
def test_what_is_told_piece_by_piece_is_the_whole(data: st.DataObject) -> None:
    """Ratings, updates and lost links in any order, and no more room in a message than for some sums."""
    table, longest = TrustTable("me", 6, longest=3), 3
    ratings: dict[str, int] = {}
    announced: dict[str, dict[Walk, int]] = {}
    told: dict[str, dict[Walk, int]] = {}
    numbers: dict[str, int] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        neighbour = data.draw(st.sampled_from(NEIGHBOURS))
        match data.draw(st.sampled_from(["rate", "hear", "hear", "hear whole", "forget", "tell", "tell", "again"])):
            case "rate":
                ratings[neighbour] = data.draw(st.integers(0, UNIT))
                announced.setdefault(neighbour, {})
                table.set_rating(neighbour, ratings[neighbour] / UNIT)
            case "forget":
                for kept_of in (ratings, announced, told, numbers):
                    kept_of.pop(neighbour, None)
                table.forget(neighbour)
            case "tell":
                tell(table, neighbour, told, data.draw(st.integers(0, 200)))
            case "again":
                table.resend_whole(neighbour)
            case how:
                news = data.draw(sums)
                known = {} if how == "hear whole" or neighbour not in announced else announced[neighbour]
                is_whole = known is not announced.get(neighbour)
                numbers[neighbour] = numbers.get(neighbour, 0) + (data.draw(st.integers(1, 3)) if is_whole else 1)
                assert table.receive(neighbour, Update(numbers[neighbour], is_whole, news))
                kept = {walk: total for walk, total in {**known, **news}.items() if total is not None}
                announced[neighbour] = {
                    walk: total
                    for walk, total in kept.items()
                    if walk.origin not in (neighbour, "me") and walk.edges < longest
                }
    for neighbour in NEIGHBOURS:
        assert table.vector_for(neighbour) == all_sums(ratings, announced, neighbour, longest)
        while tell(table, neighbour, told, data.draw(st.integers(0, 200))):
            pass
        assert told[neighbour] == all_sums(ratings, announced, neighbour, longest)


def tell(table: TrustTable, neighbour: str, told: dict[str, dict[Walk, int]], room: int) -> bool:
    """Let a neighbour take the next update; whether there was one."""
    update = table.update_for(neighbour, room)
    if update is None:
        return False
    entries = [[walk.origin, walk.edges, total] for walk, total in update.sums.items()]
    assert len(entries) == 1 or len(json.dumps(entries, separators=(",", ":"))) <= room + 2, "beside the outer brackets"
    known = {} if update.is_whole else told[neighbour]
    told[neighbour] = {walk: total for walk, total in {**known, **update.sums}.items() if total is not None}
    return True


def test_only_what_a_change_concerns_is_told_again() -> None:
    table = TrustTable("me", 100)
    for neighbour in ("a", "b", "c"):
        table.set_rating(neighbour, 0.5)
        origins = {Walk(f"{neighbour}{at}", 1): 500_000 for at in range(30)}
        assert table.receive(neighbour, Update(1, True, origins))
    for neighbour in ("a", "b"):
        assert table.update_for(neighbour) is not None
    table.receive("c", Update(2, False, {Walk("c7", 1): 400_000}))
    assert table.update_for("a") == Update(2, False, {Walk("c7", 2): 900_000})
    table.set_rating("b", 0.4)
    changed = table.update_for("a")
    assert changed is not None
    assert {walk.origin for walk in changed.sums} == {"b", *(f"b{at}" for at in range(30))}
    assert not table.set_rating("b", 0.4)
    assert table.update_for("a") is None
