"""Stage release over tables: do contracts and privacy policies release an event to a subject, and how much of it?

The steps are in `contracts/`: the decision, the situations it depends on, and what is held back.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame

from penstock.engine.contracts.state import CONSUMER, SITUATION
from penstock.engine.events.user_properties import CONTRACT
from penstock.pipeline.contracts import delayed, means, situations
from penstock.pipeline.contracts.delayed import WAITING, Delayed
from penstock.pipeline.contracts.release_decision import ReleaseSteps, gap
from penstock.pipeline.spark.policies import CompiledDomain, Policies
from penstock.pipeline.stages.judge import has_reserved
from penstock.pipeline.stages.stage import KeyDraft, Traffic
from penstock.pipeline.state.buckets import Kept, in_order
from penstock.pipeline.state.rows import Fields, stepping
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.filters import is_on
from penstock.pipeline.tables.view import NOT_BEFORE, UNTIL
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay
from penstock.policy.contracts.situation import NONE_OPEN
from penstock.policy.quality.carriage import ATTACHED

_CONCERNED = "is_concerned"
_MAX_FILTERS = 100
"""Topic filters that Spark asks itself."""


def plan(draft: KeyDraft) -> None:
    """Plan nothing: what is attached to an event decides."""


def on_table(traffic: Traffic) -> Traffic:
    """Leave what contracts release. What they do not concern is not sent to Python and back."""
    scope, views = traffic.scope, _with_times(traffic.rows)
    if not scope.has_contracts:
        return traffic.with_rows(views)
    policies, at_rest, learnt = scope.policies, scope.at_rest, traffic.all_learnt()
    opened = situations.timeline(learnt, policies, at_rest) if scope.has_situations else situations.NOTHING_OPEN
    marked = views.withColumn(_CONCERNED, _is_concerned(policies))
    concerned, others = marked.filter(_CONCERNED), marked.filter(~F.col(_CONCERNED))
    if at_rest:
        _check_replay(policies)
    if not at_rest and _may_wait(policies):
        released = means.released(concerned, lambda: ReleaseSteps.recorded(scope, opened), means.coverage(learnt))
    else:
        work = stepping(lambda: ReleaseSteps.recorded(scope, opened).step)
        released = concerned.mapInArrow(work, concerned.schema)
    return traffic.with_rows(others.unionByName(released).drop(_CONCERNED, "release_asks"))


def on_stream(traffic: Traffic) -> Traffic:
    """Do the same in one table; Spark keeps for each node what is open there, and what waits."""
    scope, views = traffic.scope, _with_times(traffic.rows)
    if not scope.has_contracts:
        return traffic.with_rows(views)
    waits, learnt = holds_back(scope), traffic.all_learnt()
    marked = views.withColumn(_CONCERNED, _is_concerned(scope.policies))
    if waits or scope.has_situations:
        released = _with_state(marked, learnt, scope, waits)
    else:
        work = stepping(lambda: ReleaseSteps.recorded(scope, situations.NOTHING_OPEN, may_wait=False).step, _CONCERNED)
        released = marked.mapInArrow(work, marked.schema)
    return traffic.with_rows(released.drop(_CONCERNED, "release_asks"))


def _with_state(views: DataFrame, learnt: DataFrame, scope: Scope, waits: bool) -> DataFrame:
    """Return what is released of a stream. If something may have to wait, all that comes tells how late it is."""
    is_learnt = situations.is_signal(list(scope.policies.judging))
    signals = learnt.select(*situations.COLUMNS)
    signals = delayed.clocks(signals, is_learnt) if waits else signals.filter(is_learnt)
    rows = views.unionByName(signals, allowMissingColumns=True)
    variables = (situations.SITUATIONS, WAITING) if waits else (situations.SITUATIONS,)
    made = in_order(rows, ("node",), lambda kept: StreamedRelease(scope, waits, kept or {}), variables, True)
    return made.select(*views.columns)


class StreamedRelease:
    """Releases the rows of some nodes, in the order of each; rows without a subject may open or close situations."""

    def __init__(self, scope: Scope, waits: bool, kept: Kept) -> None:
        self._openings = situations.Openings(scope.policies)
        self._openings.open.update(situations.read_open(kept.get(situations.SITUATIONS.name, b"[]")))
        opened = self._openings.open
        self._steps = ReleaseSteps(
            scope,
            lambda row, where: opened.get(row["node"], NONE_OPEN),
            lambda row, where, at: opened.get(row["node"], NONE_OPEN),
            waits,
        )
        self._delayed = Delayed(self._steps, kept.get(WAITING.name)) if waits else None
        self._check = situations.SituationCheck(scope.policies)

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield the rows that go out before a row, and what changes in the row itself, if the subject gets it now."""
        self._check.check(row)
        if self._delayed is not None:
            yield from self._delayed.due(row)
        if row["subject"] is None:
            if row["topic"] is not None:
                self._openings.step(row, row["node"])
        elif not row[_CONCERNED]:
            yield {}
        else:
            yield from (self._delayed or self._steps).step(row)

    def keep(self) -> Kept:
        """Return what is open, and what waits."""
        kept = {situations.SITUATIONS.name: situations.write_open(self._openings)}
        return kept if self._delayed is None else {**kept, WAITING.name: self._delayed.write()}


