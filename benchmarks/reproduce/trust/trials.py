"""The simulated trials: a sweep over parameters, then the chosen ones with more colluders, and against every attack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.jobs.simulate import SimulationTrial
from penstock.pipeline.trust.network_run import ATTACKS, RULES, Ground, Setting
from penstock.pipeline.trust.networks import TOPOLOGIES

SIZES = (40,)
REPLICATES = (4,)
SHARES = (0.05, 0.1, 0.2, 0.3)
SWEPT_ATTACKS = ("collusion",)
SWEPT_SHARE = 0.1
SWEPT = ("sign", "accept", "penalty", "signers", "base_rate", "half_life", "least", "most", "period")
SETTLED = 30
"""Figures are of the rounds from here on, when most of what can be learnt has been."""
MAX_FALSE, MAX_REFUSED = 0.05, 0.05
"""What is asked for: false messages that are accepted, and good ones that are refused, are fewer."""
SWEEP_SIZE, _SWEEP_REPLICATES = 40, 2
SHARE_SIZE, _SHARE_REPLICATES = 40, 6
_FRESH = 100
"""Settings are chosen on some networks and judged on others, so that the choice does not flatter them."""
_ROUNDS = 50


def sweep(is_quick: bool, rules: Collection[str] = RULES, is_brief: bool = False) -> list[SimulationTrial]:
    """Combinations of parameters, fewer for the rules that take longer; `is_brief`: eight of each rule at most."""
    settings = []
    for sign, penalty, least in product((0.3, 0.5, 0.7), (3, 10, 20), (2, 4, 6)):
        some = Setting("strict", sign, sign, penalty, 1, 0.9, least=least, most=3, period=30.0)
        settings.append(some)
        if penalty == 10:
            settings += [replace(some, rule="introducer"), replace(some, half_life=20.0)]
        if penalty == 10 and sign > 0.3 and least > 2:
            for below, signers in product((0.0, 0.2), (1, 2)):
                settings.append(replace(some, rule="path", accept=round(sign - below, 2), signers=signers))
    settings = [setting for setting in settings if setting.rule in rules]
    if is_brief:
        settings = [
            one for one in settings if one.penalty >= 10 and one.sign < 0.7 and one.least > 2 and not one.half_life
        ]
    if is_quick:
        settings = [setting for setting in settings if (setting.sign, setting.least, setting.penalty) == (0.5, 6, 10)]
    played = tuple(replace(setting, attack=attack, bad=SWEPT_SHARE) for attack in SWEPT_ATTACKS for setting in settings)
    return [
        SimulationTrial(Ground(topology, SWEEP_SIZE, rounds=_ROUNDS), played, _SWEEP_REPLICATES)
        for topology in TOPOLOGIES
    ]


def choose(summaries: DataFrame) -> list[Setting]:
    """Return for each rule the parameters with the least average cost over attacks and topologies."""
    means = summaries.groupBy("rule", *SWEPT).agg(F.mean("cost").alias("cost")).orderBy("cost", *SWEPT).collect()
    played = [rule for rule in RULES if any(row.rule == rule for row in means)]
    return [setting_of(rule, next(row for row in means if row.rule == rule)) for rule in played]


def setting_of(rule: str, row: Any) -> Setting:
    """Return the setting that a row is of."""
    kinds = {field.name: type(getattr(Setting(), field.name)) for field in fields(Setting)}
    return Setting(rule, **{name: kinds[name](row[name]) for name in SWEPT})


def at_size(size: int, chosen: Sequence[Setting], is_quick: bool) -> list[SimulationTrial]:
    """The chosen parameters against every attack, on networks that had no part in the choice."""
    played = tuple(replace(setting, attack=attack, bad=SWEPT_SHARE) for attack in ATTACKS for setting in chosen)
    replicates = 2 if is_quick else REPLICATES[SIZES.index(size)]
    return [SimulationTrial(_fresh(topology, size), played, replicates) for topology in TOPOLOGIES]


def by_share(chosen: Iterable[Setting], is_quick: bool) -> list[SimulationTrial]:
    """The chosen parameters with more and more bad nodes."""
    played = tuple(
        replace(setting, attack=attack, bad=share) for setting in chosen for attack in SWEPT_ATTACKS for share in SHARES
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
    bounds = {"least": "at least {:g} clients", "most": "at most {:g} ratings of one", "period": "in {:g} rounds"}
    words = [f"{names[one.name]} {getattr(setting, one.name):g}" for one in fields(Setting) if one.name in names]
    if setting.rule != "path":
        words = [setting for setting in words if setting[0] not in "θk"]
    words.append(f"half-life {setting.half_life:g} rounds" if setting.half_life else "no ageing")
    words.append(" ".join(text.format(getattr(setting, name)) for name, text in bounds.items()))
    return ", ".join(words)
