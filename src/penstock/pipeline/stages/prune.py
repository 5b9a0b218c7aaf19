"""Stage prune over tables: which metrics of a Sparkplug message may its publisher write?

The steps are the engine's own, in order for each edge node at a node. What was taken out when the message was recorded
does not come back.
"""

from collections.abc import Iterator

from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.messages import actor_of
from penstock.engine.stages import prune
from penstock.model.verdict import Effect
from penstock.pipeline.spark.policies import Policies
from penstock.pipeline.stages.stage import KeyDraft, Traffic, was_stopped_at
from penstock.pipeline.state.buckets import Kept
from penstock.pipeline.state.edge_nodes import EdgeNodes, by_edge_node, is_birth, is_sparkplug
from penstock.pipeline.state.rows import Fields, event_of
from penstock.pipeline.tables.executor import F


def plan(draft: KeyDraft) -> None:
    """Plan nothing: each message is asked."""


def on_table(traffic: Traffic) -> Traffic:
    """Leave arrivals as their publishers may write them; stop those that they may not write at all."""
    rows, policies = traffic.rows, traffic.scope.policies
    if not policies.decide_again:
        return traffic.with_rows(rows.withColumn("passes", F.col("passes") & ~was_stopped_at("prune")))
    if not traffic.scope.has_access:
        return traffic
    asked = is_sparkplug() & (F.col("passes") | is_birth())
    pruned = by_edge_node(rows.filter(asked), lambda kept: PruneSteps(policies, kept), traffic.is_stream)
    return traffic.with_rows(rows.filter(~asked).unionByName(pruned))


on_stream = on_table


class PruneSteps(EdgeNodes):
    """The engine's stage for one message after the other."""

    def __init__(self, policies: Policies, kept: Kept | None) -> None:
        super().__init__(policies, (), kept)

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in a message."""
        policy, node = self.enter(row)
        if node.sparkplug is None:
            yield {}
            return
        event = event_of(row, row["link_type"])
        if row["neighbour"] is not None and not event.path:
            event = event._replace(path=(row["neighbour"],))
        births.end(node, event)
        if not row["passes"]:  # a birth that was not admitted
            yield {}
            return
        publisher = policy.publishing(node, row["client_id"], row["user"], row["entity"], row["neighbour"])
        if publisher is None:
            yield {"passes": False}
            return
        event, verdict = prune.judge(node, actor_of(node, publisher), event, row["time"])
        if verdict.effect is Effect.SUPPRESS:
            yield {"passes": False}
            return
        if row["effect"] != "suppress" or row["stage"] not in ("conform", "edit"):
            self.learn(node, row, event)
        yield {"payload": event.payload, "properties": event.properties}
