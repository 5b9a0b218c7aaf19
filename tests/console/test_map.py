"""The map in a real browser: a smart home with traffic, a link that is cut, hostile names, a large ensemble."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.support.cable import Cable
from tests.support.commands import until
from tests.support.console import Looking, looking
from tests.support.paho import Paho

FILE = Path(__file__).parents[2] / "examples" / "smart-home" / "domain.yaml"
EVIL = "<img src=x onerror=alert(1)>"
SECONDS = 20_000
"""Milliseconds that a page may take to show what has happened."""


@contextmanager
def cable() -> Iterator[tuple[Cable, asyncio.AbstractEventLoop]]:
    """A cable that this thread can cut: it works in another one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = Cable(0)
    made.cut()
    asyncio.run_coroutine_threadsafe(made.__aenter__(), loop).result()
    try:
        yield made, loop
    finally:
        asyncio.run_coroutine_threadsafe(made.__aexit__(None, None, None), loop).result()
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
    with ExitStack() as kept:
        line, loop = kept.enter_context(cable())
        domain["links"][0]["address"] = f"127.0.0.1:{line.port}"
        looks = kept.enter_context(looking(domain))
        ports = dict(zip(domain["nodes"], looks.nodes.ports("mqtt"), strict=True))
        loop.call_soon_threadsafe(line.plug, ports["cloud"])
        devices = {}
        for name in ("phone", "motion", "bell", "lock"):
            devices[name] = kept.enter_context(Paho(name)).connects(ports[domain["clients"][name]["node"]])
            devices[name].subscribe("#", 1)
        devices[EVIL] = kept.enter_context(Paho(EVIL)).connects(ports["locks"])
        yield Home(looks, devices, line, loop)


def label(page: Page, link: str) -> Any:
    return page.locator(f'[data-link="{link}"]')


def test_nodes_links_and_clients_with_their_types(home: Home) -> None:
    with home.looks.page() as page:
        expect(page.locator(".pm-node")).to_have_count(3)
        expect(page.locator(".pm-legend li")).to_have_text(["internet", "door", "sensitive", "down"])
        for link, kind in (("gateway cloud", "internet"), ("locks gateway", "door"), ("motion gateway", "sensitive")):
            expect(label(page, link)).to_have_attribute("data-state", "up", timeout=SECONDS)
            expect(label(page, link).locator(".pm-type")).to_have_text(kind)
        expect(label(page, "camera gateway")).to_have_attribute("data-state", "away")
        colours = [
            label(page, link).locator(".pm-line").first.evaluate("one => getComputedStyle(one).stroke")
            for link in ("gateway cloud", "locks gateway", "motion gateway")
        ]
        assert len(set(colours)) == 3


def test_traffic_is_a_rate_and_a_refusal_is_counted(home: Home) -> None:
    with home.looks.page() as page:
        expect(label(page, "gateway cloud")).to_have_attribute("data-state", "up", timeout=SECONDS)
        before = page.locator('[data-link="gateway cloud"] .pm-badge-denied').all_inner_texts()
        for _ in range(10):
            home.publish("phone", "DL_unlock")
        badge = label(page, "gateway cloud").locator(".pm-badge-denied")
        expect(badge).to_be_visible(timeout=SECONDS)
        until(lambda: badge.all_inner_texts() != before, "the refusals are counted")
        expect(label(page, "phone cloud").locator(".pm-rate")).to_have_text(_moving(), timeout=SECONDS)


def _moving() -> Any:
    import re

    return re.compile(r"←(?!0/s)[\d.]+/s")
