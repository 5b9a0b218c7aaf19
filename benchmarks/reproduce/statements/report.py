"""Tables of what was measured, and whether the aims were met."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reproduce.statements import authentication, firewall, flooding, idle, mobile, served, tracing, trimming

MAX_FRAMEWORK = 0.10
"""The largest share of a publication's processing time for the framework, without the action."""
SAME = 0.03
"""Ratios that differ from 1 by less are not told apart from chance, and by less than the control either."""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def tell_trimming(measured: Sequence[trimming.Traffic]) -> str:
    """Fig. 5."""
    rows = [
        (
            point.attributes,
            point.removed,
            f"{point.full:.0f}",
            f"{point.trimmed:.0f}",
            f"{1 - point.trimmed / point.full:.0%}",
        )
        for point in measured
    ]
    return table(("attributes", "removed", "bytes, full", "bytes, trimmed", "saved"), rows)


def tell_mobile(measured: Sequence[mobile.Run]) -> str:
    """Fig. 10 to 12."""
    sums = [run.summary() for run in measured]
    names = list(dict.fromkeys(name for sums_ in sums for name in sums_))
    rows = [(name, *(f"{sums_.get(name, 0.0):.6g}" for sums_ in sums)) for name in names]
    head = ("after the first second", *(run.way for run in measured))
    return table(head, rows)


def tell_authentication(measured: Sequence[authentication.Cost]) -> str:
    """Fig. 14."""
    rows = [(point.line, point.groups, _us(point.seconds), f"{point.proofs:.2f}") for point in measured]
    return table(("", "groups", "us for a publication", "proofs for each"), rows)


def tell_firewall(measured: Sequence[firewall.Run]) -> str:
    """Fig. 18 to 21."""
    rows = []
    for run in measured:
        end = run.intervals[-1].at if run.intervals else 0.0
        spans = ((0.0, run.begins), (run.begins + firewall.TICK, run.ends), (run.ends + firewall.TICK, end))
        rates = [run.mean_rates(*span) for span in spans]
        took = [max(seconds for _, seconds in sums_) * 1000 for sums_ in (run.subscribing, run.unsubscribing)]
        rows.append(
            (
                run.title,
                " / ".join(f"{published:.0f}" for published, _ in rates),
                " / ".join(f"{arrived:.0f}" for _, arrived in rates),
                *(f"{sums_:.1f}" for sums_ in took),
            )
        )
    head = (
        "",
        "publications/s at the external node before / during / after",
        "at the internal node",
        "slowest subscription, ms",
        "slowest unsubscription, ms",
    )
    return table(head, rows)


def tell_tracing(
    published: Sequence[tracing.Split], inserted: Sequence[tracing.Insertion], on_sockets: Sequence[served.Served]
) -> str:
    """Fig. 23 and 24."""
    head = (
        "% with policy",
        "matching",
        "other",
        "framework",
        "action",
        "all, us",
        "framework of all",
        "subscription, us",
    )
    rows = [
        (
            point.share,
            *map(_us, (point.match, point.other, point.framework, point.action, point.total)),
            f"{point.framework / point.total:.1%}",
            _us(other.total),
        )
        for point, other in zip(published, inserted, strict=True)
    ]
    worst = max(point.framework / point.total for point in published)
    verdict = "met" if worst <= MAX_FRAMEWORK else "NOT met"
    sentence = f"In the engine alone, the framework takes at most {worst:.1%}; aim {MAX_FRAMEWORK:.0%}: {verdict}."
    last = published[-1]
    verdict = "met" if last.framework < last.action else "NOT met"
    sentence += (
        f" Where every subscription has a policy it takes {_us(last.framework)} us, the action {_us(last.action)} us;"
        f" aim the framework below the action, as in the paper: {verdict}."
    )
    none, all = on_sockets
    framework = (all.added - published[-1].action) / all.seconds
    verdict = "met" if framework <= MAX_FRAMEWORK else "NOT met"
    sentence += (
        f"\n\nOf a whole node, sockets included, a publication takes {_us(none.seconds)} us without policies and"
        f" {_us(all.seconds)} us where every subscription has one: the framework takes {framework:.1%}; aim"
        f" {MAX_FRAMEWORK:.0%}: {verdict}."
    )
    return f"{table(head, rows)}\n\n{sentence}"


def tell_flooding(published: Sequence[flooding.Cost], inserted: Sequence[flooding.Cost]) -> str:
    """Fig. 25 and 26."""
    head = ("% with policy", "publication, us", "subscription, us", "added", "of this judging")
    rows = [
        (point.share, _us(point.seconds), _us(other.seconds), _us(other.added), _us(other.judging))
        for point, other in zip(published, inserted, strict=True)
    ]
    return table(head, rows)


def tell_idle(measured: Sequence[idle.Cost]) -> str:
    """No policy matches."""
    rows = [(point.load, point.statements, f"{point.seconds * 1e6:.2f}", f"{point.ratio:.3f}") for point in measured]
    others = [point.ratio for point in measured if point.statements not in (idle.NONE, idle.AGAIN)]
    control = max(abs(point.ratio - 1) for point in measured if point.statements == idle.AGAIN)
    worst = max(others)
    verdict = "met" if worst <= 1 + max(SAME, control) else "NOT met"
    sentence = f"At most {worst:.3f} times the time without statements; aim no measurable cost: {verdict}."
    return f"{table(('publications go', '', 'us', 'ratio'), rows)}\n\n{sentence}"
