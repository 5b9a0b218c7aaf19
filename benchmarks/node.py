"""`python -m benchmarks.node`: the node, Mosquitto and amqtt under the same loads, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.brokers import FAMILIES, BrokerError, running, versions
from benchmarks.drive import measure, sharpen_timers
from benchmarks.generator import LoadError
from benchmarks.loads import Load, reduced, selected, shortened
from benchmarks.machine import allow_open_files, describe, end_like_interrupted
from benchmarks.report import Row

OUTPUT = Path("var/bench")
OPEN_FILES = 6_000
GENERATOR_LIMIT = 0.9


@dataclass(frozen=True, slots=True)
class Trial:
    """The repeated measurement of one row."""

    row: Row
    load: Load


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 2 for bad arguments, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    options.repeats = options.repeats or (1 if options.quick else 3)
    try:
        loads = selected(options.loads)
        _check_installed(options.brokers)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    end_like_interrupted()
    if not allow_open_files(OPEN_FILES):
        print(f"`idle` needs {OPEN_FILES} open files, and fewer are allowed here", file=sys.stderr)
    sharpen_timers()
    machine = describe(f"{options.repeats}{' quick' if options.quick else ''}")
    trials = [trial for load in loads for trial in _trials(load, options)]
    try:
        for load in loads:
            run_interleaved([trial for trial in trials if trial.row.load == load.name], options.repeats)
        code = 0
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        code = 130
    rows = [trial.row for trial in trials if trial.row.runs or trial.row.notes]
    print(f"\n{report.table(rows)}\n\n{report.legend(rows)}")
    for path in report.write(rows, machine, OUTPUT):
        print(f"written: {path}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.node", description=__doc__)
    names = ", ".join(load.name for load in selected(()))
    families = ", ".join(FAMILIES)
    parser.add_argument("--loads", type=_listed, default=[], help=f"comma-separated, of: {names} (default: all)")
    parser.add_argument("--brokers", type=_listed, default=list(FAMILIES), help=f"of: {families} (default: all)")
    parser.add_argument("--repeats", type=int, default=None, help="runs of each (default: 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works; not to be quoted")
    return parser


def _listed(value: str) -> list[str]:
    return [trial.strip() for trial in value.split(",") if trial.strip()]


def _check_installed(families: Sequence[str]) -> None:
    installed = versions()
    for name in families:
        if name not in installed:
            raise ValueError(f"no broker `{name}`: there are {', '.join(FAMILIES)}")
        if installed[name] == "missing":
            raise ValueError(f"`{name}` is not installed: install it, or leave it out with --brokers")


def _trials(load: Load, options: argparse.Namespace) -> list[Trial]:
    trials = []
    for broker in load.brokers:
        if broker.family not in options.brokers:
            continue
        borne = reduced(load, broker)
        row = Row(load.name, (borne or load).title, broker, reduced=borne is not None and borne.title != load.title)
        if borne is None:
            row.notes.append("left out: it cannot do this load in reasonable time")
        trials.append(Trial(row, shortened(borne or load) if options.quick else borne or load))
    return trials


def run_interleaved(trials: Sequence[Trial], repeats: int) -> None:
    """Each trial once, then each again: what disturbs the machine for a while disturbs all of them."""
    able = [trial for trial in trials if not trial.row.notes]
    for repeat in range(repeats):
        at = repeat % len(able) if able else 0
        for trial in able[at:] + able[:at]:
            _run(trial, repeat + 1, repeats)


def _run(trial: Trial, repeat: int, repeats: int) -> None:
    row = trial.row
    print(f"{row.load} {repeat}/{repeats} {row.broker.name}: ", end="", file=sys.stderr, flush=True)
    try:
        with running(row.broker, OUTPUT / "scratch") as process:
            measured = measure(trial.load, process)
    except (LoadError, BrokerError) as error:
        row.notes.append(f"failed: {error}")
        print(error, file=sys.stderr)
        return
    row.runs.append(measured)
    if measured.generator_busy is not None and measured.generator_busy > GENERATOR_LIMIT:
        row.notes.append(f"the generator was busy for {measured.generator_busy:.0%} of a run: throughput may be its")
    print(measured.summary(), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
