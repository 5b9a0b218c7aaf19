"""The door of the console: who has not logged in gets nothing, and no other site comes in."""

import http.client
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest
from playwright.sync_api import expect

from penstock.client.admin import CA, CERT
from penstock.console.login.form_limit import MAX_FORMS
from tests.support.processes.certificates import Authority
from tests.support.processes.commands import penstock, run
from tests.support.processes.console import PEOPLE, Looking, console, looking
from tests.support.processes.mosquitto import free_port
from tests.support.processes.node import passwords, running

HOME = {"domain": "home", "nodes": {"hall": {}}}
TOLD = ".pk-banner:not(#pk-lost)"


@pytest.fixture(scope="module")
def home() -> Iterator[Looking]:
    with looking(HOME) as home:
        yield home


def ask(
    home: Looking, method: str, path: str, headers: dict[str, str] | None = None, body: str | None = None
) -> http.client.HTTPResponse:
    parts = urlsplit(home.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def log_in(home: Looking, user: str, password: str, to: str = "", **headers: str) -> http.client.HTTPResponse:
    return ask(home, "POST", "/login", FORM | headers, urlencode({"user": user, "password": password, "to": to}))


def cookie(home: Looking) -> str:
    answer = log_in(home, "ada", "adaada")
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    return cookie.partition(";")[0]


WAYS = {
    "/decisions": "?to=/decisions",
    "/decisions?topic=a/%23&verdict=pass": "?to=/decisions%3Ftopic%3Da/%2523%26verdict%3Dpass",
}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        *WAYS,
        "/static/console.css",
        "/_nicegui/3.18.0/static/nicegui.js",
        "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
        "/docs",
        "/openapi.json",
        "//",
        "/login/../decisions",
        "/%2e%2e/decisions",
        "/static/..%2fapp.py",
        "/LOGIN",
        "/login/",
    ],
)
def test_without_a_log_in_there_is_nothing(home: Looking, path: str) -> None:
    answer = ask(home, "GET", path)
    assert answer.status == 401
    browser = ask(home, "GET", path, {"Accept": "text/html"})
    assert (browser.status, browser.headers["location"]) == (303, f"/login{WAYS.get(path, '')}")
    assert ask(home, "GET", path, {"Cookie": "penstock_console=guessed"}).status == 401


def test_a_log_in_lets_in_and_a_log_out_ends_it(home: Looking) -> None:
    shown = {"Cookie": cookie(home)}
    page = ask(home, "GET", "/", shown)
    assert page.status == 200
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert ask(home, "POST", "/logout", shown).status == 303
    assert ask(home, "GET", "/", shown).status == 401


def test_wrong_passwords_are_told_apart_from_nothing(home: Looking) -> None:
    assert log_in(home, "ada", "guess").status == 401
    assert log_in(home, "nobody", "guess").status == 401
    assert log_in(home, "", "").status == 400


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}],
    ids=["another origin", "cross-site", "no origin to speak of"],
)
def test_other_sites_cannot_log_in_or_out(home: Looking, headers: dict[str, str]) -> None:
    assert log_in(home, "ada", "adaada", **headers).status == 403
    shown = {"Cookie": cookie(home)}
    assert ask(home, "POST", "/logout", shown | headers).status in (403, 405)
    assert ask(home, "GET", "/", shown).status == 200


def test_names_that_are_not_its_own(home: Looking) -> None:
    shown = {"Cookie": cookie(home)}
    for host in (
        "evil.example",
        "127.0.0.2",
        "127.0.0.1.evil.example:1",
        "evil.example:18083",
        "localhost@evil.example",
    ):
        assert ask(home, "GET", "/", shown | {"Host": host}).status == 421
    for host in ("127.0.0.1", "127.0.0.1:1", "LOCALHOST:18083"):  # as a tunnel has it
        assert ask(home, "GET", "/login", {"Host": host}).status == 200
    assert ask(home, "GET", "/login", {"Host": "evil.example"}).status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_web_sockets_of_other_sites_are_not_taken(home: Looking, origin: str | None) -> None:
    parts = urlsplit(home.address)
    lines = [
        "GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Cookie: {cookie(home)}",
        *([f"Origin: {origin}"] if origin else []),
    ]
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert b" 403 " in connection.recv(200).partition(b"\r\n")[0]


