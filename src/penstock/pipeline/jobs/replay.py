"""The job `replay`: a draft of a domain over recorded traffic. Who would gain or lose what, against what held then.

Both sides are worked out alike: what subjects are given of all that clients published, by way of all nodes, by the
policies in force when it came, and by the draft. `docs/pipeline.md` has the meaning.
"""

from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession

from penstock.domain import Assertion
from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.tables import parts, read_all
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.journeys import journeys, origins, settled
from penstock.pipeline.jobs.replay_reasons import Reasons
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies, as_it_stands, as_it_stood
from penstock.pipeline.stages.admit import check_ways
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.executor import F, Window, small_table, small_tables
from penstock.pipeline.tables.filters import is_on
from penstock.pipeline.tables.metrics import MetricChange, metric_changes
from penstock.pipeline.tables.view import EVENT, times_sent
from penstock.policy.monitors.protocol import UNLISTED

MAX_ROWS = 10_000
"""Changes that are told: those with most events. The table that is written has all."""
MAX_EXPLAINED = 300
"""Changes for which the rule is looked for: those with most events."""
SHOWN = 3
"""Events that are named for an assertion that does not hold."""
_STEPS = 60
CHANGES = "changes"


class ReplayChange(NamedTuple):
    """What a draft changes for a subject, on a topic, of what one entity publishes: numbers of events."""

    subject: str
    topic: str
    publisher: str
    then: int
    draft: int
    gained: int
    lost: int
    changed: int
    """Events that it has either way, with another payload."""
    received: int
    """Events on the topic that live nodes sent to it."""
    rule: str
    reason: str


class Breach(NamedTuple):
    """An event that an assertion says cannot be."""

    time: datetime
    node: str
    seq: int
    publisher: str
    said: str
    """The topic it was published on."""
    subject: str
    topic: str


class AssertionResult(NamedTuple):
    """An assertion of the draft, and how many events show it."""

    text: str
    kind: str
    events: int
    first: tuple[Breach, ...]

    @property
    def holds(self) -> bool:
        """Return whether no event contradicts it; a `can` without events is not contradicted."""
        return self.kind == "can" or not self.events

    @property
    def outcome(self) -> str:
        """Return the result in a word."""
        if self.kind == "can":
            return "shown" if self.events else "not shown"
        return "holds" if self.holds else "fails"


class ByRule(NamedTuple):
    """What a rule does: that of the draft takes away what is lost, that of then held back what is gained."""

    rule: str
    reason: str
    gained: int
    lost: int
    changed: int


class Total(NamedTuple):
    """All changes for a subject."""

    subject: str
    then: int
    draft: int
    gained: int
    lost: int
    changed: int


class ReplayInterval(NamedTuple):
    """Changes in a part of the time."""

    time: datetime
    gained: int
    lost: int


class ReplayReport(NamedTuple):
    """What a draft does to recorded traffic."""

    events: int
    """Events that clients published."""
    first: datetime | None
    last: datetime | None
    totals: tuple[Total, ...]
    changes: tuple[ReplayChange, ...]
    claims: tuple[AssertionResult, ...]
    steps: tuple[ReplayInterval, ...]
    metrics: tuple[MetricChange, ...] = ()
    """What changes of Sparkplug metrics."""

    @property
    def holds(self) -> bool:
        """Return whether all assertions hold."""
        return all(claim.holds for claim in self.claims)

    @property
    def rules(self) -> tuple[ByRule, ...]:
        """Return the changes by rule."""
        sums = defaultdict[tuple[str, str], list[int]](lambda: [0, 0, 0])
        for change in self.changes:
            of_rule = sums[change.rule or "not looked for", change.reason]
            of_rule[:] = [sum(pair) for pair in zip(of_rule, (change.gained, change.lost, change.changed), strict=True)]
        return tuple(ByRule(*rule, *counts) for rule, counts in sums.items())


