"""`python -m benchmarks govern`: authorised views on Spark beside a plain copy, Python functions and DuckDB.

One journal of the readings of a plant's devices in JSON, compacted once with typed content and once without. Each way
reads the same Parquet and writes what one subject may have; all of them must give as many events. Then the same for
subjects with ever more policies.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from penstock.domain import load
from penstock.engine.journal_rows import Note, Rows, Source
from penstock.journal.revision import Revision
from penstock.journal.write.compact import compact
from penstock.journal.write.segment import Segment
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stands
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.view import NOT_BEFORE, UNTIL, VIEW
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

ROWS, QUICK_ROWS = 2_000_000, 100_000
SEGMENT_ROWS = 50_000
AREAS, DEVICES = 10, 20
POLICIES = (10, 1_000, 100_000)
HOTTER = 60.0
"""The subject may have readings from so many degrees on, of all areas but the last: nearly half of all."""
NOON = 1_767_268_800.0
RECORDED = tuple(name for name in VIEW if name not in ("subject", "part", NOT_BEFORE, UNTIL))
"""The columns that are the same in a subject's view and in the journal."""
TYPED_AIM, TEXT_AIM, POLICIES_AIM = 1.0, 0.75, 1.5
_SCHEMA = {
    "area": "int",
    "device": "int",
    "temperature": "double",
    "pressure": "double",
    "state": "string",
    "note": "string",
}
_NOTE = Note(1, Verdict("admit", Effect.PASS), False, (), ())


