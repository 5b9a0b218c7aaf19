"""Stage match over tables: which subjects may read the topic, and whose conditions does the content satisfy?

Conditions are asked by Spark itself where content is in typed columns, otherwise in Arrow batches.
"""

from dataclasses import replace

from pyspark.sql import DataFrame

from penstock.engine.contracts.state import CONSUMER, SITUATION
from penstock.engine.sessions.session import Session
from penstock.language.condition import Condition
from penstock.model.topic import matches
from penstock.pipeline.conditions.payloads import one_holds
from penstock.pipeline.conditions.typed import TypedConditions, without
from penstock.pipeline.spark.policies import Policies, by_name
from penstock.pipeline.stages.judge import has_reserved, is_carrying, is_judged
from penstock.pipeline.stages.release import asked_later
from penstock.pipeline.stages.stage import KeyDraft, Receiver, Traffic
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.tables import typed_columns_of


def plan(draft: KeyDraft) -> None:
    """Find the subjects that may read the topic, or whose monitors look on; and what must hold of the content."""
    for asker, session in draft.actors.subjects(draft.policy, draft.node):
        receiver = _receiver(draft, asker.label, session)
        if receiver is not None:
            draft.receivers.append((session, receiver))


def _receiver(draft: KeyDraft, label: str, session: Session) -> Receiver | None:
    node, topic, watch = draft.node, draft.key.topic, session.place.watch_out
    is_listed = (node.name, session.place.entity) in node.ensemble.links
    looks_on = watch is not None and is_listed and any(matches(filter, topic) for filter in watch.alphabet())
    reads = session.rights is None or session.rights.may_read(topic)
    sent = node.ensemble.sent.get(session.place.entity)
    if sent is not None:  # to a foreign broker
        reads = any(matches(filter, topic) for filter in sent)
    if not reads and not looks_on:
        return None
    where: Condition | None = by_name(node, session, topic).condition if reads else None
    return Receiver(label, reads, None if where is None else where.text, looks_on, watch is not None)


def on_table(traffic: Traffic) -> Traffic:
    """Make a row for each subject that may read the topic and whose condition holds, or whose monitors look on."""
    scope = traffic.scope
    rows = _prepared(_for_each_subject(traffic.rows, scope), scope)
    return replace(traffic, rows=_matched(rows, scope), learnt=traffic.rows)


on_stream = on_table


def _for_each_subject(rows: DataFrame, scope: Scope) -> DataFrame:
    if len(scope.askers) == 1:
        rows = rows.withColumn("receiver", F.get("receivers", F.lit(0))).filter(F.col("receiver").isNotNull())
    else:
        rows = rows.withColumn("receiver", F.explode("receivers"))
    return rows.drop("receivers").select("*", "receiver.*").drop("receiver")


def _prepared(rows: DataFrame, scope: Scope) -> DataFrame:
    """Return rows with their conditions sorted by who asks them: this stage, judge or release."""
    if scope.has_statements:  # policies may come before matching: then they know what there is to match
        rows = rows.withColumn("is_judged", is_judged())
        rows = rows.withColumn("asks", F.when(F.col("is_judged"), F.col("where")))
        rows = rows.withColumn("where", F.when(~F.col("is_judged"), F.col("where")))
    else:  # what came with policies is not for a domain that has none
        rows = rows.filter(~(is_carrying() if scope.has_contracts else has_reserved()))
    rows = rows.drop("judged")
    if scope.has_contracts:  # conditions are asked of what is released
        asks = F.col("asks") if scope.has_statements else F.lit(None)
        return rows.withColumns(asked_later(scope.policies, asks))
    between_nodes = F.col("topic").startswith(SITUATION) | F.col("topic").startswith(CONSUMER)
    return rows.filter(~between_nodes)


def _matched(rows: DataFrame, scope: Scope) -> DataFrame:
    if not scope.has_conditions:
        return rows.withColumn("wanted", F.col("reads")).filter(F.col("wanted") | F.col("looks_on"))
    typed = typed_columns_of(rows)
    conditions = TypedConditions(rows, typed, scope.wheres if typed else (), scope.are_all_wheres)
    if not conditions:
        return without(_asked(rows, scope.policies), typed)
    # Two tables: what Spark can decide by itself is not sent to Python and back.
    easy, hard = conditions.split(conditions.beside(rows))
    wanted = F.col("reads") & (F.col("where").isNull() | conditions.holds())
    easy = easy.withColumn("wanted", wanted).filter(F.col("wanted") | F.col("looks_on"))
    return without(easy, typed).unionByName(_asked(without(hard, typed), scope.policies))


def _asked(rows: DataFrame, policies: Policies) -> DataFrame:
    rows = rows.withColumn("holds", one_holds(policies, F.col("where")))
    rows = rows.withColumn("wanted", F.col("reads") & F.coalesce(F.col("holds"), F.lit(True)))
    return rows.filter(F.col("wanted") | F.col("looks_on")).drop("holds")
