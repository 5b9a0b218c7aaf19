"""The part `decisions` in a real browser, of live nodes with traffic."""

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.support.clients.paho import Paho
from tests.support.processes.console import Looking, looking
from tests.support.scenes.factory import DATA, HOSTILE, WORKS, alarm, at_work, report, shift

Clients = dict[str, Paho]


@pytest.fixture(scope="module")
def works() -> Iterator[Looking]:
    with looking(WORKS) as home:
        yield home


@pytest.fixture(scope="module")
def clients(works: Looking) -> Iterator[Clients]:
    with at_work(works) as page:
        yield page


@pytest.fixture(scope="module")
def ada(works: Looking, clients: Clients) -> Iterator[BrowserContext]:
    with works.person() as person:
        yield person


@pytest.fixture
def page(works: Looking, ada: BrowserContext) -> Iterator[Page]:
    with works.tab(ada, "/decisions") as page:
        expect(page.locator("#pk-decisions-status")).to_contain_text("live")
        yield page


def rows(page: Page, text: str | re.Pattern[str] = "") -> Locator:
    return page.locator(".pk-row", has_text=text)


def shown(page: Page, text: str | re.Pattern[str], happens: Callable[[], object]) -> None:
    """Something happens until a row tells of it: what is not refused is a sample."""
    for _ in range(30):
        happens()
        with contextlib.suppress(AssertionError):
            expect(rows(page, text).first).to_be_visible(timeout=2000)
            return
    pytest.fail(f"no row tells of {text}")


def traffic(page: Page, clients: Clients) -> None:
    """Some of everything, and seen."""
    shown(page, "Recipe/Dough", lambda: report(clients))
    shown(page, "RemoveAttributes", lambda: shift(clients))
    shown(page, "patrol", lambda: clients["guard"].publish("patrol", b"all quiet", 1))
    alarm(clients)
    expect(rows(page, "alarm/fire").first).to_be_visible()


def open_first(page: Page, text: str | re.Pattern[str]) -> Locator:
    rows(page, text).first.locator("a").click()
    panel = page.get_by_role("dialog")
    expect(panel.locator(".pk-stages")).to_be_visible()
    return panel


def close(page: Page) -> None:
    """What is closed is not in the page's address any more, which would open it for who gets it."""
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).not_to_have_url(re.compile(r"[?&](id|of)="))


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def ask(panel: Locator, source: str, topic: str, payload: str = "", to: str = "") -> None:
    panel.get_by_label("From").fill(source)
    panel.get_by_label("Topic").fill(topic)
    panel.get_by_label("Payload").fill(payload)
    panel.get_by_label("To (optional)").fill(to)
    panel.get_by_role("button", name="Explain").click()


def test_decisions_arrive_while_one_looks(page: Page, clients: Clients) -> None:
    traffic(page, clients)
    first = rows(page).first.inner_text()
    alarm(clients, "alarm/smoke")
    expect(rows(page).first).to_contain_text("alarm/smoke")
    assert "alarm/smoke" not in first


def test_a_metric_that_is_withheld_is_struck_out(works: Looking, page: Page, clients: Clients) -> None:
    shown(page, "Recipe/Dough", lambda: report(clients))
    panel = open_first(page, "Recipe/Dough")
    expect(panel.locator("[data-stage=project]")).to_contain_text("replace by access")
    expect(panel.locator("[data-stage=project]")).to_contain_text("nobody beyond the link may ever read them")
    expect(panel.locator("[data-stage=edit]")).to_contain_text("no verdict")
    removed = panel.locator("tr.pk-metric-gone")
    expect(removed.locator("del").first).to_have_text("withheld: Recipe/Dough")
    assert removed.locator("td del").evaluate("it => getComputedStyle(it).textDecorationLine") == "line-through"
    expect(panel.locator("tr.pk-metric-same th")).to_have_text("Torque")
    assert panel.locator(".pk-stages li b").all_inner_texts()[0] == "admit"
    assert panel.locator(".pk-stages li").count() == 11
    expect(panel.locator("[data-stage=emit]")).to_contain_text("and how does it leave?")
    works.picture(page, "decision-metrics")
    close(page)


def test_an_attribute_that_is_removed_is_struck_out(works: Looking, page: Page, clients: Clients) -> None:
    shown(page, "RemoveAttributes", lambda: shift(clients))
    panel = open_first(page, "RemoveAttributes")
    before, after = panel.get_by_label("Before", exact=True), panel.get_by_label("After", exact=True)
    expect(before.locator("del")).to_contain_text('"name": "ann"')
    expect(after).to_contain_text('"at": "06:00"')
    expect(after).not_to_contain_text("ann")
    expect(panel.locator("[data-stage=judge]")).to_contain_text("RemoveAttributes(name)")
    works.picture(page, "decision-json")
    close(page)


