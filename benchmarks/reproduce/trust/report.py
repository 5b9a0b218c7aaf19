"""The results of the simulation: tables, figures, and every number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.reproduce.drawing import legend_below
from benchmarks.reproduce.trust.trials import (
    MAX_FALSE,
    MAX_REFUSED,
    SETTLED,
    SHARES,
    SWEPT,
    SWEPT_ATTACKS,
    in_words,
    setting_of,
)
from penstock.pipeline.trust.network_run import ATTACKS, RULES, Setting
from penstock.pipeline.trust.networks import TOPOLOGIES

# Colours that can be told apart by the colour-blind, too (Okabe and Ito).
_COLOURS = {"strict": "#d55e00", "introducer": "#009e73", "path": "#0072b2"}
_LINES = {"false_accepted": "-", "good_refused": "--"}
_WORDS = {"false_accepted": "false accepted", "good_refused": "good refused"}


class Timing(NamedTuple):
    """The duration of one Spark job."""

    title: str
    plays: int
    seconds: float


@dataclass
class Found:
    """Everything that was measured, so far."""

    chosen: list[Setting] = field(default_factory=list)
    swept: pd.DataFrame | None = None
    shares: pd.DataFrame | None = None
    sizes: list[pd.DataFrame] = field(default_factory=list)
    times: list[pd.DataFrame] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)


def page(results: Found, machine: dict[str, str]) -> str:
    """The report."""
    timings = [(setting.title, setting.plays, f"{setting.seconds:.0f}") for setting in results.timings]
    parts = [
        "# Trust between nodes, simulated",
        "\n".join(f"- {name}: {value}" for name, value in machine.items()),
        f"Means over networks with 95 % intervals, of the rounds from {SETTLED} on. False accepted and good refused"
        " are parts of the false and good messages that could have come to honest nodes.",
        _table(("job", "simulations", "seconds"), timings),
    ]
    if results.chosen:
        parts.append(f"## Chosen: the least sum of both, averaged over {', '.join(SWEPT_ATTACKS)} and topologies")
        parts.append("\n".join(f"- {setting.rule}: {in_words(setting)}" for setting in results.chosen))
    if results.sizes:
        parts.append(f"## Every attack, on networks that had no part in the choice\n\n{sizes(results.sizes)}")
    if results.shares is not None:
        parts.append(f"## More bad nodes\n\n{shares(results.shares)}")
    if results.swept is not None:
        parts.append(f"## What each parameter does\n\nMean over all other parameters.\n\n{effects(results.swept)}")
        parts.append(f"## The best of the sweep for each attack\n\n{best(results.swept)}")
    return "\n\n".join(parts)


def _table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(titles)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: pd.Series[float], name: str) -> str:
    if pd.isna(row[name]):
        return "-"
    within = row[f"{name}_pm"]
    return f"{row[name]:.2f}" + ("" if pd.isna(within) else f" ± {within:.2f}")


def sizes(frames: list[pd.DataFrame]) -> str:
    """A line for each attack and topology; a column for each size and measure."""
    titles = ["topology", "attack", "rule"]
    titles += [f"{name}, {frame['size'].iloc[0]:,}" for frame in frames for name in _WORDS.values()]
    rows = []
    for topology in TOPOLOGIES:
        for attack in ATTACKS:
            for rule in RULES:
                some = [_row(frame, topology=topology, attack=attack, rule=rule) for frame in frames]
                rows.append([topology, attack, rule, *(_cell(setting, name) for setting in some for name in _WORDS)])
    return _table(titles, rows)


def shares(table: pd.DataFrame) -> str:
    """A line for each attack, topology and rule; a column for each share of bad nodes."""
    rows = []
    for topology in TOPOLOGIES:
        for attack in SWEPT_ATTACKS:
            for rule in RULES:
                if rule not in set(table.rule):
                    continue
                some = [_row(table, topology=topology, attack=attack, rule=rule, bad=share) for share in SHARES]
                for name, word in _WORDS.items():
                    rows.append([topology, attack, rule, word, *(_cell(setting, name) for setting in some)])
                rows.append([topology, attack, rule, "both below 5 %", *map(_is_met, some)])
    return _table(["topology", "attack", "rule", "", *(f"{share:.0%} bad" for share in SHARES)], rows)


def effects(swept: pd.DataFrame) -> str:
    """Return the average result of each value of each parameter."""
    rows = []
    for rule in RULES:
        of_rule = swept[swept.rule == rule]
        for name in SWEPT:
            for value, some in of_rule.groupby(name):
                if of_rule[name].nunique() > 1 and not (rule != "path" and name == "accept"):
                    cells = [
                        f"{part.false_accepted.mean():.2f} / {part.good_refused.mean():.2f}"
                        for attack in SWEPT_ATTACKS
                        for part in [some[some.attack == attack]]
                    ]
                    rows.append([rule, name, f"{value:g}", *cells])
    return _table(["rule", "parameter", "value", *(f"{setting}: false / good" for setting in SWEPT_ATTACKS)], rows)


def best(swept: pd.DataFrame) -> str:
    """For each attack, topology and rule, the setting with the least sum: chosen and measured on the same networks."""
    rows = []
    for topology in TOPOLOGIES:
        for attack in SWEPT_ATTACKS:
            for rule in RULES:
                some = swept[(swept.topology == topology) & (swept.attack == attack) & (swept.rule == rule)]
                if some.empty:
                    continue
                best = some.sort_values("cost").iloc[0]
                setting = setting_of(rule, best)
                rows.append([topology, attack, rule, in_words(setting), *(_cell(best, name) for name in _WORDS)])
    return _table(["topology", "attack", "rule", "parameters", *_WORDS.values()], rows)


def _is_met(row: pd.Series[float]) -> str:
    """Say whether both are as low as asked for: with the whole interval, or the mean only."""
    pairs = (("false_accepted", MAX_FALSE), ("good_refused", MAX_REFUSED))
    if any(row[name] > bound for name, bound in pairs):
        return "no"
    return "yes" if all(row[name] + row[f"{name}_pm"] <= bound for name, bound in pairs) else "by the mean"


def _row(frame: pd.DataFrame, **values: object) -> pd.Series[float]:
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0]


def write(results: Found, machine: dict[str, str], folder: Path) -> list[Path]:
    """The report, every figure, and the plots."""
    text = folder / "trust.md"
    text.write_text(page(results, machine) + "\n")
    paths = [text]
    frames = {"sweep": results.swept, "shares": results.shares}
    if results.sizes:
        frames |= {"sizes": pd.concat(results.sizes), "rounds": pd.concat(results.times)}
    for name, frame in frames.items():
        if frame is not None:
            paths.append(folder / f"{name}.csv")
            frame.to_csv(paths[-1], index=False)
    with rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        for name, figure in _figures(results):
            for kind in ("svg", "png"):
                paths.append(folder / f"{name}.{kind}")
                figure.savefig(paths[-1], dpi=120)
    return paths


def _figures(results: Found) -> Iterator[tuple[str, Figure]]:
    if results.times:
        yield "over-time", _over_time(results.times[-1])
    if results.swept is not None:
        yield "sweep", _trade_off(results.swept, results.chosen)
    if results.shares is not None:
        yield "more-bad-nodes", _by_share(results.shares)


def _panels(columns: Iterable[str], width: float) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """A row for each topology."""
    names = list(columns)
    figure = Figure(figsize=(width * len(names), 5.6), layout="constrained")
    axes = figure.subplots(len(TOPOLOGIES), len(names), squeeze=False, sharey=True)
    results = {}
    for topology, line in zip(TOPOLOGIES, axes, strict=True):
        for name, panel in zip(names, line, strict=True):
            panel.set_title(f"{name}, {topology}")
            panel.set_ylim(-0.02, 1.02)
            panel.grid(color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
            results[topology, name] = panel
    return figure, results


def _curves(panel: Axes, some: pd.DataFrame, over: str) -> None:
    for rule in RULES:
        line = some[some.rule == rule].sort_values(over)
        if line.empty:
            continue
        for name, style in _LINES.items():
            colour = _COLOURS[rule]
            panel.plot(line[over], line[name], style, color=colour, linewidth=1.3, label=f"{rule}: {_WORDS[name]}")
            within = line[f"{name}_pm"].fillna(0)
            panel.fill_between(
                line[over], line[name] - within, line[name] + within, color=colour, alpha=0.15, linewidth=0
            )


def _over_time(times: pd.DataFrame) -> Figure:
    figure, panels = _panels(ATTACKS, 2.9)
    for (topology, attack), panel in panels.items():
        _curves(panel, times[(times.topology == topology) & (times.attack == attack)], "round")
        panel.set_xlabel("round")
    legend_below(figure, next(iter(panels.values())))
    figure.suptitle(f"{times['size'].iloc[0]:,} nodes, {times['replicates'].max()} networks of each kind; bands: 95 %")
    return figure


def _trade_off(swept: pd.DataFrame, settings: list[Setting]) -> Figure:
    figure, panels = _panels(SWEPT_ATTACKS, 4)
    for (topology, attack), panel in panels.items():
        some = swept[(swept.topology == topology) & (swept.attack == attack)]
        for rule in RULES:
            of_rule = some[some.rule == rule]
            if of_rule.empty:
                continue
            panel.scatter(of_rule.false_accepted, of_rule.good_refused, 9, color=_COLOURS[rule], alpha=0.5, label=rule)
            chosen = next(setting for setting in settings if setting.rule == rule)
            mine = _row(of_rule, **{name: getattr(chosen, name) for name in SWEPT})
            panel.scatter(
                [mine.false_accepted], [mine.good_refused], 90, color=_COLOURS[rule], marker="*", edgecolor="black"
            )
        panel.set_xlim(-0.02, 1.02)
        panel.add_patch(Rectangle((0, 0), MAX_FALSE, MAX_REFUSED, color="#999999", alpha=0.4, zorder=0))
        panel.set_xlabel("false accepted")
        panel.set_ylabel("good refused")
    legend_below(figure, next(iter(panels.values())))
    figure.suptitle("Each point is one setting of the sweep; stars: the chosen ones; grey: both below 5 %")
    return figure


def _by_share(table: pd.DataFrame) -> Figure:
    figure, panels = _panels(SWEPT_ATTACKS, 4)
    for (topology, attack), panel in panels.items():
        _curves(panel, table[(table.topology == topology) & (table.attack == attack)], "bad")
        panel.set_xlabel("part of the nodes that are bad")
    legend_below(figure, next(iter(panels.values())))
    return figure
