"""Access to the admin HTTP API: authorisation tokens, TLS, repeated failures; and the effects of a change."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.broker.federation import Federation
from penstock.broker.http import bounded_http
from penstock.broker.http.admin_tokens import IDLE_SECONDS, MAX_SECONDS, MAX_SESSIONS, AdminTokens
from penstock.broker.http.audit import MAX_REFUSED
from penstock.broker.http.bounded_http import HEAD_SECONDS
from penstock.broker.http.endpoint import NOBODY
from penstock.broker.http.people import NO_USER
from penstock.broker.http.secret_masks import MaskError, mask_secrets, restore_secrets
from penstock.broker.identity.attempts import MAX_FROM_ADDRESS
from penstock.client.admin import CA, AdminClient, AdminError
from penstock.client.local_token import find_token, token_path
from penstock.domain import Domain
from penstock.domain.schema.admin import AdminSettings
from penstock.policy.tokens.revocation import CARRIED
from tests.broker.http.test_api import ask, base, log_in
from tests.support.processes.certificates import Authority
from tests.support.processes.commands import until
from tests.support.processes.node import ANY_PORT, passwords, running
from tests.support.processes.token_node import issued, token_node

CLIENTS: dict[str, Any] = {
    "clients": {"pump": {"node": "main"}, "display": {"node": "main"}},
    "brokering": {"types": ["default"], "default": "default"},
}


def test_a_client_that_is_listed_comes_in_with_a_token_of_this_node() -> None:
    with token_node(admin={"clients": {"pump": "read"}}, **CLIENTS) as node:
        status, about = ask(node, "GET", "/api/about", issued("main", "pump"))
        assert (status, about["user"], about["right"], about["how"]) == (200, "pump", "read", "client")
        assert ask(node, "POST", "/api/reload", issued("main", "pump"))[0] == 403
        refused = {
            "another client": issued("main", "display"),
            "another node": issued("b1", "pump"),
            "it has expired": issued("main", "pump", expiry=2, issued=0, not_before=0),
            "another domain": issued("main", "pump").replace("a", "b", 1),
        }
        for why, token in refused.items():
            assert ask(node, "GET", "/api/about", token)[0] == 401, why


def test_what_nodes_tell_each_other_of_a_client_is_no_token_here() -> None:
    """A neighbour gets it with every event of the client."""
    with token_node(admin={"clients": {"pump": "change"}}, **CLIENTS) as node:
        assert ask(node, "GET", "/api/about", issued("main", "pump", id=f"{CARRIED}abc"))[0] == 401


def test_a_request_must_come_in_time_and_be_short() -> None:
    with running({"admin": ANY_PORT}) as node:
        place = ("127.0.0.1", node.ports("http")[0])
        with socket.create_connection(place, timeout=30) as long:
            with contextlib.suppress(OSError):
                for _ in range(64):
                    long.sendall(b"GET /" + b"a" * 65_536)
            assert long.recv(1000)[:12] in (b"HTTP/1.1 400", b"")
        with socket.create_connection(place, timeout=HEAD_SECONDS * 3) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert slow.recv(100) == b""
        body = {"user": "x" * 20_000, "password": "y"}
        assert ask(node, "POST", "/api/login", "", body)[0] == 413
        assert ask(node, "GET", "/health", "")[0] == 200


def test_drafts_of_people_bring_no_files_and_no_code_in() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="right")}, admin=_people(ada="change")) as node:
        token, file = log_in(node, "ada", "right"), node.folder / "domain.yaml"
        now = ask(node, "GET", "/api/draft", token)[1]
        for more, message in (
            ("include: /etc/passwd\n", "include"),
            ("monitors: {m: {link: a -> main, python: 'subprocess:Popen'}}\n", "subprocess:Popen"),
            ("tokens: {keys: /etc/hostname}\n", "/etc/hostname"),
        ):
            for path in ("/api/draft/check", "/api/draft"):
                draft = {"text": now["text"] + more, "revision": now["revision"]}
                status, answer = ask(node, "POST", path, token, draft)
                assert (status, message in answer["error"]) == (403, True), answer
        assert "include" not in file.read_text()
        audited = ask(node, "GET", "/api/audit")[1]
        assert [(entry["who"], entry["done"]) for entry in audited[1:]] == [("ada", False)] * 6
        good = {"text": now["text"].replace("ada: change", "ada: change\n    bob: read"), "revision": now["revision"]}
        answer = ask(node, "POST", "/api/draft", token, good)[1]
        assert answer["changes"] == ["admin `bob` added: `nothing` to `read`"]


def test_guesses_are_made_to_wait() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="right")}, admin=_people(ada="change")) as node:
        guess = {"user": "ada", "password": "guess-4711"}
        for _ in range(MAX_FROM_ADDRESS):
            assert ask(node, "POST", "/api/login", "", guess)[0] == 401
        assert ask(node, "POST", "/api/login", "", guess)[0] == 429
        assert ask(node, "POST", "/api/login", "", {"user": "ada", "password": "right"})[0] == 429
        audited = ask(node, "GET", "/api/audit")[1]
        assert [entry["done"] for entry in audited] == [False] * (MAX_FROM_ADDRESS + 2)
        assert "guess-4711" not in node.log


def test_guesses_by_a_console_count_where_they_come_from() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="right")}, admin=_people(ada="change")) as node:
        guess = {"user": "ada", "password": "guess", "address": "192.0.2.1"}
        good = {"user": "ada", "password": "right", "address": "192.0.2.2"}
        for _ in range(MAX_FROM_ADDRESS):
            assert ask(node, "POST", "/api/login", None, guess)[0] == 401
        assert ask(node, "POST", "/api/login", None, guess)[0] == 429
        assert ask(node, "POST", "/api/login", None, good)[0] == 200
        for _ in range(MAX_FROM_ADDRESS):  # who is not known may say what it likes
            assert ask(node, "POST", "/api/login", "", guess)[0] == 401
        assert ask(node, "POST", "/api/login", "", good)[0] == 429
        addresses = [entry["address"] for entry in ask(node, "GET", "/api/audit")[1]]
        assert (addresses[0], addresses[-1]) == ("192.0.2.1", "127.0.0.1")


def test_a_password_typed_as_a_user_is_noted_nowhere() -> None:
    people = passwords(ada="right")
    with running({"admin": ANY_PORT}, {"people": people}, admin={**_people(ada="read"), "audit": "audit"}) as node:
        ask(node, "POST", "/api/login", "", {"user": "MyPassw0rd!", "password": "x"})
        ask(node, "POST", "/api/login", "", {"user": "ada", "password": "x"})
        answer = ask(node, "GET", "/api/audit")[1]
        assert [entry["who"] for entry in answer] == [NO_USER, "ada"]
        assert "MyPassw0rd!" not in (node.folder / "audit").read_text() + node.log


def test_refusals_do_not_take_the_place_of_what_was_done() -> None:
    people = passwords(ada="a", eve="e")
    users = {"passwords": "people", "users": {"ada": "change", "eve": "read"}, "audit": "audit"}
    with running({"admin": ANY_PORT}, {"people": people}, admin=users) as node:
        ada, eve = log_in(node, "ada", "a"), log_in(node, "eve", "e")
        assert ask(node, "POST", "/api/reload", ada)[0] == 200
        for _ in range(MAX_REFUSED + 100):
            assert ask(node, "POST", "/api/reload", eve)[0] == 403
        answer = ask(node, "GET", "/api/audit?limit=1000")[1]
        assert [entry["who"] for entry in answer if entry["done"]] == ["ada", "eve", "ada"]
        assert len([entry for entry in answer if not entry["done"]]) == MAX_REFUSED
        assert len((node.folder / "audit").read_text().splitlines()) == MAX_REFUSED + 3


def test_passwords_that_were_changed_or_taken_away_end_sessions() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="old")}, admin=_people(ada="change")) as node:
        token = log_in(node, "ada", "old")
        node.write("people", passwords(ada="new"))
        assert ask(node, "GET", "/api/about", token)[0] == 401


def _people(**users: str) -> dict[str, object]:
    return {"passwords": "people", "users": users}


def test_who_is_no_longer_listed_is_out_at_once() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="right")}, admin=_people(ada="change")) as node:
        token = log_in(node, "ada", "right")
        file = node.folder / "domain.yaml"
        written = yaml.safe_load(file.read_text())
        written["admin"]["users"] = {"ada": "read"}
        file.write_text(yaml.safe_dump(written))
        assert ask(node, "POST", "/api/reload", token)[0] == 200
        assert ask(node, "POST", "/api/reload", token)[0] == 403
        written["admin"]["users"] = {}
        file.write_text(yaml.safe_dump(written))
        assert ask(node, "POST", "/api/reload")[0] == 200
        assert ask(node, "GET", "/api/about", token)[0] == 401


def test_a_password_that_is_changed_counts_at_once() -> None:
    with running({"admin": ANY_PORT}, {"people": passwords(ada="old")}, admin=_people(ada="change")) as node:
        log_in(node, "ada", "old")
        node.write("people", passwords(ada="new"))
        log_in(node, "ada", "new")
        assert ask(node, "POST", "/api/login", "", {"user": "ada", "password": "old"})[0] == 401
        node.write("people", "nonsense")
        assert ask(node, "POST", "/api/login", "", {"user": "ada", "password": "new"})[0] == 401


def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("node")
    with running({"admin": ANY_PORT, "admin_tls": {"cert": str(cert), "key": str(key)}}) as node:
        address = base(node)
        assert address.startswith("https://")
        monkeypatch.setenv(CA, str(authority.file))
        assert AdminClient(address).get("/api/about")["nodes"] == ["main"]
        monkeypatch.setenv(CA, str(Authority(tmp_path, "other").file))
        with pytest.raises(AdminError, match="certificate"):
            AdminClient(address).get("/api/about")
        with pytest.raises((urllib.error.URLError, OSError)):
            urllib.request.urlopen(address.replace("https", "http"), timeout=20)


def test_the_local_token_is_new_at_each_start_and_gone_with_the_node() -> None:
    with running({"admin": "127.0.0.1:0"}) as node:
        first, address = find_token(base(node)), base(node)
        file = token_path(address)
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o077 == 0
        node.stop(signal.SIGTERM)
        assert not file.exists()
        node.start()
        assert find_token(base(node)) != first
        with pytest.raises(AdminError, match="no valid token") as caught:
            AdminClient(base(node), first).get("/api/about")
        assert caught.value.status == 401


def test_nobody_listens_there() -> None:
    with pytest.raises(AdminError, match=r"cannot be reached: .*refused"):
        AdminClient("127.0.0.1:1").get("/api/about")
    with pytest.raises(AdminError, match="expected the admin address"):
        AdminClient("ftp://127.0.0.1")


def test_a_stream_of_decisions() -> None:
    with running({"admin": ANY_PORT}) as node:
        question = urllib.request.Request(
            f"{base(node)}/api/decisions/stream?topic=a/%23",
            headers={"Authorization": f"Bearer {find_token(base(node))}"},
        )
        with urllib.request.urlopen(question, timeout=60) as answer:
            until(lambda: ask(node, "GET", "/api/decisions")[0] == 200, "somebody looks")
            with subprocess.Popen(["mosquitto_sub", "-p", str(node.port), "-t", "a/#"]) as reader:
                until(lambda: bool(ask(node, "GET", "/api/subscriptions")[1]), "it has subscribed")
                for _ in range(3):
                    subprocess.run(["mosquitto_pub", "-p", str(node.port), "-t", "a/b", "-m", "x"], check=True)
                row = json.loads(answer.readline())
                reader.kill()
        assert (row["topic"], row["effect"]) == ("a/b", "pass")


# --- without a node


async def test_who_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "WRITE_SECONDS", 0.2)
    body = b"x" * 20_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body)(scope, receive, send)

    server = uvicorn.Server(bounded_http.config(app, lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        connections = server.server_state.connections
        deaf, writing = await asyncio.open_connection(*listening.getsockname(), limit=1024)
        writing.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        has_come = False
        for _ in range(3_000):
            has_come |= bool(connections)
            if has_come and not connections:
                break
            await asyncio.sleep(0.01)
        assert has_come
        assert not connections
        with contextlib.suppress(ConnectionError):
            assert len(await deaf.read()) < len(body)
        writing.close()
        async with httpx.AsyncClient() as reads:
            assert (await reads.get(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30)).content == body
        server.should_exit = True
        await serving


async def test_sessions_end() -> None:
    guard, settings = AdminTokens(), AdminSettings(users={"ada": "read"})
    server = Federation(Domain.model_validate({"nodes": {"main": {"listen": "127.0.0.1:0"}}}), ("main",), None).servers[
        "main"
    ]
    token = guard.begin("ada", None, 0.0)
    assert guard.caller(server, settings, None, token, IDLE_SECONDS - 1).name == "ada"
    assert guard.caller(server, settings, None, token, 2 * IDLE_SECONDS - 2).name == "ada", "it was used in between"
    assert guard.caller(server, settings, None, token, 4 * IDLE_SECONDS) == NOBODY
    token = guard.begin("ada", None, 0.0)
    times = [at * (IDLE_SECONDS - 1) for at in range(int(MAX_SECONDS / (IDLE_SECONDS - 1)) + 2)]
    assert [bool(guard.caller(server, settings, None, token, now).name) for now in times][-1] is False
    first = guard.begin("ada", None, 0.0)
    for _ in range(MAX_SESSIONS):
        guard.begin("ada", None, 0.0)
    assert guard.caller(server, settings, None, first, 1.0) == NOBODY, "there is room for so many only"
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a: 1\n", "a: 1\n"),
        ("links:\n- {between: [a, b], secret: xyz}\n", 'links:\n- {between: [a, b], secret: "<kept secret 0>"}\n'),
        ('links: [{secret: "ü 1"}, {secret: z}]', 'links: [{secret: "<kept secret 0>"}, {secret: "<kept secret 1>"}]'),
        ("links:\n- secret: |\n    ab\n    cd\n  b: 2\n", 'links:\n- secret: "<kept secret 0>"\n  b: 2\n'),
        ("users: {secret: change}", "users: {secret: change}"),
        ("trust_groups: {g: {secret: {file: f}}}", "trust_groups: {g: {secret: {file: f}}}"),
    ],
)
def test_marks_stand_for_secrets(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown
    assert yaml.safe_load(restore_secrets(mask_secrets(text), text)) == yaml.safe_load(text)


MARK = '"<kept secret 0>"'
LINK = "links: [{secret: hunter2}]"


@pytest.mark.parametrize(
    ("draft", "why"),
    [
        ('links: [{secret: "<kept secret 7>"}]', "stands for no secret"),
        (f"admin: {{users: {{secret: {MARK}}}}}", "stands where no secret"),
        (f"domain: &x a\nlinks: [{{secret: &x {MARK}}}]", "stands for what is elsewhere"),
        (f"links: [{{<<: {{secret: {MARK}}}}}]", "merged"),
        (f"links: [{{secret: {MARK}}}", "cannot be read"),
        ("[" * 5000, "cannot be read"),
    ],
    ids=range(6),
)
def test_marks_that_stand_for_nothing(draft: str, why: str) -> None:
    with pytest.raises(MaskError, match=why):
        restore_secrets(draft, LINK)


@pytest.mark.parametrize(
    "text",
    [
        f"{LINK}\noops: [",
        f"{LINK}\n\toops: 1",
        f"{LINK}\n---\na: 1",
        f"{LINK}\na: *nobody",
        "links: [{secret: &s hunter2}, {secret: *s}]",
        "a: &b {secret: hunter2}\nlinks: [{<<: *b}]",
    ],
    ids=range(6),
)
def test_what_cannot_be_masked_is_not_shown(text: str) -> None:
    with pytest.raises(MaskError) as caught:
        mask_secrets(text)
    assert "hunter2" not in str(caught.value)


CROSS_SITE = {
    "another origin": {"Origin": "http://evil.example"},
    "no origin": {"Origin": "null"},
    "as browsers say it": {"Sec-Fetch-Site": "cross-site"},
    "another service of the same machine": {"Sec-Fetch-Site": "same-site"},
}


def test_a_page_elsewhere_cannot_use_up_the_tries_of_a_person() -> None:
    people, login = {"people": passwords(eve="reads")}, json.dumps({"user": "eve", "password": "wrong"})
    with (
        running({"admin": ANY_PORT}, people, admin={"passwords": "people", "users": {"eve": "read"}}) as node,
        httpx.Client(base_url=base(node)) as browser,
    ):
        for path, (title, headers) in product(("/api/login", "/token"), CROSS_SITE.items()):
            for _ in range(MAX_FROM_ADDRESS + 1):
                answer = browser.post(path, content=login, headers={"Content-Type": "text/plain", **headers})
                assert (answer.status_code, answer.json()["error"]) == (403, "asked by a page of another site"), title
        assert log_in(node, "eve", "reads")