def test_of_a_refusal_the_rest_is_explained_as_things_are_now(page: Page, clients: Clients) -> None:
    shown(page, "alarm/fire", lambda: alarm(clients))
    panel = open_first(page, "alarm/fire")
    expect(panel.locator("[data-stage=edit]")).to_contain_text("suppress by no-alarms")
    expect(panel.locator("[data-stage=emit]")).to_contain_text("not reached")
    expect(panel.get_by_label("After", exact=True)).to_contain_text("It goes no further.")
    panel.get_by_role("button", name="Explain with the present policies").click()
    expect(panel.locator(".pd-answer [data-stage=admit]")).to_contain_text("pass")
    close(page)


def test_the_address_names_what_is_open(works: Looking, page: Page, clients: Clients) -> None:
    shown(page, "alarm/fire", lambda: alarm(clients))
    open_first(page, "alarm/fire")
    link = page.url
    assert "id=" in link
    close(page)
    page.wait_for_url(f"{works.address}/decisions")
    focused = page.evaluate("document.activeElement.className")
    assert "pk-pick" in focused, "the row has the focus again"
    page.goto(link)
    expect(page.get_by_role("dialog").locator("[data-stage=edit]")).to_contain_text("no-alarms")
    page.get_by_role("button", name="Close").click()
    page.wait_for_url(f"{works.address}/decisions")
    open_first(page, "alarm/fire")
    page.mouse.click(20, 600)
    page.wait_for_url(f"{works.address}/decisions")
    page.goto(f"{works.address}/decisions?id=999999&of=floor")
    expect(page.get_by_role("dialog")).to_contain_text("No longer available")


@pytest.mark.parametrize(
    ("query", "text", "others"),
    [
        ("subject=analytics", "RemoveAttributes", "alarm/fire"),
        ("topic=alarm/%23", "alarm/fire", "RemoveAttributes"),
        ("stage=project", "Recipe/Dough", "alarm/fire"),
        ("rule=no-alarms", "alarm/fire", "Recipe/Dough"),
        ("effect=replace", "Recipe/Dough", "alarm/fire"),
        ("verdict=replace", "Recipe/Dough", "alarm/fire"),
        ("node=office", "analytics", "alarm/fire"),
    ],
)
def test_filters_in_the_address(
    works: Looking, ada: BrowserContext, clients: Clients, query: str, text: str, others: str
) -> None:
    def happens() -> None:
        for client in (report, shift, alarm):
            client(clients)

    with works.tab(ada, f"/decisions?{query}") as page:
        shown(page, text, happens)
        expect(rows(page, others)).to_have_count(0)
        open_first(page, text)
        expect(page).to_have_url(re.compile("[?&]id=.*&of="))
        close(page)
        expect(page).to_have_url(re.compile(f"{query.replace('verdict', 'effect').replace('/', '%2F')}$"))


def test_filters_of_the_form(works: Looking, page: Page, clients: Clients) -> None:
    choose(page, "Verdict", "replace")
    expect(rows(page, "alarm/fire")).to_have_count(0)
    choose(page, "Stage", "judge")
    expect(rows(page, "Recipe/Dough")).to_have_count(0)
    page.get_by_label("Subject").fill("guard")
    expect(rows(page, "analytics")).to_have_count(0)
    shown(page, "no-names", lambda: shift(clients))
    page.wait_for_url("**/decisions?subject=guard&stage=judge&effect=replace")
    page.get_by_label("Rule").fill("nothing of the kind")
    expect(page.get_by_text("No decision matches")).to_be_visible()
    page.get_by_label("Topic filter").fill("a/#/b")
    expect(page.locator(".pk-wrong")).to_contain_text("a/#/b")


