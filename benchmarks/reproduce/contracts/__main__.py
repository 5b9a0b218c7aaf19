"""`python -m benchmarks.reproduce.contracts`: section 4 of the contracts paper, with plots and tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.machine import describe, end_like_interrupted
from benchmarks.reproduce.contracts import figures
from benchmarks.reproduce.contracts.figures import Point
from benchmarks.reproduce.contracts.live import Extent
from benchmarks.reproduce.drawing import legend_below

OUTPUT = Path("var/bench/contracts")
# Colours that can be told apart by the colour-blind, too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#e69f00")
FIGURES: dict[str, tuple[str, str, str, Callable[[Extent], list[Point]]]] = {
    "subscriptions": (
        "Section 4: subscriptions",
        "paper: 3.39 ms for each at the producer's broker, 3.40 ms at others",
        "subscriptions",
        figures.subscriptions,
    ),
    "4": ("Fig. 4: policies", "paper, at the producer's: +32 % at 1,000", "policies", figures.policies),
    "5": (
        "Fig. 5: attributes of a policy",
        "paper, at the producer's: +5.15 % at 32",
        "attributes",
        figures.attributes,
    ),
    "6-7": (
        "Fig. 6 (producer's) and 7 (other): quality metadata",
        "paper: up to +16 % and +19 % at 16",
        "metadata",
        figures.metadata,
    ),
    "8-9": (
        "Fig. 8 (producer's) and 9 (other): constraints",
        "paper: about +150 % of 26 ms at the other, at 16",
        "constraints",
        figures.constraints,
    ),
    "consumers": (
        "Not in the paper: consumers with contracts, and the ACE set",
        "a private event, for all who have a contract about it",
        "consumers with a contract",
        figures.consumers,
    ),
}
"""By name: what it is, what the paper has, what is varied, and what measures it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce.contracts", description=__doc__)
    parser.add_argument("figures", nargs="*", choices=[[], *FIGURES], help=f"of: {', '.join(FIGURES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few and small ones, to see that it works")
    parser.add_argument("--smoke", action="store_true", help="the least of all, for tests")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder (default: %(default)s)")
    options = parser.parse_args(arguments)
    end_like_interrupted()
    extent = Extent(1, 100, 20, 10) if options.quick else Extent()
    extent = Extent(1, 5, 1, 1, 1) if options.smoke else extent
    options.output.mkdir(parents=True, exist_ok=True)
    machine = describe(f"{extent.rounds}, of {extent.publications} publications")
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    for name in options.figures or FIGURES:
        title, paper, _, work = FIGURES[name]
        print(title, file=sys.stderr)
        try:
            points = work(extent)
        except KeyboardInterrupt:
            print("interrupted; what was measured until then is written", file=sys.stderr)
            return 130
        text = table(points)
        print(f"\n{title} ({paper})\n\n{text}\n")
        page = options.output / f"{name}.md"
        page.write_text(f"# {title}\n\n{paper}\n\n{text}\n\n{about}\n")
        records = [{"line": point.line, "count": point.number, **point.cost._asdict()} for point in points]
        (options.output / f"{name}.json").write_text(json.dumps(records, indent=1) + "\n")
        for path in (page, *draw(name, points, options.output)):
            print(f"written: {path}")
    return 0


def table(points: Sequence[Point]) -> str:
    """Each line of the figure: what a publication costs at both nodes, and beside the first of the line."""
    lines = [
        "| | count | producer's node, us | other node, us | both, of the first |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in dict.fromkeys(point.line for point in points):
        some = [point for point in points if point.line == line]
        first = sum(some[0].cost)
        for point in some:
            prod, other = point.cost
            lines.append(f"| {line} | {point.number:,} | {prod:.1f} | {other:.1f} | {sum(point.cost) / first:.2f} |")
    return "\n".join(lines)


def draw(name: str, points: Sequence[Point], folder: Path) -> list[Path]:
    """The figure: one panel for each node."""
    title, paper, varied, _ = FIGURES[name]
    figure = Figure(figsize=(11, 4.1), layout="constrained")
    for place, (panel, where) in enumerate(zip(figure.subplots(1, 2), ("producer's node", "other node"), strict=True)):
        for line, colour in zip(dict.fromkeys(point.line for point in points), _COLOURS, strict=False):
            some = [point for point in points if point.line == line]
            panel.plot(
                [point.number for point in some],
                [point.cost[place] for point in some],
                marker="o",
                color=colour,
                label=line,
            )
        if max(point.number for point in points) > 50:
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter("{x:,.0f}")
        costs = [point.cost[place] for point in points]
        panel.set_ylim(0, 1.15 * max(costs))
        if max(costs) > 20 * min(costs):
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.set_ylim(min(costs) / 2, 10 * max(costs))
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title(where, fontsize=10)
        panel.set_xlabel(varied)
        panel.set_ylabel("us of a publication")
    legend_below(figure, figure.axes[0])
    figure.suptitle(f"{title}; {paper}", fontsize=11)
    paths = []
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        for kind in ("svg", "png"):
            paths.append(folder / f"fig-{name}.{kind}")
            figure.savefig(paths[-1], dpi=130)
    return paths


if __name__ == "__main__":
    sys.exit(main())
