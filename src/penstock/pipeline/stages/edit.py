"""Stage edit over tables: what do the monitors on the links into nodes make of events?

What they made when the events were recorded is taken, if they are the same and have seen the same. Otherwise those of
the policy are run again, by the engine's own steps, in order for each link.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame

from penstock.engine.events import dedup
from penstock.engine.sessions import placement
from penstock.engine.stages import edit
from penstock.journal.read.events import ARRIVAL, OUTPUT
from penstock.model.event import Event
from penstock.pipeline.conditions.typed import without
from penstock.pipeline.spark.policies import Policies, link_into
from penstock.pipeline.stages import stage
from penstock.pipeline.stages.conform import attached_to_made
from penstock.pipeline.stages.keys import planned_by_batch, planned_later
from penstock.pipeline.state.buckets import Kept, in_order
from penstock.pipeline.state.monitors import LINKS, LinkMonitors
from penstock.pipeline.state.rows import Fields, event_fields, event_of
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.tables import typed_columns_of
from penstock.pipeline.tables.view import EVENT


def plan(draft: stage.KeyDraft) -> None:
    """Decide whether there are monitors on the link, and whether they are those that there were."""
    policy, before, node = draft.policy, draft.before, draft.key.node
    if draft.is_as_recorded:
        draft.edit = stage.RECORDED
        return
    monitors = policy.monitors(draft.publisher.entity, node)
    if not monitors:
        return
    is_same = before is not None and before.policy.monitors(before.publisher.entity, node) == monitors
    # What they made then has the quality and the contracts of then with it.
    attaches = policy.ensemble.contracts is not None or (before and before.policy.ensemble.contracts) is not None
    draft.edit = stage.RECORDED if is_same and not attaches else stage.RUN


def on_table(traffic: stage.Traffic) -> stage.Traffic:
    """Leave what monitors made then, if they are the same; else what those of the policy make."""
    rows = traffic.rows
    if not traffic.scope.may_run_monitors:
        return traffic.with_rows(rows.filter(F.col("passes") & _stays()))
    is_arrival = F.col("kind") == ARRIVAL
    # A monitor that would have seen other events would be in another state: then it is run as well.
    reached = ~stage.was_stopped_before("edit")
    differs = (F.col("edit") == stage.RUN) | (F.col("passes") != reached)
    watched = rows.filter(is_arrival & (F.col("edit") != stage.AS_IT_CAME))
    links = watched.groupBy("node", "source").agg(F.max(differs).alias("runs"))
    links = links.select(F.col("node").alias("run_node"), F.col("source").alias("run_source"), "runs")
    same = (rows["node"] == links["run_node"]) & (rows["source"] == links["run_source"])
    marked = rows.join(links, same, "left").drop("run_node", "run_source")
    runs = F.coalesce(F.col("runs"), F.lit(False))
    kept = marked.filter(F.col("passes") & ~runs & _stays()).drop("runs")
    again = without(marked.filter(F.col("passes") & runs & is_arrival).drop("runs"), typed_columns_of(rows))
    planned = planned_later(_run(again, traffic), traffic)
    return traffic.with_rows(kept.unionByName(planned, allowMissingColumns=True))


def on_stream(traffic: stage.Traffic) -> stage.Traffic:
    """Run the monitors in any case, if the domain has any: what is still to come may differ."""
    if not traffic.scope.may_run_monitors:
        return on_table(traffic)
    arrivals = traffic.rows.filter((F.col("kind") == ARRIVAL) & F.col("passes")).select(*EVENT, "policy", "source")
    return traffic.with_rows(planned_by_batch(_run(arrivals, traffic), traffic))


def _stays() -> Column:
    """Return whether a row is what monitors made then, or what came where there are none."""
    is_arrival, is_output = F.col("kind") == ARRIVAL, F.col("kind") == OUTPUT
    recorded = is_output | ((~F.col("open") | stage.was_stopped_at("judge")) & ~stage.was_stopped_at("edit"))
    return F.when(F.col("edit") == stage.AS_IT_CAME, is_arrival).otherwise((F.col("edit") == stage.RECORDED) & recorded)


def _run(arrivals: DataFrame, traffic: stage.Traffic) -> DataFrame:
    policies = traffic.scope.policies
    key = ("node", "source")
    made = in_order(arrivals, key, lambda kept: EditSteps(policies, kept), (LINKS,), traffic.is_stream)
    if traffic.scope.has_contracts:
        made = attached_to_made(made, policies)
    return made.select(*EVENT)


class EditSteps(LinkMonitors):
    """The engine's monitors for one arrival after the other."""

    def __init__(self, policies: Policies, kept: Kept | None) -> None:
        super().__init__(policies, "source", kept)

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in each event that is made of an arrival."""
        policy, node, _ = self.enter(row)
        publisher = policy.publisher(node, row["client_id"], row["user"], row["entity"], row["neighbour"])
        assert publisher is not None  # it was admitted
        watch = placement.watch(node, link_into(node, publisher))
        event = event_of(row, publisher.link.link_type)
        made: tuple[Event, ...] = (event,)
        if watch is not None:
            first, event = edit.first_to_ask(watch, event)
            made = edit.run_monitors(node, watch, event, row["time"], first)
        node.notices.clear()
        for place, output in enumerate(dedup.told_apart(made)):
            yield {**event_fields(output, row["time"]), "place": place}
