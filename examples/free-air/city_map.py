"""Draws where each consumer saw Bob: a line for a terminal, and a map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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


def draw(stops: Sequence[Stop], file: Path) -> None:
    """A map for each consumer: the walk, the air, and where it saw Bob. Needs matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 3.1), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, 3, sharex=True, sharey=True), CONSUMERS.items(), strict=True):
            _map(axes, stops, name)
            count = sum(name in stop.seen for stop in stops)
            axes.set_title(f"{title}: {count} of {len(stops)} locations")
        air = axes.collections[0]
        figure.colorbar(air, ax=axes, label="fine dust, µg/m³", shrink=0.8)
        figure.savefig(file, dpi=150)


def _map(axes: Axes, stops: Sequence[Stop], name: str) -> None:
    from matplotlib.patches import Rectangle

    middle = stops[0].at[0]
    wide, high = _CELL / (_DEGREE * math.cos(math.radians(middle))), _CELL / _DEGREE
    places, dust = [place for _, place, _ in SENSORS.values()], [pm25 for _, _, pm25 in SENSORS.values()]
    axes.scatter(
        [b for _, b in places], [a for a, _ in places], c=dust, cmap="YlOrBr", vmin=0, vmax=80, s=150, zorder=1
    )
    for stop, after in zip(stops, stops[1:], strict=False):
        color, width = (_HAZARD, 1.6) if stop.is_hazard and after.is_hazard else (_CALM, 1.0)
        axes.plot([stop.at[1], after.at[1]], [stop.at[0], after.at[0]], color=color, lw=width, zorder=2)
    seen = [(stop.at, stop.seen[name]) for stop in stops if name in stop.seen]
    for lat, lon in dict.fromkeys(there for _, there in seen):
        if not any(metres(at, there) < NEAR for at, there in seen if there == (lat, lon)):
            cell = Rectangle((lon - wide / 2, lat - high / 2), wide, high, color=_ABOUT, alpha=0.3, lw=0, zorder=0)
            axes.add_patch(cell)
    precise = [there for at, there in seen if metres(at, there) < NEAR]
    axes.plot([lon for _, lon in precise], [lat for lat, _ in precise], "o", color=_HAZARD, ms=4, zorder=3)
    axes.text(stops[0].at[1], stops[0].at[0] + 0.0008, "Bob", ha="center", color=_CALM)
    axes.set(aspect=1 / math.cos(math.radians(middle)), xticks=(), yticks=())
    axes.margins(0.06)
