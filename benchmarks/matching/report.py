"""The report: costs against the number of subscriptions, ratios, the aims; as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.matching.measure import COUNTING, EACH, TREE, Measurement
from benchmarks.matching.single import PAPERS_SECONDS, Single
from benchmarks.matching.workload import WORKLOADS

RATIO_AIM = 1.5
"""The limit of the cost of 10 times as many subscriptions, with as many matches."""
SIMPLE_AIM = 1e-6
"""Seconds that a simple condition may take over decoded content."""


def beside(many: Measurement, few: Measurement) -> float:
    """Return the ratio of the costs: the median of the rounds, in which they took turns."""
    return median(slow / other for slow, other in zip(many.rounds, few.rounds, strict=True))


def costs(measured: Sequence[Measurement]) -> str:
    """Microseconds for each publication, and how many times those of a tenth of the subscriptions."""
    by_size = {
        (measurement.workload, measurement.index, measurement.subscriptions): measurement for measurement in measured
    }
    lines = [["workload", "subscriptions", "matches", "tree us", "of a tenth", "counting us", "each us", "add us"]]
    for (workload, index, count), slow in by_size.items():
        if index != TREE:
            continue
        tenth = by_size.get((workload, TREE, count // 10))
        others = [by_size[workload, name, count].seconds for name in (COUNTING, EACH)]
        ratio = f"{beside(slow, tenth):.2f}x" if tenth else ""
        shown = [f"{measurement * 1e6:,.0f}" for measurement in others]
        figures = [
            f"{slow.matches:.1f}",
            f"{slow.seconds * 1e6:.2f}",
            ratio,
            *shown,
            f"{slow.seconds_to_add * 1e6:.0f}",
        ]
        lines.append([workload, f"{count:,}", *figures])
    return _table(lines)


def singles(measured: Sequence[Single], reference: float | None = None) -> str:
    """Microseconds for each evaluation; beside a reference, how many times faster."""
    lines = [["condition", "us", *([] if reference is None else ["of the paper's"])]]
    for measurement in measured:
        part = [] if reference is None else [f"1/{reference / measurement.seconds:,.0f}"]
        lines.append([measurement.title, f"{measurement.seconds * 1e6:.2f}", *part])
    return _table(lines)


def aims(measured: Sequence[Measurement], simple: Sequence[Single]) -> str:
    """Return the aims of issue 4, and whether they were met."""
    findings = []
    trees = {
        (measurement.workload, measurement.subscriptions): measurement
        for measurement in measured
        if measurement.index == TREE
    }
    for workload in WORKLOADS:
        sizes = [count for name, count in trees if name == workload.name and (name, count // 10) in trees]
        if sizes:
            ratio = beside(trees[workload.name, max(sizes)], trees[workload.name, max(sizes) // 10])
            sentence = (
                f"{workload.name}: {max(sizes):,} subscriptions cost {ratio:.2f} times what {max(sizes) // 10:,} do"
            )
            findings.append(f"- {sentence}; aim < {RATIO_AIM}: {_verdict(ratio < RATIO_AIM)}")
    first = simple[0]
    findings.append(
        f"- {first.title} takes {first.seconds * 1e6:.2f} us; aim <= 1: {_verdict(first.seconds <= SIMPLE_AIM)}"
    )
    return "\n".join(findings)


def document(
    measured: Sequence[Measurement], simple: Sequence[Single], listing: Sequence[Single], machine: dict[str, str]
) -> str:
    """The whole report as Markdown."""
    parts = [
        "# Matching by content",
        aims(measured, simple),
        "![cost of a publication against the number of subscriptions](matching.svg)",
        "## Publications",
        "Processor time of one publication, decoded already: the node's own index (`tree`, the median of many rounds),"
        " counting satisfied predicates, and deciding each condition. `of a tenth`: beside a tenth of the"
        " subscriptions, with as many matches. `add`: to add one subscription to the tree, once its condition is made.",
        costs(measured),
        "\n".join(f"- {measurement.name}: {measurement.title}" for measurement in WORKLOADS),
        "## Simple conditions, over decoded content",
        singles(simple),
        "## The filter of the contracts paper",
        f"Its prototype takes {PAPERS_SECONDS * 1e3:.1f} ms for each subscription, on a processor of 2008.",
        singles(listing, PAPERS_SECONDS),
        "\n".join(f"- {name}: {value}" for name, value in machine.items()),
    ]
    return "\n\n".join(parts) + "\n"


def write(
    measured: Sequence[Measurement],
    simple: Sequence[Single],
    listing: Sequence[Single],
    machine: dict[str, str],
    folder: Path,
) -> list[Path]:
    """Write `matching.md` and `matching.json` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, data = folder / "matching.md", folder / "matching.json"
    markdown.write_text(document(measured, simple, listing, machine))
    records = {
        "machine": machine,
        "publications": [asdict(measurement) for measurement in measured],
        "simple": [asdict(measurement) for measurement in simple],
        "listing": [asdict(measurement) for measurement in listing],
    }
    data.write_text(json.dumps(records, indent=1) + "\n")
    return [markdown, data]


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "not met"


def _table(lines: list[list[str]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)
