"""The figures, one function for each group of the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.reproduce.statements import authentication, firewall, flooding, idle, mobile, tracing, trimming
from benchmarks.reproduce.statements.live import KINDS

# Colours that can be told apart by the colour-blind, too (Okabe and Ito).
_BLUE, _SKY, _GREEN, _ORANGE, _RED = "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00"
_BIN = 0.5
"""Seconds of a bar where something is counted over time."""


def _save(name: str, figure: Figure, folder: Path) -> list[Path]:
    paths = []
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        for kind in ("svg", "png"):
            paths.append(folder / f"{name}.{kind}")
            figure.savefig(paths[-1], dpi=130)
    return paths


def _panels(columns: int, rows: int = 1, width: float = 6.0) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * columns, 3.9 * rows), layout="constrained")
    panels = [panel for row in figure.subplots(rows, columns, squeeze=False) for panel in row]
    for panel in panels:
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def draw_trimming(measured: Sequence[trimming.Traffic], folder: Path) -> list[Path]:
    """Fig. 5."""
    figure, (panel,) = _panels(1, width=7.0)
    for count, colour in zip(trimming.STREAMS, (_BLUE, _GREEN, _RED), strict=True):
        some = [point for point in measured if point.attributes == count]
        removed = [point.removed for point in some]
        panel.plot(removed, [point.full for point in some], color=colour, label=f"{count} attributes, full")
        trimmed = [point.trimmed for point in some]
        panel.plot(removed, trimmed, color=colour, linestyle="--", marker="o", label=f"{count} attributes, trimmed")
    panel.set_xlabel("attributes removed")
    panel.set_ylabel("bytes of a publication to its subscriber")
    panel.set_ylim(bottom=0)
    panel.set_title("Fig. 5: trimming notifications")
    panel.legend(frameon=False, fontsize=8)
    return _save("fig-05-trimming", figure, folder)


def draw_mobile(measured: Sequence[mobile.Run], folder: Path) -> list[Path]:
    """Fig. 10 to 12."""
    figure, (response, *panels) = _panels(3)
    for run, colour, marker in zip(measured, (_BLUE, _RED), ("o", "x"), strict=True):
        points = [(at, seconds * 1000) for at, seconds in run.responses]
        response.plot(*zip(*points, strict=True), marker, color=colour, markersize=3, alpha=0.6, label=run.way)
    response.set_title("Fig. 10: notification response time")
    response.set_ylabel("ms")
    response.set_yscale("log")
    response.legend(frameon=False, fontsize=8)
    colours = dict(zip(KINDS.values(), (_BLUE, _SKY, _RED, _ORANGE), strict=True))
    last = max((point.at for run in measured for point in run.messages), default=1.0)
    bins = [_BIN * number for number in range(int(last / _BIN) + 2)]
    tallest = 0.0
    for number, (run, panel) in enumerate(zip(measured, panels, strict=True), 11):
        times = [[point.at for point in run.messages if point.kind == kind] for kind in KINDS.values()]
        heights, _, _ = panel.hist(
            times, bins, stacked=True, label=list(KINDS.values()), color=[colours[kind] for kind in KINDS.values()]
        )
        tallest = max(tallest, *(float(height) for height in heights[-1]))
        panel.set_title(f"Fig. {number}: {run.way}")
        panel.set_ylabel(f"control messages between nodes in {_BIN:g} s")
        panel.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    for panel in panels:
        panel.set_ylim(0, tallest * 1.3)
    for panel in (response, *panels):
        panel.set_xlabel("seconds")
    return _save("fig-10-to-12-mobile-publishers", figure, folder)


def draw_authentication(measured: Sequence[authentication.Cost], folder: Path) -> list[Path]:
    """Fig. 14."""
    figure, (panel,) = _panels(1, width=7.0)
    for line, colour in zip(dict.fromkeys(point.line for point in measured), (_RED, _GREEN, _BLUE), strict=True):
        some = [point for point in measured if point.line == line]
        times = [point.seconds * 1e6 for point in some]
        panel.plot([point.groups for point in some], times, color=colour, marker="o", label=line)
    panel.set_xlabel("trust groups in the policy")
    panel.set_ylabel("us of processor time for a publication")
    panel.set_yscale("log")
    panel.set_xticks(authentication.GROUPS)
    panel.set_title("Fig. 14: authentication of the sending node")
    panel.legend(frameon=False, loc="upper left")
    return _save("fig-14-authentication", figure, folder)


def draw_firewall(measured: Sequence[firewall.Run], folder: Path) -> list[Path]:
    """Fig. 18 to 21: rates and times at the external node, and below at the internal one."""
    figure, panels = _panels(len(measured), 2, width=6.8)
    numbers = ((18, 19), (20, 21))
    for column, run in enumerate(measured):
        for row, (node, numbered) in enumerate(zip((firewall.EXTERNAL, firewall.INTERNAL), numbers, strict=True)):
            panel = panels[row * len(measured) + column]
            inside = row == 1
            times = [point.at for point in run.intervals]
            rates = [point.arrived if inside else point.published for point in run.intervals]
            panel.plot(times, rates, color=_BLUE, label="publications/s (left)")
            panel.set_ylim(0, firewall.RATE * 1.3)
            panel.set_ylabel("publications/s")
            other = panel.twinx()
            costs = [point.internal if inside else point.external for point in run.intervals]
            shown = [nan if cost is None else cost * 1000 for cost in costs]
            other.plot(times, shown, color=_RED, linestyle="--", label="processor time of a publication (right)")
            if inside:
                for points, label, marker in (
                    (run.subscribing, "subscribing", "+"),
                    (run.unsubscribing, "unsubscribing", "x"),
                ):
                    at = [point for point, _ in points]
                    took = [seconds * 1000 for _, seconds in points]
                    other.plot(at, took, marker, color=_ORANGE if marker == "+" else _GREEN, markersize=4, label=label)
            other.set_ylabel("ms")
            other.set_yscale("log")
            other.set_ylim(0.05, 50)
            other.spines[["top"]].set_visible(False)
            panel.axvspan(run.begins, run.ends, color="#eeeeee", zorder=0)
            panel.set_xlabel("seconds")
            panel.set_title(f"Fig. {numbered[column]}: {run.title}, {node} node", fontsize=10)
            handles = [*panel.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
            panel.legend(handles, [str(value.get_label()) for value in handles], frameon=False, fontsize=7, ncols=2)
    return _save("fig-18-to-21-firewall", figure, folder)


def draw_tracing(published: Sequence[tracing.Split], inserted: Sequence[tracing.Insertion], folder: Path) -> list[Path]:
    """Fig. 23 and 24."""
    figure, (left, right) = _panels(2)
    shares = [point.share for point in published]
    below = [0.0] * len(published)
    parts = (
        ("matching", [point.match for point in published], _SKY),
        ("other processing", [point.other for point in published], _BLUE),
        ("framework", [max(0.0, point.framework) for point in published], _RED),
        ("action", [point.action for point in published], _ORANGE),
    )
    for name, seconds, colour in parts:
        heights = [value * 1e6 for value in seconds]
        left.bar(shares, heights, 15, bottom=below, color=colour, label=name)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    left.set_title("Fig. 23: tracing policy, publications")
    right.bar(
        [point.share for point in inserted],
        [point.total * 1e6 for point in inserted],
        15,
        color=_BLUE,
        label="all of it",
    )
    right.set_title("Fig. 24: tracing policy, subscriptions")
    for panel in (left, right):
        panel.set_xlabel("% of subscriptions with the policy")
        panel.set_ylabel("us of processor time")
        panel.set_xticks(shares)
        panel.legend(frameon=False, fontsize=8)
        panel.margins(y=0.25)
    return _save("fig-23-and-24-tracing", figure, folder)


def draw_flooding(published: Sequence[flooding.Cost], inserted: Sequence[flooding.Cost], folder: Path) -> list[Path]:
    """Fig. 25 and 26."""
    figure, (left, right) = _panels(2)
    shares = [point.share for point in published]
    left.bar(shares, [point.seconds * 1e6 for point in published], 15, color=_BLUE)
    left.set_title("Fig. 25: flooding policy, publications")
    base = [inserted[0].seconds * 1e6] * len(inserted)
    judging = [max(0.0, point.judging) * 1e6 for point in inserted]
    rest = [max(0.0, point.added - point.judging) * 1e6 for point in inserted]
    right.bar(shares, base, 15, color=_BLUE, label="without policies")
    right.bar(shares, judging, 15, bottom=base, color=_RED, label="judging, with its actions")
    low = [point + other for point, other in zip(base, judging, strict=True)]
    right.bar(shares, rest, 15, bottom=low, color=_SKY, label="telling ten neighbours")
    right.set_title("Fig. 26: flooding policy, subscriptions")
    right.legend(frameon=False, fontsize=8)
    for panel in (left, right):
        panel.set_xlabel("% of advertisements with the policy")
        panel.set_ylabel("us of processor time")
        panel.set_xticks(shares)
        panel.margins(y=0.25)
    return _save("fig-25-and-26-flooding", figure, folder)


def draw_idle(measured: Sequence[idle.Cost], folder: Path) -> list[Path]:
    """No figure of the paper: statements that match nothing, beside none."""
    figure, (panel,) = _panels(1, width=8.0)
    names = [f"{point.load}: {point.statements}" for point in measured]
    panel.barh(names[::-1], [point.ratio for point in measured][::-1], color=_BLUE)
    panel.axvline(1.0, color=_RED, linewidth=1)
    panel.set_xlabel("processor time, without statements = 1")
    panel.set_title("No policy matches")
    return _save("no-policy-matches", figure, folder)
