"""The results as Markdown for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.reproduce.brokering.configurations import Configuration, selected
from benchmarks.reproduce.brokering.results import PAIRS, Results
from benchmarks.reproduce.brokering.rounds import Round

TITLE = "Fig. 6 of the brokering paper, done again"

_Cell = Callable[[Results, Configuration, int, int], str]


def write(results: Results, notes: Sequence[str], machine: dict[str, str], folder: Path) -> list[Path]:
    """Write `brokering.md` and `brokering.json` (every round, not only medians) and return their paths."""
    markdown, data = folder / "brokering.md", folder / "brokering.json"
    markdown.write_text(document(results, notes, machine))
    data.write_text(json.dumps(_record(results, notes, machine), indent=1) + "\n")
    return [markdown, data]


def read(folder: Path) -> tuple[Results, list[str], dict[str, str]]:
    """Read what `write` has written there: results, notes and the machine."""
    data = json.loads((folder / "brokering.json").read_text())
    rounds = tuple(Round(**{**item, "cpu": tuple(item["cpu"])}) for item in data["rounds"])
    configurations = selected(list(dict.fromkeys(item.configuration for item in rounds)))
    scenarios = tuple(sorted({item.brokers for item in rounds}))
    return Results(configurations, scenarios, rounds), data["notes"], data["machine"]


def document(results: Results, notes: Sequence[str], machine: dict[str, str]) -> str:
    """The whole report."""
    parts = [
        f"# {TITLE}",
        aims(results),
        "![throughput](throughput.svg)",
        "## Throughput",
        "Messages a second that arrived within the round, in thousands: the median of the repeats. In brackets: the"
        " most messages that a repeat lost for good. No figure: not run, since it was left behind at lower rates.",
        *(_scenario(results, brokers, _throughput_cell) for brokers in results.scenarios),
        "## Capacity",
        "The highest rate, in thousand messages a second, that a chain kept up with (99 % within the round, nothing"
        " lost, in most repeats) / up to which no repeat lost anything / that it could keep up with if each broker had"
        " a processor of its own, by the processor time of its busiest broker (reckoned, not measured).",
        _capacities(results),
        "![processor time](processor-time.svg)",
        "## Processor time",
        "Of all brokers of the chain, in microseconds for each message that arrived: the median of the repeats in which"
        " at least 90 % arrived within the round and nothing was lost.",
        *(_scenario(results, brokers, _cpu_cell) for brokers in results.scenarios),
        "Of each broker, the first first, at one rate:",
        _cpu_of_each(results),
        "## Ratios of processor time",
        "Of two rounds of the same repeat and rate, over all such pairs in which neither chain was left behind and"
        " others used about as much of the machine: the median, and in brackets between what bounds it is with a"
        " probability of 95 %.",
        ratios(results),
        "## Configurations",
        "\n".join(f"- {item.name}: {item.title}" for item in results.configurations),
        "## Circumstances",
        _circumstances(results, machine),
        "\n".join(f"- {note}" for note in dict.fromkeys(notes)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def aims(results: Results) -> str:
    """The aims and what became of them."""
    return _table([["aim", "found"], *([aim, result] for aim, result in results.aims())])


def ratios(results: Results) -> str:
    """Each pair, in each scenario and in all."""
    lines = [["processor time", *(_brokers(item) for item in results.scenarios), "all", "pairs of rounds"]]
    for first, other in PAIRS:
        whole = results.ratio(first, other)
        if whole is not None:
            item = [str(results.ratio(first, other, brokers) or "") for brokers in results.scenarios]
            lines.append([f"{first.name} / {other.name}", *item, str(whole), str(whole.count)])
    return _table(lines)


def _scenario(results: Results, brokers: int, cell: _Cell) -> str:
    shown = results.configurations
    lines = [[f"{_brokers(brokers)}, rate", *(item.name for item in shown)]]
    for rate in results.rates(brokers):
        lines.append([f"{rate / 1000:g}", *(cell(results, item, brokers, rate) for item in shown)])
    return _table(lines)


def _throughput_cell(results: Results, configuration: Configuration, brokers: int, rate: int) -> str:
    reached = results.throughput(configuration, brokers, rate)
    if reached is None:
        return ""
    lost = results.lost(configuration, brokers, rate)
    return f"{reached / 1000:.2f}" + (f" ({lost:,} lost)" if lost else "")


def _cpu_cell(results: Results, configuration: Configuration, brokers: int, rate: int) -> str:
    cpu = results.cpu(configuration, brokers, rate)
    return f"{sum(cpu) * 1e6:.1f}" if cpu else ""


def _capacities(results: Results) -> str:
    lines = [["", *(_brokers(item) for item in results.scenarios)]]
    for configuration in results.configurations:
        cells = []
        for brokers in results.scenarios:
            kept_up = results.kept_up_to(configuration, brokers)
            lossless = results.lossless_to(configuration, brokers)
            busiest = max(results.cpu(configuration, brokers, kept_up), default=0.0)
            alone = f"{1 / busiest / 1000:.0f}" if busiest else "?"
            cells.append(f"{kept_up / 1000:g} / {lossless / 1000:g} / {alone}")
        lines.append([configuration.name, *cells])
    return _table(lines)


def _cpu_of_each(results: Results) -> str:
    lines = [["", *(f"{_brokers(item)} (rate)" for item in results.scenarios)]]
    for configuration in results.configurations:
        cells = []
        for brokers in results.scenarios:
            rate = results.compared_rate(configuration, brokers)
            item = " + ".join(f"{cpu * 1e6:.1f}" for cpu in results.cpu(configuration, brokers, rate))
            cells.append(f"{item} ({rate / 1000:g})" if item else "")
        lines.append([configuration.name, *cells])
    return _table(lines)


def _circumstances(results: Results, machine: dict[str, str]) -> str:
    lines = [f"- {name}: {value}" for name, value in machine.items()]
    if results.rounds:
        others = [item.others_busy for item in results.rounds]
        generator = max(item.generator_busy for item in results.rounds)
        lines.append(
            f"- others used {median(others):.0%} of the machine in the median round, {max(others):.0%} at most"
        )
        lines.append(f"- the generator used {generator:.0%} of one processor at most")
    return "\n".join(lines)


def _brokers(count: int) -> str:
    return f"{count} broker{'s' if count > 1 else ''}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    rows = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in rows)


def _record(results: Results, notes: Sequence[str], machine: dict[str, str]) -> dict[str, object]:
    result = []
    for first, other in PAIRS:
        for brokers in (*results.scenarios, None):
            ratio = results.ratio(first, other, brokers)
            if ratio is not None:
                result.append({"of": first.name, "to": other.name, "brokers": brokers, **asdict(ratio)})
    return {
        "machine": machine,
        "aims": [{"aim": aim, "found": result} for aim, result in results.aims()],
        "ratios": result,
        "notes": list(notes),
        "rounds": [asdict(item) for item in results.rounds],
    }
