"""The door of the console: who has not logged in gets nothing, and no other site comes in."""

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest

from tests.support.console import Looking, looking

HOME = {"domain": "home", "nodes": {"hall": {}}}


@pytest.fixture(scope="module")
def home() -> Iterator[Looking]:
    with looking(HOME) as found:
        yield found


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


def log_in(home: Looking, user: str, password: str, **headers: str) -> http.client.HTTPResponse:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return ask(home, "POST", "/login", form | headers, urlencode({"user": user, "password": password}))


def cookie(home: Looking) -> str:
    answer = log_in(home, "ada", "adaada")
    assert answer.status == 303
    given = answer.headers["set-cookie"]
    assert "httponly" in given.lower()
    assert "samesite=strict" in given.lower()
    return given.partition(";")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/decisions",
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
    assert (browser.status, browser.headers["location"]) == (303, "/login")
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
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:18083"):
        assert ask(home, "GET", "/", shown | {"Host": host}).status == 421
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
        page.goto(f"{home.address}/decisions")
        assert page.url == f"{home.address}/login"
        page.fill("#user", "ada")
        page.fill("#password", "adaada")
        page.click("button[type=submit]")
        page.wait_for_url(f"{home.address}/")
        page.wait_for_selector(".pk-main")