def test_a_pause_holds_the_table(works: Looking, page: Page, clients: Clients) -> None:
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#pk-decisions-status")).to_contain_text("paused")
    alarm(clients, "alarm/unheard")
    other = page.context.new_page()
    other.goto(f"{works.address}/decisions?topic=alarm/unheard")
    expect(rows(other, "alarm/unheard").first).to_be_visible()
    other.close()
    expect(rows(page, "alarm/unheard")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(rows(page, "alarm/unheard").first).to_be_visible()


def test_what_comes_from_outside_is_text(works: Looking, page: Page, clients: Clients) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script of others has run: {dialog.message}"))
    alarm(clients, f"alarm/{HOSTILE}")
    stranger = clients["stranger"]
    shown(page, f"{HOSTILE}/x", lambda: stranger.publish(f"{HOSTILE}/x", HOSTILE.encode() + b"\xff\x00", 1))
    shown(page, "markup", lambda: stranger.publish("markup", f'{{"{HOSTILE}": "{HOSTILE}"}}'.encode(), 1))
    expect(rows(page, f"alarm/{HOSTILE}").first).to_be_visible()
    expect(open_first(page, f"alarm/{HOSTILE}")).to_contain_text(HOSTILE)
    close(page)
    expect(open_first(page, f"{HOSTILE}/x").locator("pre").first).to_contain_text("3c 69 6d 67")
    close(page)
    expect(open_first(page, "markup").locator("pre").first).to_contain_text(f'"{HOSTILE}": "{HOSTILE}"')
    close(page)
    assert page.locator("img[src=x]").count() == 0


def test_who_may_only_read_sees_no_payload(works: Looking, page: Page, clients: Clients) -> None:
    with works.page("/decisions", user="eve") as other:
        replaced = re.compile(r"NDATA.*replace|replace.*NDATA", re.DOTALL)
        shown(other, replaced, lambda: report(clients, 99))
        expect(rows(other, "Recipe/Dough")).to_have_count(0)
        panel = open_first(other, replaced)
        expect(panel.get_by_role("note")).to_contain_text("The payload is hidden: you have the right read")
        expect(panel.locator("[data-stage=project]")).to_contain_text("replace by access")
        assert panel.locator("table").count() == 0
        close(other)
        other.get_by_role("button", name="Ask why").click()
        ask(panel, "press", DATA, '{"Torque": 1, "Recipe/Dough": 2}')
        expect(panel.get_by_role("list", name="Receivers")).to_contain_text("payload hidden")


def test_who_may_only_read_is_told_nothing_of_another_payload_in_its_place(works: Looking, clients: Clients) -> None:
    with works.page("/decisions", user="eve") as other:
        shown(other, "alarm/fire", lambda: alarm(clients))
        panel = open_first(other, "alarm/fire")
        expect(panel.get_by_role("button", name="Explain with the present policies")).to_have_count(0)
        panel.get_by_role("button", name="Ask why with a payload of your own").click()
        expect(panel.get_by_label("Topic")).to_have_value("alarm/fire")
        works.picture(other, "decision-hidden")


def test_ask_why(works: Looking, page: Page) -> None:
    page.get_by_role("button", name="Ask why").click()
    panel = page.get_by_role("dialog")
    ask(panel, "guard", "patrol", to="analytics")
    receivers = panel.get_by_role("list", name="Receivers")
    expect(receivers).to_contain_text("analytics gets nothing")
    expect(receivers).to_contain_text("denied by deny from secret to plain")
    ask(panel, "press", DATA, '{"Torque": 1, "Recipe/Dough": 2}')
    expect(receivers).to_contain_text('{"Torque": 1}')
    works.picture(page, "why")
    ask(panel, "nobody-known", "x")
    expect(panel.locator(".pk-wrong")).to_contain_text("nobody-known")
    close(page)


def test_with_the_keyboard_alone(works: Looking, page: Page, clients: Clients) -> None:
    expect(rows(page).first).to_be_visible()
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".pk-pick").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator(".pk-stages")).to_be_visible()
    page.wait_for_function("document.querySelector('[role=dialog]').contains(document.activeElement)")
    close(page)


def test_on_a_telephone_and_in_the_dark(works: Looking, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    works.picture(page, "decisions-dark")
    page.emulate_media(color_scheme="light")
    works.picture(page, "decisions-light")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    works.picture(page, "decisions-narrow")
    panel = open_first(page, "Recipe/Dough")
    assert panel.evaluate("it => it.scrollWidth") <= 390
    works.picture(page, "decision-narrow")
    close(page)


def test_long_payloads_are_kept_within_a_bound(works: Looking, page: Page, clients: Clients) -> None:
    for _ in range(40):
        clients["clock"].publish("alarm/long", b"x" * 2**20, 1)
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto(f"{works.address}/decisions?topic=alarm/%23")
    expect(rows(page)).to_have_count(32)
    panel = open_first(page, "alarm/long")
    expect(panel.locator("pre")).to_contain_text("983,040 characters more")
    close(page)


def test_refusals_that_are_too_many_are_counted(works: Looking, page: Page, clients: Clients) -> None:
    page.goto(f"{works.address}/decisions?topic=alarm/flood")
    for _ in range(3_000):
        clients["clock"].client.publish("alarm/flood", b"")
    expect(page.locator("#pk-decisions-status")).to_contain_text("refusals left out: too many in a second")
    expect(rows(page)).to_have_count(200)
    expect(page.locator("#pk-decisions-status")).to_contain_text("the latest 200")


def test_nodes_that_are_gone(works: Looking, page: Page) -> None:
    expect(rows(page).first).to_be_visible()
    works.nodes.kill()
    expect(page.locator(".pk-wrong")).to_contain_text("cannot be reached")
    works.picture(page, "decisions-gone")
    rows(page).first.click()
    expect(page.get_by_role("dialog").locator(".pk-wrong")).to_contain_text("cannot be shown")
    close(page)
