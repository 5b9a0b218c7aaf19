"""Ratings as charts. Names are data for the chart, which draws them as text."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.broker.http.answers.status import RatingSnapshot

if TYPE_CHECKING:
    from penstock.console.trust.page import RatingPair

INK = "#5d6a75"
"""The colour of axes; the style sheet replaces it, by day and by night."""
_LOW, _MIDDLE, _HIGH = "#f4a582", "#f7f7f7", "#92c5de"
_MAX_LABELS = 16
MAX_LINES = 8


def heat_map(pairs: "Sequence[RatingPair]") -> dict[str, Any]:
    """Return a heat map: rows rate columns."""
    rating, rated = sorted({pair.by for pair in pairs}), sorted({pair.of for pair in pairs})
    at = {name: place for place, name in enumerate(rated)}, {name: place for place, name in enumerate(rating)}
    data = [
        {"value": [at[0][pair.of], at[1][pair.by], round(pair.held.rating, 2)], "name": f"{pair.by} \u2192 {pair.of}"}
        for pair in sorted(pairs, key=lambda pair: (pair.by, pair.of))
    ]
    few = max(len(rating), len(rated)) <= _MAX_LABELS
    return {
        "animation": False,
        "tooltip": {"renderMode": "richText"},
        "grid": {"left": 8, "right": 8, "top": 8, "bottom": 56, "containLabel": True},
        "xAxis": {**_axis("category"), "data": rated, "name": ""},
        "yAxis": {**_axis("category"), "data": rating, "inverse": True},
        "visualMap": {
            "min": 0,
            "max": 1,
            "precision": 2,
            "calculable": False,
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "inRange": {"color": [_LOW, _MIDDLE, _HIGH]},
            "textStyle": {"color": INK},
            "text": ["1", "0"],
        },
        "series": [
            {
                "type": "heatmap",
                "data": data,
                "label": {"show": few, "color": "#111111"},
                "itemStyle": {"borderColor": INK, "borderWidth": 0.5},
            }
        ],
    }


def time_line(history: Iterable[RatingSnapshot], by: str, of: str) -> dict[str, Any]:
    """Return one rating over time, or the lowest ones."""
    lines: dict[str, list[list[Any]]] = {}
    for moment in sorted(history, key=lambda snapshot: snapshot.at):
        time = datetime.fromtimestamp(moment.at, UTC).isoformat()
        for node, ratings in moment.ratings.items():
            for name, rating in ratings.items():
                if (by, of) in ((node, name), ("", "")):
                    lines.setdefault(f"{node} \u2192 {name}", []).append([time, round(rating, 4)])
    lowest = sorted(lines, key=lambda name: (lines[name][-1][1], name))[:MAX_LINES]
    return {
        "animation": False,
        "useUTC": True,
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "legend": {"type": "scroll", "bottom": 0, "textStyle": {"color": INK}, "pageTextStyle": {"color": INK}},
        "grid": {"left": 8, "right": 16, "top": 12, "bottom": 40, "containLabel": True},
        "xAxis": {**_axis("time"), "axisLabel": {"color": INK, "hideOverlap": True}},
        "yAxis": {**_axis("value"), "min": 0, "max": 1},
        "series": [
            {"type": "line", "name": name, "data": lines[name], "showSymbol": len(lines[name]) < 3, "step": "end"}
            for name in lowest
        ],
    }


def _axis(kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "axisLabel": {"color": INK},
        "axisLine": {"lineStyle": {"color": INK}},
        "splitLine": {"lineStyle": {"color": INK, "opacity": 0.25}},
    }
