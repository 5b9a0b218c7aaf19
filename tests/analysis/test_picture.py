"""The picture of an ensemble: whole, well formed, and nothing on top of anything else."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.flows import reach
from penstock.analysis.graph import EntityKind, FlowGraph
from penstock.analysis.layout import BETWEEN, Size, layout
from penstock.analysis.picture import picture, styles
from penstock.model.link import Link
from penstock.policy.access.brokering import BrokeringTable
from tests.support.models.ensembles import FIGURE_1, figure_1, smart_home
from tests.support.models.flow_graphs import SMART_HOME_EDITORS, graph_of

SVG = "{http://www.w3.org/2000/svg}"
HOME = graph_of(smart_home(), SMART_HOME_EDITORS)
HOME_PARENTS = {"H": ["I"], "S": ["H"]}


def drawn(graph: FlowGraph, parents: dict[str, list[str]], shown: tuple[Link, ...] = ()) -> ElementTree.Element:
    return ElementTree.fromstring(picture(graph, parents, "a <title>", shown))


def said(svg: ElementTree.Element) -> str:
    return "\n".join("".join(element.itertext()) for element in svg.iter(f"{SVG}text"))


def test_every_entity_type_and_monitor_is_named() -> None:
    words = said(drawn(HOME, HOME_PARENTS))
    for word in ("SP", "MD", "DB", "SC", "DL", "I", "H", "S", "↕ internet", "sensitive", "◆ M1", "◆ M2", "a <title>"):
        assert word in words


def test_every_link_is_drawn_once_with_its_type_and_its_monitors() -> None:
    svg = drawn(HOME, HOME_PARENTS)
    titles = [path.findtext(f"{SVG}title") for path in svg.iter(f"{SVG}path")]
    links = sorted(part for title in titles if title for part in title.split("; "))
    assert len(links) == len(HOME.links)
    assert "I -> H: internet ◆ M1" in links
    assert "MD -> H: sensitive" in links


def test_a_type_can_be_told_without_colours() -> None:
    made = styles(HOME)
    assert len({style.dash for style in made.values()}) == len(made) == 3
    assert len({style.colour for style in made.values()}) == 3


def test_many_types_differ_in_colour_or_dashes() -> None:
    types = [f"t{at}" for at in range(30)]
    links = tuple(Link(f"d{at}", "x", name) for at, name in enumerate(types))
    kinds = {"x": EntityKind.NODE, **{link.source: EntityKind.DEVICE for link in links}}
    made = styles(FlowGraph(kinds, links, {"x": BrokeringTable.of_deny((), types)}))
    assert len(set(made.values())) == 30


def test_the_flow_that_was_asked_for_is_bold() -> None:
    witness = reach(HOME, "MD", "DB")
    assert witness is not None
    bold = [
        path.findtext(f"{SVG}title")
        for path in drawn(HOME, HOME_PARENTS, witness.links).iter(f"{SVG}path")
        if path.get("stroke-width") == "4"
    ]
    assert sorted(title.split(":")[0] for title in bold if title) == ["H -> DB", "H -> MD"], "one line for each device"


def test_a_device_at_two_brokers_stands_at_both() -> None:
    links = [Link("d", "x"), Link("x", "d"), Link("d", "y"), Link("y", "d")]
    table = BrokeringTable.open()
    graph = FlowGraph(
        {"x": EntityKind.NODE, "y": EntityKind.NODE, "d": EntityKind.DEVICE}, tuple(links), {"x": table, "y": table}
    )
    svg = drawn(graph, {})
    assert [element.text for element in svg.iter(f"{SVG}title")].count("d") == 2
    boxes = [box.get("stroke-dasharray") for box in svg.iter(f"{SVG}rect") if box.get("rx")]
    assert boxes == [None, "3 3"]


def test_figure_1_has_its_two_layers() -> None:
    parents: dict[str, list[str]] = {}
    for child, parent in FIGURE_1:
        parents.setdefault(child, []).append(parent)
    svg = drawn(graph_of(figure_1()), parents)
    heights = {element.get("cy") for element in svg.iter(f"{SVG}ellipse")}
    assert len(heights) == 2, "A and B above C, D and E"


@st.composite
def brokers(draw: st.DrawFn) -> tuple[dict[str, Size], dict[str, list[str]]]:
    """Brokers of any size that dial one another in any way, in cycles too."""
    names = [f"b{at}" for at in range(draw(st.integers(1, 8)))]
    number = st.integers(20, 400)
    sizes = {name: Size(draw(number), draw(number), 10) for name in names}
    joined = [(x, y) for x, y in combinations(names, 2) if draw(st.integers(0, 2)) == 0]
    parents: dict[str, list[str]] = {}
    for x, y in joined:
        child, parent = (x, y) if draw(st.booleans()) else (y, x)
        parents.setdefault(child, []).append(parent)
    return sizes, parents


@given(brokers())
def test_no_two_boxes_overlap_and_all_are_inside(made: tuple[dict[str, Size], dict[str, list[str]]]) -> None:
    sizes, parents = made
    placed = layout(sizes, parents, 50)
    for name, (x, y) in placed.corners.items():
        assert x >= -0.001
        assert y >= 0
        assert x + sizes[name].width <= placed.width + 0.001
        assert y + sizes[name].height <= placed.height + 0.001
    for a, b in combinations(sizes, 2):
        if placed.layers[a] == placed.layers[b]:
            (left, right) = sorted((a, b), key=lambda name: placed.corners[name][0])
            assert placed.corners[left][0] + sizes[left].width + BETWEEN <= placed.corners[right][0] + 0.001


@given(brokers())
def test_every_connection_goes_down_past_the_layers_between(
    made: tuple[dict[str, Size], dict[str, list[str]]],
) -> None:
    sizes, parents = made
    placed = layout(sizes, parents, 50)
    joined = {frozenset((child, parent)) for child, above in parents.items() for parent in above}
    assert {frozenset(pair) for pair in placed.columns} == joined
    for (upper, lower), columns in placed.columns.items():
        between = range(placed.layers[upper] + 1, placed.layers[lower])
        assert len(columns) == len(between)
        for x, layer in zip(columns, between, strict=True):
            inside = (name for name in sizes if placed.layers[name] == layer)
            assert not any(placed.corners[name][0] < x < placed.corners[name][0] + sizes[name].width for name in inside)


@pytest.mark.parametrize("name", ["x" * 64, "a&b<c"])
def test_long_and_odd_names_are_shown_short_and_told_whole(name: str) -> None:
    graph = FlowGraph(
        {"n": EntityKind.NODE, name: EntityKind.DEVICE},
        (Link(name, "n"), Link("n", name)),
        {"n": BrokeringTable.open()},
    )
    assert name in [element.text for element in drawn(graph, {}).iter(f"{SVG}title")]
