"""`python -m benchmarks.journal`: what a journal costs a node, with and without one in the same run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.brokers import PENSTOCK, Broker, penstock_program
from benchmarks.drive import sharpen_timers
from benchmarks.loads import MessageLoad, selected, shortened
from benchmarks.machine import allow_open_files, describe, end_like_interrupted
from benchmarks.node import OPEN_FILES, OUTPUT, Trial, run_interleaved
from benchmarks.report import CPU, THROUGHPUT, Row

LOADS = ("bursts", "slow", "qos1")
AIM = 1.25
"""At most so much of the processor time without a journal."""


def _with_journal(port: int, folder: Path) -> list[str]:
    domain = folder / "domain.yaml"
    domain.write_text(
        f"domain: bench\nnodes:\n  main: {{listen: '127.0.0.1:{port}', store: memory}}\njournal: {{folder: journal}}\n"
    )
    return [penstock_program(), "run", str(domain)]


JOURNALLING = Broker("penstock journal", "penstock", "penstock, store: memory, with a journal", _with_journal)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 2 for bad arguments, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="benchmarks.journal", description=__doc__)
    parser.add_argument("--loads", default=",".join(LOADS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=None, help="runs of each (default: 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works; not to be quoted")
    options = parser.parse_args(arguments)
    try:
        loads = [load for load in selected(options.loads.split(",")) if isinstance(load, MessageLoad)]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    end_like_interrupted()
    allow_open_files(OPEN_FILES)
    sharpen_timers()
    repeats = options.repeats or (1 if options.quick else 3)
    trials = [trial for load in loads for trial in _trials(load, options.quick)]
    code = 0
    try:
        for load in loads:
            run_interleaved([trial for trial in trials if trial.row.load == load.name], repeats)
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
        code = 130
    rows = [trial.row for trial in trials if trial.row.runs or trial.row.notes]
    text = table(rows)
    print(f"\n{text}")
    _write(rows, text, describe(f"{repeats}{' quick' if options.quick else ''}"))
    return code


def _trials(load: MessageLoad, quick: bool) -> list[Trial]:
    shown = replace(load, brokers=(PENSTOCK, JOURNALLING))
    return [
        Trial(Row(load.name, load.title, broker, reduced=False), shortened(shown) if quick else shown)
        for broker in shown.brokers
    ]


def table(rows: Sequence[Row]) -> str:
    """Each load without a journal and with one, and how much more that is."""
    lines = ["| load | without us/msg | with us/msg | ratio | without msg/s | with msg/s | aim |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for load in dict.fromkeys(row.load for row in rows):
        without, with_ = [next(row for row in rows if row.load == load and row.broker is side) for side in _SIDES]
        cost, more = without.median(CPU.value), with_.median(CPU.value)
        if not cost or not more:
            lines.append(f"| {load} | not measured: {'; '.join(without.notes + with_.notes)} |||||")
            continue
        speed = [f"{row.median(THROUGHPUT.value) or 0:,.0f}" for row in (without, with_)]
        aim = f"<= {AIM}: {'met' if more / cost <= AIM else 'not met'}"
        lines.append(
            f"| {load} | {cost * 1e6:.2f} | {more * 1e6:.2f} | {more / cost:.2f} | {speed[0]} | {speed[1]} | {aim} |"
        )
    return "\n".join(lines)


_SIDES = (PENSTOCK, JOURNALLING)


def _write(rows: Sequence[Row], text: str, machine: dict[str, str]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    (OUTPUT / "journal.md").write_text(f"# What a journal costs a node\n\n{text}\n\n{about}\n")
    records = [
        {"load": row.load, "broker": row.broker.name, "runs": [asdict(run) for run in row.runs], "notes": row.notes}
        for row in rows
    ]
    (OUTPUT / "journal.json").write_text(json.dumps({"machine": machine, "rows": records}, indent=1) + "\n")
    print(f"written: {OUTPUT / 'journal.md'}")


if __name__ == "__main__":
    sys.exit(main())
