"""Draws where each consumer saw Bob: a line for a terminal, and a map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traveller import SENSORS, Point, Stop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONSUMERS = {"free-air": "FreeAir", "city-emergency": "emergency services", "ads": "advertiser"}
NEAR = 25.0
"""Metres within which a location is the precise one."""
_CELL = 500.0
"""Metres: the grid of the domain file."""
_DEGREE = 111_320.0
"""Metres of a degree of latitude."""
_STYLE: dict[Any, Any] = {"font.size": 8, "svg.hashsalt": "penstock"}
_CALM, _HAZARD, _ABOUT = "#888888", "#b2182b", "#2166ac"


def metres(one: Point, other: Point) -> float:
    """How far two places of the city are from each other."""
    east = (one[1] - other[1]) * math.cos(math.radians(one[0]))
    return _DEGREE * math.hypot(one[0] - other[0], east)


def strips(stops: Sequence[Stop]) -> Iterator[str]:
    """A line for each consumer, with a sign for each place of the walk."""
    yield f"{'Bob':>20}  {''.join('!' if stop.is_hazard else '-' for stop in stops)}   ! in danger of death"
    for name, title in CONSUMERS.items():
        yield f"{title:>20}  {''.join(_sign(stop, name) for stop in stops)}"
    yield f"{'':>20}  x there   o thereabouts   . nothing"


def _sign(stop: Stop, name: str) -> str:
    seen = stop.seen.get(name)
    return "." if seen is None else "x" if metres(stop.at, seen) < NEAR else "o"


def maps(stops: Sequence[Stop]) -> Iterator[str]:
    """A small map for each consumer, side by side: the walk, and where it saw Bob."""
    south, west = min(stop.at[0] for stop in stops) - 0.001, min(stop.at[1] for stop in stops) - 0.003
    high, wide = 250.0 / _DEGREE, 125.0 / (_DEGREE * math.cos(math.radians(south)))  # letters are twice as high as wide
    rows, columns = 7, 34
    yield "   ".join(f"{title:<{columns}}" for title in CONSUMERS.values()).rstrip()
    for row in reversed(range(rows)):
        spots = [(south + (row + 0.5) * high, west + (column + 0.5) * wide) for column in range(columns)]
        yield "   ".join("".join(_letter(stops, name, spot) for spot in spots) for name in CONSUMERS).rstrip()
    yield "· Bob's walk   ░ seen: somewhere here   x seen: right there"


def _letter(stops: Sequence[Stop], name: str, spot: Point) -> str:
    """What a map has at a place."""
    here = [stop for stop in stops if _is_within(stop.at, spot, 250.0, 125.0)]
    if any(_sign(stop, name) == "x" for stop in here):
        return "x"
    if here:
        return "·"
    squares = [stop.seen[name] for stop in stops if _sign(stop, name) == "o"]
    return "░" if any(_is_within(square, spot, _CELL, _CELL) for square in squares) else " "


def _is_within(middle: Point, spot: Point, high: float, wide: float) -> bool:
    return 2 * metres(middle, (spot[0], middle[1])) <= high and 2 * metres(middle, (middle[0], spot[1])) <= wide


def draw(stops: Sequence[Stop], file: Path) -> None:
    """A map for each consumer: the walk, the air, and where it saw Bob. Needs matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(_STYLE):
        figure = Figure(figsize=(6.5, 8), layout="constrained")
        maps = list(figure.subplots(3, 1, sharex=True, sharey=True))
        for axes, (name, title) in zip(maps, CONSUMERS.items(), strict=True):
            _map(axes, stops, name)
            axes.set_title(f"{title}: {sum(name in stop.seen for stop in stops)} of {len(stops)} locations", loc="left")
        figure.colorbar(maps[0].collections[0], ax=maps, label="fine dust, µg/m³", shrink=0.5)
        maps[-1].legend(
            handles=list(_legend()), loc="upper center", bbox_to_anchor=(0.5, -0.03), ncols=2, frameon=False
        )
        figure.savefig(file, dpi=130)


def _map(axes: Axes, stops: Sequence[Stop], name: str) -> None:
    from matplotlib.patches import Rectangle

    wider = 1 / math.cos(math.radians(stops[0].at[0]))
    high, wide = _CELL / _DEGREE, _CELL / _DEGREE * wider
    places, dust = [place for _, place, _ in SENSORS.values()], [pm25 for _, _, pm25 in SENSORS.values()]
    xs, ys = [lon for _, lon in places], [lat for lat, _ in places]
    axes.scatter(xs, ys, c=dust, cmap="YlOrBr", vmin=0, vmax=80, s=90, edgecolors=_CALM, linewidths=0.5, zorder=1)
    for street, (lat, lon), _ in SENSORS.values():
        axes.annotate(street, (lon, lat), (0, 8), textcoords="offset points", ha="center", color="#444444")
    for stop, after in pairwise(stops):
        color, width = (_HAZARD, 2.0) if stop.is_hazard else (_CALM, 1.0)
        axes.plot([stop.at[1], after.at[1]], [stop.at[0], after.at[0]], color=color, lw=width, zorder=2)
    seen = [(stop.at, stop.seen[name]) for stop in stops if name in stop.seen]
    for lat, lon in dict.fromkeys(there for at, there in seen if metres(at, there) >= NEAR):
        cell = Rectangle((lon - wide / 2, lat - high / 2), wide, high, color=_ABOUT, alpha=0.25, lw=0, zorder=0)
        axes.add_patch(cell)
    precise = [there for at, there in seen if metres(at, there) < NEAR]
    axes.plot([lon for _, lon in precise], [lat for lat, _ in precise], "o", color=_HAZARD, ms=5, zorder=3)
    axes.set(aspect=wider, xticks=(), yticks=())
    axes.margins(0.07, 0.12)


def _legend() -> Iterator[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    yield Line2D([], [], color=_CALM, lw=1.0, label="Bob's walk")
    yield Line2D([], [], color=_HAZARD, lw=2.0, label="in danger of death")
    yield Patch(color=_ABOUT, alpha=0.25, label="seen: somewhere here")
    yield Line2D([], [], color=_HAZARD, marker="o", ls="", ms=5, label="seen: right there")
