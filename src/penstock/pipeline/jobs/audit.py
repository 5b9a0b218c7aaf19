"""The job `audit`: who saw what and when, what was denied, and what of the policies nothing recorded has needed."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.federation.wants import neighbour_in
from penstock.journal.listing import parts
from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.packets import PUBLISHER
from penstock.model.topic import is_wild
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.rule_usage import ACL, NodeClient, PolicyNodes, RuleName, line, listed_clients, rules, uses
from penstock.pipeline.spark.policies import CompiledDomain, Policies, as_it_stands, as_it_stood
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.view import times_sent
from penstock.policy.access.acl import AclRule

SEEN, DENIALS, WITHHELD, UNUSED, RIGHTS = "seen", "denials", "withheld", "unused", "rights"
"""The tables that are written."""
MAX_ROWS = 10_000
"""Of each table, rows that a report has; the written tables have all."""
MAX_TOPICS = 3
"""A right with a wildcard that was used for no more topics than these could name them instead."""
_STEPS = 60


class SentEvents(NamedTuple):
    """What a subject was sent, of what one publisher said on a topic."""

    subject: str
    topic: str
    publisher: str
    events: int
    first: datetime
    last: datetime


class Denial(NamedTuple):
    """What was suppressed, by which rule."""

    node: str
    stage: str
    rule: str
    publisher: str
    topic: str
    events: int
    first: datetime
    last: datetime
    reason: str
    """Of one of the events."""


class WithheldEvents(NamedTuple):
    """What policies kept from a subject that subscribes to it."""

    subject: str
    """`*`: others that the journal does not name."""
    topic: str
    publisher: str
    node: str
    stage: str
    rule: str
    effect: str
    """`suppress`: all of it; `replace`: it got something else, or less."""
    events: int
    first: datetime
    last: datetime
    reason: str
    """Of one of the events."""


class UnusedRight(NamedTuple):
    """A right that a subject has by a line of an access control file, and more of it than it has used."""

    subject: str
    node: str
    rule: str
    access: str
    filter: str
    reads: int
    writes: int
    suggestion: str


class AuditInterval(NamedTuple):
    """A part of the time."""

    time: datetime
    events: int
    denied: int


class SentInterval(NamedTuple):
    """What a subject was sent in a part of the time."""

    subject: str
    time: datetime
    events: int


class RuleCount(NamedTuple):
    """Rules of a kind, and how many of them decided nothing."""

    kind: str
    rules: int
    unused: int


class AuditReport(NamedTuple):
    """What a journal says about policies."""

    revision: str
    """The digest of the policies whose rules are looked at."""
    events: int
    """Events that came to nodes from clients."""
    seen: tuple[SentEvents, ...]
    denials: tuple[Denial, ...]
    withheld: tuple[WithheldEvents, ...]
    unused: tuple[RuleName, ...]
    kinds: tuple[RuleCount, ...]
    rights: tuple[UnusedRight, ...]
    steps: tuple[AuditInterval, ...]
    when: tuple[SentInterval, ...]


def audit(
    spark: SparkSession,
    journal: Path,
    to: Path | None = None,
    domain: Path | None = None,
    nodes: frozenset[str] | None = None,
    days: tables.Days | None = None,
) -> AuditReport:
    """Look through a journal; raises `PipelineError`, `DomainError`.

    The rules are those of `domain`, or those in force last. With `to`, the tables are written there.
    """
    events = tables.events(spark, journal, nodes, days).persist()
    try:
        count, first, last, revision = _bounds(events)
        policies = _policies(journal, domain, revision)
        policy = policies.of(None)
        recording = frozenset(part.node for part in parts(journal, nodes, days))
        clients = _clients(events, policy)
        used = uses(events, policies.by_digest[policy.digest], clients)
        used = used.groupBy("kind", "node", "rule", "subject", "access").agg(
            F.sum("events").alias("events"),
            F.slice(F.sort_array(F.collect_set("topic")), 1, MAX_TOPICS + 1).alias("topics"),
        )
        rows = used.collect()
        every = rules(policy, recording)
        spoke = {RuleName(row.kind, row.node, row.rule) for row in rows}
        unused = tuple(rule for rule in every if rule not in spoke)
        exercised = {
            (row.node, row.rule, row.subject, row.access): (row.events, tuple(row.topics))
            for row in rows
            if row.kind == ACL
        }
        made = PolicyNodes(policy)
        rights = tuple(right for client in clients for right in _rights(made, client, exercised))
        named = _with_publishers(events, policy)
        seen, denials, begins = _seen(named, policy), _denials(named), _begins(first, last)
        kept = _withheld(named, policy)
        if to is not None:
            _write(spark, to, {SEEN: seen, DENIALS: denials, WITHHELD: kept}, unused, rights)
        sent = tuple(SentEvents(*row) for row in seen.limit(MAX_ROWS).collect())
        denied = tuple(Denial(*row) for row in denials.limit(MAX_ROWS).collect())
        withheld = tuple(WithheldEvents(*row) for row in kept.limit(MAX_ROWS).collect())
        over_time = _steps(events, begins), _when(named, begins, policy)
        of_rules = unused, _kinds(every, unused), rights
        return AuditReport(policy.digest, count, sent, denied, withheld, *of_rules, *over_time)
    finally:
        events.unpersist()


def _bounds(events: DataFrame) -> tuple[int, datetime, datetime, str]:
    began = F.count_if((F.col("kind") == ARRIVAL) & F.col("neighbour").isNull())
    row = events.agg(began, F.min("time"), F.max("time"), F.max_by("revision", "time")).collect()[0]
    if row[1] is None:
        raise PipelineError("the journal has no events")
    return row[0], row[1], row[2], row[3]


def _policies(journal: Path, domain: Path | None, revision: str) -> Policies:
    if domain is not None:
        return as_it_stands(domain, journal)
    kept = as_it_stood(journal).by_digest
    if revision not in kept:
        raise PipelineError(
            f"the journal does not have the policies `{revision}` that were in force: name a domain with --domain"
        )
    return Policies(kept, revision)


def _clients(events: DataFrame, policy: CompiledDomain) -> tuple[NodeClient, ...]:
    """Return the clients that the domain lists, and those that came."""
    sent = events.select("node", F.explode("reached").alias("to"))
    sent = sent.select("node", "to.entity", "to.client_id", "to.user", "to.neighbour")
    came = events.select("node", "entity", "client_id", "user", "neighbour").unionByName(sent)
    rows = (
        came.filter("neighbour IS NULL").drop("neighbour").distinct().orderBy("node", "entity", "client_id").collect()
    )
    clients = dict.fromkeys(NodeClient(*row) for row in rows)
    known = {(client.node, client.entity) for client in clients}
    clients |= dict.fromkeys(client for client in listed_clients(policy) if (client.node, client.entity) not in known)
    return tuple(clients)


def _sent(events: DataFrame, policy: CompiledDomain) -> DataFrame:
    """Return a row for each event and client or foreign broker that was sent it, with the column `times`."""
    sent = events.select("topic", "time", "publisher", times_sent(), F.explode("reached").alias("to"))
    sent = sent.filter(F.col("to.neighbour").isNull() | ~F.col("to.neighbour").isin(*policy.ensemble.nodes))
    return sent.withColumn("subject", F.col("to.entity"))


def _seen(events: DataFrame, policy: CompiledDomain) -> DataFrame:
    counted = _sent(events, policy).groupBy("subject", "topic", "publisher")
    when = F.when(F.col("times") > 0, F.col("time"))
    totals = counted.agg(F.sum("times").alias("events"), F.min(when).alias("first"), F.max(when).alias("last"))
    return totals.filter("events > 0").orderBy("subject", "topic", "publisher")


def _when(events: DataFrame, begins: Column, policy: CompiledDomain) -> tuple[SentInterval, ...]:
    counted = _sent(events, policy).groupBy("subject", begins.alias("begins")).agg(F.sum("times").alias("events"))
    return tuple(
        SentInterval(*row)
        for row in counted.filter("events > 0").orderBy("subject", "begins").limit(MAX_ROWS).collect()
    )


def _denials(events: DataFrame) -> DataFrame:
    denied = events.filter(F.col("effect") == "suppress")
    counted = denied.groupBy("node", "stage", "rule", "publisher", "topic").agg(
        F.count("*").alias("events"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.min("reason").alias("reason"),
    )
    return counted.orderBy(F.col("events").desc(), "node", "stage", "rule", "publisher", "topic")


def _withheld(events: DataFrame, policy: CompiledDomain) -> DataFrame:
    """Return what was withheld from whom; of those that the journal only counts, how often in all."""
    kept = events.select("node", "topic", "publisher", "time", F.explode("withheld").alias("kept"))
    named, count = F.size("kept.receivers"), F.col("kept.count")
    receivers = F.concat("kept.receivers", F.when(count > named, F.array(F.lit("*"))).otherwise(F.array()))
    told = kept.select(
        F.explode(receivers).alias("subject"),
        *("topic", "publisher", "node", "kept.stage", "kept.rule", "kept.effect", "time", "kept.reason"),
        (count - named).alias("others"),
    ).filter(~F.col("subject").isin(*policy.ensemble.nodes))
    counted = told.groupBy("subject", "topic", "publisher", "node", "stage", "rule", "effect").agg(
        F.sum(F.when(F.col("subject") == "*", F.col("others")).otherwise(1)).alias("events"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.min("reason").alias("reason"),
    )
    return counted.orderBy("subject", "topic", "publisher", "node", "stage", "rule", "effect")


def _with_publishers(events: DataFrame, policy: CompiledDomain) -> DataFrame:
    """Return events with the names of their publishers in `publisher`: of a neighbour's, the neighbour if it did not
    tell.
    """
    told = events.filter(F.col("neighbour").isNotNull() & F.col("publisher").isNotNull())
    names = [(*row, _name(policy, *row)) for row in told.select(*PUBLISHER).distinct().collect()]
    types = "known_node string, known_id string, known_user string, known_name string"
    known = F.broadcast(events.sparkSession.createDataFrame(names, types))
    is_same = (
        F.col("neighbour").isNotNull()
        & (F.col("publisher_node") == F.col("known_node"))
        & (F.col("publisher") == F.col("known_id"))
        & F.col("publisher_user").eqNullSafe(F.col("known_user"))
    )
    named = events.join(known, is_same, "left")
    return named.withColumn("publisher", F.coalesce("known_name", "neighbour", "entity")).drop(*known.columns)


def _name(policy: CompiledDomain, node: str, client_id: str, user: str | None) -> str:
    neighbour = neighbour_in(client_id)
    if neighbour is not None:
        return neighbour
    entry = policy.ensemble.publisher(node, client_id, user) if node in policy.ensemble.nodes else None
    return client_id if entry is None else entry.name


_Exercised = dict[tuple[str, str, str, str], tuple[int, tuple[str, ...]]]
"""By node, rule, subject and access: events, and some of their topics."""


def _rights(nodes: PolicyNodes, client: NodeClient, exercised: _Exercised) -> Iterator[UnusedRight]:
    """Return the client's rights that it has not used, or not all of."""
    rights = nodes.rights(client)
    if rights is None:
        return
    by_line: dict[str, list[AclRule]] = defaultdict(list)
    for rule in (*rights.topics, *rights.patterns):
        if rule.access != "deny":
            by_line[line(client.node, rule)].append(rule)
    for text, (rule, *_) in by_line.items():
        reads, read = exercised.get((client.node, text, client.entity, "read"), (0, ()))
        writes, written = exercised.get((client.node, text, client.entity, "write"), (0, ()))
        suggestion = _suggestion(rule, set(read), set(written))
        if suggestion:
            yield UnusedRight(client.entity, client.node, text, rule.access, rule.filter, reads, writes, suggestion)


