"""The console in a real browser: live nodes, the console, and a page in Debian's Chromium that is logged in."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from penstock.client.local_token import find_token
from tests.support.processes.commands import PATIENCE, penstock
from tests.support.processes.forking import Process
from tests.support.processes.node import ANY_PORT, LiveNode, passwords

CHROMIUM = "/usr/bin/chromium"
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
HEIGHT = 844
PEOPLE = {"ada": "change", "cai": "content", "eve": "read"}
"""People of every console in tests, and what they may do; the password of each is its name twice."""
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
expect.set_options(timeout=PATIENCE * 1000)


class Looking:
    """Live nodes of one domain, their console, and a browser."""

    def __init__(self, nodes: LiveNode, address: str, browser: Browser) -> None:
        self.nodes = nodes
        self.address = address
        self.browser = browser

    @property
    def admin(self) -> str:
        """The admin address of the nodes."""
        return next(one for one in self.nodes.addresses if one.startswith("http"))

    @property
    def token(self) -> str:
        """The local token of the nodes."""
        return find_token(self.admin) or ""

    @contextlib.contextmanager
    def page(self, path: str = "/", user: str = "ada", width: int = 1280, scheme: str = "light") -> Iterator[Page]:
        """A page of the console, where this person has logged in; all that its scripts complain of is an error."""
        with self.person(user, width, scheme) as context, self.tab(context, path) as page:
            yield page

    @contextlib.contextmanager
    def person(self, user: str = "ada", width: int = 1280, scheme: str = "light") -> Iterator[BrowserContext]:
        """A browser where this person has logged in."""
        context = self._context(width, scheme)
        try:
            self._log_in(context, user)
            yield context
        finally:
            context.close()

    @contextlib.contextmanager
    def tab(self, context: BrowserContext, path: str, width: int = 0, scheme: Any = None) -> Iterator[Page]:
        """One more page for who has logged in; as wide and as dark as its browser, unless it is said."""
        page = context.new_page()
        if width:
            page.set_viewport_size({"width": width, "height": HEIGHT})
        if scheme is not None:
            page.emulate_media(color_scheme=scheme)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(f"not loaded: {request.url} {request.failure}"))
        page.goto(f"{self.address}{path}")
        page.wait_for_selector(".pk-main")
        yield page
        page.close()
        assert not [one for one in wrong if self.address not in one or "ERR_ABORTED" not in one], wrong

    def _context(self, width: int, scheme: Any) -> BrowserContext:
        made = self.browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        made.set_default_timeout(PATIENCE * 1000)
        return made

    def _log_in(self, context: BrowserContext, user: str) -> None:
        """Without the form, of which the door has a test: the page that it leads to would be loaded each time."""
        said: dict[str, str | float | bool] = {"user": user, "password": user * 2}
        assert context.request.post(f"{self.address}/login", form=said, max_redirects=0).status == 303

    def picture(self, page: Page, name: str) -> Path:
        """A screenshot, kept among what was built."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png")
        return SCREENSHOTS / f"{name}.png"

    def pictures(self, path: str, name: str, ready: str = ".pk-main") -> None:
        """A part light, dark and on a telephone."""
        with self.person() as context:
            for width, scheme, kind in ((1280, "light", "light"), (1280, "dark", "dark"), (390, "light", "narrow")):
                with self.tab(context, path, width, scheme) as page:
                    page.wait_for_selector(ready)
                    self.picture(page, f"{name}-{kind}")


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def looking(domain: Mapping[str, Any], files: Mapping[str, str] | None = None) -> Iterator[Looking]:
    """Run all nodes of a domain (as a domain file has it) in one process, with a console.

    Nodes listen on free ports and keep nothing unless the domain says otherwise; the first has the admin address.
    """
    whole = dict(domain)
    whole["nodes"] = {
        name: {"store": "memory", **dict(settings), "listen": ANY_PORT} for name, settings in domain["nodes"].items()
    }
    next(iter(whole["nodes"].values()))["admin"] = ANY_PORT
    whole["admin"] = {"passwords": "people", "users": PEOPLE, **domain.get("admin", {})}
    with tempfile.TemporaryDirectory(prefix="penstock-console-") as name:
        nodes = LiveNode(Path(name))
        nodes.write("people", passwords(**{user: user * 2 for user in PEOPLE}))
        for file, text in (files or {}).items():
            nodes.write(file, text)
        nodes.write("domain.yaml", yaml.safe_dump(whole, sort_keys=False))
        nodes.start()
        try:
            admin = next(one for one in nodes.addresses if one.startswith("http"))
            with console(admin, Path(name)) as (address, _), browsing() as browser:
                yield Looking(nodes, address, browser)
        finally:
            if nodes.is_alive:
                nodes.stop()


@contextlib.contextmanager
def console(admin: str, folder: Path, *options: str) -> Iterator[tuple[str, int]]:
    """The console of these nodes: its address and process."""
    with (folder / "console.log").open("ab") as errors:
        process = Process(
            penstock("console", admin, "--at", ANY_PORT, *options), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "ready" in line, (folder / "console.log").read_text()
        yield line.split()[-1], process.pid
    finally:
        process.terminate()
        process.wait(PATIENCE)
