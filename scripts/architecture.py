"""Draws the pictures of `docs/architecture.md` from the code: an event's way, and who imports from whom.

Run `python -m scripts.architecture` after a change to the tuple of stages, to the table of entrances or to imports
between folders; tests compare the files with what this would draw.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import grimp

from penstock.engine.stages import runner

DOCS = Path(__file__).parent.parent / "docs"
OWNERS = "owners of state"
"""Stands for all modules of the engine that are below the node."""
_STYLE = """
  text { font: 15px sans-serif; fill: #1f2328; }
  .name { font-weight: 600; }
  .code { font-family: monospace; font-size: 14px; }
  .small { font-size: 13.5px; fill: #57606a; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  .event { fill: #ddf4ff; stroke: #0969da; }
  .delivery { fill: #dafbe1; stroke: #1a7f37; }
  .part { fill: none; stroke: #8c959f; stroke-width: 1.5; }
  .line { fill: none; stroke: #57606a; stroke-width: 1.5; }
  .waited { stroke-dasharray: 5 4; }
  .head { fill: #57606a; }
  .row { fill: #f6f8fa; }
  .own { fill: #d0d7de; }
  .down { fill: #0969da; }
  .up { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #a5adb8; }
    .page { fill: #0d1117; stroke: #30363d; }
    .event { fill: #12304f; stroke: #58a6ff; }
    .delivery { fill: #12351f; stroke: #3fb950; }
    .part { stroke: #8b949e; }
    .line { stroke: #a5adb8; }
    .head { fill: #a5adb8; }
    .row { fill: #161b22; }
    .own { fill: #30363d; }
    .down { fill: #58a6ff; }
    .up { fill: #ff7b72; }
  }
"""


class Imports(NamedTuple):
    """Who imports from whom, below one package."""

    names: tuple[str, ...]
    """In an order in which as few imports as possible point upwards."""
    pairs: frozenset[tuple[str, str]]


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
            ' orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            *parts,
            "</svg>\n",
        )
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'


def _arrow(path: str, kind: str = "") -> str:
    return f'<path class="line {kind}" d="{path}" marker-end="url(#head)"/>'


# --- the way of an event

_WIDTH, _LEFT, _BOX, _BOX_HEIGHT, _LINE = 850, 356, 130, 34, 18
_WAITED = ("retained", "delayed", "queued", "resent")


class _Row(NamedTuple):
    """A stage in the picture."""

    name: str
    top: float
    height: float

    @property
    def middle(self) -> float:
        """Where its box has its middle."""
        return self.top + self.height / 2


def draw_way() -> str:
    """Return the picture of the stages, with the entrances beside them and the two loops around them."""
    rows, top = [], 72.0
    for name in runner.names():
        lines = sum(len(_entrance_lines(entry)) for entry in _entries(name))
        height = max(50.0, lines * _LINE + len(_entries(name)) * 8 + 8)
        rows.append(_Row(name, top, height))
        top += height
    first = next(place for place, stage in enumerate(runner.STAGES) if _plans(stage, "end_link_part"))
    parts = [
        _text(_LEFT - 24, 40, "entrances", "name", "end"),
        _text(_LEFT + _BOX / 2, 40, "stages", "name", "middle"),
        _text(_LEFT + _BOX + 38, 40, "loops of stages/runner.py", "name"),
        *_stages(rows, first),
        *_loops(rows, first),
    ]
    middle, end = _LEFT + _BOX / 2, rows[-1].top + rows[-1].height
    parts += [
        _arrow(f"M{middle:g} {rows[-1].middle + _BOX_HEIGHT / 2:g} V{end + 26:g}"),
        _text(middle, end + 46, "the session's window and queue, then its connection", "small", "middle"),
        _text(middle, end + 70, "dashed: what has waited; all stages are asked about it again", "small", "middle"),
    ]
    return _svg(_WIDTH, int(end + 92), "The way of an event through a node", parts)


def _plans(stage: object, call: str) -> bool:
    """Whether the `plan` of a stage calls a method of the draft."""
    return f"draft.{call}(" in inspect.getsource(stage.plan)  # type: ignore[attr-defined]


def _entries(stage: str) -> list[str]:
    return [name for name, entrance in runner.ENTRANCES.items() if entrance.stage == stage]


def _entrance_lines(name: str) -> list[str]:
    return wrap(f"{name}: {runner.ENTRANCES[name].what}", 38)


def _stages(rows: list[_Row], first: int) -> Iterable[str]:
    for place, row in enumerate(rows):
        kind = "event" if place <= first else "delivery"
        yield _box(_LEFT, row.middle - _BOX_HEIGHT / 2, _BOX, _BOX_HEIGHT, kind)
        yield _text(_LEFT + _BOX / 2, row.middle + 5, f"{place + 1}  {row.name}", "name", "middle")
        if place:
            above = rows[place - 1].middle + _BOX_HEIGHT / 2
            yield _arrow(f"M{_LEFT + _BOX / 2:g} {above:g} V{row.middle - _BOX_HEIGHT / 2:g}")
        yield from _entrances(row)


def _entrances(row: _Row) -> Iterable[str]:
    entries = _entries(row.name)
    lines = sum(len(_entrance_lines(name)) for name in entries)
    y = row.middle - (lines * _LINE + (len(entries) - 1) * 8) / 2
    step = _BOX_HEIGHT / (len(entries) + 1)
    for place, name in enumerate(entries):
        told = _entrance_lines(name)
        at = y + len(told) * _LINE / 2
        for line in told:
            y += _LINE
            head, _, tail = line.partition(":")
            if line is told[0]:
                said = f'<tspan class="name">{escape(head)}</tspan>:{escape(tail)}'
                yield f'<text class="small" x="{_LEFT - 56}" y="{y - 5:g}" text-anchor="end">{said}</text>'
            else:
                yield _text(_LEFT - 56, y - 5, line, "small", "end")
        y += 8
        to = row.middle - _BOX_HEIGHT / 2 + step * (place + 1)
        yield _arrow(f"M{_LEFT - 52} {at:g} L{_LEFT - 2} {to:g}", "waited" if name in _WAITED else "")


def _loops(rows: list[_Row], first: int) -> Iterable[str]:
    x = _LEFT + _BOX + 14
    until_edit, match, rest = rows[:first], rows[first], rows[first + 1 :]
    yield from _loop(x, until_edit[0], until_edit[-1], ("once for each event", "run(passage)"))
    yield from _loop(x, match, match, ("once for each event that edit yields", "run(passage)"))
    yield from _loop(x, rest[0], rest[-1], ("once for each delivery", "deliver(delivery, steps)"))
    notes = {
        first - 2: "A step lets the event pass, stops it, replaces it, or puts several events in its place.",
        first + 2: "events/fan_out.py makes one delivery for each receiver that the plan names.",
        first + 4: "A step lets the delivery pass, stops it, shows the receiver another form of the event, holds it"
        " until later, or puts several deliveries in its place.",
        first + 6: "explain, policy tests and the console run the same loops with an observer and without effects."
        " The journal records the real run.",
    }
    for place, note in notes.items():
        for at, line in enumerate(wrap(note, 44)):
            yield _text(x + 24, rows[place].middle - 4 + at * _LINE, line, "small")


def _loop(x: float, begin: _Row, end: _Row, about: tuple[str, str]) -> Iterable[str]:
    top, bottom = begin.middle - _BOX_HEIGHT / 2, end.middle + _BOX_HEIGHT / 2
    yield f'<path class="part" d="M{x:g} {top:g} h10 V{bottom:g} h-10"/>'
    yield _text(x + 24, begin.middle - 2, about[0], "name")
    yield _text(x + 24, begin.middle + 17, about[1], "code")


# --- who imports from whom


def find_imports(package: str, unit: Callable[[str], str]) -> Imports:
    """Return who imports from whom among the units of a package, also where only types are meant."""
    graph = grimp.build_graph("penstock", cache_dir=None)
    inside = sorted(name for name in graph.modules if name.startswith(f"{package}.") and "__main__" not in name)
    pairs = {
        (unit(importer), unit(imported))
        for importer in inside
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported.startswith(f"{package}.")
    }
    pairs = {pair for pair in pairs if pair[0] != pair[1]}
    return Imports(_downwards(sorted({unit(name) for name in inside}), pairs), frozenset(pairs))


def _folder(module: str) -> str:
    return f"{module.split('.')[1]}/"


def _room(module: str) -> str:
    """Return the room of a module of the engine, or all owners of state for one that the contract of imports lists."""
    inside = module.removeprefix("penstock.engine.")
    if inside in _owners():
        return OWNERS
    room = inside.split(".")[0]
    return f"{room}/" if (Path(runner.__file__).parents[1] / room).is_dir() else f"{room}.py"


@cache
def _owners() -> frozenset[str]:
    """Return the modules below the node, by the contract of import-linter."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["penstock.engine"])
    return frozenset(layers[layers.index("node") + 1].split(" : "))


def _downwards(names: list[str], pairs: set[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names in an order that has as few imports upwards as moving single names can reach."""
    weight = {name: sum(pair[0] == name for pair in pairs) - sum(pair[1] == name for pair in pairs) for name in names}
    order = sorted(names, key=lambda name: (-weight[name], name))
    least = _upwards(order, pairs)
    is_better = True
    while is_better:
        is_better = False
        for name in sorted(names):
            rest = [other for other in order if other != name]
            for place in range(len(names)):
                moved = [*rest[:place], name, *rest[place:]]
                if _upwards(moved, pairs) < least:
                    order, least, is_better = moved, _upwards(moved, pairs), True
    return tuple(order)


def _upwards(order: list[str], pairs: set[tuple[str, str]]) -> int:
    place = {name: at for at, name in enumerate(order)}
    return sum(
        place[importer] > place[imported] for importer, imported in pairs if {importer, imported} <= place.keys()
    )


def draw_imports(package: str, unit: Callable[[str], str]) -> str:
    """Return the table of who imports from whom: a dot where the unit of the row imports from that of the column."""
    names, pairs = find_imports(package, unit)
    cell, longest = 34, max(map(len, names))
    left, top = longest * 9 + 28, longest * 7 + 28
    width, height = left + cell * len(names) + longest * 6, top + cell * len(names) + 66
    parts = []
    for at, name in enumerate(names):
        middle = at * cell + cell / 2
        parts.append(_box(left, top + at * cell + 1, cell * len(names), cell - 2, "row"))
        parts.append(_box(left + at * cell + 2, top + at * cell + 2, cell - 4, cell - 4, "own"))
        parts.append(_text(left - 12, top + middle + 5, name, "name", "end"))
        turned = f"translate({left + middle + 5:g} {top - 10}) rotate(-50)"
        parts.append(f'<text class="name" transform="{turned}">{escape(name)}</text>')
    for row, importer in enumerate(names):
        for column, imported in enumerate(names):
            if (importer, imported) in pairs:
                kind = "down" if row < column else "up"
                x, y = left + (column + 0.5) * cell, top + (row + 0.5) * cell
                parts.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="6.5"/>')
    bottom = top + cell * len(names)
    parts.append(_text(left, bottom + 28, "A dot: the row imports from the column.", "small"))
    parts.append(
        _text(left, bottom + 48, "Blue: downwards in this order. Red: upwards, where folders form a cycle.", "small")
    )
    return _svg(width, height, f"Imports in {package}", parts)


PICTURES: dict[str, Callable[[], str]] = {
    "way-of-an-event.svg": draw_way,
    "folders.svg": lambda: draw_imports("penstock", _folder),
    "rooms-of-engine.svg": lambda: draw_imports("penstock.engine", _room),
}


def main() -> None:
    """Write the pictures."""
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
