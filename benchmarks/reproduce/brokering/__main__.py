"""`python -m benchmarks.reproduce.brokering`: Fig. 6 of the brokering paper, with Mosquitto and Penstock."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.brokers import versions
from benchmarks.drive import sharpen_timers
from benchmarks.machine import allow_open_files, describe, end_like_interrupted
from benchmarks.reproduce.brokering import plot, report
from benchmarks.reproduce.brokering.configurations import ALL, ORI, Configuration, selected
from benchmarks.reproduce.brokering.experiment import Experiment, Extent
from benchmarks.reproduce.brokering.results import Results
from benchmarks.reproduce.brokering.rounds import MAX_PUBLISHERS

OUTPUT = Path("var/bench/brokering")
RATES = (5, 10, 15, 20, 25, 30, 40, 50, 60)
QUICK_RATES = (5, 15, 30)
OPEN_FILES = MAX_PUBLISHERS + 50
"""Of one chain; those of all configurations are up at the same time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 2 for bad arguments, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    try:
        configurations = selected(options.configurations)
        if ORI in configurations and versions()["mosquitto"] == "missing":
            raise ValueError("`mosquitto` is not installed: install it, or leave ORI out with --configurations")
        files = OPEN_FILES * len(configurations)
        if not allow_open_files(files):
            raise ValueError(f"{files:,} open files are needed, and fewer are allowed here: choose --configurations")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.report_only:
        results, notes, machine = report.read(options.output)
        code = 0
    else:
        results, notes, machine, code = _measure(options, configurations)
    options.output.mkdir(parents=True, exist_ok=True)
    written = report.write(results, notes, machine, options.output) + plot.draw(results, options.output)
    print(f"\n{report.aims(results)}\n\n{report.ratios(results)}\n")
    for path in written:
        print(f"written: {path}")
    return code


def _measure(
    options: argparse.Namespace, configurations: tuple[Configuration, ...]
) -> tuple[Results, list[str], dict[str, str], int]:
    extent = _extent(options)
    end_like_interrupted()
    sharpen_timers()
    machine = describe(f"{extent.repeats}, rounds of {extent.seconds:g} s{', quick' if options.quick else ''}")
    experiment = Experiment(configurations, extent, options.output / "scratch")
    code = 0
    try:
        experiment.run()
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        code = 130
    return Results(configurations, extent.scenarios, tuple(experiment.rounds)), experiment.notes, machine, code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce.brokering", description=__doc__)
    names = ", ".join(item.name for item in ALL)
    parser.add_argument(
        "--configurations", type=_words, default=[], help=f"comma-separated, of: {names} (default: all)"
    )
    parser.add_argument("--brokers", type=_numbers, default=(1, 3, 5), help="lengths of the chain (default: 1,3,5)")
    parser.add_argument("--rates", type=_numbers, default=None, help="thousand messages/s (default: 5 to 60)")
    parser.add_argument("--seconds", type=float, default=None, help="of a round (default: 4, with --quick 1)")
    parser.add_argument("--repeats", type=int, default=None, help="of every round (default: 3, with --quick 1)")
    parser.add_argument(
        "--tries", type=int, default=None, help="of a round in which others use the machine (default: 3, --quick 1)"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder for what is made (default: {OUTPUT})")
    parser.add_argument(
        "--report-only", action="store_true", help="measure nothing: make report and figures of the JSON that is there"
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds, to see that it works; not to be quoted")
    return parser


def _extent(options: argparse.Namespace) -> Extent:
    quick = options.quick
    rates = options.rates or (QUICK_RATES if quick else RATES)
    return Extent(
        scenarios=options.brokers,
        rates=tuple(sorted(item * 1000 for item in rates)),
        seconds=options.seconds or (1.0 if quick else 4.0),
        repeats=options.repeats or (1 if quick else 3),
        tries=options.tries or (1 if quick else 3),
    )


def _words(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _numbers(value: str) -> tuple[int, ...]:
    return tuple(sorted(int(item) for item in _words(value)))


if __name__ == "__main__":
    sys.exit(main())
