"""Capsules on Spark whose results depend on the order of events: last values of inputs, and inputs that fall silent.

The events of a group are brought together and run through `policy/capsules/machine.py` in the order in which they came,
as in a node. A row that comes out is a result, or something that the capsule remembers: `memory_key` and `memory`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.capsules.sums import RESULTS, about_result, group_keys, result_fields
from penstock.pipeline.tables.view import UNTIL
from penstock.policy.capsules.capsule import Capsule, LatestReduction
from penstock.policy.capsules.machine import CapsuleMachine, CapsuleOutcome, read_stored
from penstock.policy.capsules.steps import TakenEvent

OUTCOMES = pa.schema([*RESULTS, ("memory_key", pa.string()), ("memory", pa.string())])
"""Results, and what is remembered."""
_ORDER = ("arrival", "seq", "place", "part")


def outcomes(rows: DataFrame, reference: CapsuleReference, before: DataFrame | None, reached: int) -> DataFrame:
    """Return the results of rows that a capsule has taken, and what it remembers then, with the columns `OUTCOMES`.

    `before`: what it remembered; `reached`: the time in microseconds up to which nothing else comes.
    """
    keys = group_keys(reference.capsule())
    capsule = reference.capsule()
    kept = [*keys, "input", *_ORDER, UNTIL]
    kept += ["content", "quality"] if isinstance(capsule.reduction, LatestReduction) else []
    some = rows.filter(F.col("at").isNotNull()).select(*kept)
    if before is not None:
        known = before.filter(F.col("memory_key").isNotNull())
        known = known.select("memory_key", "memory", *_of_memory(keys))
        some = some.unionByName(known, allowMissingColumns=True)
    else:
        some = some.withColumns({name: F.lit(None).cast("string") for name in ("memory_key", "memory")})

    def work(table: pa.Table) -> pa.Table:
        made = list(_run(reference.capsule(), table.to_pylist(), reached))
        return pa.Table.from_pylist(made, schema=OUTCOMES)

    # Without keys there is one group: of all.
    grouped = some.groupBy(*keys) if keys else some.groupBy(F.lit(0).alias("all"))
    return grouped.applyInArrow(work, from_arrow_schema(OUTCOMES))


def _of_memory(keys: list[str]) -> list[Column]:
    """Return the keys of the group that something is remembered of."""
    names = F.from_json("memory_key", "array<string>")
    return [F.element_at(names, F.lit(at + 3)).alias(key) for at, key in enumerate(keys)]  # behind what, and the input


def _run(capsule: Capsule, rows: list[dict[str, Any]], reached: int) -> Iterator[dict[str, Any]]:
    """Run one group through the machine."""
    machine = CapsuleMachine(capsule)
    events = []
    for row in rows:
        if row["memory_key"] is not None:
            machine.restore(tuple(msgspec.json.decode(row["memory_key"])), msgspec.json.decode(row["memory"]))
        else:
            events.append(row)
    for row in sorted(events, key=lambda row: tuple(row[name] for name in _ORDER)):
        arrival, group = row["arrival"], tuple(row[key] for key in group_keys(capsule))
        yield from (_row(capsule, outcome) for outcome in machine.advance(arrival))
        if not isinstance(capsule.reduction, LatestReduction):
            machine.hear(row["input"], group, arrival)
            continue
        quality = read_stored(row["quality"])
        taken = TakenEvent(arrival, group, (), quality, "", row["input"], row["content"])
        outcome = machine.take(taken, arrival, row[UNTIL])
        if outcome is not None:
            yield _row(capsule, outcome, f"{row['seq']:020d}.{row['place']}.{row['part']}.{row['input']}")
    yield from (_row(capsule, outcome) for outcome in machine.advance(reached))
    encode = msgspec.json.encode
    for key, value in machine.entries.items():
        yield {"memory_key": encode(key).decode(), "memory": encode(value).decode()}


def _row(capsule: Capsule, outcome: CapsuleOutcome, place: str = "") -> dict[str, Any]:
    known = about_result(capsule, outcome.at, outcome.at, outcome.group, outcome.until)
    known |= {"inputs": outcome.inputs, "place": place or f"silent {outcome.silent}"}
    if outcome.result is None:
        return {**known, "problem": outcome.problem}
    return {**known, **result_fields(outcome.result)}