def replay(
    spark: SparkSession,
    journal: Path,
    draft: Path,
    to: Path | None = None,
    nodes: frozenset[str] | None = None,
    days: tables.Days | None = None,
    subjects: tuple[str, ...] = (),
    since: datetime | None = None,
) -> ReplayReport:
    """Hold a draft against what was decided then, for some subjects or for all; raises `PipelineError`, `DomainError`.

    With `to`, each event that changes for somebody is written as a row to the table `changes` there. With `since`, only
    what came from then on is looked at.
    """
    events = tables.events(spark, journal, nodes, days)
    recording = frozenset(part.node for part in parts(journal, nodes, days))
    return _replayed(events, journal, recording, draft, to, subjects, since)


def replay_few(
    journal: Path,
    draft: Path,
    nodes: frozenset[str] | None = None,
    subjects: tuple[str, ...] = (),
    since: datetime | None = None,
) -> ReplayReport:
    """Do the same for few events without Spark, which takes longer to start."""
    events, _ = read_all(journal, nodes)
    recording = frozenset(part.node for part in parts(journal, nodes))
    with small_tables():
        return _replayed(small_table(events), journal, recording, draft, None, subjects, since)


def _replayed(
    events: DataFrame,
    journal: Path,
    recording: frozenset[str],
    draft: Path,
    to: Path | None,
    subjects: tuple[str, ...],
    since: datetime | None,
) -> ReplayReport:
    now, then = as_it_stands(draft, journal), as_it_stood(journal, draft.parent)
    (policy,) = now.judging
    if since is not None:
        events = events.filter(F.col("time") >= F.lit(since))
    check_ways(events, recording, now, then)
    began = settled(origins(events.select(*EVENT), recording))
    everybody = _everybody(events, (now, then))
    shown = _chosen(everybody, subjects)
    askers = tuple(asker for asker in everybody if asker in shown or _is_claimed(asker, policy))
    ways = journeys(began, now, askers)
    before = journeys(began, then, askers).seen
    each = settled(_each(began, before, ways.seen))
    about = each.filter(F.col("subject").isin(*(asker.label for asker in shown)))
    arrivals = began.filter(F.col("kind") == ARRIVAL)
    count, first, last = arrivals.agg(F.count("*"), F.min("time"), F.max("time")).collect()[0]
    if to is not None:
        _write(about, to)
    totals, changes = _totals(about, shown), _changes(about, began, events, policy, then, shown)
    claims, steps = _claims(each, began, ways.passed, policy), _steps(about, first, last)
    metrics = _metrics(before, ways.seen, (now, then), shown)
    return ReplayReport(count, first, last, totals, changes, claims, steps, metrics)


def _metrics(
    then: DataFrame, draft: DataFrame, policies: tuple[Policies, ...], shown: tuple[Asker, ...]
) -> tuple[MetricChange, ...]:
    if not any(policy.ensemble.access is not None for several in policies for policy in several.judging):
        return ()
    about = F.col("subject").isin(*(asker.label for asker in shown))
    return metric_changes(then.filter(about), draft.filter(about), MAX_ROWS)


def _everybody(events: DataFrame, policies: tuple[Policies, ...]) -> tuple[Asker, ...]:
    """Return the clients that a domain lists, and others that published or were sent something."""
    wholes = [policy.ensemble for several in policies for policy in several.judging]
    askers = {name: Asker(name) for whole in wholes for name in whole.devices}
    askers |= {name: Asker(name, is_neighbour=True) for whole in wholes for name in whole.foreign}
    sent = events.select(F.explode("reached").alias("one")).select(
        "one.client_id", "one.user", "one.entity", "one.neighbour"
    )
    came = events.select("client_id", "user", "entity", "neighbour").unionByName(sent).filter("neighbour IS NULL")
    for row in came.distinct().collect():
        if row.entity not in askers:
            askers[f"{row.client_id} {row.user}"] = Asker(row.client_id, row.user)
    return tuple(askers.values())


def _chosen(everybody: tuple[Asker, ...], names: tuple[str, ...]) -> tuple[Asker, ...]:
    known = {asker.name for asker in everybody}
    for name in names:
        if name not in known:
            raise PipelineError(f"unknown subject `{name}`: neither the domain nor the journal names it")
    return tuple(asker for asker in everybody if not names or asker.name in names)


