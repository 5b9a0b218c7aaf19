"""The map in a real browser: a smart home with traffic, a link that is cut, hostile names, a large ensemble."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.support.clients.paho import Paho
from tests.support.processes.cable import Cable
from tests.support.processes.commands import until
from tests.support.processes.console import Looking, console, looking
from tests.support.processes.federation import federated
from tests.support.processes.mosquitto import free_port
from tests.support.processes.node import LiveNode, passwords

FILE = Path(__file__).parents[2] / "examples" / "smart-home" / "domain.yaml"
EVIL = "<img src=x onerror=alert(1)>"
MOVES = r"←(?!0/s)[\d.]+/s"
"""The rate of a client from which something comes."""


@contextmanager
def cable() -> Iterator[tuple[Cable, asyncio.AbstractEventLoop]]:
    """A cable that this thread can cut: it works in another one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cable = Cable(0)
    cable.cut()
    asyncio.run_coroutine_threadsafe(cable.__aenter__(), loop).result()
    try:
        yield cable, loop
    finally:
        asyncio.run_coroutine_threadsafe(cable.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Home:
    """The smart home, with its devices; the line between the gateway and the cloud can be cut."""

    def __init__(self, looks: Looking, devices: dict[str, Paho], line: Cable, loop: asyncio.AbstractEventLoop) -> None:
        self.looks, self.devices, self._line, self._loop = looks, devices, line, loop

    def publish(self, device: str, topic: str, payload: bytes = b"x") -> None:
        self.devices[device].publish(topic, payload, 1)

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._line.cut)

    def plug(self) -> None:
        self._loop.call_soon_threadsafe(self._line.plug)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    domain: dict[str, Any] = yaml.safe_load(FILE.read_text())
    del domain["tests"], domain["assertions"]
    domain["nodes"] = {name: {} for name in domain["nodes"]}
    domain["brokering"]["default"] = "sensitive"
    with ExitStack() as stack:
        line, loop = stack.enter_context(cable())
        domain["links"][0]["address"] = f"127.0.0.1:{line.port}"
        looks = stack.enter_context(looking(domain))
        ports = dict(zip(domain["nodes"], looks.nodes.ports("mqtt"), strict=True))
        loop.call_soon_threadsafe(line.plug, ports["cloud"])
        devices = {}
        for name in ("phone", "motion", "bell", "lock"):
            devices[name] = stack.enter_context(Paho(name)).connects(ports[domain["clients"][name]["node"]])
            devices[name].subscribe("#", 1)
        devices[EVIL] = stack.enter_context(Paho(EVIL)).connects(ports["locks"])
        yield Home(looks, devices, line, loop)


@pytest.fixture(scope="module")
def page(home: Home) -> Iterator[Page]:
    """The map at a desk; a test closes what it has opened."""
    with home.looks.page() as page:
        yield page


def label(page: Page, link: str) -> Any:
    return page.locator(f'[data-link="{link}"]')


def test_nodes_links_and_clients_with_their_types(home: Home, page: Page) -> None:
    expect(page.locator(".pm-node")).to_have_count(3)
    expect(page.locator(".pm-legend li")).to_have_text(["internet", "door", "sensitive", "down"])
    for link, kind in (("gateway cloud", "internet"), ("locks gateway", "door"), ("motion gateway", "sensitive")):
        expect(label(page, link)).to_have_attribute("data-state", "up")
        expect(label(page, link).locator(".pm-type")).to_have_text(kind)
    expect(label(page, "camera gateway")).to_have_attribute("data-state", "away")
    colours = [
        label(page, link).locator(".pm-line").first.evaluate("one => getComputedStyle(one).stroke")
        for link in ("gateway cloud", "locks gateway", "motion gateway")
    ]
    assert len(set(colours)) == 3
    home.looks.picture(page, "map-light")


