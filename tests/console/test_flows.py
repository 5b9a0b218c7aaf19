"""The part `flows` in a real browser: the smart home of the examples, live."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.support.processes.console import Looking, looking
from tests.support.scenes.smart_home import FILE

ENTITIES = ("cloud", "gateway", "locks", "phone", "motion", "camera", "bell")


@pytest.fixture(scope="module")
def home() -> Iterator[Looking]:
    text = re.sub(r"\bon:", '"on":', FILE.read_text())  # which PyYAML takes for a truth
    domain: dict[str, Any] = yaml.safe_load(text)
    with looking(domain) as home:
        file = home.nodes.folder / "domain.yaml"
        draft = yaml.safe_load(file.read_text())
        draft |= {"brokering": draft["brokering"] | {"deny": []}, "assertions": [], "tests": {}}
        file.write_text(yaml.safe_dump(draft))  # not in force before it is read again
        yield home


@pytest.fixture(scope="module")
def page(home: Looking) -> Iterator[Page]:
    with home.page("/flows") as page:
        yield page


def ask(page: Page, source: str, target: str, on: str = "") -> None:
    page.get_by_label("From").fill(source)
    page.get_by_label("To", exact=True).fill(target)
    page.get_by_label("Topic (optional)").fill(on)
    page.keyboard.press("Enter")


def steps(page: Page, label: str) -> list[str]:
    items = page.get_by_role("list", name=label).get_by_role("listitem").all_inner_texts()
    return [item.split(" type")[0] for item in items]


def test_an_open_flow_is_shown_with_its_way(home: Looking, page: Page) -> None:
    ask(page, "bell", "phone", "AC_request")
    expect(page.locator(".pk-sentence")).to_contain_text("Yes: what bell publishes on AC_request can reach phone")
    assert steps(page, "Way") == ["bell → gateway", "gateway → cloud", "cloud → phone"]
    lit = page.locator(".pm-node.pm-lit, .pm-client.pm-lit")
    expect(lit).to_have_count(4)
    assert {name for text in lit.all_text_contents() for name in ENTITIES if name in text} == {
        "bell",
        "gateway",
        "cloud",
        "phone",
    }
    expect(page.locator(".pm-link.pm-lit")).to_have_count(3)
    assert "from=bell&to=phone&on=AC_request&routes=1" in page.url
    home.picture(page, "flows-open")


def test_what_is_asked_is_what_is_seen(page: Page) -> None:
    ask(page, "bell", "phone")
    expect(page.locator(".pk-sentence")).to_contain_text("Yes: what bell publishes")
    page.get_by_label("From").evaluate("field => field.value = 'camera'")  # and nobody is told of it
    page.get_by_role("button", name="Can they?").click()
    expect(page.locator(".pk-sentence")).to_contain_text("what camera publishes")


def test_a_closed_flow_names_the_rule(home: Looking, page: Page) -> None:
    ask(page, "motion", "phone")
    expect(page.locator(".pk-sentence")).to_contain_text("No: what motion publishes cannot reach phone")
    closed = page.get_by_role("list", name="Closed by")
    expect(closed).to_contain_text("deny")
    expect(closed).to_contain_text("sensitive")
    assert steps(page, "Nearest way") == ["motion → gateway", "gateway → cloud", "cloud → phone"]
    expect(page.locator(".pm-lit")).to_have_count(0)
    assert "gateway → camera" in steps(page, "Way through devices")


def test_a_monitor_that_closes_a_flow_is_named(page: Page) -> None:
    ask(page, "phone", "lock", "DL_unlock")
    expect(page.get_by_role("list", name="Closed by")).to_contain_text("no-remote-unlock")


def test_on_any_topic_it_is_said_which(page: Page) -> None:
    ask(page, "phone", "lock")
    expect(page.locator("[data-topics=closed]")).to_contain_text("But nothing on DL_unlock")
    expect(page.locator("[data-topics=open]")).to_contain_text("AC_grant")
    ask(page, "bell", "camera")
    expect(page.locator("[data-topics=closed]")).to_have_count(0)
    expect(page.locator("[data-topics=open]")).to_contain_text("On any topic")


def test_assertions_and_who_reaches_whom(page: Page) -> None:
    claims = page.locator(".pk-claims tbody tr")
    expect(claims).to_have_count(11)
    assert {row.split("\t")[0] for row in claims.all_inner_texts()} == {"yes"}
    page.get_by_role("button", name="Who reaches whom").click()
    cell = page.locator(".pk-matrix a[href='/flows?from=motion&to=phone&routes=1']")
    expect(cell).to_have_text("no")


@pytest.mark.parametrize(
    ("source", "on", "said"),
    [
        ("<img src=x onerror=alert(1)>", "", "foreign broker <img src=x onerror=alert(1)>"),
        ("--svg=/tmp/x", "", "foreign broker --svg=/tmp/x"),
        ("bell", "a/#/b", "on"),
        ("", "", "Give a sender"),
    ],
    ids=["markup", "an option", "no filter", "nothing"],
)
def test_questions_that_make_no_sense(page: Page, source: str, on: str, said: str) -> None:
    ask(page, source, "phone", on)
    expect(page.locator(".pd-answer .pk-wrong")).to_contain_text(said)


def test_a_link_is_the_question_and_fits_a_telephone(home: Looking, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{home.address}/flows?from=motion&to=phone&routes=0")
    expect(page.locator(".pk-sentence")).to_contain_text("Yes: what motion publishes can reach phone, also through")
    page.get_by_role("button", name="Who reaches whom").click()
    expect(page.locator(".pk-matrix")).to_be_visible()
    home.picture(page, "flows-narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.goto(f"{home.address}/flows?from=motion&to=phone&routes=1")
    expect(page.locator(".pk-closed")).to_be_visible()
    expect(page.locator(".pk-claims")).to_be_visible()
    home.picture(page, "flows-dark")
    page.emulate_media(color_scheme="light")
    home.picture(page, "flows-light")


def test_a_click_on_a_lit_link_opens_it_on_the_map(home: Looking) -> None:
    with home.page("/flows?from=bell&to=phone&on=AC_request&routes=1") as page:
        expect(page.locator(".pm-link.pm-lit")).to_have_count(3)
        page.locator('[data-link="gateway cloud"]').press("Enter")
        expect(page.locator("aside.pm-panel")).to_contain_text("gateway ⇄ cloud")
        assert page.url == f"{home.address}/?open=gateway&open=cloud"


def test_the_answer_is_of_the_policies_in_force(home: Looking, page: Page) -> None:
    """All before was asked while the file said otherwise."""
    home.nodes.reload()
    ask(page, "motion", "phone")
    expect(page.locator(".pk-sentence")).to_contain_text("Yes: what motion publishes can reach phone")
