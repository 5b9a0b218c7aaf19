"""Stage conform over tables: does an event keep what the domain advertises for its publisher, and its contracts?

If the same advertisements were in force, what was decided then holds. A client's own advertisements were not recorded:
what they stopped stays stopped.
"""

from pyspark.sql import Column, DataFrame

from penstock.engine.stages import conform
from penstock.journal.read.events import ARRIVAL, OUTPUT
from penstock.pipeline.conditions.payloads import SEPARATOR, one_holds
from penstock.pipeline.contracts.attachment import AttachmentSteps
from penstock.pipeline.spark.policies import Policies
from penstock.pipeline.stages.stage import KeyDraft, Traffic, was_stopped_at, was_stopped_before
from penstock.pipeline.state.rows import stepping
from penstock.pipeline.tables.executor import F
from penstock.policy.statements.advertisement import OWN

_REATTACHED = "reattached"


def plan(draft: KeyDraft) -> None:
    """Decide whether the domain advertises the topic for the publisher, or by which conditions content decides."""
    before = draft.before
    draft.is_trusted = draft.is_as_recorded or (
        before is not None and before.publisher.link.claims == draft.publisher.link.claims
    )
    demands = conform.demands(draft.publisher.link.claims, draft.key.topic)
    if demands:
        (demand,) = demands  # what clients advertise themselves is known only by what was decided then
        draft.conforms = None if demand.conditions else False
        draft.conditions = tuple(condition.text for condition in demand.conditions)


def on_table(traffic: Traffic) -> Traffic:
    """Stop what breaks an advertisement or a contract, and attach quality and contracts."""
    rows, scope = traffic.rows, traffic.scope
    if not scope.policies.decide_again:
        return traffic.with_rows(rows.withColumn("passes", F.col("passes") & ~was_stopped_at("conform")))
    now = F.coalesce(F.col("conforms"), F.lit(False))
    if scope.has_advertised_conditions:
        takes_back = F.col("retain") & (F.length("payload") == 0) & (F.size("conditions") > 0)
        asked = F.when(F.col("passes") & (F.size("conditions") > 0) & ~takes_back, F.concat_ws(SEPARATOR, "conditions"))
        rows = rows.withColumn("asked", one_holds(scope.policies, asked))
        now = F.coalesce(F.col("conforms"), F.col("asked"), takes_back, F.lit(False))
    # Contracts are asked after advertisements, and again if they are others.
    by_contract = _was_stopped_by_contract() & ~is_as_recorded(scope.policies)
    then = ~was_stopped_at("conform") | by_contract
    is_known = F.col("is_trusted") & ~was_stopped_before("conform")
    # A client's own advertisements are not recorded: that it was stopped by them is, for they are asked first.
    by_its_own = was_stopped_at("conform") & (F.col("rule") == OWN)
    kept = F.when(is_known, then).otherwise(now & ~by_its_own)
    rows = rows.withColumn("passes", F.col("passes") & ((F.col("kind") == OUTPUT) | kept)).drop("asked")
    return traffic.with_rows(_attached(rows, scope.policies, not scope.at_rest) if scope.has_contracts else rows)


on_stream = on_table


def _was_stopped_by_contract() -> Column:
    """Return whether a node refused an event at conform by its quality or a contract, not by an advertisement."""
    return was_stopped_at("conform") & ((F.col("rule") == "quality") | F.col("rule").startswith("contract "))


def is_as_recorded(policies: Policies) -> Column:
    """Return whether a row is judged by the policies that were in force when it came."""
    return (F.col("policy") == F.col("revision")) & F.lit(policies.are_recorded)


def _attached(rows: DataFrame, policies: Policies, from_nodes: bool) -> DataFrame:
    """Return arrivals with the quality and the contracts that their policies attach; what breaks one does not pass.

    `from_nodes`: of what came from other nodes too. It is not known who published that, so contracts bind it whosever
    they are, and all collectors measure it that are for its topic.
    """
    asked = F.col("passes") & (F.col("kind") == ARRIVAL) & ~is_as_recorded(policies)
    if not from_nodes:
        nodes = {name for policy in policies.judging for name in policy.ensemble.nodes}
        asked &= F.col("neighbour").isNull() | ~F.col("neighbour").isin(*nodes)
    marked = rows.withColumn(_REATTACHED, asked)
    work = stepping(lambda: AttachmentSteps(policies).attach, _REATTACHED)
    return marked.mapInArrow(work, marked.schema).drop(_REATTACHED)


def attached_to_made(rows: DataFrame, policies: Policies) -> DataFrame:
    """Return what monitors have made now, with what is attached to such; without what breaks a contract."""
    marked = rows.withColumn("passes", F.lit(True))
    attached = marked.mapInArrow(stepping(lambda: AttachmentSteps(policies).attach_made), marked.schema)
    return attached.filter("passes").drop("passes")