def _suggestion(rule: AclRule, read: set[str], written: set[str]) -> str:
    """Return the narrower right that would be enough."""
    if not read and not written:
        return "never used: remove"
    topics = sorted(read | written)
    if is_wild(rule.filter) and len(topics) <= MAX_TOPICS:
        return "enough: " + ", ".join(f"{_access(topic in read, topic in written)} {topic}" for topic in topics)
    access = _access(bool(read), bool(written))
    return "" if rule.access == access else f"enough: {access} {rule.filter}"


def _access(reads: bool, writes: bool) -> str:
    return ("read" if reads else "") + ("write" if writes else "")


def _kinds(named: list[RuleName], unused: tuple[RuleName, ...]) -> tuple[RuleCount, ...]:
    every, idle = Counter(rule.kind for rule in named), Counter(rule.kind for rule in unused)
    return tuple(RuleCount(kind, count, idle[kind]) for kind, count in every.items())


def _begins(first: datetime, last: datetime) -> Column:
    """Return the beginning of the interval that a row belongs to."""
    length = max(1, int((last - first).total_seconds() / _STEPS) + 1)
    return F.timestamp_seconds(F.floor(F.unix_timestamp("time") / length) * length)


def _steps(events: DataFrame, begins: Column) -> tuple[AuditInterval, ...]:
    arrivals = events.filter(F.col("kind") == ARRIVAL).groupBy(begins.alias("begins"))
    rows = arrivals.agg(F.count("*"), F.count_if(F.col("effect") == "suppress")).orderBy("begins").collect()
    return tuple(AuditInterval(*row) for row in rows)


def _write(
    spark: SparkSession,
    folder: Path,
    tables: dict[str, DataFrame],
    unused: tuple[RuleName, ...],
    rights: tuple[UnusedRight, ...],
) -> None:
    given = "subject string, node string, rule string, access string, filter string"
    made = {
        **tables,
        UNUSED: spark.createDataFrame(list(unused), "kind string, node string, rule string"),
        RIGHTS: spark.createDataFrame(list(rights), f"{given}, reads bigint, writes bigint, suggestion string"),
    }
    for name, table in made.items():
        table.write.mode("overwrite").parquet(str(folder / name))
