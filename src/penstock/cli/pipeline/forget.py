"""`penstock pipeline forget`: delete rows whose retention has ended."""

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser, time_argument
from penstock.cli.pipeline.shared import add_master, run_job
from penstock.cli.table import print_table
from penstock.pipeline.jobs.forget import forget
from penstock.pipeline.spark.session import SMALL

_EPILOG = """\
Tables are those that `govern` and `stream` have written to FOLDER. Journals are left as they are: they are the nodes'
own record, not a consumer's copy. The job can be started again at any time, and while a stream is running.
Exit code: 0, 1 if the job fails, 2 for bad arguments.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "pipeline forget", "Delete rows from tables whose retention, set by contracts, has ended.", _EPILOG
    )
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="where the tables are")
    parser.add_argument(
        "--at", type=time_argument, metavar="TIME", help="what is to be deleted by then (default: by now)"
    )
    add_master(parser)
    return parser


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    return run_job("forget", options, lambda spark: _forget(spark, options), lambda options: SMALL)


def _forget(spark: SparkSession, options: argparse.Namespace) -> None:
    forgotten = forget(spark, options.tables, options.at)
    if options.json:
        print(json.dumps({table.table: {"deleted": table.counts, "left": table.left} for table in forgotten}, indent=2))
        return
    rows = [(table.table, subject, str(count)) for table in forgotten for subject, count in table.counts.items()]
    if rows:
        print_table(("table", "subject", "deleted"), rows)
    print("; ".join(f"{table.left} rows are left in {options.tables / table.table}" for table in forgotten))
