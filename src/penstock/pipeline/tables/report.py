"""Reports as one HTML file with everything in it: tables, and plots as SVG drawn here."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import accumulate, pairwise
from unicodedata import east_asian_width

MAX_ROWS = 500
"""Rows of a table that are shown."""
MAX_BARS = 30
_LONGEST = 48
"""Letters of a label. They are as wide as each other, 0.6 of their height: so none is cut off at the edge."""
_MAX_LETTERS = 300
"""Letters of a cell; all of them are shown to who points at it."""

_WIDTH, _LABEL, _BAR, _HEIGHT = 900, 330, 20, 180
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #6b7688; --line: #d9dee6; --page: #fff; --band: #f5f7fa;
  --c0: #2f6fb7; --c1: #c4472f; --c2: #8a6d1f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --faint: #98a3b3; --line: #384252; --page: #151a21;
  --band: #1d242d; --c0: #6ea8e6; --c1: #ee7d66; --c2: #d9b95c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead, .faint { color: var(--faint); } .bad { color: var(--c1); font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: 600; } tr:nth-child(even) td { background: var(--band); }
td.time { white-space: nowrap; } td.long { overflow-wrap: anywhere; min-width: 14rem; }
.number { text-align: right !important; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .label { font: 11px monospace; } svg .faint { fill: var(--faint); } svg line { stroke: var(--line); }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); }
"""

Series = tuple[str, ...]
"""The names of what is counted; each has its colour."""


def page(title: str, lead: str, *sections: str) -> str:
    """Return a whole page."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n' + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Return a part of a page."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def text(words: str, is_bad: bool = False) -> str:
    """Return a paragraph."""
    kind = "bad" if is_bad else "good"
    return f'<p class="{kind}">{escape(words)}</p>'


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; numbers stand to the right."""
    if not rows:
        return '<p class="faint">None.</p>'
    kinds = [' class="number"' if isinstance(value, int) else "" for value in rows[0]]
    head = "".join(f"<th{kind}>{escape(title)}</th>" for kind, title in zip(kinds, titles, strict=True))
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MAX_ROWS])
    more = f'<p class="faint">and {len(rows) - MAX_ROWS} more</p>' if len(rows) > MAX_ROWS else ""
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>{more}'


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, datetime):
        return f'<td class="time">{moment(value)}</td>'
    words = as_text(value)
    if len(words) <= _LONGEST:
        return f"<td>{escape(words)}</td>"
    if len(words) <= _MAX_LETTERS:
        return f'<td class="long">{escape(words)}</td>'
    return f'<td class="long" title="{escape(words)}">{escape(_short(words, _MAX_LETTERS))}</td>'


def as_text(value: object) -> str:
    """Return a value of a table as text."""
    return moment(value) if isinstance(value, datetime) else str(value)


def moment(time: datetime) -> str:
    """Return a time to the second, UTC; Spark gives those of the machine."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def bars(series: Series, rows: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Return a bar for each row, with a piece for each of the series; the longest bars first."""
    shown = sorted((row for row in rows if any(row[1])), key=lambda row: -sum(row[1]))[:MAX_BARS]
    if not shown:
        return '<p class="faint">Nothing to draw.</p>'
    scale = (_WIDTH - _LABEL - 60) / max(sum(values) for _, values in shown)
    drawn = [_legend(series)]
    for at, (label, values) in enumerate(shown):
        y, x = 30 + at * (_BAR + 6), float(_LABEL)
        drawn.append(_label(y, label))
        for colour, value in enumerate(values):
            drawn.append(_box(x, y, value * scale, _BAR, colour, f"{label}: {value:,} {series[colour]}"))
            x += value * scale
        drawn.append(f'<text x="{x + 6:.1f}" y="{y + 14}" class="faint">{sum(values):,}</text>')
    return _drawing(30 + len(shown) * (_BAR + 6), drawn)


