"""Least-trustworthy paths of large networks, as an iterative job: what `policy.trust.vectors` computes, for all nodes.

A step continues every walk by one edge and keeps, for each origin and each last edge, the least sum. Walks that turn
back at once or return to their origin are left out, as nodes leave them out.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.errors import ArgumentError
from penstock.policy.trust.rating import UNIT

EDGES = "rated string not null, rater string not null, rating bigint not null"
"""Who is rated, by whom, and how high in millionths. Messages go from the rated node to the one that rates it."""
_WAYS = 2
"""Of the walks to a node, the least and the least over another last edge: one of them does not turn back."""


def least_sums(spark: SparkSession, edges: DataFrame, origins: Sequence[str], longest: int) -> DataFrame:
    """Return the least sums of walks from these origins: `origin, node, edges, total`.

    Walks have at most `longest` edges; with one less than there are nodes, every path is among them.
    Raises `ArgumentError` if a rating is not between 0 and 1.
    """
    if longest < 1:
        raise ArgumentError(f"walks have at least 1 edge, not `{longest}`")
    graph = _checked(edges)
    begun = spark.createDataFrame([(origin,) for origin in dict.fromkeys(origins)], "origin string")
    last = graph.join(F.broadcast(begun), F.col("origin") == F.col("rated")).where(F.col("rater") != F.col("origin"))
    last = last.select("origin", "rated", F.col("rater").alias("node"), F.col("rating").alias("total"))
    last = last.localCheckpoint()
    sums = _sums(last, 1)
    for length in range(2, longest + 1):
        last = _continued(last, graph).localCheckpoint()
        if last.isEmpty():
            break
        sums = sums.unionByName(_sums(last, length))
    graph.unpersist()
    return sums


def least_averages(spark: SparkSession, edges: DataFrame, origins: Sequence[str], longest: int) -> DataFrame:
    """Return the least-trustworthy path from each origin to each node: `origin, node, edges, total, rating`."""
    sums = least_sums(spark, edges, origins, longest)
    # A double tells any two such fractions apart, and equal ones are equal doubles.
    average = F.col("total") / F.col("edges")
    best = F.min(F.struct(average.alias("average"), "edges", "total")).alias("best")
    rating = (F.col("best.average") / F.lit(UNIT)).alias("rating")
    return sums.groupBy("origin", "node").agg(best).select("origin", "node", "best.edges", "best.total", rating)


def _checked(edges: DataFrame) -> DataFrame:
    others = edges.where(F.col("rated") != F.col("rater"))
    graph = others.groupBy("rated", "rater").agg(F.min("rating").alias("rating")).persist()
    wrong = graph.where(F.col("rating").isNull() | ~F.col("rating").between(0, UNIT)).first()
    if wrong is not None:
        graph.unpersist()
        raise ArgumentError(f"`{wrong.rater}` rates `{wrong.rated}` `{wrong.rating}`: expected 0 to {UNIT}")
    return graph


def _continued(last: DataFrame, graph: DataFrame) -> DataFrame:
    """Return every walk, over one edge more."""
    ways = F.array_sort(F.collect_list(F.struct("total", "rated")))
    ended = last.groupBy("origin", "node").agg(F.slice(ways, 1, _WAYS).alias("ways"))
    edge = graph.select(F.col("rated").alias("from"), F.col("rater").alias("to"), "rating")
    best = _first_not_from(F.col("to"))
    walks = ended.join(edge, (F.col("from") == F.col("node")) & (F.col("to") != F.col("origin")))
    ends = F.col("from").alias("rated"), F.col("to").alias("node")
    return walks.select("origin", *ends, (best + F.col("rating")).alias("total")).where(F.col("total").isNotNull())


def _first_not_from(node: Column) -> Column:
    """Return the least sum of the walks that do not come from this node; null if there are none."""
    first, second = F.get("ways", F.lit(0)), F.get("ways", F.lit(1))
    return F.when(first["rated"] != node, first["total"]).otherwise(second["total"])


def _sums(last: DataFrame, length: int) -> DataFrame:
    return last.groupBy("origin", "node").agg(F.lit(length).alias("edges"), F.min("total").alias("total"))