@dataclass
class Way:
    """One way to the same result."""

    name: str
    run: Callable[[Path], None]
    """Writes a table to a folder."""
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    count: int = -1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 whatever the figures are, 1 if two ways give different results."""
    parser = argparse.ArgumentParser(prog="benchmarks govern", description=__doc__)
    parser.add_argument("--rows", type=int, default=None, help=f"of the journal (default: {ROWS:,})")
    parser.add_argument("--repeats", type=int, default=None, help="runs of each way (default: 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; not to be quoted")
    options = parser.parse_args(arguments)
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    repeats = options.repeats or (1 if options.quick else 3)
    machine = describe(f"{repeats}{' quick' if options.quick else ''}")
    with tempfile.TemporaryDirectory(prefix="penstock-govern-") as name, session() as spark:
        bench = Bench(spark, Path(name), rows)
        ways = bench.ways()
        bench.measure(ways, repeats)
        more = bench.with_policies()
        bench.measure(more, repeats)
    text = f"{table(ways, rows)}\n\n{policies_table(more, rows)}"
    print(f"\n{text}")
    _write(text, [*ways, *more], rows, machine)
    counts = {way.count for way in ways if way.name not in COPIES}
    if len(counts) != 1:
        print(f"the ways do not give the same: { ({way.name: way.count for way in ways}) }", file=sys.stderr)
    return int(len(counts) != 1)


@contextmanager
def session() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = open_session(f"local[{min(os.cpu_count() or 1, 2)}]", "penstock benchmark")
    try:
        yield spark
    finally:
        spark.stop()


TYPED_COPY, TEXT_COPY = "plain copy, typed content", "plain copy, JSON text"
TYPED, TEXT = "govern, typed content", "govern, JSON text"
UDF, DUCK = "the policy as a Python UDF, JSON text", "DuckDB, JSON text"
COPIES = (TYPED_COPY, TEXT_COPY)


class Bench:
    """The journal, twice, and what is done with it."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self._spark = spark
        self._folder = folder
        self._rows = rows
        self._typed = self._journal("typed", {"content": [{"topics": "plant/#", "format": "json", "schema": _SCHEMA}]})
        self._text = self._journal("text", {"content": [{"topics": "plant/#", "format": "json"}]})

    # --- the journal

    def _domain(self, name: str, more: dict[str, object], where: dict[str, str], rights: str) -> Path:
        """A domain file of its own folder, and its rights."""
        home = self._folder / name
        home.mkdir()
        (home / "acl").write_text(f"{rights}user device\ntopic write #\n")
        domain = {
            "domain": "plant",
            "nodes": {"main": {"listen": "127.0.0.1:0", "store": "memory", "acl": "acl"}},
            "clients": {
                "device": {"node": "main", "type": "field", "user": "device"},
                "analyst": {"node": "main", "type": "office", "user": "analyst", "where": where},
            },
            "brokering": {"types": ["field", "office"], "allow": [{"from": "field", "to": "office"}]},
            **more,
        }
        (home / "domain.yaml").write_text(yaml.safe_dump(domain))
        return home / "domain.yaml"

    def _journal(self, name: str, more: dict[str, object]) -> tuple[Path, Path]:
        """A compacted journal, and the domain that was in force."""
        rights = "user analyst\n" + "".join(f"topic read plant/{area}/#\n" for area in range(AREAS - 1))
        path = self._domain(name, more, {"plant/#": f"temperature >= {HOTTER}"}, rights)
        journal = path.parent / "journal"
        revision = Revision.of(load(path))
        revision.keep(journal)
        random_ = random.Random(1)
        seq = 0
        for first in range(0, self._rows, SEGMENT_ROWS):
            count = min(SEGMENT_ROWS, self._rows - first)
            payloads: dict[str, list[bytes]] = {}
            for at in range(count):
                reading = _reading(random_, first + at)
                payloads.setdefault(reading.topic.rpartition("/")[2], []).append(encode(reading, 4))
            time_ = NOON + first / 1000
            segment = Segment(journal, "main", "plant", seq, time_)
            seq = segment.revision(seq, time_, revision.digest)
            for device, packets in payloads.items():
                source = Source(f"device-{device}", "device", "device", "field", None, 4, 4)
                seq = segment.write(seq, Rows.of(packets, _NOTE, source, time_))
            segment.seal()
        for done in compact(journal):
            print(f"{name}: compacted {done.rows:,} rows, {done.bytes_after / 2**20:.0f} MiB", flush=True)
        return journal, path

    # --- the ways

    def ways(self) -> list[Way]:
        text, duck = self._files(self._text[0]), duckdb.connect()
        duck.execute(f"SET threads TO {min(os.cpu_count() or 1, 2)}")
        return [
            Way(TYPED_COPY, lambda to: self._copy(self._typed[0], to)),
            Way(TYPED, self._govern(*self._typed)),
            Way(TEXT_COPY, lambda to: self._copy(self._text[0], to)),
            Way(TEXT, self._govern(*self._text)),
            Way(UDF, lambda to: tables.write_view(_by_udf(self._spark.read.parquet(*text)), to)),
            Way(DUCK, lambda to: _by_duckdb(duck, text, to)),
        ]

    def with_policies(self) -> list[Way]:
        """Subjects with ever more rights and conditions, of which the same few concern what was recorded."""
        runs = []
        for count in POLICIES:
            rights, where = policies(count)
            content: dict[str, object] = {"content": [{"topics": "plant/#", "format": "json", "schema": _SCHEMA}]}
            path = self._domain(f"policies-{count}", content, where, rights)
            runs.append(Way(f"{count:,}", self._govern(self._typed[0], path)))
        return runs

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

    def _files(self, journal: Path) -> list[str]:
        return [str(path) for path in sorted(journal.glob("compact/node=*/date=*/[0-9]*.parquet"))]

    def _copy(self, journal: Path, to: Path) -> None:
        self._spark.read.parquet(*self._files(journal)).write.parquet(str(to))

    def _govern(self, journal: Path, domain: Path) -> Callable[[Path], None]:
        loaded: list[Policies] = []

        def run(to: Path) -> None:
            if not loaded:
                began = time.perf_counter()
                loaded.append(as_it_stands(domain, journal))
                print(f"{domain.parent.name}: loaded in {time.perf_counter() - began:.1f} s", flush=True)
            events = tables.events(self._spark, journal)
            tables.write_view(view(events, loaded[0], (Asker("analyst"),)), to)

        return run


def policies(count: int) -> tuple[str, dict[str, str]]:
    """Return that many rights and conditions for the subject, half and half; ten of them are about recorded events."""
    rights = [f"topic read plant/{area}/#" for area in range(AREAS - 1)]
    where = {"plant/#": f"temperature >= {HOTTER}"}
    for number in range(count - len(rights) - len(where)):
        if number % 2:
            rights.append(f"topic read other/{number}/#")
        else:
            where[f"other/{number}/#"] = f"temperature >= {number}.5"
    return "user analyst\n" + "".join(f"{line}\n" for line in rights), where


