"""The evaluation of the contracts paper, made small: it runs, and what it writes is whole."""

import json
from pathlib import Path

import pytest

from benchmarks.reproduce.contracts.figures import CRITERION, LINES, OURS, Extent, constraints, subscriptions
from benchmarks.reproduce.contracts.inside import domain, measure, notification, played

SMALL = Extent(1, 2, 2)


def test_each_figure_is_measured_drawn_and_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="it is drawn with the tools for benchmarks")
    from benchmarks.reproduce.contracts.__main__ import FIGURES, main

    assert main(["--quick", "--output", str(tmp_path)]) == 0
    for name, (title, paper, *_) in FIGURES.items():
        page = (tmp_path / f"{name}.md").read_text()
        assert title in page
        assert paper in page
        points = json.loads((tmp_path / f"{name}.json").read_text())
        assert page.count("\n| ") == 2 + len(points)
        assert all(one["prod"] > 0 and one["other"] > 0 for one in points)
        assert (tmp_path / f"fig-{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"fig-{name}.svg").exists()


def test_points_are_what_is_varied() -> None:
    assert [one.number for one in subscriptions(SMALL)] == [1, 1, 1]
    found = constraints(SMALL)
    assert [(one.line, one.number) for one in found] == [(line, count) for line in LINES for count in (0, 1, 2)]
    assert {CRITERION, OURS} < set(LINES)


def test_what_does_not_arrive_is_not_measured() -> None:
    contracts = {
        "producers": {"pollution": {"producer": "producer", "filter": "paris/#"}},
        "consumers": {
            "consumer": {
                "consumer": "consumer0",
                "purpose": "health",
                "wants": {"pollution": {"filter": "paris/#", "needs": ["precision >= 40"]}},
            }
        },
    }
    rehearsal = played(domain(1, contracts=contracts), [""])
    with pytest.raises(RuntimeError, match="not got all"):
        measure(rehearsal, notification(), 1, 2)
