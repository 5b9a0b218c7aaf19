"""`python -m benchmarks.reproduce.statements`: the figures of the statements paper."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.drive import sharpen_timers
from benchmarks.machine import allow_open_files, describe, end_like_interrupted
from benchmarks.reproduce.statements import (
    authentication,
    draw,
    firewall,
    flooding,
    idle,
    mobile,
    report,
    served,
    tracing,
    trimming,
)

OUTPUT = Path("var/bench/statements")


class Extent(NamedTuple):
    """The extent of the measurement."""

    rounds: int = 41
    is_quick: bool = False


Done = tuple[str, list[Path]]
"""A table, and the files that were drawn."""


def _trimming(extent: Extent, folder: Path) -> Done:
    measured = trimming.measure(5, 5) if extent.is_quick else trimming.measure()
    return report.tell_trimming(measured), draw.draw_trimming(measured, folder)


def _mobile(extent: Extent, folder: Path) -> Done:
    measured = mobile.measure(2) if extent.is_quick else mobile.measure()
    return report.tell_mobile(measured), draw.draw_mobile(measured, folder)


def _authentication(extent: Extent, folder: Path) -> Done:
    measured = authentication.measure(extent.rounds, 10 if extent.is_quick else authentication.PUBLICATIONS)
    return report.tell_authentication(measured), draw.draw_authentication(measured, folder)


def _firewall(extent: Extent, folder: Path) -> Done:
    measured = firewall.measure(0.3) if extent.is_quick else firewall.measure()
    return report.tell_firewall(measured), draw.draw_firewall(measured, folder)


def _tracing(extent: Extent, folder: Path) -> Done:
    count = 50 if extent.is_quick else tracing.PUBLICATIONS
    size = 500 if extent.is_quick else tracing.SUBSCRIPTIONS
    published = tracing.publications(extent.rounds, count, size)
    inserted = tracing.subscriptions(max(3, extent.rounds // 8), size)
    on_sockets = served.measure(*((1, 20, 500) if extent.is_quick else (extent.rounds // 2, served.PUBLICATIONS)))
    return report.tell_tracing(published, inserted, on_sockets), draw.draw_tracing(published, inserted, folder)


def _flooding(extent: Extent, folder: Path) -> Done:
    counts = (50, 10) if extent.is_quick else (flooding.PUBLICATIONS, flooding.SUBSCRIPTIONS)
    published, inserted = flooding.measure(extent.rounds, *counts)
    return report.tell_flooding(published, inserted), draw.draw_flooding(published, inserted, folder)


def _idle(extent: Extent, folder: Path) -> Done:
    measured = idle.measure(extent.rounds, 50 if extent.is_quick else idle.PUBLICATIONS)
    return report.tell_idle(measured), draw.draw_idle(measured, folder)


FIGURES: dict[str, tuple[str, Callable[[Extent, Path], Done]]] = {
    "5": ("Fig. 5: traffic saved by trimming", _trimming),
    "10-12": ("Fig. 10 to 12: mobile publishers", _mobile),
    "14": ("Fig. 14: authentication of the sender", _authentication),
    "18-21": ("Fig. 18 to 21: firewall", _firewall),
    "23-24": ("Fig. 23 and 24: tracing policies", _tracing),
    "25-26": ("Fig. 25 and 26: flooding policies", _flooding),
    "idle": ("No policy matches", _idle),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 whatever the figures are, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    end_like_interrupted()
    sharpen_timers()
    allow_open_files(2_000)
    extent = Extent(2, is_quick=True) if options.quick else Extent(options.rounds)
    machine = describe(f"rounds of {extent.rounds}{', quick' if extent.is_quick else ''}")
    options.output.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    code = 0
    written: list[Path] = []
    for name in options.figures or FIGURES:
        title, work = FIGURES[name]
        print(title, file=sys.stderr)
        try:
            text, files = work(extent, options.output)
        except KeyboardInterrupt:
            print("interrupted; what was measured until then is written", file=sys.stderr)
            code = 130
            break
        page = options.output / f"{name}.md"
        page.write_text(f"# {title}\n\n{about}\n\n{text}\n")
        print(f"\n{title}\n\n{text}\n")
        written += [page, *files]
    for path in written:
        print(f"written: {path}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce.statements", description=__doc__)
    parser.add_argument("figures", nargs="*", choices=[*FIGURES, []], help="which (default: all)", metavar="FIGURE")
    parser.add_argument("--rounds", type=int, default=41, help="of each measurement of processor time (default: 41)")
    parser.add_argument("--quick", action="store_true", help="little of each, to see that it works; not to be quoted")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder for what is made (default: {OUTPUT})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
