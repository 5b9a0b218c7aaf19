"""Draws how far the malicious node was trusted, and what became of its messages."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from examples.federation.company import Moment

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "penstock",
}
_GOOD, _BAD, _OTHER = "#2166ac", "#b2182b", "#888888"


def draw(moments: Sequence[Moment], file: Path) -> None:
    """Ratings message by message, and below how many readers each message reached."""
    numbers = range(1, len(moments) + 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(_STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        above.plot(numbers, [one.other for one in moments], color=_OTHER, lw=1.2, label="b3, as b4 rates it")
        above.plot(numbers, [one.rating for one in moments], color=_BAD, lw=1.8, label="b2, as b4 rates it")
        above.axhline(0.5, color="black", lw=0.8, ls="--")
        above.text(0.6, 0.49, "θ: accepted from here on", va="top")
        for at, text in _turns(moments):
            above.axvline(at - 0.5, color=_OTHER, lw=0.6, ls=":")
            above.text(at - 0.4, 0.02, text, va="bottom")
        above.set(ylim=(0, 1.02), ylabel="rating")
        above.legend(loc="lower right", bbox_to_anchor=(1.0, 0.12), frameon=False)
        for is_true, color, label in ((True, _GOOD, "true"), (False, _BAD, "false")):
            some = [(at, one.reached) for at, one in zip(numbers, moments, strict=True) if one.is_true == is_true]
            below.bar([at for at, _ in some], [reached for _, reached in some], color=color, width=0.8, label=label)
            below.plot([at for at, _ in some], [-0.25] * len(some), "|", color=color, ms=5)
        below.set(ylim=(-0.5, 2.2), yticks=(0, 1, 2), xlabel="message of c2", ylabel="readers\nreached")
        below.legend(loc="upper left", bbox_to_anchor=(0.0, 1.35), ncols=2, frameon=False)
        figure.savefig(file, dpi=150)


def _turns(moments: Sequence[Moment]) -> list[tuple[int, str]]:
    """The messages with which something else begins."""
    told: list[tuple[int, str]] = []
    for at, (before, one) in enumerate(pairwise(moments), 2):
        if before.is_true and not one.is_true:
            told.append((at, "b2 lies"))
        elif one.is_true and not before.is_true:
            told.append((at, "it says\nthe truth"))
        elif one.reached and not before.reached and one.is_true:
            told.append((at, "an operator\nspeaks for it"))
    return told
