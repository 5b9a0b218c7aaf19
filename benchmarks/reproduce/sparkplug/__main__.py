"""`python -m benchmarks.reproduce.sparkplug`: Fig. 2 of the sparkplug paper, and how enforcement scales."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.brokers import Broker, Process, start
from benchmarks.drive import sharpen_timers
from benchmarks.machine import allow_open_files, describe, end_like_interrupted
from benchmarks.reproduce.sparkplug import plant, report, scaling
from benchmarks.reproduce.sparkplug.deployments import DEPLOYMENTS, NOAC, SECONDARY, SETS, Deployment, write
from benchmarks.reproduce.sparkplug.report import Round
from examples.nodes import free_ports

OUTPUT = Path("var/bench/sparkplug")
LOADS = (2, 4, 8, 16)
"""Times the reports of the first deployment."""
_RUN = "import sys; from penstock.cli.main import main; sys.exit(main())"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are."""
    options = _parser().parse_args(arguments)
    end_like_interrupted()
    sharpen_timers()
    allow_open_files(2_000)
    machine = describe(f"{options.repeats}, reports for {options.seconds:g} s")
    rounds: list[Round] = []
    code = 0
    try:
        costs = scaling.measure()
        for deployment in DEPLOYMENTS:
            if options.quick and deployment.name not in ("D1", "D5"):
                continue
            for repeat in range(options.repeats):
                # The sets of one deployment one after the other: what else the machine does, it does to all of them.
                rounds += [_round(deployment, number, options.seconds, repeat) for number in SETS]
        for load in LOADS:
            for repeat in range(options.repeats):
                rounds += [_round(DEPLOYMENTS[0], number, options.seconds, repeat, load) for number in (NOAC, SETS[-1])]
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        costs, code = [], 130
    options.output.mkdir(parents=True, exist_ok=True)
    written = report.write(rounds, costs, machine, options.output)
    print(f"\n{report.aims(rounds, costs)}\n\n{report.table(rounds)}\n\n{report.resources(rounds)}\n")
    print(f"{report.loads(rounds)}\n\n{report.scaling(costs)}\n")
    for path in written:
        print(f"written: {path}")
    return code


def _round(deployment: Deployment, number: int, seconds: float, repeat: int, load: float = 1) -> Round:
    policies = "NOAC" if number == NOAC else f"PS{number}"
    title = f"experiment {deployment.experiment} {deployment.name} {policies}, load {load:g}"
    with tempfile.TemporaryDirectory() as name:
        port = free_ports(1)[0]
        path = write(Path(name), port, deployment, number)
        command = [sys.executable, "-c", _RUN, "run", str(path)]
        process: Process = start(Broker("penstock", "penstock", "", lambda *_: command), port, Path(name))
        try:
            process.wait_until_listening()
            begun, began = process.own_cpu_seconds(), time.monotonic()
            times = asyncio.run(plant.measure(port, deployment, seconds, repeat, load))[SECONDARY]
            cpu, took, memory = process.own_cpu_seconds() - begun, time.monotonic() - began, process.rss()
        finally:
            process.stop()
    round_ = Round(deployment.experiment, deployment.name, number, repeat, dict(times), cpu, took, memory, load)
    print(f"{title}: {json.dumps(round_.medians())} ms", file=sys.stderr)
    return round_


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce.sparkplug", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two deployments of each experiment, once")
    parser.add_argument("--seconds", type=float, default=6.0, help="of reports (default: 6)")
    parser.add_argument("--repeats", type=int, default=1, help="of each deployment and policy set (default: 1)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder for what is made (default: {OUTPUT})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
