"""The results in words, tables and bars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.reproduce.sparkplug.deployments import NOAC, SETS
from benchmarks.reproduce.sparkplug.scaling import READERS, SIZES, Cost

KINDS = ("NBIRTH", "DBIRTH", "NDATA", "DDATA")
AIM = 1.0
"""Milliseconds that enforcement may add, by the median."""
_COLOURS = {"NBIRTH": "#0072b2", "DBIRTH": "#56b4e9", "NDATA": "#d55e00", "DDATA": "#e69f00"}


@dataclass(frozen=True)
class Round:
    """One deployment with one policy set: seconds that messages took to the secondary application."""

    experiment: int
    deployment: str
    number: int
    repeat: int
    times: dict[str, list[float]]
    cpu: float
    """Processor time of the node while it was played, in seconds."""
    took: float
    """Seconds that it was played."""
    memory: int
    """Resident memory of the node afterwards, in bytes."""
    load: float = 1
    """Times the reports of the deployment."""

    def medians(self) -> dict[str, float]:
        """Milliseconds by message type."""
        return {kind: round(median(self.times[kind]) * 1000, 3) for kind in KINDS if self.times.get(kind)}


def _of(rounds: Sequence[Round], experiment: int, deployment: str, number: int, kind: str) -> list[float]:
    return [
        time_ * 1000
        for round_ in rounds
        if (round_.experiment, round_.deployment, round_.number, round_.load) == (experiment, deployment, number, 1)
        for time_ in round_.times.get(kind, ())
    ]


def _places(rounds: Sequence[Round]) -> list[tuple[int, str]]:
    return list(dict.fromkeys((round_.experiment, round_.deployment) for round_ in rounds))


def overheads(rounds: Sequence[Round]) -> dict[tuple[int, str, int, str], float]:
    """Milliseconds that each policy set adds to the median, by experiment, deployment, set and message type."""
    times = {}
    for place in _places(rounds):
        for number in SETS[1:]:
            for kind in KINDS:
                with_, without = (_of(rounds, *place, time_, kind) for time_ in (number, NOAC))
                if with_ and without:
                    times[*place, number, kind] = median(with_) - median(without)
    return times


def table(rounds: Sequence[Round]) -> str:
    """Medians, and in parentheses what they are above those without enforcement."""
    lines = ["| experiment | set | " + " | ".join(KINDS) + " |", "| --- | --- |" + " --- |" * len(KINDS)]
    added = overheads(rounds)
    for experiment, deployment in _places(rounds):
        for number in SETS:
            cells = []
            for kind in KINDS:
                times = _of(rounds, experiment, deployment, number, kind)
                more = added.get((experiment, deployment, number, kind))
                cells.append(f"{median(times):.2f}" + (f" ({more:+.2f})" if more is not None else "") if times else "")
            name = "NOAC" if number == NOAC else f"PS{number}"
            lines.append(f"| {experiment} {deployment} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def resources(rounds: Sequence[Round]) -> str:
    """Processor time of the node for a second, and its memory, by the median of the repeats."""
    sets = ["NOAC" if number == NOAC else f"PS{number}" for number in SETS]
    heads = [f"{what} {name}" for what in ("processor, ms/s", "memory, MB") for name in sets]
    lines = [f"| experiment | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for place in _places(rounds):
        own = [[round_ for round_ in rounds if _is_of(round_, place, number)] for number in SETS]
        cells = [f"{median(round_.cpu / round_.took for round_ in each) * 1000:.0f}" if each else "" for each in own]
        cells += [f"{median(round_.memory for round_ in each) / 1e6:.1f}" if each else "" for each in own]
        lines.append(f"| {place[0]} {place[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _is_of(round_: Round, place: tuple[int, str], number: int) -> bool:
    return (round_.experiment, round_.deployment, round_.number, round_.load) == (*place, number, 1)


def loads(rounds: Sequence[Round]) -> str:
    """The first deployment with more reports: milliseconds of those of devices, processor time for a second, memory."""
    lines = ["| load | set | reports/s | DDATA, ms | processor, ms/s | memory, MB |", "| --- |" + " --- |" * 5]
    for load, number in dict.fromkeys((round_.load, round_.number) for round_ in rounds if round_.load != 1):
        own = [round_ for round_ in rounds if (round_.load, round_.number) == (load, number)]
        times = [time_ * 1000 for round_ in own for time_ in round_.times.get("DDATA", ())]
        seconds = sum(round_.took for round_ in own)
        count = sum(len(round_.times.get(kind, ())) for round_ in own for kind in ("NDATA", "DDATA"))
        share, memory = sum(round_.cpu for round_ in own) / seconds, median(round_.memory for round_ in own)
        cells = (f"{count / seconds:.0f}", f"{median(times):.2f}" if times else "", f"{share * 1000:.0f}")
        name = "NOAC" if number == NOAC else f"PS{number}"
        lines.append(f"| {load:g} | {name} | {' | '.join(cells)} | {memory / 1e6:.1f} |")
    return "\n".join(lines)


def scaling(costs: Sequence[Cost]) -> str:
    """Processor time of a report against policies and readers."""
    lines = ["| | policies | readers | us for a message |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {round_.title} | {round_.policies:,} | {round_.readers} | {round_.seconds * 1e6:.0f} |" for round_ in costs
    ]
    return "\n".join(lines)


def aims(rounds: Sequence[Round], costs: Sequence[Cost]) -> str:
    """Return the aims of issue 6, and whether they were met."""
    sentences = []
    added = overheads(rounds)
    if added:
        worst = max(added, key=lambda key: added[key])
        where = f"experiment {worst[0]} {worst[1]}, PS{worst[2]}, {worst[3]}"
        verdict = "met" if added[worst] < AIM else "NOT met"
        sentences.append(f"- largest median overhead: {added[worst]:.2f} ms ({where}); aim < {AIM:g} ms: {verdict}")
    by = {(round_.title, round_.policies, round_.readers): round_.seconds for round_ in costs}
    if by:
        few, many = by["policies", SIZES[0], 1], by["policies", SIZES[-1], 1]
        sentences.append(f"- {SIZES[-1]:,} policies cost {many / few:.2f} times what {SIZES[0]:,} do")
        added_by = {
            count: by["readers", SIZES[0], count] - by["readers without policies", 0, count] for count in READERS
        }
        ratio = added_by[READERS[-1]] / added_by[READERS[0]]
        sentences.append(
            f"- enforcement for {READERS[-1]} readers of the same rights costs {ratio:.1f} times that for one"
        )
    return "\n".join(sentences)


def write(rounds: Sequence[Round], costs: Sequence[Cost], machine: dict[str, str], folder: Path) -> list[Path]:
    """The report, every figure, and the bars."""
    page, data = folder / "sparkplug.md", folder / "sparkplug.json"
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    page.write_text(
        f"# Sparkplug access control, Fig. 2 again\n\n{about}\n\n{aims(rounds, costs)}\n\n"
        f"Median milliseconds to the secondary application.\n\n{table(rounds)}\n\n{resources(rounds)}\n\n"
        f"{loads(rounds)}\n\n{scaling(costs)}\n"
    )
    data.write_text(
        json.dumps({"rounds": [asdict(round_) for round_ in rounds], "costs": [round_._asdict() for round_ in costs]})
    )
    return [page, data, *_draw(rounds, folder)]


def _draw(rounds: Sequence[Round], folder: Path) -> list[Path]:
    experiments = sorted({round_.experiment for round_ in rounds})
    if not experiments:
        return []
    paths = []
    with rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        figure = Figure(figsize=(14, 4.2 * len(experiments)), layout="constrained")
        panels = figure.subplots(len(experiments), 1, squeeze=False)[:, 0]
        for experiment, panel in zip(experiments, panels, strict=True):
            names: list[tuple[float, str]] = []
            at = 0.0
            for _, deployment in [place for place in _places(rounds) if place[0] == experiment]:
                for number in SETS:
                    for step, kind in enumerate(KINDS):
                        times = _of(rounds, experiment, deployment, number, kind)
                        if times:
                            label = kind if not names else None
                            panel.bar(at + step * 0.2, fmean(times), 0.2, color=_COLOURS[kind], label=label)
                    names.append((at + 0.3, f"{deployment}\n{'NOAC' if number == NOAC else f'PS{number}'}"))
                    at += 1
                at += 0.5
            panel.set_xticks([place for place, _ in names], [name for _, name in names], fontsize=7)
            panel.set_ylabel("mean transmission time, ms")
            panel.set_title(f"Experiment {experiment}")
            panel.legend(ncols=4, frameon=False)
            panel.grid(axis="y", color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
        for kind in ("svg", "png"):
            paths.append(folder / f"transmission-time.{kind}")
            figure.savefig(paths[-1], dpi=130)
    return paths
