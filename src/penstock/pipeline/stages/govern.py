"""The way of recorded events: the stages of the engine, in its order, each by its Spark side.

A view is what a node would have sent to a subject if that had subscribed, from the first event on, to each topic by its
name: payloads byte for byte, as the monitors on the links left them. `docs/pipeline.md` has the meaning and the gaps.

`SPARK_SIDES` pairs each stage of the engine with the module of this folder that does its work on Spark; `run` is the
only loop over them. To add a stage, add its module here and a line to the table.
"""

from pyspark.sql import DataFrame

from penstock.engine.stages import runner
from penstock.journal.read.events import ARRIVAL, OUTPUT
from penstock.pipeline.conditions.typed import MAX_BRANCHES, MAX_CONDITIONS, narrowed
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages import admit, conform, edit, emit, judge, match, project, prune, release, route, shape
from penstock.pipeline.stages.keys import KeyTable, planned_by_batch
from penstock.pipeline.stages.stage import SparkStage, Traffic
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.tables import typed_columns_of
from penstock.pipeline.tables.view import EVENT, VIEW

SPARK_SIDES: dict[str, SparkStage] = {
    "admit": admit,
    "prune": prune,
    "conform": conform,
    "edit": edit,
    "match": match,
    "route": route,
    "judge": judge,
    "shape": shape,
    "release": release,
    "project": project,
    "emit": emit,
}
"""What the pipeline does at each stage of the engine, by name."""


def spark_sides() -> tuple[SparkStage, ...]:
    """Return the Spark sides of the engine's stages, in its order.

    Raises `PipelineError` if a stage has none: no event may pass a stage unseen.
    """
    names = runner.names()
    missing = [name for name in names if name not in SPARK_SIDES]
    if missing:
        raise PipelineError(f"stage `{missing[0]}` is not known to the pipeline: nothing can be governed")
    return tuple(SPARK_SIDES[name] for name in names)


def run(traffic: Traffic, since: str | None = None, before: str | None = None) -> Traffic:
    """Let events go through the stages: all, or those from `since` on and before `before`."""
    names = runner.names()
    first = 0 if since is None else names.index(since)
    last = len(names) if before is None else names.index(before)
    for stage in traffic.stages[first:last]:
        traffic = stage.on_stream(traffic) if traffic.is_stream else stage.on_table(traffic)
    return traffic


def view(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """Return the authorised views of subjects, with the columns `VIEW`."""
    scope, stages, came = Scope.of(policies, askers), spark_sides(), _arrived(events)
    keys = KeyTable.of(came, stages, scope)
    scope = scope.asking(keys.wheres)
    is_few = 0 < len(scope.wheres) <= (MAX_CONDITIONS if scope.are_all_wheres else MAX_BRANCHES)
    typed = typed_columns_of(events) if is_few and scope.trusts_types else ()
    came = came.select(*EVENT, *narrowed(came, typed, scope.wheres))
    return _view(run(Traffic(keys.beside(came), scope, stages)))


def stream_view(events: DataFrame, scope: Scope) -> DataFrame:
    """Return the authorised views of a stream of events, with the columns `VIEW`."""
    traffic = Traffic(_arrived(events).select(*EVENT), scope, spark_sides(), is_stream=True)
    return _view(run(traffic.with_rows(planned_by_batch(traffic.rows, traffic))))


def arrivals(events: DataFrame, scope: Scope) -> Traffic:
    """Let events go as far as to `match`: what the nodes let in, as monitors leave it."""
    stages, came = spark_sides(), _arrived(events).select(*EVENT)
    rows = KeyTable.of(came, stages, scope).beside(came)
    return run(Traffic(rows, scope, stages), before="match")


def _arrived(events: DataFrame) -> DataFrame:
    """Return events without the forms in which they were sent: views work these out."""
    return events.filter(F.col("kind").isin(ARRIVAL, OUTPUT))


def _view(traffic: Traffic) -> DataFrame:
    return traffic.rows.withColumn("seq", F.col("arrival")).select(*VIEW)
