"""The simulation that the trust paper announces: many settings on many random networks, as one Spark job.

A task is one network with several settings: Python plays it, Spark spreads the tasks and makes statistics of what comes
back. The same seed gives the same figures, however the tasks are spread; all settings meet the same networks, profiles
and messages, so that what differs between them is due to them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.trust.network_run import Ground, Play, Setting, lay_out

_TYPES = {str: "string", int: "long", float: "double"}
_GROUND = tuple(field.name for field in fields(Ground) if field.name != "replicate")
_SETTING = tuple(field.name for field in fields(Setting))
_COUNTS = ("false", "false_accepted", "good", "good_refused")
ROWS = ", ".join(
    [f"{field.name} {_TYPES[field.type]}" for kind in (Ground, Setting) for field in fields(kind)]  # type: ignore[index]
    + ["round long", *(f"{name} long" for name in _COUNTS)]
)
"""A row for each round of each setting on each network: what reached honest nodes (`playing.Round`)."""
MEASURES = ("false_accepted", "good_refused", "cost")
"""The part of false messages that were accepted, the part of good ones that were refused, and their sum."""
_TOGETHER = 7
"""Settings of a task, which share the work of laying the network out."""
_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131)
"""The quantiles of Student's t for an interval of 95 %, for 1, 2, 3 ... degrees of freedom."""
_BEYOND = 2.12
"""For more degrees of freedom: what 16 have, which is never too narrow."""


@dataclass(frozen=True, slots=True)
class SimulationTrial:
    """Settings to be played on so many networks of one kind."""

    ground: Ground
    """The first of the networks; the others have the numbers after its."""
    settings: tuple[Setting, ...]
    replicates: int = 5

    def __post_init__(self) -> None:
        if self.replicates < 1 or not self.settings:
            raise ArgumentError("a trial has at least one setting and one replicate")

    def tasks(self) -> Iterator[tuple[str, str]]:
        """Networks with a few of the settings each, as text."""
        for number in range(self.replicates):
            ground = replace(self.ground, replicate=self.ground.replicate + number)
            for first in range(0, len(self.settings), _TOGETHER):
                some = [asdict(setting) for setting in self.settings[first : first + _TOGETHER]]
                yield json.dumps(asdict(ground)), json.dumps(some)


def simulate(spark: SparkSession, trials: Sequence[SimulationTrial], seed: int = 1) -> DataFrame:
    """Play all of it, in one job, when the frame is asked for its rows (`ROWS`)."""
    tasks = [task for trial in trials for task in trial.tasks()]
    if not tasks:
        raise ArgumentError("there is nothing to simulate")
    frame = spark.createDataFrame(tasks, "ground string, settings string")
    return frame.repartition(len(tasks)).mapInPandas(_playing(seed), ROWS)


def summary(rows: DataFrame, since: int = 0) -> DataFrame:
    """Return, for each setting and kind of network, means over replicates of rounds from `since` on, with intervals.

    Columns: those of `Ground` and `Setting`, `replicates`, and each of `MEASURES` with its `_pm`: the 95 % interval
    of the mean is that much to either side (Student's t; null for a single replicate).
    """
    return _means(rows.where(F.col("round") >= since), ())


def over_time(rows: DataFrame) -> DataFrame:
    """Return the same for each round."""
    return _means(rows, ("round",))


def _means(rows: DataFrame, more: Sequence[str]) -> DataFrame:
    by = (*_GROUND, *_SETTING, *more)
    sums = rows.groupBy(*by, "replicate").agg(*(F.sum(name).alias(name) for name in _COUNTS))
    false, good = _part("false_accepted", "false"), _part("good_refused", "good")
    each = sums.select(*by, false.alias("false_accepted"), good.alias("good_refused"), (false + good).alias("cost"))
    means = each.groupBy(*by).agg(
        F.count(F.lit(1)).alias("replicates"),
        *(column for name in MEASURES for column in (F.mean(name).alias(name), _half_width(name).alias(f"{name}_pm"))),
    )
    return means.orderBy(*by)


def _part(some: str, all_: str) -> Column:
    """Null where there was nothing: such a replicate does not count for this measure."""
    return F.when(F.col(all_) > 0, F.col(some) / F.col(all_))


def _half_width(name: str) -> Column:
    count = F.count(name)
    factors = F.array(*map(F.lit, _STUDENT))
    factor = F.when(count - 1 <= len(_STUDENT), F.get(factors, (count - 2).cast("int"))).otherwise(_BEYOND)
    return F.when(count > 1, factor * F.stddev_samp(name) / F.sqrt(count))


def _playing(seed: int) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for ground, settings in zip(frame["ground"], frame["settings"], strict=True):
                yield play(Ground(**json.loads(ground)), [Setting(**setting) for setting in json.loads(settings)], seed)

    return work


def play(ground: Ground, settings: Sequence[Setting], seed: int) -> pd.DataFrame:
    """Play one network with several settings; return rows as `ROWS` says."""
    network = lay_out(ground, seed)
    tables = []
    for setting in settings:
        table = pd.DataFrame(list(Play(ground, setting, network, seed).rounds()))
        for name, value in (asdict(ground) | asdict(setting)).items():
            table[name] = value
        tables.append(table)
    return pd.concat(tables)
