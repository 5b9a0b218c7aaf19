"""A window of a capsule when it is over: one result of what was summed up of its events, input by input.

A part is what has been summed up of one input, as a row: `inputs`, and for the number at place N of the reduction's
paths its sum `sN`, least `lN` and greatest `hN`; for metric N how many inputs have it `mN`, when it was first measured
`fN`, and the statistics of its rule. Spark sums such rows in columns, `machine.py` one event at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.language.evaluators.times import timestamp_to_string
from penstock.model.quality import Quality
from penstock.model.values import Timestamp
from penstock.policy.capsules.capsule import (
    MICROSECONDS,
    AggregateFunction,
    AggregateReduction,
    Capsule,
    WindowSchedule,
)
from penstock.policy.capsules.steps import ReducedGroup
from penstock.policy.quality.propagation import Operation, propagate
from penstock.policy.quality.summaries import Statistic, Summary, propagate_summaries

Part = Mapping[str, Any]
LETTERS = {Statistic.SUM: "t", Statistic.SQUARES: "r", Statistic.WORST: "w"}
_COLUMNS = {AggregateFunction.SUM: "s", AggregateFunction.MIN: "l", AggregateFunction.MAX: "h"}
_NANOSECONDS = 1_000


def late_starts(window: WindowSchedule, at: int, now: int) -> list[int]:
    """Return the windows of a time that are closed by now."""
    if at + window.lateness >= now:  # they end after that time
        return []
    return [start for start in window.starts(at) if start + window.length + window.lateness <= now]


def why_late(starts: list[int]) -> str:
    """Return the problem of an event that came after these windows were closed."""
    first = timestamp_to_string(Timestamp(starts[0] * _NANOSECONDS))
    more = f" and {len(starts) - 1} more" if len(starts) > 1 else ""
    return f"late for the window from {first}{more}"


def aggregated(capsule: Capsule, start: int, group: tuple[str, ...], parts: Iterable[Part]) -> ReducedGroup | None:
    """Return what an aggregation makes of the parts of a window; None if an input has none to join."""
    reduction, of_input = capsule.reduction, {part["input"]: part for part in parts}
    assert isinstance(reduction, AggregateReduction)
    assert capsule.window is not None
    if len(of_input) < len(capsule.inputs):
        return None
    inputs = sum(part["inputs"] for part in of_input.values())
    values: dict[str, float | int] = {}
    for value in reduction.values:
        if value.of is None:
            values[value.name] = inputs
            continue
        at, part = reduction.paths.index(value.of), of_input[value.of.input]
        if value.function is AggregateFunction.MEAN:
            values[value.name] = part[f"s{at}"] / part["inputs"]
        else:
            values[value.name] = part[f"{_COLUMNS[value.function]}{at}"]
    qualities = [_quality(capsule, reduction, start, part) for _, part in sorted(of_input.items())]
    end = (start + capsule.window.length) / MICROSECONDS
    quality = qualities[0] if len(qualities) == 1 else propagate(Operation.JOIN, qualities, capsule.catalogue, end)
    return ReducedGroup(start, group, inputs, values, quality)


def _quality(capsule: Capsule, reduction: AggregateReduction, start: int, part: Part) -> Quality:
    assert capsule.window is not None
    summaries = {
        key: Summary(
            part[f"m{at}"],
            Timestamp(part[f"f{at}"] * _NANOSECONDS),
            {statistic: part[name] for statistic, letter in LETTERS.items() if (name := f"{letter}{at}") in part},
        )
        for at, key in enumerate(capsule.metrics)
        if part.get(f"m{at}")
    }
    end, expected = (start + capsule.window.length) / MICROSECONDS, capsule.window.expected
    operations = reduction.operations(part["input"])
    return propagate_summaries(operations, part["inputs"], summaries, capsule.catalogue, end, expected)