def test_in_a_browser(home: Looking) -> None:
    with home.page() as page:
        assert page.title() == "Map · home · Penstock"
        assert page.locator("nav[aria-label=Parts] a").all_inner_texts()[0].endswith("Map")
        home.picture(page, "shell")
        page.click("text=Log out")
        page.wait_for_url(f"{home.address}/login")
        home.picture(page, "login")
        page.goto(f"{home.address}/decisions?verdict=pass&topic=a/%23")
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        assert urlsplit(page.url).path == "/login"
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        home.picture(page, "login-narrow")
        page.fill("#user", "ada")
        page.fill("#password", "adaada")
        page.click("button[type=submit]")
        page.wait_for_url(f"{home.address}/decisions?verdict=pass&topic=a/%23")
        page.wait_for_selector(".pk-main")
        assert page.evaluate("document.documentElement.lang") == "en-US"
        page.goto(f"{home.address}/nowhere")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    ("to", "leads"),
    [
        ("/decisions?topic=a%2F%23&verdict=pass", "/decisions?topic=a%2F%23&verdict=pass"),
        ("/?open=hall", "/?open=hall"),
        ("https://evil.example/", "/"),
        ("//evil.example/decisions", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example/decisions", "/"),
        ("/decisions/../../evil", "/"),
        ("javascript:alert(1)", "/"),
        ("http:/decisions", "/"),
        ("/\t/evil.example", "/"),
        ("/decisions?a\r\nSet-Cookie: b=c", "/decisions?aSet-Cookie:%20b=c"),
        ("//[", "/"),
        ("/login?to=/", "/"),
        ("/logout", "/"),
        ("/try?" + "a" * 5000, "/"),
    ],
)
def test_a_log_in_leads_to_a_page_of_ours_and_nowhere_else(home: Looking, to: str, leads: str) -> None:
    answer = log_in(home, "ada", "adaada", to)
    assert (answer.status, answer.headers["location"]) == (303, leads)
    assert "b=c" not in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["caf\xe9", "abc\r\ndef", "\x00", "a\x7fb", "\u2028x"])
