"""Contracts and privacy policies over tables of events: what each subject is released, by the engine's own stage.

A released event is degraded as in a node, byte for byte, and has with it when it is to be deleted. What was recorded is
decided as it was then: with the situations that were open at its node, and with the access that its producer's node had
enabled. By other policies both are worked out again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.engine.contracts import registry, release_recheck
from penstock.engine.contracts.delayed import Collecting
from penstock.engine.contracts.registry import CONSUMER, SITUATION
from penstock.engine.contracts.release_decision import decide, needed
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import CONTRACT
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import release
from penstock.engine.statements import applicability
from penstock.language.condition import Condition, condition_of
from penstock.language.parser import parse
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.quality import Quality
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies, Policy
from penstock.pipeline.stages.edit import event_of, left, rows_of
from penstock.pipeline.stages.judge import has_reserved
from penstock.pipeline.stages.situations import NOTHING_OPEN, Timeline, place_of, scope_of
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.filters import is_on
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay
from penstock.policy.contracts.release import RETAIN_UNTIL, read_retain
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituations
from penstock.policy.quality.carriage import ATTACHED

NOT_BEFORE, UNTIL = "not_before", "retain_until"
"""The columns that say from when on, and up to when, a subject may have a row; NULL: always."""
CONCERNED = "is_concerned"
_MOST_FILTERS = 100
"""Of topics, that Spark asks itself."""


@dataclass(frozen=True)
class Releases:
    """By which policies, for whom."""

    policies: Policies
    askers: tuple[Asker, ...]
    at_rest: bool = False
    """Events go their way again, from where they began: see `judged.Judges`."""
    timeline: Timeline = NOTHING_OPEN
    waits: bool = True
    """Whether a row may be for later: else there is nothing that would hold it back."""


def is_concerned(policies: Policies) -> Column:
    """Whether a row has to go through this stage: contracts speak of it, or something has to be taken off."""
    return has_reserved() | is_governed(policies)


def is_governed(policies: Policies) -> Column:
    """Whether contracts may have something to say of a row: by what is attached to it, or by its topic."""
    properties, topic = F.col("properties"), F.col("topic")
    found = topic.startswith(SITUATION) | topic.startswith(CONSUMER)
    for name in (ATTACHED, CONTRACT):
        found |= F.contains(properties, F.lit(name.encode()))
    said = [policy.ensemble.contracts for policy in policies.judging if policy.ensemble.contracts is not None]
    filters = {one.filter for each in said for one in each.privacy}
    filters |= {want.filter for each in said for one in each.consumers for want in one.wants if want.asks}
    # What is retained may be bound by contracts that came later.
    later = {one.filter for each in said for one in each.producers if one.is_private}
    return found | _is_on_one(filters) | (F.col("retain") & _is_on_one(later))


def _is_on_one(filters: set[str]) -> Column:
    if len(filters) > _MOST_FILTERS:
        return F.lit(True)
    return reduce(or_, (is_on(filter, F.col("topic")) for filter in sorted(filters)), F.lit(False))


def may_wait(policies: Policies) -> bool:
    """Whether rules may give events later, or means of several: by what contracts say, and what others may bring."""
    return any(_may_wait(policy) for policy in policies.judging)


def _may_wait(policy: Policy) -> bool:
    said = policy.ensemble.contracts
    return said is not None and bool(said.privacy or said.bring or any(True for _ in _waiting(policy)))


def _waiting(policy: Policy) -> Iterator[tuple[str, Degradation]]:
    """The rules by which something waits, and why."""
    said = policy.ensemble.contracts
    for contract in said.producers if said is not None else ():
        for rule in contract.rules:
            for one in rule.degrade:
                if isinstance(one, Delay | Aggregate):
                    yield f"{contract.name}.{rule.id}", one


def check_replay(policies: Policies) -> None:
    """Raises `PipelineError` for rules that a replay cannot follow; those that clients brought, and XACML's, are found
    when they speak.
    """
    for policy in policies.judging:
        for rule, one in _waiting(policy):
            if isinstance(one, Aggregate):
                raise gap(rule)


def check_stream(policies: Policies) -> None:
    """The same, for a stream that holds nothing back."""
    for policy in policies.judging:
        for rule, one in _waiting(policy):
            raise gap(rule, "means over a time" if isinstance(one, Aggregate) else "events later")


def gap(rule: str, what: str = "means over a time") -> PipelineError:
    """What is said of a rule that cannot be followed."""
    return PipelineError(f"`{rule}` gives {what}, which cannot be done here: nothing is governed (docs/pipeline.md)")


def asked_later(policies: Policies, by_policies: Column) -> dict[str, Column]:
    """The conditions of subjects, of which those are asked after this stage that are about what it releases.

    What it would release before policies and monitors have changed it is not known: a condition that is asked of that,
    so one `by_policies` too, is an error, in the job.
    """
    where, later = F.col("where"), is_governed(policies)
    text = "a condition of a subject, a contract, and a monitor or a policy statement all speak of one event: that is"
    unknown = F.raise_error(F.lit(f"{text} not known to the pipeline, and nothing is governed")).cast("string")
    wrong = later & (by_policies.isNotNull() | (where.isNotNull() & F.col("watched")))
    return {"release_asks": F.when(wrong, unknown).when(later, where), "where": F.when(~later, where)}


def with_times(rows: DataFrame) -> DataFrame:
    """Rows with columns for when subjects may have them, which are still empty."""
    empty = F.lit(None).cast("timestamp")
    return rows.withColumns({NOT_BEFORE: empty, UNTIL: empty})


def current(rows: DataFrame) -> DataFrame:
    """Rows that subjects may have now: not those that are for later, nor those that are to be deleted."""
    now, later, until = F.current_timestamp(), F.col(NOT_BEFORE), F.col(UNTIL)
    return rows.filter((later.isNull() | (later <= now)) & (until.isNull() | (until > now)))


def released(views: DataFrame, releases: Releases) -> DataFrame:
    """Rows as contracts leave them; those that they keep back are left out."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = stage_of(releases)
        for batch in batches:
            yield _applied(batch, stage)

    return views.mapInArrow(work, views.schema)