def _with_times(rows: DataFrame) -> DataFrame:
    """Return rows with columns for when subjects may have them, which are still empty."""
    empty = F.lit(None).cast("timestamp")
    return rows.withColumns({NOT_BEFORE: empty, UNTIL: empty})


def _is_concerned(policies: Policies) -> Column:
    """Return whether a row has to go through this stage: contracts concern it, or something has to be taken off."""
    return has_reserved() | _is_governed(policies)


def _is_governed(policies: Policies) -> Column:
    """Return whether contracts may concern a row: by what is attached to it, or by its topic."""
    properties, topic = F.col("properties"), F.col("topic")
    is_attached = [F.contains(properties, F.lit(name.encode())) for name in (ATTACHED, CONTRACT)]
    every = [policy.ensemble.contracts for policy in policies.judging if policy.ensemble.contracts is not None]
    filters = {privacy.filter for contracts in every for privacy in contracts.privacy}
    filters |= {
        want.filter for contracts in every for consumer in contracts.consumers for want in consumer.wants if want.asks
    }
    # What is retained may be bound by contracts that came later.
    later = {producer.filter for contracts in every for producer in contracts.producers if producer.is_private}
    between_nodes = topic.startswith(SITUATION) | topic.startswith(CONSUMER)
    by_topic = _is_on_any(filters) | (F.col("retain") & _is_on_any(later))
    return reduce(or_, is_attached, between_nodes) | by_topic


def _is_on_any(filters: set[str]) -> Column:
    if len(filters) > _MAX_FILTERS:
        return F.lit(True)
    return reduce(or_, (is_on(filter, F.col("topic")) for filter in sorted(filters)), F.lit(False))


def holds_back(scope: Scope) -> bool:
    """Return whether a stream holds back what contracts give later, and collects means."""
    return scope.has_contracts and not scope.has_access and _may_wait(scope.policies)


def _may_wait(policies: Policies) -> bool:
    """Return whether rules may give events later, or means: those of the domains, or those that others may bring."""
    for policy in policies.judging:
        contracts = policy.ensemble.contracts
        if contracts is not None and (contracts.privacy or contracts.bring or any(True for _ in _waiting(policy))):
            return True
    return False


def _waiting(policy: CompiledDomain) -> Iterator[tuple[str, Degradation]]:
    """Yield the rules by which something waits, and why."""
    contracts = policy.ensemble.contracts
    for contract in contracts.producers if contracts is not None else ():
        for rule in contract.rules:
            for degradation in rule.degrade:
                if isinstance(degradation, Delay | Aggregate):
                    yield f"{contract.name}.{rule.id}", degradation


def _check_replay(policies: Policies) -> None:
    """Raise `PipelineError` for rules that a replay cannot follow; those that clients brought, and XACML's, are found
    when they decide something."""
    for policy in policies.judging:
        for rule, degradation in _waiting(policy):
            if isinstance(degradation, Aggregate):
                raise gap(rule)


def check_stream(scope: Scope) -> None:
    """Raise `PipelineError` for rules that a stream cannot follow.

    What access policies do goes by the order of an edge node's events, so with them it holds nothing back.
    """
    for policy in scope.policies.judging if scope.has_access else ():
        for rule, degradation in _waiting(policy):
            raise gap(rule, "means over a time" if isinstance(degradation, Aggregate) else "events later")


def asked_later(policies: Policies, by_policies: Column) -> dict[str, Column]:
    """Return the conditions of subjects, of which those are asked after this stage that are about what it releases.

    What it would release before policies and monitors have changed it is not known: a condition that is asked of that,
    so one `by_policies` too, is an error, in the job.
    """
    where, later = F.col("where"), _is_governed(policies)
    text = "a condition of a subject, a contract, and a monitor or a policy statement all speak of one event: that is"
    unknown = F.raise_error(F.lit(f"{text} not known to the pipeline, and nothing is governed")).cast("string")
    wrong = later & (by_policies.isNotNull() | (where.isNotNull() & F.col("watched")))
    return {"release_asks": F.when(wrong, unknown).when(later, where), "where": F.when(~later, where)}