def _is_claimed(asker: Asker, policy: CompiledDomain) -> bool:
    """Return whether an assertion is about the subject: then it is asked for in any case."""
    listed = (*policy.ensemble.devices, *policy.ensemble.foreign)
    return any(
        claim.target == (asker.name if asker.name in listed else UNLISTED) for claim in policy.ensemble.assertions
    )


def _each(began: DataFrame, then: DataFrame, now: DataFrame) -> DataFrame:
    """Return a row for each event that a subject is given on one side or both."""
    both = then.withColumn("side", F.lit(0)).unionByName(now.withColumn("side", F.lit(1)))
    then_, now_ = F.count_if(F.col("side") == 0), F.count_if(F.col("side") == 1)
    way = F.max(F.when(F.col("side") == 1, F.col("path")))
    alike = both.groupBy("subject", "node", "origin", "topic", F.xxhash64("payload").alias("hash"))
    counted = alike.agg(then_.alias("then"), now_.alias("draft"), way.alias("path"))
    lost, gained = (F.sum(F.greatest(F.lit(0), F.col(a) - F.col(b))) for a, b in (("then", "draft"), ("draft", "then")))
    by_topic = counted.groupBy("subject", "node", "origin", "topic").agg(
        F.sum("then").alias("then"),
        F.sum("draft").alias("draft"),
        lost.alias("fewer"),
        gained.alias("more"),
        F.max("path").alias("path"),
    )
    changed = F.least("fewer", "more")
    changes = by_topic.select(
        "*",
        changed.alias("changed"),
        (F.col("more") - changed).alias("gained"),
        (F.col("fewer") - changed).alias("lost"),
    ).drop("fewer", "more")
    return changes.join(_publishers(began), "origin")


def _publishers(began: DataFrame) -> DataFrame:
    """Return what is known of events where they began."""
    return began.filter(F.col("kind") == ARRIVAL).select(
        F.col("arrival").alias("origin"),
        F.col("node").alias("at"),
        "seq",
        "time",
        F.col("entity").alias("publisher"),
        F.col("topic").alias("said"),
    )


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in ("then", "draft", "gained", "lost", "changed")]


def _totals(each: DataFrame, askers: tuple[Asker, ...]) -> tuple[Total, ...]:
    totals = {row.subject: Total(*row) for row in each.groupBy("subject").agg(*_sums()).collect()}
    return tuple(totals.get(asker.label, Total(asker.label, 0, 0, 0, 0, 0)) for asker in askers)


def _changes(
    each: DataFrame,
    began: DataFrame,
    events: DataFrame,
    policy: CompiledDomain,
    then: Policies,
    askers: tuple[Asker, ...],
) -> tuple[ReplayChange, ...]:
    is_more, is_less = F.col("gained") > 0, (F.col("lost") > 0) | (F.col("changed") > 0)
    firsts = [
        F.min(F.when(condition, F.col("origin"))).alias(name)
        for condition, name in ((is_more, "more"), (is_less, "less"))
    ]
    groups = each.groupBy("subject", "topic", "publisher").agg(*_sums(), *firsts)
    weight = F.col("gained") + F.col("lost") + F.col("changed")
    beside = groups.filter(weight > 0).join(_received(events, askers), ["subject", "topic"], "left")
    rows = beside.orderBy(weight.desc(), "subject", "topic", "publisher").limit(MAX_ROWS).collect()
    reasons = Reasons(began, policy, then, askers, rows[:MAX_EXPLAINED])
    return tuple(_change(row, *reasons.of(row)) for row in rows)


def _change(row: Row, rule: str, reason: str) -> ReplayChange:
    counts = (row.then, row.draft, row.gained, row.lost, row.changed)
    return ReplayChange(row.subject, row.topic, row.publisher, *counts, row.received or 0, rule, reason)