def test_a_token_of_strange_characters_is_a_wrong_one(home: Looking, token: str) -> None:
    parts = urlsplit(home.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request("POST", "/login", urlencode({"token": token}), FORM)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 401
    assert "or invalid token" in text
    assert "Bearer" not in text


def test_who_sends_a_form_too_slowly_keeps_nobody_out(home: Looking) -> None:
    """Of unfinished forms from one address the oldest are given up at once, however long there is patience with one."""
    parts = urlsplit(home.address)
    head = f"POST /login HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 100\r\n\r\nx".encode()
    slow = [socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) for _ in range(MAX_FORMS + 3)]
    try:
        for sender in slow:
            sender.sendall(head)
            time.sleep(0.02)  # so that they come in this order
        for sender in slow[:3]:
            assert b" 408 " in sender.recv(4096).partition(b"\r\n")[0]
            while sender.recv(4096):
                pass  # until it is closed
        assert log_in(home, "ada", "adaada").status == 303
        slow[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            slow[-1].recv(1)
    finally:
        for sender in slow:
            sender.close()


def test_a_node_that_hangs_is_told_and_a_new_page_is_there_all_the_same(home: Looking) -> None:
    with home.person() as context, home.tab(context, "/?open=hall") as page:
        expect(page.locator(TOLD)).to_be_hidden()
        os.kill(home.nodes.pid, signal.SIGSTOP)
        try:
            expect(page.locator(TOLD)).to_contain_text("no answer since")
            expect(page.locator("[data-node=hall]")).to_have_attribute("data-state", "silent")
            expect(page.locator("[data-node=hall]")).to_contain_text("no data")
            expect(page.locator("aside.pm-panel")).to_contain_text("no answer since")
            expect(page.locator("aside.pm-panel")).to_contain_text("not known")
            assert "/s" not in (page.locator(".pm-svg").text_content() or ""), "what moves is not known"
            with home.tab(context, "/decisions") as late:
                expect(late.get_by_text("Waiting for the nodes")).to_be_visible()
                expect(late.locator(TOLD)).to_contain_text(home.admin)
                home.picture(late, "hanging")
        finally:
            os.kill(home.nodes.pid, signal.SIGCONT)
        expect(page.locator(TOLD)).to_be_hidden()
        expect(page.locator("[data-node=hall]")).to_have_attribute("data-state", "up")


def test_a_console_that_was_started_again_leads_to_the_log_in(home: Looking, tmp_path: Path) -> None:
    at = ("--at", f"127.0.0.1:{free_port()}")
    with ExitStack() as stack:
        with console(home.admin, tmp_path, *at) as (address, _):
            looks = Looking(home.nodes, address, home.browser)
            context = stack.enter_context(looks.person())
            page, writing = (context.new_page() for _ in range(2))
            page.goto(f"{address}/decisions?verdict=pass")
            writing.goto(f"{address}/try")
            expect(page.locator("#pk-decisions-status")).to_contain_text("live")
            expect(writing.locator(".cm-content")).to_be_visible()
        expect(page.locator("#pk-lost")).to_contain_text("No connection to the console since")
        expect(page.locator("#pk-decisions-status")).to_be_hidden()
        home.picture(page, "lost")
        with console(home.admin, tmp_path, *at):
            page.wait_for_url(f"{address}/login?to={quote('/decisions?verdict=pass', safe='/')}")
            expect(writing.locator("#pk-lost")).to_contain_text("copy your draft")
            expect(writing.locator(".cm-content")).to_be_visible()


def test_a_log_out_is_noticed_by_other_tabs_without_a_complaint(home: Looking) -> None:
    log = home.nodes.folder / "console.log"
    with home.person() as context, home.tab(context, "/decisions?verdict=pass") as page:
        expect(page.locator("#pk-decisions-status")).to_contain_text("live")
        before = log.stat().st_size
        assert context.request.post(f"{home.address}/logout", max_redirects=0).status == 303
        page.wait_for_url(f"{home.address}/login?to={quote('/decisions?verdict=pass', safe='/')}")
        assert "Traceback" not in log.read_text()[before:]


def test_on_the_network_it_has_the_tls_and_the_names_of_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("node")
    own = authority.sign("ada")
    both = tmp_path / "both.pem"
    both.write_text("".join(file.read_text() for file in own))
    monkeypatch.setenv(CERT, str(both))
    monkeypatch.setenv(CA, str(authority.file))
    tls = {"cert": cert, "key": key, "ca": authority.file, "require_certificate": True, "min_version": "1.3"}
    settings = {
        "admin": "127.0.0.1:0",
        "console": "0.0.0.0:0",
        "admin_tls": {name: value if isinstance(value, bool) else str(value) for name, value in tls.items()},
    }
    admin = {"passwords": "people", "users": PEOPLE, "hosts": ["plant.example"]}
    with running(settings, {"people": passwords(ada="adaada")}, admin=admin) as node:
        port = int(node.until_logged("console ready").rpartition(":")[2].split()[0].strip("'\"}"))

        def asked(context: ssl.SSLContext, host: str) -> int:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
            body = urlencode({"user": "ada", "password": "adaada"})
            connection.request("POST", "/login", body, FORM | {"Host": host})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status

        context = authority.trusting(own)
        for host in (f"plant.example:{port}", "plant.example", f"127.0.0.1:{port}", f"10.0.0.7:{port}"):
            assert asked(context, host) == 303, host
        assert asked(context, f"evil.example:{port}") == 421
        with pytest.raises((ssl.SSLError, OSError)):
            asked(authority.trusting(), f"plant.example:{port}")
        old = authority.trusting(own)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            asked(old, f"plant.example:{port}")
        address = next(listening for listening in node.addresses if listening.startswith("https"))
        assert run(penstock("status", "--alive", address))[0] == 0
        monkeypatch.delenv(CERT)
        assert run(penstock("status", "--alive", address))[0] == 1
