"""`penstock pipeline govern`: write the authorised views of subjects."""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser
from penstock.cli.pipeline.shared import add_options, add_to_record, days_of, nodes_of, read_options, run_job
from penstock.cli.table import print_table
from penstock.journal.jobs import JobTable
from penstock.pipeline.jobs.govern import every_subject, write_views
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stands, as_it_stood

_EPILOG = """\
A view has what nodes would have sent to the subject if it had subscribed to every topic from the first event on. It is
written as Parquet to FOLDER/view, by subject and date; what of the journal cannot be read, to FOLDER/quarantine.
Exit code: 0, 1 if the job fails, 2 for bad arguments, 3 if the domain does not check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("pipeline govern", "Write the part of all recorded events that subjects may read.", _EPILOG)
    add_options(parser)
    parser.add_argument(
        "--domain",
        type=Path,
        metavar="FILE",
        help="judge everything by this domain file, as it stands (default: each event as policies stood when it came)",
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the tables are written")
    subjects = parser.add_mutually_exclusive_group(required=True)
    subjects.add_argument(
        "--subject",
        action="append",
        metavar="NAME",
        help="a client of the domain, or the id of one that is not listed (may be repeated)",
    )
    subjects.add_argument("--all-subjects", action="store_true", help="every client that the domain lists")
    parser.add_argument("--user", help="the user name of a subject that is not listed")
    parser.add_argument(
        "--modules",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="without --domain: where Python monitors are looked for (default: here)",
    )
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = read_options(parser, argv)
    if options.user is not None and options.all_subjects:
        parser.error("--user goes with --subject")
    return run_job("govern", options, lambda spark: _govern(spark, options))


def _govern(spark: SparkSession, options: argparse.Namespace) -> None:
    began = time.monotonic()
    policies = _policies(options)
    askers = tuple(Asker(name, options.user) for name in dict.fromkeys(options.subject or ()))
    askers = every_subject(policies) if options.all_subjects else askers
    views = write_views(spark, options.journal, options.to, policies, askers, nodes_of(options), days_of(options))
    seconds = time.monotonic() - began
    written = [JobTable(str(views.view.resolve()), sum(views.counts.values()))]
    written += [JobTable(str(metrics.resolve())) for metrics in (views.metrics,) if metrics is not None]
    add_to_record(options, {"subjects": len(views.counts), "not readable": views.quarantined}, written)
    if options.json:
        described = {
            "subjects": views.counts,
            "quarantined": views.quarantined,
            "view": str(views.view),
            "quarantine": str(views.quarantine) if views.quarantined else None,
            "metrics": str(views.metrics) if views.metrics is not None else None,
            "seconds": round(seconds, 3),
        }
        print(json.dumps(described, indent=2))
        return
    print_table(("subject", "events"), [(name, str(count)) for name, count in views.counts.items()])
    print(f"written to {views.view} in {seconds:.1f} s")
    if views.metrics is not None:
        print(f"Sparkplug metrics, one row each: {views.metrics}")
    if views.quarantined:
        print(f"{views.quarantined} rows cannot be read: see {views.quarantine}")


def _policies(options: argparse.Namespace) -> Policies:
    if options.domain is None:
        return as_it_stood(options.journal, options.modules)
    return as_it_stands(options.domain, options.journal)
