"""The simulated trials: a sweep over parameters, then the chosen ones against every attack, at three sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import product

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from penstock.pipeline.jobs.simulate import SimulationTrial
from penstock.pipeline.trust.network_run import ATTACKS, RULES, Ground, Setting
from penstock.pipeline.trust.networks import TOPOLOGIES

SIZES = (100, 1_000, 10_000)
REPLICATES = (8, 6, 6)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4)
SWEPT_ATTACKS = ("none", "malicious", "collusion")
SWEPT = ("sign", "accept", "penalty", "signers", "base_rate", "half_life")
SETTLED = 15
"""Figures are of the rounds from here on, when most of what can be learnt has been."""
SWEEP_SIZE, _SWEEP_REPLICATES = 200, 3
SHARE_SIZE, _SHARE_REPLICATES = 300, 4
_FRESH = 100
"""Settings are chosen on some networks and judged on others, so that the choice does not flatter them."""
_ROUNDS = 30
_BELOW = (0.0, 0.2)
"""The difference between π and θ."""


def sweep(is_quick: bool) -> list[SimulationTrial]:
    """Every combination of parameters."""
    settings = []
    signs, bases = ((0.5,), (0.8,)) if is_quick else ((0.3, 0.5, 0.7), (0.5, 0.8))
    for sign, penalty, base_rate, half_life in product(signs, (2, 5), bases, (0.0, 10.0)):
        some = Setting("strict", sign, sign, penalty, 1, base_rate, half_life)
        settings.append(some)
        for below, signers in product(_BELOW, (1, 2)):
            settings.append(replace(some, rule="path", accept=round(sign - below, 2), signers=signers))
    played = tuple(replace(setting, attack=attack) for attack in SWEPT_ATTACKS for setting in settings)
    return [
        SimulationTrial(Ground(topology, SWEEP_SIZE, rounds=_ROUNDS), played, 2 if is_quick else _SWEEP_REPLICATES)
        for topology in TOPOLOGIES
    ]


def choose(summaries: DataFrame) -> list[Setting]:
    """Return for each rule the parameters with the least average cost over attacks and topologies."""
    means = summaries.groupBy("rule", *SWEPT).agg(F.mean("cost").alias("cost")).orderBy("cost", *SWEPT).collect()
    return [_setting(next(row for row in means if row.rule == rule)) for rule in RULES]


def _setting(row: Row) -> Setting:
    return Setting(row.rule, **{name: row[name] for name in SWEPT})


def at_size(size: int, chosen: Sequence[Setting], is_quick: bool) -> list[SimulationTrial]:
    """The chosen parameters against every attack, on networks that had no part in the choice."""
    played = tuple(replace(setting, attack=attack) for attack in ATTACKS for setting in chosen)
    replicates = 2 if is_quick else REPLICATES[SIZES.index(size)]
    return [SimulationTrial(_fresh(topology, size), played, replicates) for topology in TOPOLOGIES]


def by_share(chosen: Iterable[Setting], is_quick: bool) -> list[SimulationTrial]:
    """The chosen parameters with more and more bad nodes."""
    played = tuple(
        replace(setting, attack=attack, bad=share)
        for setting in chosen
        for attack in SWEPT_ATTACKS[1:]
        for share in SHARES
    )
    return [
        SimulationTrial(_fresh(topology, SHARE_SIZE), played, 2 if is_quick else _SHARE_REPLICATES)
        for topology in TOPOLOGIES
    ]


def _fresh(topology: str, size: int) -> Ground:
    return Ground(topology, size, _FRESH, rounds=_ROUNDS)


def in_words(setting: Setting) -> str:
    """The parameters as the documents name them."""
    names = {"sign": "π", "accept": "θ", "penalty": "μ", "signers": "k", "base_rate": "base rate"}
    words = [f"{names[one.name]} {getattr(setting, one.name):g}" for one in fields(Setting) if one.name in names]
    if setting.rule == "strict":
        words = [setting for setting in words if setting[0] not in "θk"]
    words.append(f"half-life {setting.half_life:g} rounds" if setting.half_life else "no ageing")
    return ", ".join(words)
