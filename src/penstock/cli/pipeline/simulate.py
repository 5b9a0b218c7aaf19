"""`penstock pipeline simulate`: how well trust between nodes holds, before you rely on it."""

import argparse
import json
import time
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser
from penstock.cli.pipeline.shared import run_job
from penstock.cli.table import print_table
from penstock.model.errors import PolicyError
from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.jobs.simulate import MEASURES, SimulationTrial, simulate, summary
from penstock.pipeline.trust.network_run import ATTACKS, RULES, Ground, Setting
from penstock.pipeline.trust.networks import TOPOLOGIES

_EPILOG = """\
Options of several values are crossed: every setting is played on every network. Combinations with --accept above --sign
are left out. The figures are means over networks with half of their 95 % intervals, of the second half of the rounds:
the part of false messages that honest nodes accepted, and of good ones that they refused. `docs/trust.md` says what is
simulated, and what came of it.
Exit code: 0, 1 if the job fails, 2 for bad arguments.
"""
_SETTING = ("rule", "sign", "accept", "penalty", "signers", "base_rate", "half_life", "attack", "bad", "least", "most")
"""The options that are crossed, in the order of `Setting`."""
_SWEPT = ("topology", "size", *_SETTING)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser(
        "pipeline simulate",
        "Play trust decisions on random networks with honest, careless, malicious and colluding nodes.",
        _EPILOG,
    )
    add = parser.add_argument
    ground, setting = Ground(), Setting()
    add("--topology", nargs="+", choices=TOPOLOGIES, default=[ground.topology], help="of the networks")
    add("--nodes", nargs="+", type=int, default=[ground.size], metavar="N", help="of a network")
    add("--publishers", type=int, default=ground.publishers, metavar="N", help="that send one a round")
    add("--reach", type=int, default=ground.reach, metavar="N", help="edges from a node to signers")
    add("--rounds", type=int, default=ground.rounds, metavar="N")
    add("--replicates", type=int, default=5, metavar="N", help="networks of each kind (default: 5)")
    add("--seed", type=int, default=1, metavar="N")
    add("--rule", nargs="+", choices=RULES, default=list(RULES))
    add("--attack", nargs="+", choices=ATTACKS, default=[setting.attack], help="what bad nodes do")
    add("--bad", nargs="+", type=float, default=[setting.bad], metavar="PART", help="of the nodes")
    add("--sign", nargs="+", type=float, default=[setting.sign], metavar="PI", help="rating to sign from")
    add("--accept", nargs="+", type=float, default=[setting.accept], metavar="THETA", help="of paths")
    add("--penalty", nargs="+", type=int, default=[setting.penalty], metavar="MU", help="for a bad one")
    add("--signers", nargs="+", type=int, default=[setting.signers], metavar="K", help="with good paths")
    add("--base-rate", nargs="+", type=float, default=[setting.base_rate], metavar="RATE")
    add("--half-life", nargs="+", type=float, default=[0.0], metavar="ROUNDS", help="0: no ageing")
    add("--least", nargs="+", type=int, default=[setting.least], metavar="N", help="clients that must call it bad")
    add("--most", nargs="+", type=int, default=[setting.most], metavar="N", help="ratings of one client heard")
    add("--to", type=Path, metavar="FOLDER", help="write every round of every network as Parquet")
    add("--master", metavar="URL", help="where Spark runs (default: SPARK_REMOTE, else local[*])")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: list[str]) -> int:
    argument_parser = parser()
    options = argument_parser.parse_args(argv)
    try:
        trials = trials_of(options)
    except (ArgumentError, PolicyError) as error:
        argument_parser.error(str(error))
    return run_job("simulate", options, lambda spark: run(spark, trials, options), lambda _: {})


def trials_of(options: argparse.Namespace) -> list[SimulationTrial]:
    """Return every combination that is asked for; raise `ArgumentError` or `PolicyError`."""
    swept = product(*(getattr(options, name) for name in _SETTING))
    named = (dict(zip(_SETTING, values, strict=True)) for values in swept)
    # `accept` is at most `sign`, and only the rule `path` counts signers.
    possible = (each for each in named if each["accept"] <= each["sign"])
    settings = [Setting(**each) for each in possible if each["signers"] == 1 or each["rule"] == "path"]
    grounds = [
        Ground(topology, size, 0, options.publishers, options.reach, options.rounds)
        for topology, size in product(options.topology, options.nodes)
    ]
    return [SimulationTrial(ground, tuple(dict.fromkeys(settings)), options.replicates) for ground in grounds]


def run(spark: SparkSession, trials: list[SimulationTrial], options: argparse.Namespace) -> None:
    """Run the job and print its result."""
    began = time.monotonic()
    rows = simulate(spark, trials, options.seed).persist()
    if options.to is not None:
        rows.write.parquet(str(options.to))
    settings = summary(rows, options.rounds // 2).collect()
    seconds = time.monotonic() - began
    if options.json:
        print(json.dumps({"settings": [row.asDict() for row in settings], "seconds": round(seconds, 3)}, indent=2))
        return
    shown = [name for name in _SWEPT if len({row[name] for row in settings}) > 1] or ["rule"]
    table = [
        (*(str(row[name]) for name in shown), *(_cell(row[name], row[f"{name}_pm"]) for name in MEASURES))
        for row in settings
    ]
    print_table((*shown, *MEASURES), table)
    print(f"{len(settings)} settings on {options.replicates} networks each in {seconds:.1f} s")


def _cell(mean: float | None, within: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.3f}" if within is None else f"{mean:.3f} ± {within:.3f}"
