"""The admin HTTP API of a live node: what it tells, to whom, and what can be changed."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.broker.http.api import ENDPOINTS
from penstock.client.local_token import find_token, token_path
from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE, until
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

SECRET = "a-secret-of-a-link-that-nobody-may-see"
DOMAIN: dict[str, Any] = {
    "domain": "office",
    "clients": {"ann": {"node": "main", "type": "inside"}, "bob": {"node": "main", "type": "outside"}},
    "contracts": {"situations": {"fire": {"sources": ["ann"], "opens": "fire", "closes": "out", "lasts": "1h"}}},
    "brokering": {"types": ["inside", "outside"], "deny": [{"from": "inside", "to": "outside"}]},
    "admin": {
        "passwords": "people",
        "users": {"ada": "change", "eve": "read", "cai": "content"},
        "audit": "audit.jsonl",
    },
    "nodes": {
        "main": {"listen": ANY_PORT, "store": "memory", "admin": ANY_PORT},
        "other": {"listen": ANY_PORT, "store": "memory"},
    },
    "links": [{"between": ["main", "other"], "type": "outside", "secret": SECRET}],
}


@pytest.fixture(scope="module")
def live() -> Iterator[LiveNode]:
    people = passwords(ada="lovelace", eve="reads", cai="sees", mallory="is not listed")
    with running({}, {"people": people}, **DOMAIN) as node:
        yield node


def base(node: LiveNode) -> str:
    return next(address for address in node.addresses if address.startswith("http"))


def ask(
    node: LiveNode, method: str, path: str, token: str | None = None, body: object = None, **headers: str
) -> tuple[int, Any]:
    """Status and what the answer says; `token` None: that of the user who runs the node."""
    parts = urlsplit(base(node))
    shown = find_token(base(node)) if token is None else token
    sent = {"Authorization": f"Bearer {shown}"} if shown else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        body_ = answer.read()
        return answer.status, json.loads(body_) if body_ else None
    finally:
        connection.close()


def log_in(node: LiveNode, user: str, password: str) -> str:
    status, answer_ = ask(node, "POST", "/api/login", "", {"user": user, "password": password})
    assert status == 200, answer_
    return str(answer_["token"])


def test_without_a_token_there_is_nothing(live: LiveNode) -> None:
    for endpoint in ENDPOINTS:
        if endpoint.right is not None:
            for token in ("", "x", "null", "{}"):
                status, answer_ = ask(live, endpoint.method, endpoint.path, token)
                assert (status, list(answer_)) == (401, ["error"]), endpoint.path
    assert ask(live, "GET", "/api/openapi.json", "")[0] == 401
    assert ask(live, "GET", "/metrics", "")[0] == 401
    assert ask(live, "GET", "/health", "") == (200, {"status": "ok"})


def test_the_user_that_runs_the_node_may_do_all(live: LiveNode) -> None:
    status, about = ask(live, "GET", "/api/about")
    assert status == 200
    assert (about["nodes"], about["domain"], about["how"], about["right"]) == (
        ["main", "other"],
        "office",
        "local",
        "change",
    )
    assert token_path(base(live)).stat().st_mode & 0o077 == 0


def test_people_log_in_and_out(live: LiveNode) -> None:
    token = log_in(live, "eve", "reads")
    assert ask(live, "GET", "/api/about", token)[1]["right"] == "read"
    assert ask(live, "POST", "/api/reload", token)[0] == 403
    assert ask(live, "POST", "/api/logout", token)[0] == 200
    assert ask(live, "GET", "/api/about", token)[0] == 401


@pytest.mark.parametrize(
    ("user", "password"), [("ada", "wrong"), ("nobody", "lovelace"), ("mallory", "is not listed"), ("", "")]
)
def test_who_is_not_let_in(live: LiveNode, user: str, password: str) -> None:
    status, answer_ = ask(live, "POST", "/api/login", "", {"user": user, "password": password})
    assert (status, answer_) == (401, {"error": "unknown user or wrong password"})


def test_nodes_clients_and_what_was_exchanged(live: LiveNode) -> None:
    with Paho("ann").connects(live.port) as ann, Paho("bob").connects(live.port) as bob:
        bob.subscribe("a/#", 1)
        ann.subscribe("a/#", 1)
        ann.publish("a/b", b"1", 1)
        ann.receive()
        answer_ = ask(live, "GET", "/api/subscriptions?subject=bob")[1]
        assert [(subscription["entity"], subscription["filter"]) for subscription in answer_] == [("bob", "a/#")]
        status, nodes = ask(live, "GET", "/api/nodes")
    assert status == 200
    state = nodes["nodes"]["main"]
    clients = {client["entity"]: client for client in state["portrait"]["clients"]}
    assert clients["ann"]["took"] >= 2
    assert (clients["ann"]["publish_type"], clients["bob"]["notify_type"]) == ("inside", "outside")
    links = [(link["neighbour"], link["foreign"], link["up"]) for link in state["portrait"]["links"]]
    assert links == [("other", False, True)]


def test_counts_of_a_client_go_on_from_session_to_session(live: LiveNode) -> None:
    def denied() -> int:
        portrait = ask(live, "GET", "/api/nodes")[1]["nodes"]["main"]["portrait"]
        return sum(
            client["denied"] for client in (*portrait["clients"], *portrait["past"]) if client["entity"] == "bob"
        )

    before = denied()
    for _ in range(3):
        with Paho("bob").connects(live.port) as bob, Paho("ann").connects(live.port) as ann:
            bob.subscribe("kept/from/bob")
            ann.publish("kept/from/bob", b"x", 1)
    until(lambda: denied() == before + 3, "all three are told, though each was of another session")


def test_decisions_are_sampled_while_somebody_looks(live: LiveNode) -> None:
    since = ask(live, "GET", "/api/decisions")[1]["next"]
    with Paho("ann").connects(live.port) as ann, Paho("bob").connects(live.port) as bob:
        bob.subscribe("a/#", 1)
        ann.subscribe("a/#", 1)
        ann.publish("a/secret", b"of ann", 1)
        ann.receive()
        rows = ask(live, "GET", f"/api/decisions?since={since}&topic=a/%23&subject=bob")[1]["rows"]
    assert [(row["effect"], row["stage"], row["source"], row["target"]) for row in rows] == [
        ("suppress", "route", "ann", "bob")
    ]
    path = f"/api/decision?id={rows[0]['id']}"
    assert ask(live, "GET", path, log_in(live, "cai", "sees"))[1]["decision"]["event"]["payload"] == "of ann"
    hidden = ask(live, "GET", path, log_in(live, "eve", "reads"))[1]["decision"]["event"]
    assert (hidden["payload"], hidden["encoding"]) == ("", "hidden")


def test_no_secret_is_ever_told(live: LiveNode) -> None:
    for path in ("/api/draft", "/api/revision", "/api/nodes", "/api/audit", "/api/trust/all", "/api/tokens"):
        status, answer_ = ask(live, "GET", path)
        assert status == 200
        assert SECRET not in json.dumps(answer_)


def test_a_draft_is_checked_and_put_into_force(live: LiveNode) -> None:
    draft = ask(live, "GET", "/api/draft")[1]
    assert "<kept secret 0>" in draft["text"]
    mistaken = {"text": draft["text"] + "\nnonsense: 1\n", "revision": draft["revision"]}
    bad = ask(live, "POST", "/api/draft/check", None, mistaken)[1]
    assert not bad["good"]
    assert "nonsense" in bad["problems"][0]["path"] + bad["problems"][0]["what"]
    changed = draft["text"].replace("type: inside", "type: outside")
    answer_ = ask(live, "POST", "/api/draft", None, {"text": changed, "revision": draft["revision"]})[1]
    assert (answer_["done"], answer_["checked"]["good"]) == (True, True)
    assert any("ann" in change for change in answer_["changes"])
    assert SECRET in (live.folder / "domain.yaml").read_text()
    status, refused = ask(live, "POST", "/api/draft", None, {"text": draft["text"], "revision": draft["revision"]})
    assert (status, "has changed since" in refused["error"]) == (409, True)
    assert ask(live, "POST", "/api/draft", None, {"text": draft["text"]})[0] == 409, "marks of which file?"
    again = {"text": draft["text"], "revision": ask(live, "GET", "/api/draft")[1]["revision"]}
    assert ask(live, "POST", "/api/draft", None, again)[1]["done"]
    audited = [(entry["what"], entry["done"]) for entry in ask(live, "GET", "/api/audit")[1]]
    assert audited[-4:] == [("draft", True), ("draft", False), ("draft", False), ("draft", True)]
    lines = (live.folder / "audit.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["what"] == "draft"


def test_situations_are_audited(live: LiveNode) -> None:
    with Paho("ann").connects(live.port) as ann:
        ann.publish("fire", b"{}", 1)
        ann.publish("out", b"{}", 1)
    answer_ = [entry for entry in ask(live, "GET", "/api/audit")[1] if entry["what"].startswith("situation")]
    assert [(entry["node"], entry["who"], entry["what"]) for entry in answer_ if entry["node"] == "main"] == [
        ("main", "ann", "situation opened"),
        ("main", "ann", "situation ended"),
    ]
    stored = [json.loads(line) for line in (live.folder / "audit.jsonl").read_text().splitlines()]
    assert all(entry in stored for entry in answer_)


def test_names_that_are_not_the_nodes_are_not_answered(live: LiveNode) -> None:
    """A page elsewhere whose name has been led to this address asks by that name."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::ffff:127.0.0.1]"):
        assert ask(live, "GET", "/api/about", None, Host=host)[0] in (400, 421), host
    assert ask(live, "GET", "/api/about", None, Host="localhost")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "//api/nodes",
        "/api//nodes",
        "/./api/nodes",
        "/health/../api/nodes",
        "/api/nodes/",
        "/API/nodes",
        "/%61pi/nodes",
        "/api/nodes%00",
        "/api/nodes;x",
        "/api/login/../nodes",
    ],
)
def test_tricks_with_paths_tell_nothing(live: LiveNode, path: str) -> None:
    assert ask(live, "GET", path, "")[0] in (307, 400, 401, 404, 405)


def test_the_document_describes_every_endpoint(live: LiveNode) -> None:
    status, answer_ = ask(live, "GET", "/api/openapi.json")
    assert (status, answer_["openapi"]) == (200, "3.1.0")
    assert {(method.upper(), path) for path, operations in answer_["paths"].items() for method in operations} == {
        (endpoint.method, endpoint.path) for endpoint in ENDPOINTS
    }