def stage_of(releases: Releases) -> "Stage":
    """The stage with what was open when, as it was worked out."""
    opened = releases.timeline
    return Stage(
        releases,
        lambda row, scope: opened.open_at(scope, place_of(row), row["time"]),
        lambda row, scope, at: opened.open_later(scope, at),
    )


def _applied(batch: pa.RecordBatch, stage: "Stage") -> pa.RecordBatch:
    concerned = batch.column(CONCERNED).to_pylist()
    if not any(concerned):
        return batch
    rows = iter(rows_of(batch.filter(batch.column(CONCERNED))))
    made = [(at, stage.step(next(rows)) if one else {}) for at, one in enumerate(concerned)]
    kept = [(at, other) for at, other in made if other is not None]
    taken = batch.take(pa.array([at for at, _ in kept], pa.int64()))
    columns = []
    for field, column in zip(batch.schema, taken.columns, strict=True):
        if any(field.name in other for _, other in kept):
            now = [other.get(field.name, was) for (_, other), was in zip(kept, column.to_pylist(), strict=True)]
            column = pa.array(now, field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


Find = Callable[[dict[str, Any], str], OpenSituations]
"""What was open for a row, in its scope."""
FindLater = Callable[[dict[str, Any], str, float], OpenSituations]
"""What was open for a row that has waited up to a time at which no event came."""


class Outcome(NamedTuple):
    """What becomes of a row: what is other in it now; or from when on it may go out, and as what row it waits; or what
    of it goes into which mean. Nothing of all this: the subject does not get it.
    """

    changes: dict[str, Any] | None = None
    waits: tuple[float, dict[str, Any]] | None = None
    collected: tuple[Collecting, Content, Quality] | None = None


class Stage:
    """The stage `release` of all nodes, for one row after the other."""

    def __init__(self, releases: Releases, find: Find, find_later: FindLater) -> None:
        self._releases = releases
        self._find = find
        self._find_later = find_later
        self._askers = {asker.label: asker for asker in releases.askers}
        self._nodes: dict[tuple[str, str], Node] = {}
        self._sessions: dict[tuple[str, str, str], Session] = {}

    def step(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """What is other in a row now; None if the subject does not get it. Raises `PipelineError` for means."""
        made = self.decide(row)
        if made.collected is not None:
            raise gap(made.collected[0].rule)
        if made.waits is not None and not self._releases.waits:
            raise gap(f"a contract for `{row['topic']}`", "events later")
        return made.changes if made.waits is None else self.go(made.waits[1], made.waits[0])

    def decide(self, row: dict[str, Any]) -> Outcome:
        """What becomes of a row."""
        policies = self._releases.policies
        node, session = self.ends(row)
        event, now = event_of(row, row["link_type_now"]), row["time"]
        is_node = applicability.is_node(node, session)
        if event.topic.startswith((SITUATION, CONSUMER)) and not is_node:
            return Outcome()
        state = node.contracts
        if state is None:
            return Outcome(self._shown(node, row, event, is_node))
        scope = scope_of(row, policies, self._releases.at_rest)
        state.open = self._find(row, scope) if state.contracts.situations else NONE_OPEN
        found = registry.governed(node, event, now)
        if is_node:
            return Outcome(_changes(event if found is None else release.for_nodes(node, event, found, now)))
        found = found or needed(node, session, event, now)
        if found is None:
            return Outcome(self._shown(node, row, event, False))
        if not self._releases.at_rest and scope != row["node"]:
            found = found._replace(ace=release.enabled(node, event.topic, found, now, session.entity))
        decided = decide(node, session, event, found, now)
        if decided.aggregate is not None:  # a condition is asked of the mean, when that goes
            return Outcome(collected=decided.aggregate)
        if decided.event is None:
            return Outcome()
        if decided.not_before > now:
            return Outcome(waits=(decided.not_before, waiting(row, decided.event)))
        return Outcome(self._shown(node, row, decided.event, False))

    def go(self, row: dict[str, Any], at: float) -> dict[str, Any] | None:
        """What is other in a row that has waited up to now; None if it may not go out any more."""
        node, session = self.ends(row)
        event, state = event_of(row, row["link_type_now"]), node.contracts
        assert state is not None
        state.open = self._find_later(row, scope_of(row, self._releases.policies, self._releases.at_rest), at)
        if not release_recheck.may_go(node, event, session, at):
            return None
        made = self._shown(node, row, event, False)
        told = {"retain": row["retain"], "expiry": left(event, at), NOT_BEFORE: _time(at)}
        return None if made is None else {**made, **told}

    def ends(self, row: dict[str, Any]) -> tuple[Node, Session]:
        """The node of a row, and its subject's session there."""
        policy = self._releases.policies.by_digest[row["policy"]].compiled()
        node = self._node(policy, row["node"])
        return node, self._session(policy, node, row["subject"])

    def _shown(self, node: Node, row: dict[str, Any], event: Event, is_node: bool) -> dict[str, Any] | None:
        if is_node:
            return _changes(event)
        asks = row["release_asks"]
        if asks is not None and _condition(asks).holds(node.ensemble.reader.read(event)) is not True:
            return None
        return _changes(user_properties.for_clients(event))

    def _node(self, policy: Policy, name: str) -> Node:
        at = (policy.digest, name)
        if at not in self._nodes:
            self._nodes[at] = policy.new_node(name)
        return self._nodes[at]

    def _session(self, policy: Policy, node: Node, subject: str) -> Session:
        at = (policy.digest, node.name, subject)
        if at not in self._sessions:
            session = policy.session(node, self._askers[subject])
            assert session is not None  # it is among the receivers of the row's key
            self._sessions[at] = session
        return self._sessions[at]


def waiting(row: dict[str, Any], event: Event) -> dict[str, Any]:
    """The row of an event that waits: with by what it was released."""
    return {
        **row,
        "payload": event.payload,
        "properties": event.properties,
        "content_type": event.content_type or None,
        "retain": event.retain,
        "expiry": None if event.expires is None else event.expires - row["time"],
    }


def _changes(event: Event) -> dict[str, Any]:
    made = {"payload": event.payload, "properties": event.properties, "content_type": event.content_type or None}
    until = user_properties.told(event, RETAIN_UNTIL)
    return {**made, UNTIL: _time(read_retain(until[0]))} if until else made


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@lru_cache(maxsize=10_000)
def _condition(text: str) -> Condition:
    return condition_of(parse(text))