def _reading(random_: random.Random, number: int) -> Publish:
    area, device = random_.randrange(AREAS), random_.randrange(DEVICES)
    payloads = {
        "area": area,
        "device": device,
        "temperature": round(random_.uniform(20.0, 100.0), 3) + 0.0005,
        "pressure": round(random_.uniform(0.5, 9.5), 4) + 0.00005,
        "state": random_.choice(("running", "idle", "failed")),
        "note": f"reading {number:08d} of the shift",
    }
    return Publish(f"plant/{area}/{device}", json.dumps(payloads).encode())


def _by_udf(events: DataFrame) -> DataFrame:
    """Compute the same with a Python function for each row, without Penstock."""

    def may(topic: str, payload: bytearray) -> bool:
        area = topic.split("/")[1]
        try:
            return area != str(AREAS - 1) and json.loads(bytes(payload))["temperature"] >= HOTTER
        except (ValueError, KeyError, TypeError):
            return False

    allowed = F.udf(may, "boolean", useArrow=False).asNondeterministic()
    rows = events.filter(allowed("topic", "payload")).withColumn("subject", F.lit("analyst"))
    return rows.withColumn("part", F.lit(0)).select("subject", "part", *RECORDED)


def _by_duckdb(connection: duckdb.DuckDBPyConnection, files: list[str], to: Path) -> None:
    columns = ", ".join(RECORDED)
    to.mkdir()
    connection.execute(
        f"COPY (SELECT {columns} FROM read_parquet({files!r}) WHERE topic NOT LIKE 'plant/{AREAS - 1}/%'"
        f" AND CAST(json_extract(decode(payload), '$.temperature') AS DOUBLE) >= {HOTTER})"
        f" TO '{to / 'view.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
    )


def processor_time() -> float:
    """Return the memory of this process and all its children."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def table(ways: Sequence[Way], rows: int) -> str:
    """Rows in a second and processor time, and how they are beside a plain copy of the same Parquet."""
    by_name = {way.name: way for way in ways}
    lines = [
        f"| way, {rows:,} rows | rows/s | of the copy | processor s | of the copy | events | aim |",
        "| --- " * 7 + "|",
    ]
    for way in ways:
        copy = by_name[TYPED_COPY if way.name in (TYPED, TYPED_COPY) else TEXT_COPY]
        seconds, processor = statistics.median(way.seconds), statistics.median(way.processor)
        speed = statistics.median(copy.seconds) / seconds
        aim = {TYPED: TYPED_AIM, TEXT: TEXT_AIM}.get(way.name)
        met = "" if aim is None else f">= {aim}: {'met' if speed >= aim else 'not met'}"
        lines.append(
            f"| {way.name} | {rows / seconds:,.0f} | {speed:.2f} | {processor:.1f} |"
            f" {processor / statistics.median(copy.processor):.2f} | {way.count:,} | {met} |"
        )
    return "\n".join(lines)


def policies_table(ways: Sequence[Way], rows: int) -> str:
    """Measure the cost of more policies."""
    first = statistics.median(ways[0].seconds)
    spent = statistics.median(ways[0].processor)
    head = "| policies for the subject | rows/s | time, of the first | processor s | of the first | aim |"
    lines = [head, "| --- " * 6 + "|"]
    for way in ways:
        seconds = statistics.median(way.seconds)
        aim = f"<= {POLICIES_AIM}: {'met' if seconds / first <= POLICIES_AIM else 'not met'}" if way is ways[-1] else ""
        lines.append(
            f"| {way.name} | {rows / seconds:,.0f} | {seconds / first:.2f} |"
            f" {statistics.median(way.processor):.1f} | {statistics.median(way.processor) / spent:.2f} | {aim} |"
        )
    return "\n".join(lines)


def _write(text: str, ways: Sequence[Way], rows: int, machine: dict[str, str]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    (OUTPUT / "govern.md").write_text(f"# Authorised views on Spark\n\n{text}\n\n{about}\n")
    records = [{"way": way.name, "seconds": way.seconds, "processor": way.processor} for way in ways]
    (OUTPUT / "govern.json").write_text(
        json.dumps({"machine": machine, "rows": rows, "ways": records}, indent=1) + "\n"
    )
    print(f"written: {OUTPUT / 'govern.md'}")


if __name__ == "__main__":
    sys.exit(main())
