"""`penstock pipeline replay`: a draft of a domain over recorded traffic."""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import command_parser, count_argument
from penstock.cli.pipeline import shared
from penstock.cli.table import print_table, shorten
from penstock.domain import load
from penstock.journal.jobs import JobTable
from penstock.journal.read.sample import sample
from penstock.model.errors import DomainError
from penstock.pipeline.jobs.replay import CHANGES, AssertionResult, ReplayReport, replay, replay_few
from penstock.pipeline.spark.session import SMALL
from penstock.pipeline.tables import report

_EPILOG = """\
Each event begins again at the node that a client gave it to, and goes its way through all nodes: by the policies in
force when it came, and by the draft, as if every subject had subscribed to everything. Monitors are run, in order.
With --last it is tried on the end of the journal only, by one core; monitors then begin in their first states, and
Sparkplug names behind aliases are known from the births in that part. Up to 20,000 events, where events times
clients are at most a million, it needs no Spark and no Java, unless --to or --master is there: it is the same job, in
this process.
With --to, each event that changes for somebody is a row of the table FOLDER/changes.
Exit code: 0, 1 if the job fails or an assertion of the draft fails on what was recorded, 2 for bad arguments, 3 if the
draft does not check.
"""
_MAX_ROWS = 40
_ONE_CORE, _FEW = "local[1]", 20_000
"""The master for samples, and the number of events below which starting Spark takes longer than the job."""
_MOST = 1_000_000
"""Largest product of events and clients; each takes a kilobyte or two."""
_TITLES = ("subject", "topic", "publisher", "then", "draft", "gained", "lost", "changed", "received", "rule")
_METRICS = ("subject", "topic", "metric", "then", "draft", "gained", "lost")
_BY_RULE = ("rule", "because", "gained", "lost", "changed")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser(
        "pipeline replay",
        "Show what a draft of a domain would change: who gains or loses which events, by which rule.",
        _EPILOG,
    )
    shared.add_options(parser)
    parser.add_argument("--domain", type=Path, required=True, metavar="DRAFT", help="the draft, a domain file")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write a table of all changes")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    parser.add_argument(
        "--subject", action="append", default=[], metavar="NAME", help="only about this client (may be repeated)"
    )
    parser.add_argument("--last", type=count_argument, metavar="N", help="only the last N events that came to nodes")
    return parser


def main(argv: list[str]) -> int:
    options = shared.read_options(parser(), argv)
    if options.last is None:
        return shared.run_job("replay", options, lambda spark: run(spark, options))
    if options.since is not None or options.until is not None:
        parser().error("--last goes without --since and --until")
    with tempfile.TemporaryDirectory(prefix="penstock-sample-") as folder:
        if options.master is None and options.to is None and _is_few(options):
            return shared.run_here(options, lambda: _here(options, Path(folder)))
        options.master = options.master or _ONE_CORE

        def job(spark: SparkSession) -> int:
            return run(spark, options, _sample(options, Path(folder)))

        return shared.run_job("replay", options, job, _settings)


def _is_few(options: argparse.Namespace) -> bool:
    """Return whether the job is less work than starting Spark, and fits into memory."""
    try:
        clients = len(load(options.domain).clients) if options.last <= _FEW else _MOST
    except (DomainError, OSError):  # it is told when the draft is looked at
        clients = 0
    return bool(options.last * clients <= _MOST)


def _settings(options: argparse.Namespace) -> Mapping[str, str]:
    shared.settings_for(options)  # which says whether the journal has what is asked for
    return SMALL if options.last <= _FEW else {}


def _here(options: argparse.Namespace, folder: Path) -> int:
    """Run the job on a sample, in this process."""
    began = time.monotonic()
    shared.settings_for(options)
    since = _sample(options, folder)
    replayed = replay_few(options.journal, options.domain, shared.nodes_of(options), _subjects(options), since)
    return show(replayed, options, time.monotonic() - began)


def _sample(options: argparse.Namespace, folder: Path) -> datetime | None:
    """Replace the journal by a sample of it; return the time from which its events count."""
    sampled = sample(options.journal, folder / "journal", options.last, shared.nodes_of(options))
    options.journal = folder / "journal"
    return sampled.since


