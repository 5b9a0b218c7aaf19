"""Where recorded events would have come to in the whole ensemble, if everybody had subscribed to everything.

A view has what came to a subject's own node. What another node did not pass on never came there, so a view cannot say
what other policies would let through. A journey begins where an event began, at the node that a client gave it to, and
goes on from node to node as policies say.

What goes on by a link depends on what comes by others, and a monitor must see all of it in order. So all links are
worked out again and again, each time with one more node on the way, until the longest way has been gone. Where nodes
are joined in a cycle that is not enough: what a monitor made of an event may have been made in a state that it would
not have been in, as events that came by longer ways were still missing before it. So they are worked out until nothing
changes. That ends: with all right up to some event, the next one is right as soon as it has gone the longest way.
"""

from dataclasses import replace
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame

from penstock.domain import Ensemble
from penstock.engine.federation.wants import NODE_PREFIX
from penstock.journal.read.events import ARRIVAL, OUTPUT
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages.govern import arrivals, run
from penstock.pipeline.stages.stage import Traffic
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F, Window
from penstock.pipeline.tables.view import EVENT

_FIRST_DAY = "2020-01-01"
_PLACE_BITS, _DAY_BITS = 16, 48
"""An arrival's number: 15 bits for the day, 32 for its place in it, 16 for its place among what was made of it."""
_PART_ROWS = 20_000
"""Rows for which a task of its own is worth while."""


class Journeys(NamedTuple):
    """What came of events."""

    seen: DataFrame
    """What subjects are given: `subject`, `node`, `origin`, `topic`, `payload`, `path`."""
    passed: DataFrame
    """What came to nodes from other nodes, likewise; the node is the subject."""


def origins(events: DataFrame, recording: frozenset[str]) -> DataFrame:
    """Return events where they began, numbered in the order of time, with the columns of `events`.

    What came from a node that records is left out: it began elsewhere. `arrival` is the event's number from now on, and
    `id` says the same, so that an event can be told from another wherever it goes.
    """
    came = events.filter(F.col("kind").isin(ARRIVAL, OUTPUT))
    began = came.filter(F.col("neighbour").isNull() | ~F.col("neighbour").isin(*recording))
    day = F.datediff(F.to_date("time"), F.lit(_FIRST_DAY)).cast("bigint")
    # By days, so that no one machine has to number everything.
    at = F.dense_rank().over(Window.partitionBy(F.to_date("time")).orderBy("time", "node", "arrival"))
    number = F.shiftleft(day, _DAY_BITS) + F.shiftleft(at.cast("bigint"), _PLACE_BITS)
    numbered = began.withColumn("arrival", number)
    return numbered.withColumn("id", F.col("arrival").cast("string"))


def origin_of(arrival: Column) -> Column:
    """Return the number of the event that something was made of."""
    return F.shiftleft(F.shiftright(arrival, _PLACE_BITS), _PLACE_BITS)


