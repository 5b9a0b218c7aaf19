"""`penstock pipeline trust`: compute the ratings of a whole fleet from its journals."""

import argparse
import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser, count_argument, duration_argument, time_argument
from penstock.cli.pipeline.shared import add_options, add_to_record, days_of, nodes_of, plain, read_options, run_job
from penstock.cli.table import print_table, shorten
from penstock.journal.jobs import JobTable
from penstock.model.errors import PolicyError
from penstock.pipeline.jobs.trust import Fleet, TrustOptions, moment, rate
from penstock.pipeline.spark.policies import as_it_stands
from penstock.pipeline.trust.live_ratings import RatingDifference, ask, compare
from penstock.policy.trust.rating import Evidence, Weights

_EPILOG = """\
What nodes hold of their neighbours is worked out from the evidence that their journals keep: by the domain, or with
another penalty, half-life or function E. With --to, the tables `ratings` and, with --paths, `paths` are written as
Parquet; `penstock trust apply` sets them at a node. With --compare, what nodes say at their admin address is held
against it, and differs if good, bad or the rating are further apart than --tolerance.
Exit code: 0, 1 if the job fails or a node holds something else, 2 for bad arguments, 3 if the domain does not check.
"""
_MAX_ROWS = 200
EXIT_DIFFERENT = 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser(
        "pipeline trust", "Compute the ratings that nodes have of their neighbours from what they recorded.", _EPILOG
    )
    add = parser.add_argument
    add_options(parser)
    add("--domain", type=Path, required=True, metavar="FILE", help="the domain file")
    add("--to", type=Path, metavar="TABLES", help="write the tables to this folder")
    add("--paths", action="store_true", help="also the least-trustworthy paths between all nodes")
    add("--longest", type=count_argument, metavar="N", help="edges of the longest path (default: as the domain)")
    add("--penalty", type=int, metavar="MU", help="weight of a bad event (default: as the domain)")
    add(
        "--half-life",
        type=duration_argument,
        metavar="TIME",
        help="as 30s, 5m, 2d; 0: no ageing (default: as the domain)",
    )
    add(
        "--evaluate",
        metavar="MODULE:FUNCTION",
        help="judge what came from neighbours by this function; it is looked for beside the domain file first",
    )
    add("--at", type=time_argument, metavar="TIME", help="rate as of then (default: the last recorded event)")
    add("--compare", nargs="+", default=[], metavar="URL", help="admin addresses of nodes to compare with")
    add("--tolerance", type=float, default=0.001, metavar="N", help="difference that does not matter")
    return parser


def main(argv: list[str]) -> int:
    argument_parser = parser()
    options = read_options(argument_parser, argv)
    if options.evaluate is not None and not all(options.evaluate.partition(":")):
        argument_parser.error(f"--evaluate is `module:function`, not `{options.evaluate}`")
    if options.penalty is not None:
        try:
            Weights(options.penalty)
        except PolicyError as error:
            argument_parser.error(f"--penalty: {error}")
    return run_job("trust", options, lambda spark: run(spark, options))


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    """Run the job and print its results."""
    began = time.monotonic()
    policies = as_it_stands(options.domain, options.journal)
    at = options.at and options.at.timestamp()
    parameters = TrustOptions(options.penalty, options.half_life, options.evaluate, at, options.longest)
    # What a node holds goes on to change: ask before the job takes its time.
    held = [ask(url) for url in options.compare]
    part = (nodes_of(options), days_of(options))
    fleet = rate(spark, options.journal, policies, parameters, *part, options.to, options.paths)
    differences = [difference for node, holds in held for difference in compare(fleet, node, holds)]
    differ = [difference for difference in differences if difference.exceeds(options.tolerance)]
    written = () if options.to is None else (JobTable(str(options.to.resolve()), len(fleet.ratings)),)
    add_to_record(options, {"ratings": len(fleet.ratings), "other than nodes hold": len(differ)}, written)
    if options.json:
        print(json.dumps(_described(fleet, differences, options.tolerance, time.monotonic() - began), indent=2))
    else:
        _show(fleet, differences, options.tolerance)
        if options.to is not None:
            print(f"written to {options.to} in {time.monotonic() - began:.1f} s")
    if fleet.failed:
        print(f"penstock: {fleet.failed} events could not be judged: {fleet.problem}", file=sys.stderr)
    return EXIT_DIFFERENT if differ else 0


def _described(
    fleet: Fleet, differences: list[RatingDifference], tolerance: float, seconds: float
) -> dict[str, object]:
    return {
        "at": moment(fleet.at),
        "penalty": fleet.weights.penalty,
        "half_life": fleet.weights.half_life,
        "base_rate": fleet.weights.base_rate,
        "ratings": plain(fleet.ratings),
        "paths": plain(fleet.paths),
        "failed": fleet.failed,
        "differences": [
            {
                "node": difference.node,
                "neighbour": difference.neighbour,
                "held": _counts(difference.held),
                "recorded": _counts(difference.recorded),
                "held_rating": difference.held_rating,
                "recorded_rating": difference.recorded_rating,
                "differs": difference.exceeds(tolerance),
            }
            for difference in differences
        ],
        "seconds": round(seconds, 3),
    }


def _counts(evidence: Evidence | None) -> dict[str, float] | None:
    return None if evidence is None else {"good": evidence.good, "bad": evidence.bad}


def _show(fleet: Fleet, differences: list[RatingDifference], tolerance: float) -> None:
    print(f"ratings as of {moment(fleet.at)}")
    rows = []
    for rating in fleet.ratings[:_MAX_ROWS]:
        head = (shorten(rating.node), shorten(rating.neighbour), f"{rating.good:.3f}", f"{rating.bad:.3f}")
        sources = ", ".join(f"{source} {good}/{bad}" for source, good, bad in rating.sources)
        rows.append((*head, moment(rating.at) or "never", f"{rating.rating:.4f}", sources))
    print_table(("node", "neighbour", "good", "bad", "at", "rating", "good/bad by source"), rows)
    _more(len(fleet.ratings))
    if fleet.paths is not None:
        print("\nleast-trustworthy paths")
        paths = fleet.paths[:_MAX_ROWS]
        ways = [(path.origin, path.node, str(path.edges), f"{path.rating:.4f}") for path in paths]
        print_table(("from", "to", "edges", "rating"), ways)
        _more(len(fleet.paths))
    if differences:
        print("\nwhat nodes hold, beside what was recorded")
        heads = ("node", "neighbour", "held good/bad", "recorded good/bad", "held rating", "recorded rating", "")
        print_table(heads, [_line(rating, tolerance) for rating in differences])


def _more(count: int) -> None:
    if count > _MAX_ROWS:
        print(f"and {count - _MAX_ROWS} more: see the table, or --json")


def _line(difference: RatingDifference, tolerance: float) -> tuple[str, ...]:
    pairs = [
        "-" if evidence is None else f"{evidence.good:.3f}/{evidence.bad:.3f}"
        for evidence in (difference.held, difference.recorded)
    ]
    both = (difference.held_rating, difference.recorded_rating)
    ratings = ["-" if rating is None else f"{rating:.4f}" for rating in both]
    return (difference.node, difference.neighbour, *pairs, *ratings, "differs" if difference.exceeds(tolerance) else "")
