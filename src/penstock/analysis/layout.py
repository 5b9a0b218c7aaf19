"""The layout of the picture of an ensemble: brokers in layers, those that are dialled above those that dial.

Each broker has a box of its own size. A connection that spans several layers keeps a free column in those between, so
that its line crosses no broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BETWEEN = 44
"""Free space between two boxes of a layer."""
COLUMN = 18
"""Width of the free column that a long connection keeps."""
_SWEEPS = 6


class Size(NamedTuple):
    """The size of a broker's box, and the distance of its lines from its left edge."""

    width: float
    height: float
    anchor: float


@dataclass(frozen=True)
class PictureLayout:
    """The corners of boxes, and the corners of the lines between them."""

    corners: Mapping[str, tuple[float, float]]
    """For each broker the left upper corner of its box."""
    columns: Mapping[tuple[str, str], tuple[float, ...]]
    """For each connection, upper broker first, the x of its free columns, from above to below."""
    tops: Sequence[float]
    """For each layer its upper edge."""
    layers: Mapping[str, int]
    width: float
    height: float


def layout(sizes: Mapping[str, Size], parents: Mapping[str, Sequence[str]], gap: float) -> PictureLayout:
    """Place the boxes; `parents` has for each broker those that it dials, `gap` is the room between layers."""
    layers = _layers(sizes, parents)
    edges = [_downwards(layers, child, parent) for child in sizes for parent in parents.get(child, ())]
    rows, steps = _rows(layers, edges)
    _untangle(rows, steps)
    free = Size(COLUMN, 0, COLUMN / 2)
    boxes = {slot: sizes[slot] if isinstance(slot, str) else free for row in rows for slot in row}
    left = _pack(rows, steps, boxes)
    tops, top = [], 0.0
    for row in rows:
        tops.append(top)
        top += max(boxes[slot].height for slot in row) + gap
    return PictureLayout(
        corners={name: (left[name], tops[layers[name]]) for name in sizes},
        columns={
            (upper, lower): tuple(left[upper, lower, at] + COLUMN / 2 for at in range(layers[upper] + 1, layers[lower]))
            for upper, lower in edges
        },
        tops=tops,
        layers=layers,
        width=max((left[slot] + box.width for slot, box in boxes.items()), default=0),
        height=top - gap,
    )


_Slot = str | tuple[str, str, int]
"""A broker, or the free column of a connection in a layer."""


def _layers(names: Mapping[str, Size], parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the layer of each broker, below all that it dials; in a cycle one connection is reversed."""
    layers: dict[str, int] = {}
    entered: set[str] = set()

    def place(name: str) -> int:
        if name not in layers:
            entered.add(name)
            above = [parent for parent in parents.get(name, ()) if parent in layers or parent not in entered]
            layers[name] = max((place(parent) + 1 for parent in above), default=0)
        return layers[name]

    for name in names:
        place(name)
    return layers


def _downwards(layers: Mapping[str, int], a: str, b: str) -> tuple[str, str]:
    return (a, b) if layers[a] < layers[b] else (b, a)


def _rows(
    layers: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[_Slot]], list[tuple[_Slot, _Slot]]]:
    """Return the slots of each layer, and the connections between neighbouring layers."""
    rows: list[list[_Slot]] = [[] for _ in range(1 + max(layers.values(), default=-1))]
    for name, at in layers.items():
        rows[at].append(name)
    steps: list[tuple[_Slot, _Slot]] = []
    for upper, lower in edges:
        before: _Slot = upper
        for at in range(layers[upper] + 1, layers[lower]):
            slot = (upper, lower, at)
            rows[at].append(slot)
            steps.append((before, slot))
            before = slot
        steps.append((before, lower))
    return rows, steps


def _untangle(rows: list[list[_Slot]], steps: Sequence[tuple[_Slot, _Slot]]) -> None:
    """Order each layer by the mean place of what it is joined to in the next one, downwards and upwards in turn."""
    for sweep in range(_SWEEPS):
        way = 1 if sweep % 2 == 0 else -1
        for at in range(1, len(rows))[::way] if way == 1 else range(len(rows) - 1)[::way]:
            place = {slot: float(number) for number, slot in enumerate(rows[at - way])}
            order = {slot: float(number) for number, slot in enumerate(rows[at])} | _joined(rows[at], steps, place)
            rows[at].sort(key=order.__getitem__)


def _joined(
    row: Sequence[_Slot], steps: Sequence[tuple[_Slot, _Slot]], value: Mapping[_Slot, float]
) -> dict[_Slot, float]:
    """Return for each slot of a row the mean value of the slots that it is connected to."""
    values: dict[_Slot, list[float]] = {}
    for a, b in steps:
        for slot, other in ((a, b), (b, a)):
            if other in value:
                values.setdefault(slot, []).append(value[other])
    return {slot: sum(values[slot]) / len(values[slot]) for slot in row if slot in values}


def _pack(
    rows: Sequence[Sequence[_Slot]], steps: Sequence[tuple[_Slot, _Slot]], boxes: Mapping[_Slot, Size]
) -> dict[_Slot, float]:
    """Return the left edge of each slot: such that lines are as upright as they can be without overlap of boxes."""
    left = dict.fromkeys(boxes, 0.0)
    for _ in range(_SWEEPS):
        for row in rows:
            anchors = {slot: left[slot] + box.anchor for slot, box in boxes.items()}
            target = {slot: x - boxes[slot].anchor for slot, x in _joined(row, steps, anchors).items()}
            _place(row, target, boxes, left)
    least = min(left.values(), default=0.0)
    return {slot: x - least for slot, x in left.items()}


def _place(
    row: Sequence[_Slot], target: Mapping[_Slot, float], boxes: Mapping[_Slot, Size], left: dict[_Slot, float]
) -> None:
    """Place a row: each as wanted or further right, then all of them back by what they are off on average."""
    free = float("-inf")
    for slot in row:
        left[slot] = max(free, target.get(slot, left[slot]))
        free = left[slot] + boxes[slot].width + BETWEEN
    off = [left[slot] - target.get(slot, left[slot]) for slot in row]
    for slot in row:
        left[slot] -= sum(off) / len(off)
