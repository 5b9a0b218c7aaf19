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
_COLOURS = dict(zip((each.name for each in WORKLOADS), ("#0072b2", "#009e73", "#d55e00", "#cc79a7"), strict=True))


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
        made = []
        for kind in ("svg", "png"):
            made.append(folder / f"matching.{kind}")
            figure.savefig(made[-1], dpi=130)
    return made


def _ways(panel: Axes, measured: Sequence[Measurement]) -> None:
    workload = measured[0].workload
    labels = {EACH: "each condition decided", COUNTING: "counting satisfied predicates", TREE: "the node's index"}
    for name, (colour, marker) in _WAYS.items():
        points = [each for each in measured if each.workload == workload and each.index == name]
        _line(panel, points, colour, marker, labels[name])
    panel.set_yscale("log")
    panel.set_title(f"three ways, {workload}")


def _workloads(panel: Axes, measured: Sequence[Measurement]) -> None:
    for workload in WORKLOADS:
        points = [each for each in measured if each.workload == workload.name and each.index == TREE]
        if points:
            _line(panel, points, _COLOURS[workload.name], "o", f"{workload.name}, {workload.matches:g} matches")
    panel.set_ylim(bottom=0)
    panel.set_title("the node's index")


def _line(panel: Axes, points: Sequence[Measurement], colour: str, marker: str, label: str) -> None:
    sizes = [each.subscriptions for each in points]
    costs = [each.seconds * 1e6 for each in points]
    panel.plot(sizes, costs, color=colour, marker=marker, markersize=6, linewidth=1.4, label=label)