def _received(events: DataFrame, askers: tuple[Asker, ...]) -> DataFrame:
    """Return how many events live nodes sent, by subject and topic."""
    sent = events.select("topic", times_sent(), F.explode("reached").alias("to")).select("topic", "times", "to.*")
    labels = [asker.label for asker in askers]
    unlisted = F.concat_ws("@", "client_id", "user")
    subject = F.when(F.col("entity").isin(*labels), F.col("entity")).otherwise(unlisted)
    return sent.groupBy(subject.alias("subject"), "topic").agg(F.sum("times").alias("received"))


def _claims(
    each: DataFrame, began: DataFrame, passed: DataFrame, policy: CompiledDomain
) -> tuple[AssertionResult, ...]:
    """Return the assertions, and the events that are given to whom they name."""
    whole = policy.ensemble
    if not whole.assertions:
        return ()
    columns = ("subject", "at", "seq", "time", "publisher", "said", "topic", "path")
    seen = each.filter(F.col("draft") > 0).select(*columns)
    if any(claim.target in whole.nodes for claim in whole.assertions):
        seen = seen.unionByName(passed.join(_publishers(began), "origin").select(*columns))
    speaking = F.array_compact(
        F.array(*(F.when(_is_about(claim, policy), F.lit(at)) for at, claim in enumerate(whole.assertions)))
    )
    hits = seen.withColumn("claim", F.explode(speaking))
    ranked = hits.withColumn("place", F.row_number().over(Window.partitionBy("claim").orderBy("time", "at", "seq")))
    ranked = ranked.withColumn("events", F.count("*").over(Window.partitionBy("claim")))
    breaches: dict[int, list[Row]] = {}
    for row in ranked.filter(F.col("place") <= SHOWN).orderBy("claim", "place").collect():
        breaches.setdefault(row.claim, []).append(row)
    return tuple(_claim(claim, breaches.get(at, [])) for at, claim in enumerate(whole.assertions))


def _claim(claim: Assertion, rows: list[Row]) -> AssertionResult:
    first = (Breach(row.time, row.at, row.seq, row.publisher, row.said, row.subject, row.topic) for row in rows)
    return AssertionResult(str(claim), claim.kind, rows[0].events if rows else 0, tuple(first))


def _is_about(claim: Assertion, policy: CompiledDomain) -> Column:
    nodes, devices = policy.ensemble.nodes, policy.ensemble.devices
    target = F.col("subject") == claim.target
    if claim.target == UNLISTED:
        target = ~F.col("subject").isin(*devices, *policy.ensemble.foreign, *nodes)
    source = F.col("publisher") == claim.source
    if claim.source in nodes:
        source = source | (F.col("at") == claim.source) | F.array_contains("path", claim.source)
    elif claim.source == UNLISTED:
        source = ~F.col("publisher").isin(*devices, *policy.ensemble.foreign, *nodes)
    return target & source & (F.lit(True) if claim.topics is None else is_on(claim.topics, F.col("said")))


def _steps(each: DataFrame, first: datetime | None, last: datetime | None) -> tuple[ReplayInterval, ...]:
    """Changes over time, in equal parts of it that have any."""
    if first is None or last is None:
        return ()
    length = max(1, int((last - first).total_seconds() / _STEPS) + 1)
    begins = F.timestamp_seconds(F.floor(F.unix_timestamp("time") / length) * length)
    changed = each.filter((F.col("gained") > 0) | (F.col("lost") > 0)).groupBy(begins.alias("begins"))
    rows = changed.agg(F.sum("gained"), F.sum("lost")).orderBy("begins").collect()
    return tuple(ReplayInterval(*row) for row in rows)


def _write(each: DataFrame, folder: Path) -> None:
    changed = each.filter((F.col("gained") > 0) | (F.col("lost") > 0) | (F.col("changed") > 0))
    rows = changed.select(
        "subject", "node", "topic", "gained", "lost", "changed", "publisher", "at", "seq", "time", "said"
    )
    rows.write.mode("overwrite").partitionBy("subject").parquet(str(folder / CHANGES))