def journeys(began: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> Journeys:
    """Let events go their way from where they began, to these subjects."""
    wholes = [policy.ensemble for policy in policies.judging]
    nodes = dict.fromkeys(name for whole in wholes for name in whole.nodes)
    neighbours = tuple(Asker(name, is_neighbour=True) for name in nodes)
    there = replace(Scope.of(policies, (*neighbours, *askers)), at_rest=True)
    beyond = replace(Scope.of(replace(policies, are_recorded=False), there.askers), at_rest=True)
    # What leads to nodes has no conditions and no monitors here, and each way that there is counts.
    onwards = replace(there, has_conditions=False, has_monitors_out=False, is_cyclic=False)
    traffic = arrivals(began, there)
    came = settled(traffic.rows)
    passed, arrived = began.select(*EVENT).limit(0), came
    left, is_cyclic = max(map(longest_way, wholes), default=0), any(whole.is_cyclic for whole in wholes)
    while left > 0:
        before, passed = passed, settled(_passed(_going(traffic, onwards, arrived, neighbours)))
        arrived = came.unionByName(arrivals(passed, beyond).rows)
        left -= 1
        if is_cyclic:
            left = 0 if _is_same(before, passed) else 1
    seen = _going(traffic, there, arrived, askers)
    return Journeys(_destinations(seen), _destinations(passed.withColumn("subject", F.col("node"))))


def _is_same(some: DataFrame, others: DataFrame) -> bool:
    """Return whether the same came to nodes."""
    both = some.withColumn("side", F.lit(1)).unionByName(others.withColumn("side", F.lit(-1)))
    way = F.concat_ws(" ", "path").alias("way")
    alike = both.groupBy("node", "arrival", way, "topic", "payload", "properties").agg(F.sum("side").alias("more"))
    return alike.filter(F.col("more") != 0).limit(1).count() == 0


def settled(rows: DataFrame) -> DataFrame:
    """Return rows cut off from what they are made of: otherwise each use would work out all that was before it.

    Two workers have each of them, so that one may be lost.
    """
    done = rows.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)
    return done.coalesce(1 + done.count() // _PART_ROWS)


def _going(traffic: Traffic, scope: Scope, arrived: DataFrame, askers: tuple[Asker, ...]) -> DataFrame:
    """Return what goes on to these among the receivers."""
    labels = [asker.label for asker in askers]
    rows = arrived.withColumn("receivers", F.filter("receivers", lambda receiver: receiver["subject"].isin(*labels)))
    return run(replace(traffic, rows=rows, scope=scope), since="match").rows


def _passed(given: DataFrame) -> DataFrame:
    """Return the events that one node gives to another, as they arrive there."""
    origin = origin_of(F.col("arrival"))
    statements = F.get_json_object("facts", "$.statements")  # nodes tell each other of these, not of how they are
    ways = Window.partitionBy("subject", origin).orderBy(F.size("path"), "node", "arrival", "place", "part")
    sent = given.filter(~F.array_contains("path", F.col("subject"))).withColumn("way", F.row_number().over(ways))
    columns = {
        "node": F.col("subject"),
        "arrival": origin_of(F.col("arrival")) + F.col("way"),
        "seq": F.col("seq"),
        "place": F.lit(0),
        "kind": F.lit(ARRIVAL),
        "client_id": F.concat(F.lit(NODE_PREFIX), F.col("node")),
        "user": F.lit(None).cast("string"),
        "entity": F.col("node"),
        "link_type": F.lit(""),
        "neighbour": F.col("node"),
        "path": F.array_append("path", F.col("node")),
        "effect": F.lit("pass"),
        "stage": F.lit(""),
        "rule": F.lit(""),
        "open": F.lit(False),
        "facts": F.when(statements.isNotNull(), F.concat(F.lit('{"statements":'), statements, F.lit("}"))),
    }
    return sent.select(*(columns.get(name, F.col(name)).alias(name) for name in EVENT))


def _destinations(rows: DataFrame) -> DataFrame:
    origin = origin_of(F.col("arrival")).alias("origin")
    return rows.select("subject", "node", origin, "topic", "payload", "path")


def longest_way(whole: Ensemble) -> int:
    """Return the most links between nodes that an event goes by; it is never twice at a node."""
    near: dict[str, list[str]] = {name: [] for name in whole.nodes}
    for source, target in whole.links:
        if source in near and target in near:
            near[source].append(target)
    # Where nodes are joined in a cycle, ways that are longer than the shortest may be all that is open.
    return max((_depth(near, name)[whole.is_cyclic] for name in near), default=0)


def _depth(near: dict[str, list[str]], start: str) -> tuple[int, int]:
    """Return the most links of shortest ways from a node, and how many other nodes can be reached."""
    depth, seen, here = 0, {start}, [start]
    while here := list(dict.fromkeys(name for node in here for name in near[node] if name not in seen)):
        seen.update(here)
        depth += 1
    return depth, len(seen) - 1
