"""`python -m benchmarks capsules`: a capsule on Spark beside the same aggregation in plain Spark.

One journal of readings in JSON, compacted. Each way makes the means and peaks of each area by windows of a minute, and
all must give as many. Plain Spark reads the Parquet and the JSON with its own functions, and knows neither who may have
what nor quality; a capsule goes through the authorised view of its client. Once more with quality on each event, which
the capsule carries through.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.govern import AREAS, DEVICES, NOON, SEGMENT_ROWS, Way, processor_time, session
from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from penstock.domain import load
from penstock.engine.journal_rows import Note, Rows, Source
from penstock.journal.revision import Revision
from penstock.journal.write.compact import compact
from penstock.journal.write.segment import Segment
from penstock.model.quality import MetricValue, Quality, moment
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.jobs.capsules import given, process
from penstock.pipeline.spark.policies import as_it_stands
from penstock.pipeline.tables import tables
from penstock.policy.quality.carriage import CLAIMED, write_properties
from penstock.policy.quality.criteria import LIBRARY
from penstock.wire.codec import encode
from penstock.wire.packet import Publish
from penstock.wire.properties import NO_PROPERTIES, Properties

ROWS, QUICK_ROWS = 1_000_000, 50_000
PER_SECOND = 500
PLAIN, ALONE, CARRYING = "plain Spark", "capsule", "capsule, three indicators on each event"
_NOTE = Note(1, Verdict("admit", Effect.PASS), False, (), ())
_SOURCE = Source("device", None, "device", "", None, 5, 5)
_CAPSULE = {
    "client": "areas",
    "input": {"topics": "plant/#"},
    "window": {"length": "60s"},
    "operations": [
        {
            "aggregate": {
                "by": {"area": 2},
                "values": {"mean": "mean(temperature)", "peak": "max(temperature)", "readings": "count()"},
            }
        }
    ],
    "output": {"topic": "areas/{area}"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 whatever the figures are, 1 if two ways give different results."""
    parser = argparse.ArgumentParser(prog="benchmarks capsules", description=__doc__)
    parser.add_argument("--rows", type=int, default=None, help=f"of the journal (default: {ROWS:,})")
    parser.add_argument("--repeats", type=int, default=None, help="runs of each way (default: 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; not to be quoted")
    options = parser.parse_args(arguments)
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    repeats = options.repeats or (1 if options.quick else 3)
    machine = describe(f"{repeats}{' quick' if options.quick else ''}")
    with tempfile.TemporaryDirectory(prefix="penstock-capsules-") as name, session() as spark:
        bench = Bench(spark, Path(name), rows)
        ways = bench.ways()
        bench.measure(ways, repeats)
    text = table(ways, rows)
    print(f"\n{text}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    (OUTPUT / "capsules.md").write_text(f"# Capsules on Spark\n\n{text}\n\n{about}\n")
    records = [{"way": way.name, "seconds": way.seconds, "processor": way.processor} for way in ways]
    results = {"machine": machine, "rows": rows, "ways": records}
    (OUTPUT / "capsules.json").write_text(json.dumps(results, indent=1) + "\n")
    counts = {way.count for way in ways}
    if len(counts) != 1:
        print(f"the ways do not give the same: { ({way.name: way.count for way in ways}) }", file=sys.stderr)
    return int(len(counts) != 1)


class Bench:
    """The journal, with quality and without, and what is done with it."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self._spark, self._folder, self._rows = spark, folder, rows
        self._bare, self._measured = self._journal("bare", False), self._journal("measured", True)

    def _journal(self, name: str, is_measured: bool) -> tuple[Path, Path]:
        home = self._folder / name
        home.mkdir()
        domain = {
            "domain": "plant",
            "nodes": {"main": {"listen": "127.0.0.1:0", "store": "memory"}},
            "clients": {"device": {"node": "main"}, "areas": {"node": "main"}},
            "content": [{"topics": "plant/#", "format": "json"}],
            "capsules": {"areas": _CAPSULE},
        }
        path = home / "domain.yaml"
        path.write_text(yaml.safe_dump(domain))
        journal, chance, seq = home / "journal", random.Random(1), 0
        revision = Revision.of(load(path))
        revision.keep(journal)
        for first in range(0, self._rows, SEGMENT_ROWS):
            rows = Rows.new()
            for at in range(first, min(first + SEGMENT_ROWS, self._rows)):
                rows.notes.append(_NOTE)
                rows.run(_SOURCE, NOON + at / PER_SECOND, encode(_reading(chance, at, is_measured), 5))
            segment = Segment(journal, "main", "plant", seq, rows.times[0])
            seq = segment.revision(seq, rows.times[0], revision.digest)
            seq = segment.write(seq, rows)
            segment.seal()
        for done in compact(journal):
            print(f"{name}: compacted {done.rows:,} rows, {done.bytes_after / 2**20:.0f} MiB", flush=True)
        return journal, path

    def ways(self) -> list[Way]:
        return [
            Way(PLAIN, self._plain),
            Way(ALONE, self._capsule(*self._bare)),
            Way(CARRYING, self._capsule(*self._measured)),
        ]

    def measure(self, ways: list[Way], repeats: int) -> None:
        """In turns; once before, without being counted: Java gets faster."""
        for turn in range(repeats + 1):
            for way in ways:
                to = self._folder / "out"
                before, began = processor_time(), time.perf_counter()
                way.run(to)
                seconds, processor = time.perf_counter() - began, processor_time() - before
                print(f"{way.name}: {self._rows / seconds:,.0f} rows/s, {processor:.1f} processor s", flush=True)
                if turn:
                    way.seconds.append(seconds)
                    way.processor.append(processor)
                way.count = self._spark.read.parquet(str(to)).count()
                shutil.rmtree(to)

    def _plain(self, to: Path) -> None:
        """Compute the same in plain Spark, without Penstock."""
        files = [str(path) for path in sorted(self._bare[0].glob("compact/node=*/date=*/[0-9]*.parquet"))]
        events = self._spark.read.parquet(*files).filter(F.col("topic").startswith("plant/"))
        content = F.from_json(F.decode("payload", "utf-8"), "temperature double")
        rows = events.withColumn("said", content).withColumn("area", F.split("topic", "/")[1])
        last = rows.agg(F.max("time")).collect()[0][0]
        windows = rows.groupBy(F.window("time", "60 seconds"), "area").agg(
            F.mean("said.temperature").alias("mean"), F.max("said.temperature").alias("peak"), F.count("*").alias("n")
        )
        windows.filter(F.col("window.end") <= F.lit(last)).write.parquet(str(to))

    def _capsule(self, journal: Path, domain: Path) -> Callable[[Path], None]:
        policies = as_it_stands(domain, journal)
        reference = CapsuleReference(policies, "areas")

        def run(to: Path) -> None:
            rows = given(tables.events(self._spark, journal), policies, reference.capsule())
            process(rows, reference).write.parquet(str(to))
            self._spark.catalog.clearCache()

        return run


def table(ways: Sequence[Way], rows: int) -> str:
    """Rows in a second and processor time, and how they are beside plain Spark."""
    plain = ways[0]
    head = f"| way, {rows:,} rows | rows/s | of plain Spark | processor s | of plain Spark | results |"
    lines = [head, "| --- " * 6 + "|"]
    for way in ways:
        seconds, processor = statistics.median(way.seconds), statistics.median(way.processor)
        speed = statistics.median(plain.seconds) / seconds
        cost = processor / statistics.median(plain.processor)
        lines.append(
            f"| {way.name} | {rows / seconds:,.0f} | {speed:.2f} | {processor:.1f} | {cost:.2f} | {way.count:,} |"
        )
    return "\n".join(lines)


def _reading(chance: random.Random, number: int, is_measured: bool) -> Publish:
    area, device = chance.randrange(AREAS), chance.randrange(DEVICES)
    content = {
        "device": device,
        "temperature": round(chance.uniform(20.0, 100.0), 3) + 0.0005,
        "pressure": round(chance.uniform(0.5, 9.5), 4) + 0.00005,
        "state": chance.choice(("running", "idle", "failed")),
        "note": f"reading {number:08d} of the shift",
    }
    values = (("precision", chance.uniform(50, 100)), ("accuracy", 90.0), ("freshness", 0.5))
    at = moment(NOON + number / PER_SECOND)
    quality = Quality(MetricValue(LIBRARY.key(name), value, at) for name, value in values)
    carried = Properties(user_properties=write_properties(quality, CLAIMED)) if is_measured else NO_PROPERTIES
    return Publish(f"plant/{area}/{device}", json.dumps(content).encode(), properties=carried)


if __name__ == "__main__":
    sys.exit(main())
