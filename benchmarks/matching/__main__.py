"""`python -m benchmarks.matching`: what a publication costs against the number of subscriptions, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe, end_like_interrupted
from benchmarks.matching import plot, report
from benchmarks.matching.measure import Measurement, measure
from benchmarks.matching.single import measure_listing, measure_simple
from benchmarks.matching.workload import WORKLOADS, Workload

OUTPUT = Path("var/bench/matching")
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
OTHER_SIZES = (1_000, 10_000, 100_000)
QUICK_SIZES = (1_000, 10_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 2 for bad arguments, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    end_like_interrupted()
    machine = describe("quick" if options.quick else "1")
    simple, listing = measure_simple(), measure_listing()
    measured: list[Measurement] = []
    code = 0
    try:
        for workload, counts in _planned(options):
            measured += measure(workload, counts)
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        code = 130
    if not measured:
        return code
    written = [*report.write(measured, simple, listing, machine, OUTPUT), *plot.draw(measured, OUTPUT)]
    print(f"\n{report.document(measured, simple, listing, machine)}")
    for path in written:
        print(f"written: {path}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.matching", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, help="which (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of subscriptions (default: up to 100,000)")
    parser.add_argument(
        "--quick", action="store_true", help="few subscriptions, to see that it works; not to be quoted"
    )
    return parser


def _planned(options: argparse.Namespace) -> list[tuple[Workload, Sequence[int]]]:
    chosen = [workload for workload in WORKLOADS if workload.name in options.workloads]
    usual = [SIZES if workload is WORKLOADS[0] else OTHER_SIZES for workload in chosen]
    counts = [options.sizes or (QUICK_SIZES if options.quick else workload) for workload in usual]
    return list(zip(chosen, counts, strict=True))


if __name__ == "__main__":
    sys.exit(main())