def _subjects(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(dict.fromkeys(options.subject))


def run(spark: SparkSession, options: argparse.Namespace, since: datetime | None = None) -> int:
    """Run the job and print its results; return the exit code."""
    began = time.monotonic()
    about = shared.nodes_of(options), shared.days_of(options), _subjects(options)
    replayed = replay(spark, options.journal, options.domain, options.to, *about, since)
    return show(replayed, options, time.monotonic() - began)


def show(replayed: ReplayReport, options: argparse.Namespace, seconds: float) -> int:
    """Print the results, and write what is asked for; return the exit code."""
    page = _page(replayed, options.domain) if options.html is not None or shared.is_recorded(options) else ""
    if options.html is not None:
        options.html.write_text(page, encoding="utf-8")
    written = () if options.to is None else (JobTable(str((options.to / CHANGES).resolve())),)
    counts = {name: sum(getattr(total, name) for total in replayed.totals) for name in ("gained", "lost", "changed")}
    failing = sum(not claim.holds for claim in replayed.claims)
    shared.add_to_record(options, {"events": replayed.events, **counts, "assertions that fail": failing}, written, page)
    if options.json:
        described = shared.plain(replayed)
        assert isinstance(described, dict)
        both = zip(described["claims"], replayed.claims, strict=True)
        claims = [{**fields, "holds": claim.holds} for fields, claim in both]
        more = {"holds": replayed.holds, "seconds": round(seconds, 3)}
        print(json.dumps({**described, "claims": claims, "rules": shared.plain(replayed.rules), **more}, indent=2))
    else:
        _show(replayed, seconds)
    return 0 if replayed.holds else EXIT_ERROR


def _show(replayed: ReplayReport, seconds: float) -> None:
    rows = [tuple(map(str, total)) for total in replayed.totals]
    print_table(("subject", "then", "draft", "gained", "lost", "changed"), rows)
    if replayed.changes:
        print()
        print_table(_TITLES, [_cells(change[:10]) for change in replayed.changes[:_MAX_ROWS]])
        if len(replayed.changes) > _MAX_ROWS:
            print(f"and {len(replayed.changes) - _MAX_ROWS} more: see --json, --html or --to")
        print()
        print_table(_BY_RULE, [_cells(rule) for rule in replayed.rules[:_MAX_ROWS]])
    if replayed.metrics:
        print()
        print_table(_METRICS, [_cells(metric) for metric in replayed.metrics[:_MAX_ROWS]])
    print(f"\n{replayed.events} events played again in {seconds:.1f} s")
    for claim in replayed.claims:
        if not claim.holds:
            print(f"\n`{claim.text}` fails: {claim.events} events show it")
            for line in _breaches(claim):
                print(f"  {line}")
    if replayed.claims and replayed.holds:
        print("no event speaks against an assertion")


def _cells(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(shorten(str(cell)) for cell in row)


def _breaches(claim: AssertionResult) -> list[str]:
    return [
        f"{report.moment(breach.time)} {breach.publisher} published `{breach.said}` at {breach.node}"
        f" (seq {breach.seq}): {breach.subject} would have got `{breach.topic}`"
        for breach in claim.first
    ]


def _page(replayed: ReplayReport, draft: Path) -> str:
    first, last = replayed.first, replayed.last
    period = f", {report.moment(first)} to {report.moment(last)} UTC" if first and last else ""
    failing = [claim for claim in replayed.claims if not claim.holds]
    claims = [report.text(f"{claim.text}: {claim.events:,} events speak against it", is_bad=True) for claim in failing]
    breaches = [breach for claim in failing for breach in claim.first]
    shown = [(b.time, b.node, b.seq, b.publisher, b.said, b.subject) for b in breaches]
    assertions = [(claim.text, claim.outcome, claim.events) for claim in replayed.claims]
    return report.page(
        f"Replay of {draft.name}",
        f"{replayed.events:,} events that clients published{period}; then: by the policies in force when each came.",
        report.section(
            "Assertions",
            *claims,
            report.table(("assertion", "", "events"), assertions),
            *([report.table(("time", "node", "seq", "publisher", "topic", "would reach"), shown)] if shown else []),
        ),
        report.section(
            "By subject",
            report.bars(
                ("gained", "lost", "changed"),
                [(total.subject, (total.gained, total.lost, total.changed)) for total in replayed.totals],
            ),
            report.table(("subject", "then", "draft", "gained", "lost", "changed"), replayed.totals),
        ),
        report.section(
            "By rule",
            report.text("The draft's rule takes away what is lost; the rule of then held back what is gained."),
            report.bars(
                ("gained", "lost", "changed"),
                [(rule.reason or rule.rule, (rule.gained, rule.lost, rule.changed)) for rule in replayed.rules],
            ),
            report.table(_BY_RULE, replayed.rules),
        ),
        report.section(
            "Over time",
            report.timeline(("gained", "lost"), [(step.time, (step.gained, step.lost)) for step in replayed.steps]),
        ),
        report.section("By topic", report.table((*_TITLES, "because"), replayed.changes)),
        *([report.section("By metric", report.table(_METRICS, replayed.metrics))] if replayed.metrics else []),
    )
