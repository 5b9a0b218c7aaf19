"""The part Trust in a browser: ratings as a heat map, as a table and over time, with the evidence."""

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE
from tests.support.processes.console import Looking, looking
from tests.support.processes.trust_nodes import secured

expect.set_options(timeout=PATIENCE * 1000)
HOSTILE = "<img src=x onerror=alert(1)>"
PAIRS = [("b1", "b2"), ("b2", "b3")]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looking]:
    begin = [{"of": "b1", "by": "b2", "good": 11, "bad": 7}, {"of": "b2", "by": "b3", "good": 5, "bad": 13}]
    trust = {"rule": "path", "sign": 0.6, "interval": 0.1, "begin": begin, "operators": "boss"}
    clients = {"boss": {"node": "b3"}, "sensor": {"node": "b2"}}
    states = {"even": {"air": {"pass": True, "next": "odd"}}, "odd": {"air": {"pass": True, "next": "even"}}}
    monitors = {"counting": {"link": "b2 -> b3", "states": states}}
    more = {"trust": trust, "clients": clients, "monitors": monitors}
    tokens = {"required": False}
    with looking(secured(tmp_path_factory.mktemp("keys"), PAIRS, tokens, **more)) as nodes:
        yield nodes


def cells(page: Page) -> dict[str, float]:
    """The ratings that the heat map is drawn of, by who rates whom."""
    chart = "getElement(document.querySelector('.pk-chart').id.slice(1)).chart.getOption().series[0].data"
    points = json.loads(page.evaluate(f"JSON.stringify({chart})"))
    return {point["name"]: point["value"][2] for point in points}


def rows(page: Page) -> dict[str, float]:
    """The ratings that the table has."""
    ratings = {}
    for row in page.get_by_role("region", name="Ratings, the lowest first").get_by_role("row").all()[1:]:
        by, of, rating = (cell.inner_text() for cell in row.get_by_role("cell").all()[:3])
        ratings[f"{by} → {of}"] = float(rating)
    return ratings


def test_heat_map_and_table_agree(nodes: Looking) -> None:
    with nodes.page("/trust") as page:
        page.wait_for_selector(".pk-chart svg")
        drawn = cells(page)
        assert drawn == rows(page)
        assert (drawn["b2 → b1"], drawn["b3 → b2"]) == (0.6, 0.3)
        assert set(drawn) == {"b1 → b2", "b2 → b1", "b2 → b3", "b3 → b2"}
        expect(page.get_by_role("region", name="Least trustworthy paths")).to_contain_text("b1")
        expect(page.get_by_role("region", name="Keys")).to_contain_text("b3")


def test_what_is_set_anew_is_seen_and_so_is_where_it_came_from(nodes: Looking) -> None:
    with nodes.page("/trust") as page:
        page.get_by_role("region", name="Ratings, the lowest first").get_by_role("link").first.click()
        evidence = page.get_by_role("region", name="Evidence", exact=True)
        expect(evidence).to_contain_text("b3's rating of b2")
        expect(evidence).to_contain_text("Rating 0.30")
        expect(page.get_by_text("Last hours: b3 of b2")).to_be_visible()
        lines = "getElement(document.querySelectorAll('.pk-chart')[1].id.slice(1)).chart.getOption().series"
        assert page.evaluate(f"{lines}.map(one => one.name)") == ["b3 → b2"]
        assert page.evaluate(f"{lines}[0].data[0][1]") == pytest.approx(0.3, abs=0.001)
        _, b2, b3 = nodes.nodes.ports("mqtt")
        with Paho("boss") as boss:
            boss.connects(b3)
            payload = {"neighbour": "b2", "good": 18.0, "bad": 0.0, "at": time.time()}
            boss.publish("$penstock/evidence", json.dumps(payload).encode(), 1)
            expect(evidence).to_contain_text("Rating 0.95")
            boss.subscribe("air")
            with Paho("sensor") as sensor:
                sensor.connects(b2)
                sensor.publish("air", b"{}", 1)
                boss.receive()
        expect(evidence.get_by_role("row").filter(has_text="monitor")).to_contain_text("1")


def test_names_from_outside_are_text_and_nothing_overflows(nodes: Looking) -> None:
    with nodes.page(f"/trust?by={quote(HOSTILE)}&of={quote(HOSTILE)}", width=390) as page:
        page.wait_for_selector(".pk-chart svg")
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        link = page.get_by_role("region", name="Ratings, the lowest first").get_by_role("link").first
        place = link.bounding_box()
        assert place is not None
        assert place["x"] + place["width"] <= 390


def test_pictures(nodes: Looking) -> None:
    nodes.pictures("/trust?by=b3&of=b2", "trust", ".pk-chart svg")