def test_traffic_is_a_rate_and_a_refusal_is_counted(home: Home, page: Page) -> None:
    link = label(page, "gateway cloud")
    expect(link).to_have_attribute("data-state", "up")
    before = link.locator(".pm-badge-denied").all_inner_texts()
    for _ in range(10):
        home.publish("phone", "DL_unlock")
    expect(label(page, "phone cloud").locator(".pm-rate")).to_have_text(re.compile(MOVES))
    expect(link.locator(".pm-badge-denied")).to_be_visible()
    until(lambda: link.locator(".pm-badge-denied").all_inner_texts() != before, "the refusals are counted")
    expect(page.locator(".pm-sum")).to_contain_text("denied")
    expect(link).to_have_attribute("aria-label", re.compile(r"gateway to cloud, type internet, up, .* denied"))


def test_a_link_that_is_cut_is_seen_at_once(home: Home, page: Page) -> None:
    link = label(page, "gateway cloud")
    expect(link).to_have_attribute("data-state", "up")
    home.cut()
    try:
        expect(link).to_have_attribute("data-state", "down")
        expect(link.locator(".pm-badge-down")).to_have_text("down")
        expect(page.locator(".pm-sum")).to_contain_text("1 link down")
        expect(page.locator("[aria-live]", has_text="Broken: gateway to cloud")).to_have_count(1)
        home.looks.picture(page, "map-cut")
    finally:
        home.plug()
    expect(link).to_have_attribute("data-state", "up")