def timeline(series: Series, steps: Sequence[tuple[datetime, Sequence[int]]]) -> str:
    """Counts over time: for each step a column, in pieces."""
    if not steps:
        return '<p class="faint">Nothing to draw.</p>'
    first, last = steps[0][0], steps[-1][0]
    length = _least_gap([time for time, _ in steps])
    span = (last - first).total_seconds() + length
    high = max(sum(values) for _, values in steps)
    left, right, foot = 50, _WIDTH - 10, 30 + _HEIGHT
    width = max(2.0, (right - left) * length / span - 1)
    drawn = [_legend(series), f'<line x1="{left}" y1="{foot}" x2="{right}" y2="{foot}"/>']
    drawn.append(f'<text x="{left - 6}" y="40" text-anchor="end" class="faint">{high:,}</text>')
    for time, values in steps:
        x, y = left + (right - left) * (time - first).total_seconds() / span, float(foot)
        for colour, value in enumerate(values):
            tall = value / high * (_HEIGHT - 10)
            y -= tall
            drawn.append(_box(x, y, width, tall, colour, f"{moment(time)}: {value:,} {series[colour]}"))
    drawn.append(f'<text x="{left}" y="{foot + 18}" class="faint">{moment(first)}</text>')
    drawn.append(f'<text x="{right}" y="{foot + 18}" text-anchor="end" class="faint">{moment(last)} UTC</text>')
    return _drawing(foot + 26, drawn)


def strips(rows: Mapping[str, Sequence[tuple[datetime, int]]]) -> str:
    """Return a line for each row, with a mark for each time at which it has something: the more, the darker."""
    shown = sorted(rows.items(), key=lambda row: -sum(count for _, count in row[1]))[:MAX_BARS]
    times = sorted({time for _, marks in shown for time, _ in marks})
    if not times:
        return '<p class="faint">Nothing to draw.</p>'
    first, last, length = times[0], times[-1], _least_gap(times)
    span, highest = (last - first).total_seconds() + length, max(count for _, marks in shown for _, count in marks)
    left, right, foot = _LABEL, _WIDTH - 60, len(shown) * (_BAR + 6)
    width = max(2.0, (right - left) * length / span - 1)
    drawn = [f'<line x1="{left}" y1="{foot}" x2="{right}" y2="{foot}"/>']
    for at, (label, marks) in enumerate(shown):
        y = at * (_BAR + 6)
        drawn.append(_label(y, label))
        for time, count in marks:
            x = left + (right - left) * (time - first).total_seconds() / span
            title = f"{label}, {moment(time)}: {count:,}"
            drawn.append(_box(x, y, width, _BAR, 0, title, 0.25 + 0.75 * count / highest))
        whole = sum(count for _, count in marks)
        drawn.append(f'<text x="{right + 6}" y="{y + 14}" class="faint">{whole:,}</text>')
    drawn.append(f'<text x="{left}" y="{foot + 18}" class="faint">{moment(first)}</text>')
    drawn.append(f'<text x="{right}" y="{foot + 18}" text-anchor="end" class="faint">{moment(last)} UTC</text>')
    return _drawing(foot + 26, drawn)


def _least_gap(times: Sequence[datetime]) -> float:
    return min(((later - time).total_seconds() for time, later in pairwise(times)), default=1.0)


def _label(y: int, name: str) -> str:
    return f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end" class="label">{escape(_short(name))}</text>'


def _legend(series: Series) -> str:
    parts, x = [], _LABEL if len(series) > 1 else 50
    for colour, name in enumerate(series):
        parts.append(f'<rect class="c{colour}" x="{x}" y="6" width="12" height="12"/>')
        parts.append(f'<text x="{x + 18}" y="16">{escape(name)}</text>')
        x += 36 + 8 * len(name)
    return "".join(parts)


def _box(x: float, y: float, width: float, height: float, colour: int, title: str, dark: float = 1.0) -> str:
    if width <= 0 or height <= 0:
        return ""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    if dark < 1.0:
        size += f' fill-opacity="{dark:.2f}"'
    return f'<rect class="c{colour}" {size}><title>{escape(title)}</title></rect>'


def _drawing(height: int, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">\n' + "\n".join(filter(None, drawn)) + "\n</svg>"


def _short(label: str, max_letters: int = _LONGEST) -> str:
    """Return a text without its middle if it is long: both ends of a topic tell it from others."""
    widths = [2 if east_asian_width(letter) in "WF" else 1 for letter in label]
    if sum(widths) <= max_letters:
        return label
    ends = list(accumulate(widths))
    half = (max_letters - 1) // 2
    head = bisect_right(ends, half)
    tail = bisect_left(ends, ends[-1] - half) + 1
    return f"{label[:head]}…{label[tail:]}"
