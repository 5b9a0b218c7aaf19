"""The figure: what a publication costs against the number of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.matching.measure import COUNTING, EACH, TREE, Measurement
from benchmarks.matching.workload import WORKLOADS

# Colours that can be told apart by the colour-blind, too (Okabe and Ito).
_WAYS = {EACH: ("#888888", "s"), COUNTING: ("#e69f00", "D"), TREE: ("#0072b2", "o")}
_COLOURS = dict(zip((point.name for point in WORKLOADS), ("#0072b2", "#009e73", "#d55e00", "#cc79a7"), strict=True))


def draw(measured: Sequence[Measurement], folder: Path) -> list[Path]:
    """Write the figure as SVG and PNG and return their paths."""
    with rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _ways(left, measured)
        _workloads(right, measured)
        for panel in (left, right):
            panel.set_xscale("log")
            panel.set_xlabel("subscriptions")
            panel.set_ylabel("processor time of a publication, us")
            panel.grid(color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(frameon=False, fontsize=9)
        paths = []
        for kind in ("svg", "png"):
            paths.append(folder / f"matching.{kind}")
            figure.savefig(paths[-1], dpi=130)
    return paths


def _ways(panel: Axes, measured: Sequence[Measurement]) -> None:
    workload = measured[0].workload
    labels = {EACH: "each condition decided", COUNTING: "counting satisfied predicates", TREE: "the node's index"}
    for name, (colour, marker) in _WAYS.items():
        points = [point for point in measured if point.workload == workload and point.index == name]
        _line(panel, points, colour, marker, labels[name])
    panel.set_yscale("log")
    panel.set_title(f"three ways, {workload}")


def _workloads(panel: Axes, measured: Sequence[Measurement]) -> None:
    for workload in WORKLOADS:
        points = [point for point in measured if point.workload == workload.name and point.index == TREE]
        if points:
            _line(panel, points, _COLOURS[workload.name], "o", f"{workload.name}, {workload.matches:g} matches")
    panel.set_ylim(bottom=0)
    panel.set_title("the node's index")


def _line(panel: Axes, points: Sequence[Measurement], colour: str, marker: str, label: str) -> None:
    sizes = [point.subscriptions for point in points]
    costs = [point.seconds * 1e6 for point in points]
    panel.plot(sizes, costs, color=colour, marker=marker, markersize=6, linewidth=1.4, label=label)
