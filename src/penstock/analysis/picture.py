"""A picture of an ensemble as SVG: brokers in layers, each with its devices beside it; links by type and direction.

A link type has a colour and a pattern of dashes, and its name stands at the link. Between two entities there is one
line with two arrowheads if both directions have the same type, else one for each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from penstock.model.link import Link
from penstock.policy.monitors.protocol import UNLISTED

from .graph import EntityKind, FlowGraph, Pair
from .layout import PictureLayout, Size, layout

# Colours that colour-blind people can tell apart (Okabe and Ito), but for yellow, which is too light on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_DASHES = ("", "9 4", "2 4", "12 4 2 4", "5 3")
_FONT = 13
_SMALL = 11
_LETTER = 0.62
"""Mean width of a letter, in font sizes; rather too much than too little."""
_MARGIN = 28
_BROKER = Size(132, 52, 66)
_ROW = 40
_STUB = 74
"""Length of the lines between a broker's trunk and its devices."""
_TRUNK = 22
_GAP = 132
_MAX_LETTERS = 26


class Style(NamedTuple):
    """The line style of the links of one type."""

    colour: str
    dash: str


def styles(graph: FlowGraph) -> dict[str, Style]:
    """Return for each link type, in the order of first use, a colour and dashes that no other type has."""
    types = dict.fromkeys(link.type for link in graph.links)
    return {
        name: Style(_COLOURS[at % len(_COLOURS)], _DASHES[(at + at // len(_COLOURS)) % len(_DASHES)])
        for at, name in enumerate(types)
    }


def picture(graph: FlowGraph, parents: Mapping[str, Sequence[str]], title: str, shown: Iterable[Link] = ()) -> str:
    """Return the picture as SVG. `parents` has for each node those that it dials; the links of `shown` are bold."""
    return "\n".join(_Picture(graph, parents, frozenset(link[:2] for link in shown)).lines(title)) + "\n"


@dataclass(frozen=True)
class _LinkLine:
    """One drawn line: a way through points, of one type, with an arrowhead at its end and perhaps at its start."""

    points: tuple[tuple[float, float], ...]
    links: tuple[Link, ...]
    """One link, or both directions of a connection."""


class _Picture:
    def __init__(self, graph: FlowGraph, parents: Mapping[str, Sequence[str]], shown: frozenset[Pair]) -> None:
        self._graph = graph
        self._shown = shown
        self._styles = styles(graph)
        self._parents = parents
        self._brokers = [name for name, kind in graph.kinds.items() if kind is not EntityKind.DEVICE]
        self._devices: dict[str, list[str]] = {name: [] for name in self._brokers}
        for link in graph.links:
            if graph.kinds[link.source] is EntityKind.DEVICE:
                self._devices[link.target].append(link.source)
        self._first = {device: broker for broker in reversed(self._brokers) for device in self._devices[broker]}
        sizes = {broker: self._size(broker) for broker in self._brokers}
        self._layout: PictureLayout = layout(sizes, parents, _GAP)

    def lines(self, title: str) -> Iterator[str]:
        """Yield the SVG, line by line."""
        legend = list(self._legend())
        legend_width = max((30 + len(text) * _SMALL * _LETTER for text, _ in legend), default=0)
        width = max(self._layout.width, legend_width, len(title) * 16 * _LETTER) + 2 * _MARGIN
        top = _MARGIN + 34
        below = top + self._layout.height + 30
        height = below + 20 * len(legend) + _MARGIN
        yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        yield f' height="{height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="{_FONT}">'
        yield f"<title>{escape(title)}</title>"
        yield "<defs>" + "".join(_arrowhead(at, style) for at, style in enumerate(self._styles.values())) + "</defs>"
        yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
        yield _text(_MARGIN, _MARGIN + 4, title, 16, "bold")
        yield f'<g transform="translate({_MARGIN} {top})">'
        yield from self._connections()
        for broker in self._brokers:
            yield from self._broker(broker)
        yield "</g>"
        for at, (text, style) in enumerate(legend):
            yield from _legend_line(_MARGIN, below + 20 * at, text, style)
        yield "</svg>"

    def _size(self, broker: str) -> Size:
        devices = self._devices[broker]
        if not devices:
            return _BROKER
        boxes = max(_box_width(self._caption(device, broker)) for device in devices)
        width = max(_BROKER.width, _BROKER.width + _TRUNK + _STUB + boxes)
        return Size(width, max(_BROKER.height, _ROW * len(devices)), _BROKER.anchor)

    # --- brokers and the devices beside them

    def _broker(self, broker: str) -> Iterator[str]:
        x, y = self._layout.corners[broker]
        middle, centre = x + _BROKER.width / 2, y + _BROKER.height / 2
        devices = self._devices[broker]
        if devices:
            trunk = x + _BROKER.width + _TRUNK
            first = y + max(0, _BROKER.height - _ROW * len(devices)) / 2
            ends = [first + _ROW * (at + 0.5) for at in range(len(devices))]
            lowest, highest = max(centre, *ends), min(centre, *ends)
            yield f'<path d="M{x + _BROKER.width:.0f} {centre:.0f}H{trunk:.0f}M{trunk:.0f} {highest:.0f}V{lowest:.0f}"'
            yield ' fill="none" stroke="#888" stroke-width="1.5"/>'
            for device, end in zip(devices, ends, strict=True):
                yield from self._device(device, broker, trunk, end)
        dash = ' stroke-dasharray="6 3"' if self._graph.kinds[broker] is EntityKind.FOREIGN else ""
        yield f'<ellipse cx="{middle:.0f}" cy="{centre:.0f}" rx="{_BROKER.width / 2:.0f}" ry="{_BROKER.height / 2:.0f}"'
        yield f' fill="#eef3f8" stroke="#333" stroke-width="1.5"{dash}/>'
        yield _text(middle, centre + 4, _short(broker, 15), _FONT, "bold", "middle", broker)

    def _device(self, device: str, broker: str, trunk: float, y: float) -> Iterator[str]:
        links = self._graph.by_ends
        for line in _lines(links.get((broker, device)), links.get((device, broker)), [(trunk, y), (trunk + _STUB, y)]):
            yield from self._draw(line)
        caption = self._caption(device, broker)
        x, width = trunk + _STUB, _box_width(caption)
        is_repeated = self._first[device] != broker
        border = ' stroke-dasharray="3 3"' if is_repeated else ""
        yield f'<rect x="{x:.0f}" y="{y - 16:.0f}" width="{width:.0f}" height="32" rx="3" fill="#fffdf5" stroke="#333"'
        yield f"{border}/>"
        yield _text(x + 8, y - 2, caption[0], _FONT, title=device)
        yield _text(x + 8, y + 11, caption[1], _SMALL, colour="#555")

    def _caption(self, device: str, broker: str) -> tuple[str, str]:
        """Return a device's name, and the types of its links with a broker."""
        publish, notify = (self._graph.by_ends.get(ends) for ends in ((device, broker), (broker, device)))
        types = [link.type for link in (publish, notify) if link is not None]
        by_direction = (("pub", publish), ("sub", notify))
        text = " / ".join(f"{word} {link.type}" for word, link in by_direction if link is not None)
        if len(set(types)) == 1:
            text = types[0]
        monitors = [self._monitors(link) for link in (publish, notify) if link is not None]
        name = f"{UNLISTED} (any other client)" if device == UNLISTED else _short(device)
        return name, _short(" ".join(filter(None, [text, *dict.fromkeys(monitors)])), 44)

    def _monitors(self, link: Link) -> str:
        return " ".join(f"◆ {monitor.name}" for monitor in self._graph.monitors.get(link[:2], ()))

    # --- connections between brokers

    def _connections(self) -> Iterator[str]:
        """Yield the lines between brokers, then their labels, so that no line crosses a label."""
        links, lines = self._graph.by_ends, dict[Pair, list[_LinkLine]]()
        for upper, lower in self._layout.columns:
            there, back = links.get((upper, lower)), links.get((lower, upper))
            lines[upper, lower] = list(_lines(there, back, self._points(upper, lower)))
            for line in lines[upper, lower]:
                yield from self._draw(line)
        for broker in self._brokers:
            yield from self._labels([lines[pair] for pair in self._connected(broker, 1)])

    def _labels(self, connections: Sequence[Sequence[_LinkLine]]) -> Iterator[str]:
        """Yield the labels of the connections that come to one broker: of several, those of the first to its left."""
        lift = 0.0
        for lines in reversed(connections[1:]):
            texts = self._names(lines)
            yield from _labels(texts, max(map(_lower_end, lines)), lift)
            lift += 14 * len(texts) + 4
        for lines in connections[:1]:
            ends = sorted(map(_lower_end, lines))
            is_left = len(connections) > 1
            yield from _labels(self._names(lines), ends[0 if is_left else -1], 0, is_left)

    def _connected(self, broker: str, end: Literal[0, 1]) -> list[Pair]:
        """Return the connections of which a broker is the upper (0) or the lower end (1), from left to right."""
        columns, corners = self._layout.columns, self._layout.corners
        pairs = [pair for pair in columns if pair[end] == broker]
        return sorted(pairs, key=lambda pair: columns[pair][-end] if columns[pair] else corners[pair[1 - end]][0])

    def _points(self, upper: str, lower: str) -> list[tuple[float, float]]:
        columns, tops = self._layout.columns[upper, lower], self._layout.tops
        down, up = self._connected(upper, 0), self._connected(lower, 1)
        x1, y1 = self._layout.corners[upper]
        x2, y2 = self._layout.corners[lower]
        first = self._layout.layers[upper] + 1
        points = [(x1 + _spread(down.index((upper, lower)), len(down)), y1 + _BROKER.height - 4)]
        points.append((points[0][0], tops[first] - _GAP + 10))
        for at, x in enumerate(columns, first):
            points += [(x, tops[at] - 20), (x, tops[at + 1] - _GAP + 10)]
        last = x2 + _spread(up.index((upper, lower)), len(up))
        return [*points, (last, y2 - 26), (last, y2 + 3)]

    def _names(self, lines: Sequence[_LinkLine]) -> list[tuple[str, str]]:
        """Return the types and monitors of a connection, each with a colour."""
        texts: list[tuple[str, str]] = []
        for line in lines:
            arrow = "↕" if len(line.links) == 2 else self._arrow(line.links[0])
            texts.append((f"{arrow} {line.links[0].type}", self._styles[line.links[0].type].colour))
            for link in line.links:
                names = [monitor.name for monitor in self._graph.monitors.get(link[:2], ())]
                texts += [(f"{self._arrow(link)} ◆ {name}", "#333") for name in names]
        return texts

    def _arrow(self, link: Link) -> str:
        return "↓" if self._layout.layers[link.source] < self._layout.layers[link.target] else "↑"

    def _draw(self, line: _LinkLine) -> Iterator[str]:
        link = line.links[0]
        style, number = self._styles[link.type], list(self._styles).index(link.type)
        bold = any(ends[:2] in self._shown for ends in line.links)
        dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
        start_marker = f' marker-start="url(#a{number})"' if len(line.links) == 2 else ""
        width = 4 if bold else 1.8
        title = escape("; ".join(f"{drawn}: {drawn.type} {self._monitors(drawn)}".strip() for drawn in line.links))
        yield f'<path d="{_curve(line.points)}" fill="none" stroke="{style.colour}" stroke-width="{width}"{dash}'
        yield f' marker-end="url(#a{number})"{start_marker}><title>{title}</title></path>'

    # --- what the signs mean

    def _legend(self) -> Iterator[tuple[str, Style | None]]:
        for name, style in self._styles.items():
            yield f"link type {name}", style
        if self._graph.monitors:
            yield "◆ an execution monitor on the link", None
        if any(kind is EntityKind.FOREIGN for kind in self._graph.kinds.values()):
            yield "dashed ellipse: a broker that is not ours", None
        if len(self._first) < sum(map(len, self._devices.values())):
            yield "dotted box: a device that is also connected elsewhere", None
        if self._shown:
            yield "bold: the flow that was asked for", None


def _lines(there: Link | None, back: Link | None, points: list[tuple[float, float]]) -> Iterator[_LinkLine]:
    """Yield the one or two lines of a connection along these points."""
    if there is not None and back is not None and there.type == back.type:
        yield _LinkLine(tuple(points), (there, back))
        return
    upright = points[0][0] == points[-1][0] or points[0][1] != points[-1][1]
    for link, side in ((there, 1), (back, -1)):
        if link is not None:
            dx, dy = (4.5 * side, 0.0) if upright else (0.0, 4.5 * side)
            moved = [(x + dx, y + dy) for x, y in points]
            yield _LinkLine(tuple(moved if side == 1 else moved[::-1]), (link,))


def _spread(at: int, of: int) -> float:
    """Return where on the broker's width the line number `at` of several comes in."""
    return _BROKER.width / 2 + (at - (of - 1) / 2) * min(26, (_BROKER.width - 40) / max(of - 1, 1))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a smooth way down through points."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        curve = f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
        path += f"L{x2:.1f} {y2:.1f}" if x1 == x2 or y1 == y2 else curve
    return path


def _arrowhead(number: int, style: Style) -> str:
    return (
        f'<marker id="a{number}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"'
        f' markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{style.colour}"/>'
        "</marker>"
    )


def _legend_line(x: float, y: float, text: str, style: Style | None) -> Iterator[str]:
    if style is not None:
        dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
        yield f'<path d="M{x:.0f} {y - 4:.0f}h46" stroke="{style.colour}" stroke-width="2.5"{dash}/>'
    yield _text(x + (56 if style is not None else 0), y, text, _SMALL)


def _lower_end(line: _LinkLine) -> tuple[float, float]:
    return max(line.points[0], line.points[-1], key=lambda point: point[1])


def _labels(
    texts: Sequence[tuple[str, str]], end: tuple[float, float], lift: float, left: bool = False
) -> Iterator[str]:
    """Yield labels above one another, to the right of the end of a line, or to the left."""
    x, y = end[0] + (-8 if left else 8), end[1] - 20 - lift
    for at, (text, colour) in enumerate(texts, 1 - len(texts)):
        shown = _short(text, 34)
        width = len(shown) * _SMALL * _LETTER
        start = x - width if left else x
        yield f'<rect x="{start:.0f}" y="{y + 14 * at - 10:.0f}" width="{width:.0f}" height="14" fill="white"'
        yield ' fill-opacity="0.8"/>'
        yield _text(x, y + 14 * at, shown, _SMALL, anchor="end" if left else "start", colour=colour)


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    weight: str = "normal",
    anchor: str = "start",
    title: str = "",
    colour: str = "#111",
) -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    attributes = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f"<text {attributes} fill={quoteattr(colour)}>{inner}{escape(text)}</text>"


def _box_width(caption: tuple[str, str]) -> float:
    return max(len(caption[0]) * _FONT, len(caption[1]) * _SMALL) * _LETTER + 20


def _short(text: str, longest: int = _MAX_LETTERS) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
