"""Common parts of the jobs: options, errors, records, and a progress line."""

import argparse
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR, EXIT_USAGE
from penstock.cli.pipeline.signals import delayed_interrupt, noted_interrupt
from penstock.journal.jobs import JobRecord, JobTable
from penstock.journal.listing import parts, unknown_nodes
from penstock.language.errors import ConditionError
from penstock.model.errors import DomainError, PenstockError
from penstock.pipeline.errors import ArgumentError, PipelineError
from penstock.pipeline.spark.session import SMALL, open_session, readable
from penstock.pipeline.tables.journal_stream import MAX_BYTES
from penstock.pipeline.tables.tables import Days

_PERIOD = 0.5
_SMALL_BYTES = 4 * 2**20


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a day, as 2026-01-31, found `{text}`") from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for where to run, and which part of a journal to read."""
    add = parser.add_argument
    add("--from", dest="journal", type=Path, required=True, metavar="JOURNAL", help="the folder of a journal")
    add("--node", action="append", metavar="NAME", help="only what this node recorded (may be repeated)")
    add("--since", type=_day, metavar="DAY", help="from this day on, as 2026-01-31 (UTC)")
    add("--until", type=_day, metavar="DAY", help="to this day, itself included")
    add_master(parser)


def add_master(parser: argparse.ArgumentParser) -> None:
    """Add options for where to run, and how to print results."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs: local[N], spark://…, yarn, k8s://…, or sc://… for Connect"
        " (default: what SPARK_REMOTE says, else local[*])",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_stream_options(parser: argparse.ArgumentParser, until: str, new: str) -> None:
    """Add the options of a job that goes on; `until` says where `--once` ends it, `new` what it polls for."""
    add = parser.add_argument
    add("--once", action="store_true", help=f"end when {until}")
    add("--every", type=float, default=1.0, metavar="SECONDS", help=f"seconds between two polls for {new} (default: 1)")
    add("--max-bytes", type=int, default=MAX_BYTES, metavar="N", help="of segments, for one batch (default: 64 MiB)")
    add("--master", metavar="URL", help="where Spark runs (default: what SPARK_REMOTE says, else local[*])")
    add("--json", action="store_true", help="print one JSON object for each batch")


def check_stream_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the command if these options are invalid."""
    if options.every <= 0 or options.max_bytes <= 0:
        parser.error("--every and --max-bytes are more than 0")


def read_options(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse the command line and check options against each other."""
    options = parser.parse_args(argv)
    if options.since is not None and options.until is not None and options.since > options.until:
        parser.error(f"--since {options.since} is after --until {options.until}")
    return options


def nodes_of(options: argparse.Namespace) -> frozenset[str] | None:
    return frozenset(options.node) if options.node else None


def days_of(options: argparse.Namespace) -> Days | None:
    if options.since is None and options.until is None:
        return None
    return options.since or date.min, options.until or date.max


def settings_for(options: argparse.Namespace) -> Mapping[str, str]:
    """Return the settings of a session for the part of the journal that is to be read."""
    nothing = unknown_nodes(options.journal, nodes_of(options))
    if nothing:
        raise ArgumentError(nothing)
    size = sum(part.path.stat().st_size for part in parts(options.journal, nodes_of(options), days_of(options)))
    return SMALL if size <= _SMALL_BYTES else {}


def run_job(
    name: str,
    options: argparse.Namespace,
    job: Callable[[SparkSession], int | None],
    settings: Callable[[argparse.Namespace], Mapping[str, str]] = settings_for,
) -> int:
    """Run a job in a session of its own; an error is printed as one sentence. Return the exit code.

    A job over a journal leaves a record of itself there.
    """

    def work() -> int:
        session_settings = settings(options)
        options.record = _record(name, options)
        logging.getLogger().addHandler(logging.NullHandler())  # an interrupted call is no more than that
        with delayed_interrupt():
            spark = open_session(options.master, f"penstock {name}", session_settings)
        try:
            with noted_interrupt() as is_interrupted:
                try:
                    with readable(), _progress(spark, name):
                        return job(spark) or 0
                except PipelineError as error:
                    if is_interrupted():
                        raise KeyboardInterrupt from error
                    raise
        finally:
            spark.stop()

    return run_here(options, work)


def run_here(options: argparse.Namespace, work: Callable[[], int]) -> int:
    """Run work that opens its session itself, or needs none; otherwise as `run_job`."""
    code, why, is_over = 0, "", False
    try:
        code = work()
        is_over = True
    except BrokenPipeError:
        raise
    except (PenstockError, ConditionError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        why = str(error)
        code = EXIT_DOMAIN if isinstance(error, DomainError) else EXIT_ERROR
        code = EXIT_USAGE if isinstance(error, ArgumentError) else code
    finally:
        record: JobRecord | None = getattr(options, "record", None)
        if record is not None:
            if is_over or why:
                record.end(code, why)
            else:
                record.end(EXIT_ERROR, "it was interrupted")
    return code


def _record(name: str, options: argparse.Namespace) -> JobRecord | None:
    """Return the job's record; None if it is not over a journal, or runs on a sample."""
    place = getattr(options, "journal", None) or getattr(options, "origin", None)
    if place is None or "://" in str(place) or not Path(place).is_dir() or getattr(options, "last", None) is not None:
        return None
    return JobRecord(Path(place), name, vars(options))


def is_recorded(options: argparse.Namespace) -> bool:
    """Return whether the job has a record."""
    return getattr(options, "record", None) is not None


def add_to_record(
    options: argparse.Namespace,
    counts: Mapping[str, int] | None = None,
    tables: Sequence[JobTable] = (),
    report: str = "",
    more: bytes = b"",
) -> None:
    """Add results to the job's record, if it has one."""
    record: JobRecord | None = getattr(options, "record", None)
    if record is not None:
        record.add(counts, tables, report)
        if more:
            record.add_details(more)


def plain(value: object) -> object:
    """Return named tuples as JSON values; times are UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain(member) for key, member in value._asdict().items()}
    return [plain(element) for element in value] if isinstance(value, tuple) else value


@contextmanager
def _progress(spark: SparkSession, name: str) -> Iterator[None]:
    """Show on a terminal how far Spark is."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show_progress, args=(spark, name, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _show_progress(spark: SparkSession, name: str, over: threading.Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except PySparkException:  # a Connect session does not say
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        return
    while not over.wait(_PERIOD):
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        done, all_ = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
        if all_:
            print(f"\r\033[K{name}: {done} of {all_} tasks under way", end="", file=sys.stderr, flush=True)
