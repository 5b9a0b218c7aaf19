"""The figures: Fig. 6 done again, and the processor time that stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from benchmarks.reproduce.brokering.configurations import (
    CEM,
    INJ,
    MOV,
    NEW,
    ORI,
    PLAIN,
    SEM,
    SEM_PYTHON,
    SUP,
    Configuration,
)
from benchmarks.reproduce.brokering.results import Results
from benchmarks.reproduce.drawing import legend_below


class _Style(NamedTuple):
    colour: str
    marker: str
    size: float
    """Markers that lie on each other have different sizes, so that none hides another."""


# Colours that can be told apart by the colour-blind, too (Okabe and Ito).
_STYLES = {
    ORI.name: _Style("#000000", "s", 10),
    PLAIN.name: _Style("#0072b2", "o", 8),
    NEW.name: _Style("#56b4e9", "^", 7),
    SEM.name: _Style("#009e73", "v", 5.5),
    MOV.name: _Style("#cc79a7", "<", 5.5),
    INJ.name: _Style("#999933", ">", 5.5),
    SUP.name: _Style("#882255", "p", 5.5),
    SEM_PYTHON.name: _Style("#e69f00", "D", 5),
    CEM.name: _Style("#d55e00", "X", 6.5),
}
_WHITE = (0.0, 0.22, 0.42, 0.6, 0.75)
"""The share of white in the colour of the first broker's part of a bar, of the second's, and so on."""
_SCENARIOS = "abcdefgh"


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the figures as SVG and PNG and return their paths."""
    paths = []
    with rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        figures = {
            "throughput": _throughput(results),
            "loss": _loss(results),
            "processor-time": _processor_time(results),
        }
        for name, figure in figures.items():
            for kind in ("svg", "png"):
                paths.append(folder / f"{name}.{kind}")
                figure.savefig(paths[-1], dpi=130)
    return paths


def _panels(results: Results) -> tuple[Figure, list[Axes]]:
    count = len(results.scenarios)
    figure = Figure(figsize=(4.9 * count, 4.6), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)
    for letter, brokers, panel in zip(_SCENARIOS, results.scenarios, panels[0], strict=False):
        panel.set_title(f"({letter}) {brokers} broker{'s' if brokers > 1 else ''}")
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels[0])


def _throughput(results: Results) -> Figure:
    figure, panels = _panels(results)
    for brokers, panel in zip(results.scenarios, panels, strict=True):
        highest = max(results.rates(brokers), default=0) / 1000
        panel.plot([0, highest], [0, highest], color="#888888", linestyle="--", linewidth=1, label="CMT (computed)")
        for configuration in results.shown:
            _line(panel, results, configuration, brokers)
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("published, thousand messages/s (MPR)")
    panels[0].set_ylabel("received, thousand messages/s (MT)")
    legend_below(figure, panels[0])
    return figure


def _loss(results: Results) -> Figure:
    """The messages that never arrived, of the repeat that lost most."""
    figure, panels = _panels(results)
    for brokers, panel in zip(results.scenarios, panels, strict=True):
        for configuration in results.shown:
            rates = results.rates(brokers, configuration)
            _plot(panel, configuration, rates, [results.lost(configuration, brokers, rate) for rate in rates])
        panel.set_xlim(left=0)
        panel.set_yscale("symlog", linthresh=1)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("published, thousand messages/s (MPR)")
    panels[0].set_ylabel("lost messages of a round")
    legend_below(figure, panels[0])
    return figure


def _line(panel: Axes, results: Results, configuration: Configuration, brokers: int) -> None:
    rates = results.rates(brokers, configuration)
    reached = [(results.throughput(configuration, brokers, rate) or 0.0) / 1000 for rate in rates]
    _plot(panel, configuration, rates, reached)


def _plot(panel: Axes, configuration: Configuration, rates: Sequence[int], values: Sequence[float]) -> None:
    style = _STYLES[configuration.name]
    panel.plot(
        [rate / 1000 for rate in rates],
        values,
        color=style.colour,
        marker=style.marker,
        markersize=style.size,
        markerfacecolor="none" if configuration in (ORI, PLAIN) else style.colour,
        linewidth=1.4,
        label=configuration.name,
    )


def _processor_time(results: Results) -> Figure:
    """For each configuration one bar, made of what each broker of the chain takes for a message."""
    figure, panels = _panels(results)
    for brokers, panel in zip(results.scenarios, panels, strict=True):
        drawn = results.shown
        for place, configuration in enumerate(drawn):
            _bar(panel, results, configuration, brokers, place)
        panel.set_xticks(range(len(drawn)), [item.name.replace(" ", "\n") for item in drawn])
        panel.margins(y=0.12)
        panel.set_ylim(bottom=0)
        panel.grid(visible=False, axis="x")
    panels[0].set_ylabel("processor time, us for each message")
    figure.supxlabel("in brackets the rate, thousand messages/s; the first broker is the lowest part", fontsize=9)
    return figure


def _bar(panel: Axes, results: Results, configuration: Configuration, brokers: int, place: int) -> None:
    rate = results.compared_rate(configuration, brokers)
    bottom = 0.0
    for at, cpu in enumerate(results.cpu(configuration, brokers, rate)):
        colour = _mixed(_STYLES[configuration.name].colour, _WHITE[at % len(_WHITE)])
        panel.bar(place, cpu * 1e6, bottom=bottom, color=colour, edgecolor="white", linewidth=0.6)
        bottom += cpu * 1e6
    if bottom:
        text = f"{bottom:.0f}\n({rate / 1000:g})"
        panel.annotate(text, (place, bottom), (0, 2), textcoords="offset points", ha="center", fontsize=8)


def _mixed(colour: str, white: float) -> tuple[float, float, float]:
    red, green, blue = to_rgb(colour)
    return red + (1 - red) * white, green + (1 - green) * white, blue + (1 - blue) * white
