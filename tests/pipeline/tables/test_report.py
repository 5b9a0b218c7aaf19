"""Reports: what others chose as topic or name is only ever text, and what is drawn is what was counted."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from penstock.pipeline.tables import report

EVIL = "<script>alert('x')</script>&\""
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "made",
    [
        report.page(EVIL, EVIL),
        report.section(EVIL, report.text(EVIL)),
        report.table((EVIL,), [(EVIL,)]),
        report.bars((EVIL, "b"), [(EVIL, (1, 2))]),
        report.timeline((EVIL,), [(NOON, (1,))]),
        report.strips({EVIL: [(NOON, 1)]}),
    ],
    ids=["page", "section", "table", "bars", "timeline", "strips"],
)
def test_names_cannot_be_markup(made: str) -> None:
    assert "<script" not in made
    assert "&lt;script" in made


def test_bars_are_as_long_as_what_they_stand_for_and_the_longest_come_first() -> None:
    drawn = report.bars(("few", "many"), [("a", (1, 0)), ("b", (2, 6)), ("nothing", (0, 0))])
    widths = [float(one) for one in re.findall(r'width="([\d.]+)" height="20.0"', drawn)]
    assert widths == pytest.approx([2 * widths[2], 6 * widths[2], widths[2]], rel=0.01)
    assert "nothing" not in drawn


def test_times_are_in_their_places() -> None:
    steps = [(NOON, (1,)), (NOON + timedelta(minutes=1), (2,)), (NOON + timedelta(minutes=3), (4,))]
    drawn = report.timeline(("events",), steps)
    xs = [float(one) for one in re.findall(r'<rect class="c0" x="([\d.]+)" y="[\d.]+" width="[\d.]+" height', drawn)]
    assert xs[-1] - xs[-3] == pytest.approx(3 * (xs[-2] - xs[-3]), rel=0.01)
    assert "2026-01-31 12:03:00 UTC" in drawn


def test_more_is_darker() -> None:
    drawn = report.strips({"a": [(NOON, 1), (NOON + timedelta(seconds=5), 4)], "b": [(NOON, 2)]})
    assert re.findall(r'fill-opacity="([\d.]+)"', drawn) == ["0.44", "0.62"], "the most is not faded at all"


LABELS = {
    "as long as there is room": ("a" * 48, "a" * 48),
    "longer": ("a" * 48 + "b", "a" * 23 + "…" + "a" * 22 + "b"),
    "of wide letters": ("温" * 25, "温" * 11 + "…" + "温" * 11),
}


@pytest.mark.parametrize("title", LABELS)
def test_labels_have_room(title: str) -> None:
    name, shown = LABELS[title]
    for drawn in (report.bars(("n",), [(name, (1,))]), report.strips({name: [(NOON, 1)]})):
        assert re.findall(r'class="label">(.*?)</text>', drawn) == [shown]


CELLS = {
    "short": ("t", "<td>t</td>"),
    "folded": ("t" * 300, f'<td class="long">{"t" * 300}</td>'),
    "cut": ("t" * 301, f'<td class="long" title="{"t" * 301}">{"t" * 149}…{"t" * 149}</td>'),
    "a time": (NOON, '<td class="time">2026-01-31 12:00:00</td>'),
}


@pytest.mark.parametrize("title", CELLS)
def test_long_cells_do_not_stretch_a_table(title: str) -> None:
    value, shown = CELLS[title]
    assert shown in report.table(("x",), [(value,)])


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    assert "and 7 more" in report.table(("n",), [(n,) for n in range(report.MAX_ROWS + 7)])
