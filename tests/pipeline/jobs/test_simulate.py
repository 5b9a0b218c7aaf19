"""Simulations on Spark: the same figures as without it, and their statistics."""

import json
import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from pyspark.sql import SparkSession

from penstock.cli.pipeline import simulate as command
from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.jobs.simulate import ROWS, SimulationTrial, over_time, play, simulate, summary
from penstock.pipeline.trust.network_run import RULES, Ground, Setting

GROUND = Ground(size=30, publishers=12, rounds=3, replicate=7)
SETTINGS = (Setting("strict"), Setting("path", attack="stuffing"))


def test_a_sweep_is_what_its_networks_are_one_by_one(interpreted: SparkSession) -> None:
    rows = simulate(interpreted, [SimulationTrial(GROUND, SETTINGS, 3)], seed=5).persist()
    names = [one.split()[0] for one in ROWS.split(", ")]
    expected = [
        tuple(row)
        for number in (7, 8, 9)
        for row in play(replace(GROUND, replicate=number), SETTINGS, 5)[names].to_numpy().tolist()
    ]
    assert sorted(map(tuple, rows.collect())) == sorted(expected)

    found = {row.rule: row for row in summary(rows, since=1).collect()}
    parts: dict[int, list[int]] = {}
    for row in rows.where("rule = 'path' and round >= 1").collect():
        part = parts.setdefault(row.replicate, [0, 0])
        part[0] += row.good_refused
        part[1] += row.good
    each = [refused / good for refused, good in parts.values()]
    assert found["path"].replicates == 3
    assert found["path"].good_refused == pytest.approx(fmean(each))
    assert found["path"].good_refused_pm == pytest.approx(4.303 * stdev(each) / math.sqrt(3))
    assert found["path"].cost == pytest.approx(found["path"].good_refused + found["path"].false_accepted)
    assert over_time(rows).where("rule = 'strict'").count() == 3
    rows.unpersist()


def test_a_single_replicate_has_no_interval(interpreted: SparkSession) -> None:
    (row,) = summary(simulate(interpreted, [SimulationTrial(GROUND, SETTINGS[:1], 1)])).collect()
    assert row.good_refused_pm is None


def test_the_command_crosses_what_is_given(interpreted: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--nodes", "20", "--publishers", "4", "--rounds", "2", "--replicates", "1"]
    options = command.parser().parse_args([*small, "--sign", "0.4", "0.7", "--accept", "0.4", "0.5", "--json"])
    command.run(interpreted, command.trials_of(options), options)
    told = json.loads(capsys.readouterr().out)["settings"]
    found = {(one["rule"], one["sign"], one["accept"]) for one in told}
    assert found == {(rule, *pair) for rule in RULES for pair in ((0.4, 0.4), (0.7, 0.4), (0.7, 0.5))}


@pytest.mark.parametrize(
    ("make", "what"),
    [
        pytest.param(lambda: Setting("lenient"), "lenient", id="no such rule"),
        pytest.param(lambda: Setting(attack="rain"), "rain", id="no such attack"),
        pytest.param(lambda: Setting(bad=0.6, careless=0.5), "leave too few others", id="nobody honest"),
        pytest.param(lambda: Ground(size=3, publishers=9), "9 publishers", id="more publishers than nodes"),
        pytest.param(lambda: SimulationTrial(GROUND, ()), "at least one setting", id="no settings"),
    ],
)
def test_what_cannot_be_played_is_refused(make: object, what: str) -> None:
    assert callable(make)
    with pytest.raises(ArgumentError, match=what):
        make()
