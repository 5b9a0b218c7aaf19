"""`python -m benchmarks.reproduce.trust`: how well trust decisions hold, and at which parameters, on Spark."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from benchmarks.machine import describe
from benchmarks.reproduce.trust import report, trials
from benchmarks.reproduce.trust.report import Found, Timing
from penstock.pipeline.jobs.simulate import SimulationTrial, over_time, simulate, summary
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.trust.network_run import RULES
from penstock.pipeline.trust.networks import make_links
from penstock.pipeline.trust.paths import EDGES, least_averages
from penstock.policy.trust.rating import UNIT

OUTPUT = Path("var/bench/trust")
_PATHS_SIZE, _ORIGINS, _EDGES = 10_000, 20, 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are."""
    options = _parser().parse_args(arguments)
    machine = describe("networks: see the tables")
    spark = open_session(options.master, "penstock trust")
    results = Found()
    code = 0
    try:
        _measure(spark, options, results)
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        code = 130
    finally:
        spark.stop()
    options.output.mkdir(parents=True, exist_ok=True)
    written = report.write(results, machine, options.output)
    print(report.page(results, machine))
    for path in written:
        print(f"written: {path}")
    return code


def _measure(spark: SparkSession, options: argparse.Namespace, results: Found) -> None:
    """The longest last."""
    is_quick = options.quick
    swept_trials = trials.sweep(is_quick, options.rules, options.brief)
    rows = _run(spark, f"sweep, {trials.SWEEP_SIZE} nodes", swept_trials, results.timings)
    swept = summary(rows, trials.SETTLED).persist()
    results.chosen = trials.choose(swept)
    results.swept = swept.toPandas()
    for setting in results.chosen:
        print(f"chosen for {setting.rule}: {trials.in_words(setting)}", file=sys.stderr)
    more = trials.by_share(results.chosen, is_quick)
    rows = _run(spark, f"more bad nodes, {trials.SHARE_SIZE} nodes", more, results.timings)
    results.shares = summary(rows, trials.SETTLED).toPandas()
    if options.brief:
        return
    results.timings.append(_paths(spark))
    for size in trials.SIZES:
        attacks = trials.at_size(size, results.chosen, is_quick)
        rows = _run(spark, f"every attack, {size:,} nodes", attacks, results.timings)
        results.sizes.append(summary(rows, trials.SETTLED).toPandas())
        results.times.append(over_time(rows).toPandas())


def _run(spark: SparkSession, title: str, some: list[SimulationTrial], timings: list[Timing]) -> DataFrame:
    """Play trials as one job, and keep what came of it."""
    began = time.monotonic()
    rows = simulate(spark, some).persist()
    rows.count()
    plays = sum(len(trial.settings) * trial.replicates for trial in some)
    timings.append(Timing(title, plays, time.monotonic() - began))
    print(f"{title}: {plays} simulations in {timings[-1].seconds:.0f} s", file=sys.stderr)
    return rows


def _paths(spark: SparkSession) -> Timing:
    """The iterative job on a network of the largest size."""
    draw = np.random.default_rng(1)
    links = make_links("tree", _PATHS_SIZE, draw)
    ratings = draw.integers(0, UNIT + 1, len(links.rated)).tolist()
    names = zip(map(str, links.rated), map(str, links.rater), ratings, strict=True)
    edges = spark.createDataFrame(list(names), EDGES)
    began = time.monotonic()
    count = least_averages(spark, edges, [str(at) for at in range(_ORIGINS)], _EDGES).count()
    seconds = time.monotonic() - began
    title = f"least-trustworthy paths of {links.size:,} nodes with {len(ratings):,} edges, from {_ORIGINS} nodes"
    return Timing(f"{title} over at most {_EDGES} edges: {count:,} pairs", 1, seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce.trust", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer parameters, two networks of each kind")
    parser.add_argument("--brief", action="store_true", help="few parameters, and only collusion")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES), help="(default: all)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (default: local[2])")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder for what is made (default: {OUTPUT})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
