"""The report: medians of the runs, ratios to Mosquitto, the aims; as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.brokers import Broker
from benchmarks.drive import Measurement

REFERENCE = "mosquitto"
KIB = 1024


@dataclass(slots=True)
class Row:
    """One broker under one load: its runs, or why there are none."""

    load: str
    title: str
    broker: Broker
    reduced: bool
    runs: list[Measurement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def median(self, value: Callable[[Measurement], float | None]) -> float | None:
        """The median of one figure over the runs that have it."""
        values = [value_ for value_ in map(value, self.runs) if value_ is not None]
        return median(values) if values else None

    @property
    def lost(self) -> int | None:
        """The most that any run lost."""
        return max((value_.lost for value_ in self.runs), default=None)


@dataclass(frozen=True, slots=True)
class Figure:
    """One column: how it is got from a run, scaled, and printed."""

    heading: str
    value: Callable[[Measurement], float | None]
    scale: float
    digits: int


CPU = Figure("CPU us/msg", lambda run: run.cpu_per_message, 1e6, 2)
THROUGHPUT = Figure("delivered/s", lambda run: run.throughput, 1, 0)
MEMORY = Figure("KiB/conn", lambda run: run.bytes_per_connection, 1 / KIB, 2)
FIGURES = (
    CPU,
    THROUGHPUT,
    Figure("p50 ms", lambda run: run.p50, 1e3, 2),
    Figure("p99 ms", lambda run: run.p99, 1e3, 2),
    MEMORY,
)


@dataclass(frozen=True, slots=True)
class Aim:
    """An aim of issue 2 for penstock under one load: at most `limit`, absolute or relative to Mosquitto's figure."""

    load: str
    figure: Figure
    limit: float
    relative: bool
    durable: bool

    def __str__(self) -> str:
        unit = "x Mosquitto" if self.relative else self.figure.heading
        return f"{self.limit:g} {unit}"


AIMS = (
    Aim("bursts", CPU, 0.5, relative=True, durable=False),
    Aim("slow", CPU, 1.1, relative=True, durable=False),
    Aim("qos1", CPU, 2.0, relative=True, durable=True),
    Aim("idle", MEMORY, 12.0, relative=False, durable=False),
)


def _aim_of(row: Row) -> Aim | None:
    if row.broker.family != "penstock":
        return None
    for aim in AIMS:
        if aim.load == row.load and aim.durable == row.broker.durable:
            return aim
    return None


def _ratio(row: Row, figure: Figure, reference: Row | None) -> float | None:
    ours = row.median(figure.value)
    theirs = reference.median(figure.value) if reference else None
    return ours / theirs if ours is not None and theirs else None


def _verdict(row: Row, reference: Row | None) -> str:
    aim = _aim_of(row)
    if aim is None:
        return ""
    if aim.relative:
        reached = _ratio(row, aim.figure, reference)
    else:
        value = row.median(aim.figure.value)
        reached = None if value is None else value * aim.figure.scale
    if reached is None:
        return f"<= {aim}: not measured"
    return f"<= {aim}: {'met' if reached <= aim.limit else 'not met'}"


def _cell(row: Row, figure: Figure, reference: Row | None) -> str:
    value = row.median(figure.value)
    if value is None:
        return ""
    shown = f"{value * figure.scale:,.{figure.digits}f}"
    ratio = _ratio(row, figure, reference)
    return shown if row is reference or ratio is None else f"{shown} ({ratio:.2f}x)"


def _reference(row: Row, rows: Sequence[Row]) -> Row | None:
    return next((value_ for value_ in rows if value_.load == row.load and value_.broker.name == REFERENCE), None)


def table(rows: Sequence[Row]) -> str:
    """The results as a Markdown table with aligned columns."""
    heading = ["load", "broker", *(figure.heading for figure in FIGURES), "lost", "runs", "aim"]
    lines = [heading]
    for row in rows:
        reference = _reference(row, rows)
        figures = [_cell(row, figure, reference) for figure in FIGURES]
        name = f"{row.load}*" if row.reduced else row.load
        lost = "" if row.lost is None else f"{row.lost:,}"
        lines.append([name, row.broker.name, *figures, lost, str(len(row.runs)), _verdict(row, reference)])
    widths = [max(len(line[at]) for line in lines) for at in range(len(heading))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def legend(rows: Sequence[Row]) -> str:
    """Describe each load and broker of the table, and the problems."""
    titles = {f"{row.load}{'*' if row.reduced else ''}": row.title for row in rows}
    brokers = {row.broker.name: row.broker.title for row in rows}
    lines = [f"- {name}: {title}" for name, title in {**titles, **brokers}.items()]
    lines += [f"- {row.load}, {row.broker.name}: {note}" for row in rows for note in dict.fromkeys(row.notes)]
    return "\n".join(lines)


def document(rows: Sequence[Row], machine: dict[str, str]) -> str:
    """The whole report as Markdown."""
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    return f"# The node beside other brokers\n\n{table(rows)}\n\n{legend(rows)}\n\n{about}\n"


def write(rows: Sequence[Row], machine: dict[str, str], folder: Path) -> tuple[Path, Path]:
    """Write `node.md` and `node.json` (every run, not only medians) and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, data = folder / "node.md", folder / "node.json"
    markdown.write_text(document(rows, machine))
    records = [_record(row, rows) for row in rows]
    data.write_text(json.dumps({"machine": machine, "rows": records}, indent=1) + "\n")
    return markdown, data


def _record(row: Row, rows: Sequence[Row]) -> dict[str, object]:
    reference = _reference(row, rows)
    return {
        "load": row.load,
        "title": row.title,
        "broker": row.broker.name,
        "reduced": row.reduced,
        "medians": {figure.heading: _scaled(row, figure) for figure in FIGURES},
        "ratios": {figure.heading: _ratio(row, figure, reference) for figure in FIGURES},
        "lost": row.lost,
        "aim": _verdict(row, reference),
        "notes": row.notes,
        "runs": [asdict(run) for run in row.runs],
    }


def _scaled(row: Row, figure: Figure) -> float | None:
    value = row.median(figure.value)
    return None if value is None else value * figure.scale
