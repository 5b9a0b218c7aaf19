"""The job `trust`: what nodes hold of their neighbours, worked out again from the history that they recorded.

Evidence is beside events in the journal. Ageing makes of it a sum whose parts fade with their age, so Spark can add it
up in any order; only what came before an operator's setting must be left out. With another function E, what neighbours
sent is judged again. `docs/trust.md` has the meaning.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.domain import Ensemble
from penstock.domain.schema.trust import TrustSettings
from penstock.journal.read.events import ARRIVAL
from penstock.pipeline.errors import ArgumentError, PipelineError
from penstock.pipeline.spark.policies import Policies, PolicyFiles
from penstock.pipeline.stages.admit import was_refused
from penstock.pipeline.state.rows import event_of, rows_of
from penstock.pipeline.tables import tables
from penstock.pipeline.trust.paths import least_averages
from penstock.policy.trust.evaluation import Interaction, evaluated, load_evaluation
from penstock.policy.trust.rating import PRIOR, UNIT, Evidence, Weights
from penstock.policy.trust.vectors import MAX_EDGES

RATINGS, PATHS = "ratings", "paths"
OPERATOR, EVALUATE = "operator", "evaluate"
_FACTS = "evidence array<struct<neighbour: string, good: boolean, source: string, held: array<double>>>"
_SEEN = ("node", "seq", "place", "time", "neighbour", "good", "source", "held")
_EVENT = (
    *("node", "seq", "time", "neighbour", "client_id", "user", "link_type", "topic", "payload", "qos", "retain"),
    *("content_type", "properties", "expiry", "path", "id"),
)
_TEXT = pa.string()
_JUDGED = pa.schema(
    {"node": _TEXT, "seq": pa.int64(), "time": pa.float64(), "neighbour": _TEXT, "good": pa.bool_(), "problem": _TEXT}
)


class EvidenceSource(NamedTuple):
    """Where evidence came from, and how many events it was."""

    source: str
    good: int
    bad: int


class NeighbourRating(NamedTuple):
    """What a node would hold of a neighbour."""

    node: str
    neighbour: str
    good: float
    bad: float
    at: float | None
    """As of when, in seconds since 1970; None: nothing was seen, it is what the domain gives."""
    rating: float
    sources: tuple[EvidenceSource, ...]

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.good, self.bad, self.at or 0.0)


class Walked(NamedTuple):
    """The least-trustworthy path from one node to another."""

    origin: str
    node: str
    edges: int
    rating: float


class Fleet(NamedTuple):
    """Ratings of a whole fleet."""

    ratings: tuple[NeighbourRating, ...]
    at: float
    """The time that ratings are as of, in seconds since 1970."""
    weights: Weights
    paths: tuple[Walked, ...] | None
    failed: int = 0
    """Events that the function E failed on: they are no evidence."""
    problem: str = ""
    """The first of these failures."""


@dataclass(frozen=True)
class TrustOptions:
    """What is to be other than the domain says; None: as it says."""

    penalty: int | None = None
    half_life: float | None = None
    """Seconds; 0: no ageing."""
    evaluate: str | None = None
    at: float | None = None
    """The time that ratings are as of; None: that of the last recorded event."""
    longest: int | None = None
    """Edges of the longest path."""

    def weights(self, settings: TrustSettings) -> Weights:
        """Return the weights to rate by; raises `PolicyError`."""
        given = settings.weights
        half_life = given.half_life if self.half_life is None else self.half_life or None
        return Weights(given.penalty if self.penalty is None else self.penalty, given.base_rate, half_life)


AS_THE_DOMAIN_SAYS = TrustOptions()


def rate(
    spark: SparkSession,
    journal: Path,
    policies: Policies,
    asked: TrustOptions = AS_THE_DOMAIN_SAYS,
    nodes: frozenset[str] | None = None,
    days: tables.Days | None = None,
    to: Path | None = None,
    with_paths: bool = False,
) -> Fleet:
    """Ratings by one domain from recorded history, and with `to` as tables; raises `PipelineError`, `PolicyError`."""
    (policy,) = policies.judging
    settings = policy.ensemble.trust
    if settings is None:
        raise PipelineError("the domain has no `trust` section, so its nodes have no ratings")
    weights = asked.weights(settings)
    events = tables.events(spark, journal, nodes, days)
    seen = evidence(events)
    failed, problem = 0, ""
    if asked.evaluate is not None:
        assert policies.stands is not None
        judged = evaluations(events, policies.by_digest[policies.stands], asked.evaluate, policy.ensemble).persist()
        failed, problem = judged.agg(F.count("problem"), F.coalesce(F.min("problem"), F.lit(""))).collect()[0]
        seen = seen.filter(F.col("source") != EVALUATE).unionByName(_as_seen(judged))
    at = asked.at if asked.at is not None else _last(events)
    rated = ratings(seen, pairs(spark, policy.ensemble, settings, nodes), weights, at).persist()
    neighbours = tuple(_rated(row.asDict(recursive=True)) for row in rated.orderBy("node", "neighbour").collect())
    paths = None
    if with_paths:
        longest = asked.longest or settings.longest or MAX_EDGES
        walks = least_averages(spark, edges(rated), sorted(policy.ensemble.nodes), longest).persist()
        columns = [F.col(name) for name in Walked._fields]
        paths = tuple(Walked(*row) for row in walks.select(*columns).orderBy("node", "origin").collect())
        if to is not None:
            walks.write.mode("overwrite").parquet(str(to / PATHS))
    if to is not None:
        rated.write.mode("overwrite").parquet(str(to / RATINGS))
    return Fleet(neighbours, at, weights, paths, failed, problem)


def _rated(row: dict[str, object]) -> NeighbourRating:
    sources = tuple(EvidenceSource(**source) for source in row.pop("sources") or [])  # type: ignore[attr-defined]
    return NeighbourRating(**row, sources=sources)  # type: ignore[arg-type]


def _last(events: DataFrame) -> float:
    last = events.agg(F.max(_seconds())).collect()[0][0]
    return 0.0 if last is None else float(last)


def _seconds() -> Column:
    return F.unix_micros("time") / F.lit(1_000_000)


def evidence(events: DataFrame) -> DataFrame:
    """Return the evidence that was recorded, one row for each piece."""
    noted = events.filter((F.col("kind") == ARRIVAL) & F.contains("facts", F.lit('"evidence"')))
    recorded = F.from_json("facts", _FACTS)["evidence"]
    each = noted.select("node", "seq", _seconds().alias("time"), F.posexplode(recorded).alias("place", "seen"))
    return each.select("node", "seq", "place", "time", "seen.*").select(*_SEEN)


def evaluations(events: DataFrame, standing: PolicyFiles, where: str, whole: Ensemble) -> DataFrame:
    """Return how a function E rates all that nodes accepted from nodes; `problem` is why it cannot rate an event."""
    load_evaluation(where, Path(standing.folder))  # what is wrong with it is said before the job begins
    by_nodes = F.col("neighbour").isin(*whole.nodes)
    came = events.filter((F.col("kind") == ARRIVAL) & by_nodes & ~was_refused()).select(*_EVENT)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judge, reader = load_evaluation(where, Path(standing.folder)), standing.compiled().ensemble.reader
        for batch in batches:
            made = []
            for row in rows_of(batch):
                event = event_of(row, row["link_type"])
                outcome = evaluated(
                    judge, Interaction(row["neighbour"], event.topic, event.payload, reader.read(event))
                )
                if outcome is not None:
                    good, problem = (None, outcome) if isinstance(outcome, str) else (outcome, None)
                    known = {name: row[name] for name in ("node", "seq", "time", "neighbour")}
                    made.append({**known, "good": good, "problem": problem})
            yield pa.RecordBatch.from_pylist(made, schema=_JUDGED)

    return came.mapInArrow(work, from_arrow_schema(_JUDGED))


def _as_seen(judged: DataFrame) -> DataFrame:
    beside = {"place": F.lit(-1), "source": F.lit(EVALUATE), "held": F.lit(None).cast("array<double>")}
    return judged.filter(F.col("good").isNotNull()).withColumns(beside).select(*_SEEN)


def pairs(spark: SparkSession, whole: Ensemble, settings: TrustSettings, nodes: frozenset[str] | None) -> DataFrame:
    """Return who rates whom, and what the domain gives to begin with."""
    known = [
        (by, of) for of, by in whole.links if of in whole.nodes and by in whole.nodes and (nodes is None or by in nodes)
    ]
    if not known:
        raise ArgumentError("no link joins two of these nodes, so there is nothing to rate")
    begun = [settings.begins(by, of) for by, of in known]
    rows = [(*ends, float(evidence.good), float(evidence.bad)) for ends, evidence in zip(known, begun, strict=True)]
    return spark.createDataFrame(rows, "node string, neighbour string, begun_good double, begun_bad double")


def ratings(seen: DataFrame, pairs: DataFrame, weights: Weights, at: float) -> DataFrame:
    """Return the evidence that nodes hold: `node, neighbour, good, bad, at, rating, sources`, rated as of a time."""
    whose = Window.partitionBy("node", "neighbour")
    order = whose.orderBy("seq", "place")
    is_set = F.col("source") == OPERATOR
    last = F.max(F.when(is_set, F.struct("seq", "place"))).over(whose)
    counts = seen.withColumn("last", last).filter(F.col("last").isNull() | (F.struct("seq", "place") >= F.col("last")))
    # A clock that was set back ages nothing: then a piece of evidence is as of the latest before it.
    begins = F.when(is_set, F.get("held", F.lit(2))).otherwise(F.col("time"))
    counts = counts.withColumn("as_of", F.max(begins).over(order)).withColumn("end", F.max("as_of").over(whose))
    good = F.when(is_set, F.get("held", F.lit(0))).otherwise(F.col("good").cast("double"))
    bad = F.when(is_set, F.get("held", F.lit(1))).otherwise(F.when(F.col("good"), 0.0).otherwise(weights.penalty))
    left = _left(F.col("end") - F.col("as_of"), weights)
    kinds = counts.groupBy("node", "neighbour", "source").agg(
        F.sum(good * left).alias("seen_good"),
        F.sum(bad * left).alias("seen_bad"),
        F.max("end").alias("at"),
        F.min("as_of").alias("first"),
        F.count_if("good").alias("good"),
        F.count_if(~F.col("good")).alias("bad"),
    )
    sums = kinds.groupBy("node", "neighbour").agg(
        *(F.sum(name).alias(name) for name in ("seen_good", "seen_bad")),
        F.max("at").alias("at"),
        F.min("first").alias("first"),
        F.bool_or(is_set).alias("was_set"),
        F.array_sort(F.collect_list(F.struct("source", "good", "bad"))).alias("sources"),
    )
    beside = pairs.join(sums, ["node", "neighbour"], "left")
    return _held(beside, weights, at)


def _held(beside: DataFrame, weights: Weights, at: float) -> DataFrame:
    """Return evidence over time: what the domain gives ages from the first event on; a setting by hand resets it."""
    since = F.coalesce(_left(F.col("at") - F.col("first"), weights), F.lit(1.0))
    begun = F.when(F.col("was_set"), 0.0).otherwise(since)
    held = beside.withColumns(
        {
            name: F.col(f"begun_{name}") * begun + F.coalesce(F.col(f"seen_{name}"), F.lit(0.0))
            for name in ("good", "bad")
        }
    )
    aged = F.coalesce(_left(F.greatest(F.lit(0.0), F.lit(at) - F.col("at")), weights), F.lit(1.0))
    good, bad = F.col("good") * aged, F.col("bad") * aged
    whole = good + bad + PRIOR
    rating = F.least(F.lit(1.0), good / whole + F.lit(weights.base_rate) * (F.lit(PRIOR) / whole))
    sources = F.coalesce(F.col("sources"), F.array().cast("array<struct<source: string, good: bigint, bad: bigint>>"))
    return held.select("node", "neighbour", "good", "bad", "at", rating.alias("rating"), sources.alias("sources"))


def _left(seconds: Column, weights: Weights) -> Column:
    """Return how much of evidence is left after so many seconds."""
    if weights.half_life is None:
        return F.when(seconds.isNotNull(), F.lit(1.0))
    return F.pow(F.lit(0.5), seconds / F.lit(weights.half_life))


def edges(rated: DataFrame) -> DataFrame:
    """Ratings as `paths` takes them."""
    millionths = F.rint(F.col("rating") * UNIT).cast("bigint")
    return rated.select(F.col("neighbour").alias("rated"), F.col("node").alias("rater"), millionths.alias("rating"))


def moment(at: float | None) -> str:
    """Return a time as text."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # nodes once took any from operators, and journals have it
        return f"{at:g}"
