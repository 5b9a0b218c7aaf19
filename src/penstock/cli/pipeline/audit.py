"""`penstock pipeline audit`: who saw what, and which parts of the policies were never used."""

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser
from penstock.cli.pipeline import shared
from penstock.cli.table import print_table, shorten
from penstock.journal.jobs import JobTable
from penstock.pipeline.jobs.audit import DENIALS, RIGHTS, SEEN, UNUSED, WITHHELD, AuditReport, audit
from penstock.pipeline.tables import report

_EPILOG = """\
Rules and rights are those of --domain, or of the policies in force last; all recorded events are compared with them.
With --to, the tables `seen`, `denials`, `withheld`, `unused` and `rights` are written as Parquet.
Exit code: 0, 1 if the job fails, 2 for bad arguments, 3 if the domain does not check.
"""
_MAX_ROWS = 40
_SEEN = ("subject", "topic", "publisher", "events", "first", "last")
_DENIALS = ("node", "stage", "rule", "publisher", "topic", "events", "first", "last", "because")
_WITHHELD = (
    *("subject", "topic", "publisher", "node", "stage", "rule", "effect"),
    *("events", "first", "last", "because"),
)
_UNUSED = ("kind", "node", "rule")
_RIGHTS = ("subject", "node", "rule", "access", "filter", "reads", "writes", "suggestion")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser(
        "pipeline audit",
        "Report who saw what and when, what was denied by which rule, which rules decided nothing, and which"
        " rights were never used.",
        _EPILOG,
    )
    shared.add_options(parser)
    parser.add_argument("--domain", type=Path, metavar="FILE", help="look at the rules of this domain file")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write the tables")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    return parser


def main(argv: list[str]) -> int:
    options = shared.read_options(parser(), argv)
    return shared.run_job("audit", options, lambda spark: run(spark, options))


def run(spark: SparkSession, options: argparse.Namespace) -> None:
    """Run the job and print its results."""
    began = time.monotonic()
    part = (shared.nodes_of(options), shared.days_of(options))
    audited = audit(spark, options.journal, options.to, options.domain, *part)
    seconds = time.monotonic() - began
    page = _page(audited, options.journal) if options.html is not None or shared.is_recorded(options) else ""
    if options.html is not None:
        options.html.write_text(page, encoding="utf-8")
    names = (SEEN, DENIALS, WITHHELD, UNUSED, RIGHTS) if options.to is not None else ()
    counts = {"events": audited.events, "denials": sum(denial.events for denial in audited.denials)}
    counts |= {"unused rules": len(audited.unused), "rights not used, or not all of them": len(audited.rights)}
    written = [JobTable(str((options.to / name).resolve())) for name in names]
    shared.add_to_record(options, counts, written, page, details(audited))
    if options.json:
        described = shared.plain(audited)
        assert isinstance(described, dict)
        print(json.dumps({**described, "seconds": round(seconds, 3)}, indent=2))
    else:
        _show(audited, seconds)


def details(audited: AuditReport) -> bytes:
    """Return what the console shows of an audit with each subject."""
    about = {"seen": audited.seen, "rights": audited.rights, "withheld": audited.withheld}
    return json.dumps({name: shared.plain(rows) for name, rows in about.items()}).encode()


def _show(audited: AuditReport, seconds: float) -> None:
    _print_section("who saw what", _SEEN, audited.seen)
    _print_section("denials", _DENIALS[:-1], [denial[:-1] for denial in audited.denials])
    _print_section("who was denied what", _WITHHELD[:-1], [withheld[:-1] for withheld in audited.withheld])
    rules = sum(kind.rules for kind in audited.kinds)
    _print_section(f"rules that decided nothing, of {rules}", _UNUSED, audited.unused)
    _print_section("rights that nobody used, or not all of them", _RIGHTS, audited.rights)
    print(f"{audited.events} events of clients in {seconds:.1f} s; rules of revision {audited.revision}")


def _print_section(title: str, titles: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    print(f"{title}: {len(rows) or 'none'}")
    if rows:
        print_table(titles, [tuple(shorten(report.as_text(cell)) for cell in row) for row in rows[:_MAX_ROWS]])
    if len(rows) > _MAX_ROWS:
        print(f"and {len(rows) - _MAX_ROWS} more: see --json or --html")
    print()


def _page(audited: AuditReport, journal: Path) -> str:
    denied, never, wider = Counter[str](), Counter[str](), Counter[str]()
    saw = defaultdict[str, list[tuple[datetime, int]]](list)
    for when in audited.when:
        saw[when.subject].append((when.time, when.events))
    for right in audited.rights:
        (wider if right.reads or right.writes else never)[right.subject] += 1
    for denial in audited.denials:
        denied[f"{denial.stage} {denial.rule}"] += denial.events
    steps = [(step.time, (step.events - step.denied, step.denied)) for step in audited.steps]
    kinds = [(kind.kind, (kind.rules - kind.unused, kind.unused)) for kind in audited.kinds]
    unused = [(name, (wider[name], never[name])) for name in dict.fromkeys((*wider, *never))]
    return report.page(
        f"Audit of {journal.name}",
        f"{audited.events:,} events of clients. Rules and rights are those of revision {audited.revision}.",
        report.section("Over time", report.timeline(("passed", "denied"), steps)),
        report.section("Who saw what, and when", report.strips(saw), report.table(_SEEN, audited.seen)),
        report.section(
            "Denials",
            report.bars(("events",), [(name, (count,)) for name, count in denied.items()]),
            report.table(_DENIALS, audited.denials),
        ),
        report.section("Who was denied what", report.table(_WITHHELD, audited.withheld)),
        report.section(
            "Rules that decided nothing",
            report.text("Candidates for removal; but a rule for the worst day is not used on others."),
            report.bars(("used", "unused"), kinds),
            report.table(_UNUSED, audited.unused),
        ),
        report.section(
            "Rights that nobody used, or not all of them",
            report.bars(("wider than used", "never used"), unused),
            report.table(_RIGHTS, audited.rights),
        ),
    )
