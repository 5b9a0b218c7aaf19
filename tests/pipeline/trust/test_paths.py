"""Spark finds the least-trustworthy paths that an exhaustive search finds, and the sums that nodes come to."""

import random

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.trust.paths import EDGES, least_averages, least_sums
from penstock.policy.trust.rating import UNIT, Average, in_millionths
from tests.support.models.trust_graphs import FIGURE_4, Graph, Network, exhaustive, nodes_of


def _frame(spark: SparkSession, graph: Graph) -> DataFrame:
    return spark.createDataFrame([(*edge, in_millionths(rating)) for edge, rating in graph.items()], EDGES)


def _together(*graphs: Graph) -> Graph:
    """Several graphs as one, so that Spark has them in one job: they do not touch."""
    return {
        (f"g{at}{one}", f"g{at}{other}"): rating
        for at, graph in enumerate(graphs)
        for (one, other), rating in graph.items()
    }


def _random(draw: random.Random, is_cyclic: bool) -> Graph:
    names = [f"n{at}" for at in range(draw.randint(3, 6))]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    chosen = draw.sample(pairs, min(len(pairs), len(names) + 1))
    edges = [edge for one, other in chosen for edge in ([(one, other), (other, one)] if is_cyclic else [(one, other)])]
    return {edge: draw.randrange(UNIT + 1) / UNIT for edge in edges}


def test_the_worked_example_of_the_paper(interpreted: SparkSession) -> None:
    found = least_averages(interpreted, _frame(interpreted, FIGURE_4), ["b1", "b2", "b3"], 5)
    rows = {row.origin: row.rating for row in found.where("node = 'b6'").collect()}
    assert rows == pytest.approx({"b1": 0.5, "b2": 0.45, "b3": 0.4})


def test_random_acyclic_graphs_as_the_exhaustive_search_and_the_nodes(interpreted: SparkSession) -> None:
    draw = random.Random(8)
    graph = _together(*(_random(draw, is_cyclic=False) for _ in range(12)))
    names = nodes_of(graph)
    found: dict[str, dict[str, Average]] = {name: {} for name in names}
    for row in least_averages(interpreted, _frame(interpreted, graph), names, 5).collect():
        found[row.node][row.origin] = Average(row.total, row.edges)
    network = Network(graph, draw)
    network.deliver()
    for name in names:
        assert found[name] == exhaustive(graph, name)
        assert found[name] == network.tables[name].least()


def test_random_graphs_with_cycles_have_the_sums_that_nodes_come_to(interpreted: SparkSession) -> None:
    draw = random.Random(9)
    graph = _together(*(_random(draw, is_cyclic=True) for _ in range(6)))
    names = nodes_of(graph)
    longest = 4
    found = {
        (row.node, row.origin, row.edges): row.total
        for row in least_sums(interpreted, _frame(interpreted, graph), names, longest).collect()
    }
    network = Network(graph, draw, longest)
    network.deliver()
    expected = {
        (name, walk.origin, walk.edges): total
        for name, table in network.tables.items()
        for walk, total in table.sums().items()
    }
    assert found == expected


def test_a_rating_out_of_range_is_refused(interpreted: SparkSession) -> None:
    edges = interpreted.createDataFrame([("a", "b", UNIT + 1)], EDGES)
    with pytest.raises(ArgumentError, match="`b` rates `a` `1000001`"):
        least_sums(interpreted, edges, ["a"], 3)