def test_a_link_opens_with_its_monitor_whose_state_moves(home: Home, page: Page) -> None:
    label(page, "locks gateway").locator(".pm-label").click()
    panel = page.locator("aside.pm-panel")
    expect(panel).to_contain_text("locks ⇄ gateway")
    expect(panel).to_contain_text("type door")
    lit = panel.locator(".pa-lit")
    expect(panel.locator(".pa-state")).to_have_count(3)
    expect(lit).to_have_attribute("data-of", "q0")
    for device, topic, state in (
        ("bell", "AC_request", "asked"),
        ("phone", "AC_grant", "granted"),
        ("bell", "DL_unlock", "q0"),
    ):
        home.publish(device, topic)
        expect(lit).to_have_attribute("data-of", state)
        expect(panel).to_contain_text(f"State: {state}")
    home.publish("bell", "DL_unlock")
    row = panel.locator(".pm-decision", has_text="suppresses")
    expect(row).to_have_count(1)  # told by the node, and not sampled too
    expect(row.first).to_contain_text("DL_unlock")
    expect(row.first).to_contain_text("bell → locks at gateway; shape: monitor unlock-after-grant suppresses")
    assert re.search(r"/decisions\?id=\d+", row.first.get_attribute("href") or "")
    home.looks.picture(page, "map-link")
    panel.get_by_label("Close").click()
    expect(panel).to_be_hidden()
    page.locator("[data-node=gateway]").click()
    panel.locator(".pm-client-row", has_text="cloud").click()
    expect(panel).to_contain_text("gateway ⇄ cloud")
    expect(panel.get_by_label("Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_by_keyboard(home: Home, page: Page) -> None:
    panel = page.locator("aside.pm-panel")
    page.locator(".pm-find").fill("locks")
    page.keyboard.press("Enter")
    expect(page.locator("[data-node=locks]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("mqtt://")
    expect(panel.get_by_label("Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator("[data-node=locks]")).to_be_focused()
    group = page.locator(".pm-svg > g")
    before = group.get_attribute("transform")
    page.keyboard.press("+")
    expect(group).not_to_have_attribute("transform", before or "")
    page.keyboard.press("0")
    label(page, "gateway cloud").focus()
    page.keyboard.press("Space")
    expect(panel).to_contain_text("no-remote-unlock")
    page.keyboard.press("Escape")
    expect(label(page, "gateway cloud")).to_be_focused()
    page.get_by_role("button", name="As table").press("Enter")
    expect(page.locator("[data-row]")).to_have_count(4)  # a link, two clients, the node


def test_on_a_telephone_the_table_is_first(home: Home) -> None:
    with home.looks.page(width=390) as page:
        row = page.locator('[data-row="gateway cloud"]')
        expect(row).to_contain_text("internet")
        expect(row.locator(".pm-narrow")).to_have_count(0)
        assert page.locator(".pm-table-box").evaluate("one => one.scrollWidth <= one.clientWidth")
        home.looks.picture(page, "map-narrow")
        row.get_by_role("button").click()
        expect(page.locator("aside.pm-panel")).to_contain_text("Monitor no-remote-unlock")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        home.looks.picture(page, "map-link-narrow")
        page.get_by_role("button", name="As map").click()
        expect(page.locator(".pm-node")).to_have_count(3)


def test_names_from_outside_are_only_text(home: Home) -> None:
    with home.looks.page("/?open=locks") as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        home.publish(EVIL, f"{EVIL}/topic")
        expect(page.locator(".pm-client", has_text="<img src=x")).to_have_count(1)
        panel = page.locator("aside.pm-panel")
        panel.get_by_label("Find a client").fill("onerror")
        expect(panel.locator(".pm-client-row:visible")).to_have_count(2)  # the link with the gateway, and the client
        panel.locator(".pm-client-row:visible").last.click()
        expect(panel).to_contain_text(f"{EVIL} ⇄ locks")
        expect(panel).to_contain_text("type sensitive")
        assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("open=gateway&open=locks", "locks ⇄ gateway"),
        ("open=motion", "motion ⇄ gateway"),
        ("open=gateway&open=camera", "camera ⇄ gateway"),
        ("open=nobody", "Not on the map"),
        ("open=phone&open=lock", "Not on the map"),
    ],
    ids=["a link from its other end", "a client", "a client that is away", "nobody", "no link"],
)
def test_what_an_address_opens(home: Home, page: Page, asked: str, said: str) -> None:
    page.goto(f"{home.looks.address}/?{asked}")
    expect(page.locator("aside.pm-panel")).to_contain_text(said)


def test_a_long_condition_keeps_to_its_box_and_its_action_is_seen(home: Home, page: Page) -> None:
    page.goto(f"{home.looks.address}/?open=motion")
    diagram = page.locator(".pa")
    expect(diagram).to_contain_text("/ suppress")
    expect(diagram.locator("title").first).to_have_text("MD_motion if has(person) && person < 0.5 / suppress")
    over = diagram.evaluate(
        "all => [...all.querySelectorAll('.pa-edge')].map(one => one.getBoundingClientRect().right)"
        ".filter(right => right > all.querySelector('.pa-box').getBoundingClientRect().right).length"
    )
    assert over == 0
    home.looks.picture(page, "map-condition")


def test_labels_pills_and_arrowheads_do_not_hide_each_other(home: Home, page: Page) -> None:
    page.goto(home.looks.address)
    for _ in range(3):
        home.publish("motion", "MD_motion", b'{"person": 0.1}')
    expect(label(page, "motion gateway").locator(".pm-badge-denied")).to_be_visible()
    boxes = page.locator(".pm-label rect, .pm-badge rect, .pm-box").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(one => [one.left, one.top, one.right, one.bottom])"
    )
    assert len(boxes) > 14
    assert overlaps(boxes) == []
    tips = page.locator(".pm-line").evaluate_all(
        "all => all.flatMap(one => { const to = one.getScreenCTM(), far = one.getTotalLength(); return [4, 8, 12]"
        ".map(back => one.getPointAtLength(far - back).matrixTransform(to)).map(at => [at.x, at.y]); })"
    )
    hidden = [(x, y) for x, y in tips for box in boxes if box[0] < x < box[2] and box[1] < y < box[3]]
    assert hidden == []
    home.looks.picture(page, "map-labels")
    page.goto(f"{home.looks.address}/decisions?rule=not-the-cat&verdict=suppress")
    expect(page.locator(".pk-row", has_text="MD_motion").get_by_text("not-the-cat", exact=True).first).to_be_visible()


def overlaps(boxes: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    """Return the labels that overlap another."""
    return [
        (box, other)
        for at, box in enumerate(boxes)
        for other in boxes[:at]
        if box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
    ]


def test_in_the_dark(home: Home) -> None:
    with home.looks.page("/?open=locks&open=gateway", scheme="dark") as page:
        expect(page.locator("aside.pm-panel .pa-lit")).to_have_count(1)
        assert _brightness(page, ".pm-svg", "background-color") < 0.2
        for selector in (".pm-type", ".pm-node .pm-name", ".pa-edge.pa-suppress", ".pm-badge-denied text"):
            assert _brightness(page, selector, "fill") > 0.3, selector
        home.looks.picture(page, "map-dark")


def _brightness(page: Page, selector: str, of: str) -> float:
    """Relative luminance of a colour, as the norm for accessible pages has it."""
    colour = page.locator(selector).first.evaluate("(one, of) => getComputedStyle(one)[of]", of)
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(digits) / 255 for digits in re.findall(r"\d+", colour)[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_node_that_hangs_or_is_killed_is_seen_and_the_others_go_on(home: Home, tmp_path: Path) -> None:
    people = tmp_path / "people"
    people.write_text(passwords(ada="adaada"))
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory", "admin": f"127.0.0.1:{free_port()}"} for name in ("hill", "dale")},
        "links": [{"between": ["dale", "hill"]}],
        "monitors": {
            "calm": {"link": "hill -> dale", "states": {"q0": {"a": "suppress", "*": "pass"}}},
            "still": {"link": "hill -> dale", "at": "arrival", "states": {"q0": {"b": "suppress", "*": "pass"}}},
            "shy": {"link": "dale -> hill", "at": "departure", "states": {"q0": {"c": "suppress", "*": "pass"}}},
        },
        "admin": {"passwords": str(people), "users": {"ada": "read"}},
    }
    hill, dale = (f"http://{node['admin']}" for node in domain["nodes"].values())
    with federated(domain) as nodes, console(hill, tmp_path, "--also", dale) as (address, _):
        looks = Looking(LiveNode(nodes.folder), address, home.looks.browser)
        with looks.page("/?open=dale") as page:
            expect(page.locator("[data-node=dale]")).to_have_attribute("data-state", "up")
            expect(label(page, "dale hill")).to_have_attribute("data-state", "up")
            nodes.freeze("dale")
            expect(page.locator("[role=alert]", has_text="no answer in")).to_be_visible()
            expect(page.locator("[data-node=dale]")).to_contain_text("no data")
            expect(page.locator("[data-node=hill]")).to_have_attribute("data-state", "up")
            nodes.kill("dale")
            expect(page.locator("[data-node=dale]")).to_have_attribute("data-state", "down")
            expect(label(page, "dale hill").locator(".pm-badge-down")).to_be_visible()
            expect(page.locator("aside.pm-panel")).to_contain_text("no data")
            expect(page.locator("[role=alert]", has_text="cannot be reached")).to_be_visible()
            looks.picture(page, "map-killed")
            page.goto(f"{address}/?open=hill&open=dale")
            for monitor, state, edge in (
                ("calm", "State: q0", "a / suppress"),  # the other end asks it too
                ("still", "State unknown: node dale does not answer", "b / suppress"),
                ("shy", "State unknown: node dale does not answer", "c / suppress"),
            ):
                box = page.get_by_role("group", name=f"Monitor {monitor}")
                expect(box).to_contain_text(state)
                expect(box.locator(".pa-edge")).to_have_text([edge, "all else / pass"])
                expect(box.locator(".pa-lit")).to_have_count(1 if monitor == "calm" else 0)


@contextmanager
def serving_large() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.scenes.large_map"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()


def test_two_hundred_nodes_and_two_thousand_clients(home: Home) -> None:
    with serving_large() as address:
        page = home.looks.browser.new_page(viewport={"width": 1280, "height": 844})
        page.goto(f"{address}/?light=1")
        expect(page.locator(".pm-node")).to_have_count(200)
        expect(label(page, "n1 n7").locator(".pm-badge-down")).to_be_visible()
        expect(page.locator("[data-node=n3]")).to_contain_text("9 of 10 clients")
        steps = page.locator(".pm-step").evaluate_all("all => all.map(one => one.textContent.trim())")
        assert sorted(steps) == ["1", "2", "3"]
        expect(page.locator(".pm-line.pm-goes")).to_have_count(3)
        expect(page.locator(".pm-node.pm-lit")).to_have_count(3)
        assert page.locator(".pm-link[tabindex='0']").count() == 0
        expect(label(page, "n0 n4").locator(".pm-rate")).to_have_text(re.compile(r"4\.0/s .4\.0/s"))
        boxes = page.locator(".pm-node > .pm-box").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect()).map(one => [one.left, one.top, one.right, one.bottom])"
        )
        assert overlaps(boxes) == []
        home.looks.picture(page, "map-large")
        page.close()
