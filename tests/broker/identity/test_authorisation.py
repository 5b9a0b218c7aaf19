"""The authorisation endpoint of a live node: who gets which token, and what hostile requests get (RFC 6749)."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from penstock.broker.federation import Federation
from penstock.broker.http.admin import AdminServer
from penstock.broker.http.api import Api
from penstock.broker.identity import authorisation, logins
from penstock.broker.identity.attempts import (
    MAX_AS_USER,
    MAX_FROM_ADDRESS,
    MAX_FROM_THIS_MACHINE,
    MAX_KEPT,
    PERIOD,
    Attempts,
)
from penstock.cli.domain.check import check_domain
from penstock.domain import Domain, read
from penstock.policy.access.passwords import hash_password
from penstock.policy.tokens.keys import KeySet, PublicKey
from penstock.policy.tokens.token import Party, parse_token
from penstock.policy.tokens.verification import verify
from penstock.wire.packet import Connack, Connect
from penstock.wire.reason import Reason
from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.memory.tokens import key_of
from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode
from tests.support.processes.token_node import (
    USERS,
    HttpAnswer,
    ask,
    basic,
    send,
    token_for,
    token_node,
    write_keys,
    write_passwords,
)

FORM = "application/x-www-form-urlencoded"
GRANT = b"grant_type=client_credentials"
PUMP = basic("pump", USERS["pump"])
DOMAIN: dict[str, Any] = {
    "clients": {
        "display": {"node": "main", "user": "ann"},
        "gourd": {"node": "main", "user": "kürbis"},
        "one": {"node": "main", "user": "twin", "id": "one"},
        "two": {"node": "main", "user": "twin", "id": "two"},
    },
    "brokering": {"types": ["default"], "default": "default"},
    "admin": {"behind_proxy": True},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[LiveNode]:
    with token_node(**DOMAIN) as live:
        yield live


def post(node: LiveNode, body: bytes, **headers: str) -> HttpAnswer:
    sent_headers = {"content_type": FORM, **headers}
    return send(node, "POST", "/token", body, {name.replace("_", "-"): value for name, value in sent_headers.items()})


def test_a_token_for_all_that_is_granted(issuer: LiveNode) -> None:
    answer = ask(issuer, "pump")
    assert answer.status == 200
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
    assert {name: value for name, value in answer.json.items() if name != "access_token"} == {
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "publish:home/kitchen/# publish:home/my%20room subscribe:home/#",
    }
    token = parse_token(answer.json["access_token"].encode())
    keys = KeySet.parse(send(issuer, "GET", "/keys").body)
    verify(token, keys, time.time(), [Party("domain", "test")], holder=Party("client", "pump"))
    assert token.claims.publish == {"home/kitchen/#", "home/my room"}
    assert token.claims.subscribe == {"home/#"}
    issuer.until_logged("token issued", "user=pump", token.claims.id)


async def test_a_password_is_not_looked_at_where_only_a_token_counts(issuer: LiveNode) -> None:
    """It would be a way to guess those that get tokens which nobody counts."""
    messages = set()
    for user, password in (("pump", USERS["pump"]), ("pump", "wrong"), ("nobody", "wrong")):
        peer = await Peer.open(HOST, issuer.port)
        await peer.send(Connect(user, username=user, password=password.encode()))
        answer = await peer.next()
        assert isinstance(answer, Connack)
        messages.add((answer.reason, answer.properties.reason_string))
    assert messages == {(Reason.NOT_AUTHORIZED, "this node asks for an authorisation token, as the password")}


def test_the_secret_may_be_in_the_body(issuer: LiveNode) -> None:
    form = {"grant_type": "client_credentials", "client_id": "kürbis", "client_secret": USERS["kürbis"]}
    assert post(issuer, urlencode(form).encode()).status == 200


def test_names_and_passwords_are_form_encoded_in_basic_authentication(issuer: LiveNode) -> None:
    assert parse_token(token_for(issuer, "kürbis").encode()).claims.subject == Party("client", "gourd")


def test_a_user_that_the_domain_lists_gets_the_token_of_its_client(issuer: LiveNode) -> None:
    claims = parse_token(token_for(issuer, "ann").encode()).claims
    assert (claims.subject, claims.publish) == (Party("client", "display"), frozenset())


def test_each_token_has_an_id_of_its_own(issuer: LiveNode) -> None:
    assert len({parse_token(token_for(issuer, "pump").encode()).claims.id for _ in range(3)}) == 3


@pytest.mark.parametrize(
    ("scope", "publish", "subscribe"),
    [
        pytest.param("subscribe:home/+/light", set(), {"home/+/light"}, id="narrower"),
        pytest.param(
            "publish:home/kitchen/lamp subscribe:home/#", {"home/kitchen/lamp"}, {"home/#"}, id="some of both"
        ),
        pytest.param("publish:home/my%20room publish:home/my%20room", {"home/my room"}, set(), id="encoded, twice"),
        pytest.param("", {"home/kitchen/#", "home/my room"}, {"home/#"}, id="empty is as if left out"),
    ],
)
def test_a_scope_narrows_the_grant(issuer: LiveNode, scope: str, publish: set[str], subscribe: set[str]) -> None:
    claims = parse_token(token_for(issuer, "pump", scope=scope).encode()).claims
    assert claims.publish == publish
    assert claims.subscribe == subscribe


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param("publish:home/#", id="more than is granted"),
        pytest.param("subscribe:home/# publish:garden", id="one of two"),
        pytest.param("subscribe:#", id="everything"),
        pytest.param("subscribe:$share/g/home/a", id="shared"),
        pytest.param("read:home/a", id="no such right"),
        pytest.param("home/a", id="no right"),
        pytest.param("publish:", id="no filter"),
        pytest.param("publish:home/kitchen/#/x", id="not a filter"),
        pytest.param("publish:home/kitchen/%zz", id="badly encoded"),
        pytest.param("publish:home/kitchen/%ff", id="not UTF-8"),
        pytest.param("publish:home/kitchen/ä", id="not ASCII"),
        pytest.param('publish:home/kitchen/"', id="quotes"),
        pytest.param("publish:home/kitchen/a  publish:home/kitchen/b", id="two blanks"),
        pytest.param(" ".join(f"publish:home/kitchen/{number}" for number in range(101)), id="too many"),
    ],
)
def test_a_scope_that_is_not_granted(issuer: LiveNode, scope: str) -> None:
    answer = ask(issuer, "pump", scope=scope)
    assert (answer.status, answer.json["error"]) == (400, "invalid_scope")
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("user", ["idle", "twin"])
def test_who_is_granted_nothing_or_is_two_clients_gets_nothing(issuer: LiveNode, user: str) -> None:
    answer = ask(issuer, user)
    assert (answer.status, answer.json["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        pytest.param(b"", {"authorization": PUMP}, 400, "invalid_request", id="no body"),
        pytest.param(b"grant_type=password", {"authorization": PUMP}, 400, "unsupported_grant_type", id="grant type"),
        pytest.param(b"grant_type=", {"authorization": PUMP}, 400, "invalid_request", id="empty grant type"),
        pytest.param(GRANT + b"&" + GRANT, {"authorization": PUMP}, 400, "invalid_request", id="grant type twice"),
        pytest.param(
            GRANT + b"&scope=publish:a&scope=publish:b",
            {"authorization": PUMP},
            400,
            "invalid_request",
            id="two scopes",
        ),
        pytest.param(GRANT + b"&x", {"authorization": PUMP}, 400, "invalid_request", id="not a form"),
        pytest.param(
            GRANT + b"&" + b"&".join(b"x%d=" % number for number in range(40)),
            {"authorization": PUMP},
            400,
            "invalid_request",
            id="many parameters",
        ),
        pytest.param(GRANT + b"&x=\xff\xfe", {"authorization": PUMP}, 400, "invalid_request", id="bytes"),
        pytest.param(GRANT + b"&x=%ff", {"authorization": PUMP}, 400, "invalid_request", id="not UTF-8"),
        pytest.param(
            json.dumps({"grant_type": "client_credentials"}).encode(),
            {"authorization": PUMP, "content_type": "application/json"},
            400,
            "invalid_request",
            id="JSON",
        ),
        pytest.param(
            GRANT, {"authorization": PUMP, "content_type": "text/plain"}, 400, "invalid_request", id="content type"
        ),
        pytest.param(GRANT + b"&client_secret=x", {"authorization": PUMP}, 400, "invalid_request", id="two secrets"),
        pytest.param(GRANT + b"&client_id=ann", {"authorization": PUMP}, 400, "invalid_request", id="two users"),
        pytest.param(GRANT, {}, 401, "invalid_client", id="nobody"),
        pytest.param(GRANT + b"&client_id=pump", {}, 401, "invalid_client", id="no secret"),
        pytest.param(GRANT, {"authorization": "Basic !!!"}, 401, "invalid_client", id="not base64"),
        pytest.param(GRANT, {"authorization": "Basic /w=="}, 401, "invalid_client", id="user not UTF-8"),
        pytest.param(GRANT, {"authorization": "Basic cHVtcA=="}, 401, "invalid_client", id="no colon"),
        pytest.param(GRANT, {"authorization": "Basic JWZmOng="}, 401, "invalid_client", id="encoded, not UTF-8"),
        pytest.param(GRANT, {"authorization": "Bearer abc"}, 401, "invalid_client", id="another scheme"),
        pytest.param(GRANT, {"authorization": basic("pump", "wrong")}, 401, "invalid_client", id="wrong password"),
        pytest.param(GRANT, {"authorization": basic("nobody", "x")}, 401, "invalid_client", id="unknown user"),
        pytest.param(GRANT, {"authorization": basic("pu\0mp\n", "x")}, 401, "invalid_client", id="control characters"),
        pytest.param(GRANT, {"authorization": basic("x" * 5000, "x")}, 401, "invalid_client", id="a long name"),
        pytest.param(GRANT, {"authorization": basic("pump", "")}, 401, "invalid_client", id="empty password"),
    ],
)
def test_hostile_requests(issuer: LiveNode, body: bytes, headers: dict[str, str], status: int, error: str) -> None:
    answer = post(issuer, body, **headers)
    assert (answer.status, answer.json["error"]) == (status, error)
    assert ("Basic" in answer.headers.get("WWW-Authenticate", "")) == (status == 401)
    assert set(answer.json["error_description"]) <= {chr(code) for code in range(0x20, 0x7F)} - set('"\\')


def test_parameters_in_the_address_are_refused(issuer: LiveNode) -> None:
    answer = send(issuer, "POST", "/token?client_id=pump", GRANT, {"Content-Type": FORM, "Authorization": PUMP})
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


def test_a_huge_body_is_not_read(issuer: LiveNode) -> None:
    with socket.create_connection((HOST, issuer.ports("http")[0]), timeout=20) as connection:
        connection.sendall(f"POST /token HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\n".encode())
        connection.sendall(b"Content-Length: 1000000000000\r\n\r\n" + b"a" * 40_000)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_leaves_in_the_middle_does_no_harm(issuer: LiveNode) -> None:
    with socket.create_connection((HOST, issuer.ports("http")[0]), timeout=20) as connection:
        connection.sendall(f"POST /token HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\n".encode())
        connection.sendall(b"Content-Length: 100\r\n\r\ngrant_")
    assert ask(issuer, "pump").status == 200


def test_only_post(issuer: LiveNode) -> None:
    answer = send(issuer, "GET", "/token")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


def test_metadata_and_keys(issuer: LiveNode) -> None:
    base = f"http://{HOST}:{issuer.ports('http')[0]}"
    metadata = send(issuer, "GET", "/.well-known/oauth-authorization-server").json
    assert (metadata["issuer"], metadata["token_endpoint"], metadata["jwks_uri"]) == (
        base,
        f"{base}/token",
        f"{base}/keys",
    )
    assert metadata["grant_types_supported"] == ["client_credentials"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post"]
    proxied = {"Host": "tokens.example", "X-Forwarded-Proto": "https"}
    metadata = send(issuer, "GET", "/.well-known/oauth-authorization-server", headers=proxied).json
    assert metadata["token_endpoint"] == "https://tokens.example/token"
    answer = send(issuer, "GET", "/keys")
    assert answer.headers["Content-Type"] == "application/jwk-set+json"
    assert [(key["kid"], key["node"], "d" in key) for key in answer.json["keys"]] == [
        (key_of("main").key_id, "main", False)
    ]


TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x2FF), max_size=30)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.tuples(st.sampled_from(["grant_type", "scope", "client_id", "client_secret", "x"]), TEXT), max_size=5
    ).map(lambda pairs: urlencode([("grant_type", "client_credentials"), *pairs]).encode()),
)


@given(
    BODIES, st.lists(st.one_of(st.binary(max_size=40), TEXT.map(lambda text: basic(text, text).encode())), max_size=2)
)
def test_whatever_is_sent_is_a_request_or_is_refused(body: bytes, authorisations: list[bytes]) -> None:
    headers = [(b"content-type", FORM.encode()), *((b"authorization", value) for value in authorisations)]
    request = Request({"type": "http", "method": "POST", "path": "/token", "query_string": b"", "headers": headers})
    result: authorisation.TokenRequest | authorisation.TokenRefusal
    try:
        result = authorisation.read_request(request, body)
    except authorisation.TokenRefusal as refusal:
        result = refusal
    if isinstance(result, authorisation.TokenRefusal):
        assert result.status in (400, 401)
        assert result.answer.headers["Cache-Control"] == "no-store"
    else:
        assert result.user
        assert result.password


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/token"), ("GET", "/keys"), ("GET", "/.well-known/oauth-authorization-server")]
)
def test_nothing_is_there_without_tokens(node: LiveNode, method: str, path: str) -> None:
    assert send(node, method, path).status == 404


def test_failed_log_ins_are_limited_and_the_right_password_does_not_help() -> None:
    with token_node() as node:
        assert [ask(node, "pump", "guess").status for _ in range(20)] == [401] * 20
        answer = ask(node, "pump")
        assert (answer.status, answer.json["error"]) == (429, "temporarily_unavailable")
        assert 1 <= int(answer.headers["Retry-After"]) <= 61
        node.until_logged("token not issued", "user=pump", "too many failed log-ins")


def test_a_slow_password_does_not_hold_up_messages() -> None:
    with token_node({"required": False}) as node:
        settings = yaml.safe_load((node.folder / "domain.yaml").read_text())
        slow = f"pump:{hash_password(USERS['pump'].encode(), 300_000)}\n"
        Path(settings["nodes"]["main"]["passwords"]).write_text(slow)
        node.reload()
        body = GRANT + b"\r\n"
        request = (
            f"POST /token HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nAuthorization: {PUMP}\r\n"
            f"Content-Length: {len(GRANT)}\r\n\r\n"
        ).encode() + body
        with (
            socket.create_connection((HOST, node.ports("http")[0]), timeout=30) as connection,
            socket.create_connection((HOST, node.ports("http")[0]), timeout=30) as other,
        ):
            connection.sendall(request)
            other.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.1 200 ")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):  # its password is still being looked at
                connection.recv(1)
            connection.settimeout(30)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_failed_log_ins_count_by_address_and_by_user() -> None:
    attempts = Attempts()
    for number in range(MAX_FROM_ADDRESS):
        assert attempts.wait("192.0.2.1", f"u{number}", 0.0) == 0.0
        attempts.failed("192.0.2.1", f"u{number}", 0.0)
    assert attempts.wait("192.0.2.1", "u", 20.0) == PERIOD - 20.0  # another user of the same address waits
    assert attempts.wait("192.0.2.2", "u", 20.0) == 0.0
    assert attempts.wait("192.0.2.1", "u", PERIOD) == 0.0  # they no longer count
    for number in range(MAX_AS_USER):
        attempts.failed(f"198.51.100.{number}", "ann", 0.0)
    assert attempts.wait("192.0.2.9", "ann", 1.0) > 0  # one user, from everywhere
    for number in range(MAX_FROM_ADDRESS):
        attempts.failed(f"2001:db8::{number:x}", f"v{number}", 0.0)
    assert attempts.wait("2001:db8::ffff", "v", 1.0) > 0  # one network
    assert attempts.wait("2001:db8:1::1", "v", 1.0) == 0.0


def test_guesses_of_others_do_not_lock_a_user_out_where_it_has_logged_in_before() -> None:
    attempts = Attempts()
    attempts.succeeded("192.0.2.9", "ann")
    for number in range(MAX_AS_USER):
        attempts.failed(f"198.51.100.{number}", "ann", 0.0)
    assert attempts.wait("192.0.2.9", "ann", 1.0) == 0.0
    assert attempts.wait("192.0.2.10", "ann", 1.0) > 0
    for _ in range(MAX_FROM_ADDRESS):
        attempts.failed("192.0.2.9", "ann", 1.0)
    assert attempts.wait("192.0.2.9", "ann", 2.0) > 0, "its own guesses count"


def test_this_machine_has_a_bound_for_all_users_together() -> None:
    attempts = Attempts()
    for number in range(MAX_FROM_THIS_MACHINE):
        assert attempts.wait("127.0.0.1", f"u{number}", 0.0) == 0.0
        attempts.failed("127.0.0.1", f"u{number}", 0.0)
    assert attempts.wait("127.0.0.1", "u", 1.0) > 0


def test_failed_log_ins_take_little_room() -> None:
    attempts = Attempts()
    for number in range(MAX_KEPT):
        attempts.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"u{number}", 0.0)
    assert len(attempts._failed) == MAX_KEPT


@contextlib.asynccontextmanager
async def in_here(folder: Path) -> AsyncIterator[AdminServer]:
    """A node in this process, with its admin address."""
    write_keys(folder, "main")
    write_passwords(folder, {"pump": USERS["pump"]})
    files = {"passwords": str(folder / "passwords"), "signing_key": str(folder / "main.pem")}
    domain = {
        "domain": "test",
        "nodes": {"main": {"listen": ANY_PORT, "admin": ANY_PORT, "store": "memory", **files}},
        "tokens": {"keys": str(folder / "keys.json"), "grants": [{"clients": "*", "publish": "a"}]},
    }
    federation = Federation(Domain.model_validate(domain), ("main",), None)
    await federation.start()
    admin = AdminServer(federation.servers["main"], Api(federation))
    await admin.start()
    try:
        yield admin
    finally:
        await admin.stop()
        await federation.stop()


async def said(admin: AdminServer, body: bytes, length: int | None = None) -> bytes:
    """The first bytes of the answer to a request for a token, of which the body may be shorter than it says."""
    address = urlsplit(admin.address)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /token HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nAuthorization: {PUMP}\r\n"
    writer.write(f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body)
    try:
        async with asyncio.timeout(PATIENCE):
            return await reader.readuntil(b"\r\n")
    finally:
        writer.close()


async def test_many_at_once_and_bodies_that_do_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_here(tmp_path) as admin:
        answers = await asyncio.gather(*(said(admin, GRANT) for _ in range(50)))  # nobody has failed
        assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}
        monkeypatch.setattr(logins, "MAX_WAITING", 0)
        assert await said(admin, GRANT) == b"HTTP/1.1 503 Service Unavailable\r\n"
        monkeypatch.setattr(authorisation, "BODY_SECONDS", 0.05)
        assert await said(admin, GRANT, length=1000) == b"HTTP/1.1 408 Request Timeout\r\n"


@pytest.mark.parametrize("how", ["revoked", "retired"])
def test_a_node_whose_own_key_counts_no_more_says_so_and_issues_nothing(how: str) -> None:
    with token_node() as node:
        settings = yaml.safe_load((node.folder / "domain.yaml").read_text())
        folder = Path(settings["tokens"]["revoked"]).parent
        keys = KeySet.read(folder / "keys.json")
        (own,) = keys.keys
        assert ask(node, "pump").status == 200
        if how == "revoked":
            (folder / "revoked").write_text(f"key {own}\n")
        else:
            keys.retire(own, int(time.time())).write(folder / "keys.json")
        node.reload()
        node.until_logged("signing key", own, f"is {how}")
        answer = ask(node, "pump")
        assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
        assert f"is {how}: no node accepts the tokens that it makes" in answer.json["error_description"]
        report = check_domain(read(node.folder / "domain.yaml"))
        assert [f"is {how}" in warning.what for warning in report.warnings if "signing_key" in warning.path] == [True]


def test_a_reload_ends_what_is_revoked_and_keeps_who_has_a_good_token_with_or_without_a_password() -> None:
    with token_node({"grants": [{"clients": "*", "publish": "home/#", "subscribe": "home/#"}]}) as node:
        settings = yaml.safe_load((node.folder / "domain.yaml").read_text())
        folder = Path(settings["tokens"]["revoked"]).parent
        good, bad = token_for(node, "pump"), token_for(node, "idle")
        with (
            Paho("one").is_user("pump", good).connects(node.port) as first,
            Paho("two").is_user("idle", bad).connects(node.port) as two,
        ):
            first.subscribe("home/#")
            other = PublicKey("b1", key_of("b1").public)
            KeySet.read(folder / "keys.json").with_key(other).write(folder / "keys.json")
            (folder / "revoked").write_text(f"token {parse_token(bad.encode()).claims.id}\nkey {other.key_id}\n")
            (folder / "passwords").write_text(f"ann:{hash_password(b'x')}\n")
            node.reload()
            node.until_logged("token ended", "client=two", "revoked")
            assert two.ends.get(timeout=PATIENCE) == "Not authorized"
            first.publish("home/a", b"still here", qos=1)
            assert first.receive().payload == b"still here"
        assert [key["node"] for key in send(node, "GET", "/keys").json["keys"]] == ["main"]
