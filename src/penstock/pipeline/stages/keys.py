"""What topic and publisher alone decide: once for each combination that there is, by the `plan` of every stage.

A combination is a *key*; a table of events has few of them. What is planned for a key is joined to its events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.topic_tree import FilterIndex
from penstock.model.verdict import Effect
from penstock.pipeline.stages.stage import EventKey, KeyDraft, Receiver, SparkStage, Traffic
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.rows import Fields
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.distinct import distinct
from penstock.pipeline.tables.executor import F

KEYS = EventKey._fields
_NULLABLE = frozenset({"user", "neighbour"})
MAX_KEYS_HERE = 10_000
"""More are planned by Spark's workers: that takes them less time than to compile the policies."""

_TEXTS = ("subject", "where")
_RECEIVER = pa.struct([(name, pa.string() if name in _TEXTS else pa.bool_()) for name in Receiver._fields])
_PLAN = pa.schema(
    [
        *((name, pa.string()) for name in KEYS),
        ("policy", pa.string()),
        ("admitted", pa.bool_()),
        *((name, pa.string()) for name in ("stage_now", "rule_now", "reason_now", "source", "link_type_now")),
        *((name, pa.bool_()) for name in ("is_trusted", "conforms")),
        ("conditions", pa.list_(pa.string())),
        ("edit", pa.string()),
        ("receivers", pa.list_(_RECEIVER)),
    ]
)
"""A key, and what is planned for it: see `stage.KeyDraft`."""
PLAN = _PLAN.names[len(KEYS) :]


class Planner:
    """Lets the stages plan keys, and remembers nodes and sessions."""

    def __init__(self, stages: tuple[SparkStage, ...], scope: Scope) -> None:
        self._stages = stages
        self._policies = scope.policies
        self._actors = Actors(scope.policies, scope.askers)
        self._trees: dict[tuple[str | None, ...], FilterIndex[int]] = {}

    def plan(self, key: EventKey) -> KeyDraft:
        """Return what the stages decide about all events with a key."""
        draft = KeyDraft(key, self._policies, self._actors, self._trees)
        for stage in self._stages:
            stage.plan(draft)
            if not draft.is_placed:
                break
        return draft

    def plans(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return keys with what is planned for them."""
        rows = [{**row, **_planned(self.plan(EventKey(**row)))} for row in keys.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, _PLAN)


def _planned(draft: KeyDraft) -> Fields:
    return {
        "policy": draft.policy.digest,
        "admitted": draft.verdict.effect is not Effect.SUPPRESS,
        "stage_now": draft.verdict.stage,
        "rule_now": draft.verdict.rule,
        "reason_now": draft.verdict.reason,
        "source": draft.source,
        "link_type_now": draft.link_type,
        "is_trusted": draft.is_trusted,
        "conforms": draft.conforms,
        "conditions": draft.conditions,
        "edit": draft.edit,
        "receivers": [receiver._asdict() for _, receiver in draft.receivers],
    }


@dataclass(frozen=True)
class KeyTable:
    """The keys of events, and what is planned for them."""

    planned: DataFrame
    alike: Mapping[str, str | None]
    """What all of them have."""
    wheres: frozenset[str] | None
    """The conditions that receivers have; None if it is not known yet."""

    @classmethod
    def of(cls, events: DataFrame, stages: tuple[SparkStage, ...], scope: Scope) -> "KeyTable":
        """Look for the keys of events at once.

        If they are few they are planned here, where the policies are compiled already, and the workers need no Python
        for them.
        """
        keys = events.select(*KEYS).distinct()
        few = keys.limit(MAX_KEYS_HERE + 1).toArrow()
        if few.num_rows > MAX_KEYS_HERE:
            return cls(_planned_there(keys, stages, scope), {}, None)
        planner = Planner(stages, scope)
        planned = pa.Table.from_batches([planner.plans(batch) for batch in few.to_batches()], _PLAN)
        table = F.broadcast(events.sparkSession.createDataFrame(planned, from_arrow_schema(_PLAN)))
        values = {name: few[name].unique().to_pylist() for name in KEYS if name != "topic"}
        alike = {name: several[0] for name, several in values.items() if len(several) == 1}
        receivers = pc.list_flatten(planned["receivers"])
        wheres = pc.struct_field(receivers, "where").unique().drop_null().to_pylist()
        return cls(table, alike, frozenset(wheres))

    def beside(self, events: DataFrame) -> DataFrame:
        """Return the events, whose keys these are, with what is planned for them."""
        return _joined(events, self.planned, self.alike)


def planned_later(events: DataFrame, traffic: Traffic) -> DataFrame:
    """Return events that it takes long to make with their plans: they are not made for the sake of their keys alone."""
    return _joined(events, _planned_there(events.select(*KEYS).distinct(), traffic.stages, traffic.scope))


def _planned_there(keys: DataFrame, stages: tuple[SparkStage, ...], scope: Scope) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        planner = Planner(stages, scope)
        for batch in batches:
            yield planner.plans(batch)

    return keys.mapInArrow(work, from_arrow_schema(_PLAN))


def _joined(events: DataFrame, planned: DataFrame, alike: Mapping[str, str | None] = MappingProxyType({})) -> DataFrame:
    """Join plans to events. What all keys have (`alike`) is asked of each event, which is quicker than a join."""
    if alike:
        events = events.filter(reduce(and_, (F.col(name).eqNullSafe(F.lit(value)) for name, value in alike.items())))
    others = [name for name in KEYS if name not in alike]
    named = planned.select(*(F.col(name).alias(f"key_{name}") for name in others), *PLAN)
    same = [
        events[name].eqNullSafe(named[f"key_{name}"]) if name in _NULLABLE else events[name] == named[f"key_{name}"]
        for name in others
    ]
    return _begun(events.join(named, same).drop(*(f"key_{name}" for name in others)))


def _begun(planned: DataFrame) -> DataFrame:
    """Return events with the columns that stages write: whether they pass, and which part of an event they are."""
    return planned.withColumns({"passes": F.lit(True), "part": F.lit(0)})


def planned_by_batch(events: DataFrame, traffic: Traffic) -> DataFrame:
    """Return the events of a stream, which cannot be joined with itself, with their plans: batch by batch."""
    stages, scope = traffic.stages, traffic.scope

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        planner = Planner(stages, scope)
        for batch in batches:
            keys = batch.select(list(KEYS))
            firsts, at = distinct(keys)
            planned = planner.plans(keys.take(pa.array(firsts))).take(pa.array(at)).select(PLAN)
            yield pa.RecordBatch.from_arrays([*batch.columns, *planned.columns], names=[*batch.schema.names, *PLAN])

    types = StructType([*events.schema.fields, *from_arrow_schema(_PLAN).fields[len(KEYS) :]])
    return _begun(events.mapInArrow(work, types))
