"""`penstock pipeline`: jobs on Spark, most of them over what nodes recorded; one module for each."""

import importlib
import sys

from penstock.cli.exit_codes import EXIT_ERROR, EXIT_USAGE
from penstock.journal.private import kept_from_others

JOBS = {
    "govern": "write the authorised views of subjects: the part of all recorded events that each may read",
    "replay": "replay recorded traffic under a draft of a domain: who would gain or lose what",
    "audit": "report who saw what, what was denied, and which rules and rights were never used",
    "stream": "the same as the journal grows, exactly once into tables, and out to MQTT topics",
    "forget": "delete rows whose retention has ended from the tables of govern and stream",
    "trust": "compute ratings of neighbours from recorded history, for a whole fleet",
    "capsules": "aggregate context over time windows, into tables and back to topics",
    "simulate": "simulate trust decisions on random networks: what they keep out, and what they cost",
}

_LISTED = "".join(f"  {name:8} {text}\n" for name, text in JOBS.items())
_USAGE = f"usage: penstock pipeline JOB [OPTIONS]\n\njobs:\n{_LISTED}"


def main(argv: list[str]) -> int:
    """Run one job."""
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(_USAGE + "\n`penstock pipeline JOB --help` says more.")
        return 0 if argv else EXIT_USAGE
    name, *rest = argv
    if name not in JOBS:
        print(f"penstock: no job `{name}`\n\n{_USAGE}", file=sys.stderr, end="")
        return EXIT_USAGE
    try:
        module = importlib.import_module(f"penstock.cli.pipeline.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "numpy", "pandas", "py4j"):
            raise
        print("penstock: jobs need Spark: `pip install 'penstock[pipeline]'`", file=sys.stderr)
        return EXIT_ERROR
    with kept_from_others():  # also what Spark's own processes write
        code: int = module.main(rest)
    return code
