"""A live node that issues tokens and asks for them, and what HTTP clients say to it.

with token_node() as node:
    answer = ask(node, PUMP, scope="publish:home/kitchen")
    token = answer.json["access_token"]
"""

import base64
import http.client
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode

from penstock.policy.access.passwords import hash_password
from penstock.policy.tokens.keys import KeySet, PublicKey
from penstock.policy.tokens.token import Claims, Party, issue, new_token_id
from tests.support.memory.tokens import key_of
from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, running

USERS = {
    **{user: f"{user}-secret-4711" for user in ("pump", "ann", "idle", "twin")},
    "kürbis": "pässwörd: +%41&=",
}
GRANTS = [
    {"clients": ["pump", "gourd"], "publish": ["home/kitchen/#", "home/my room"], "subscribe": "home/#"},
    {"clients": "display", "subscribe": "home/#"},
]


def write_keys(folder: Path, *nodes: str) -> None:
    """The private key of each node, and the public halves in one file."""
    for node in nodes:
        key_of(node).write(folder / f"{node}.pem")
    KeySet.of(PublicKey(node, key_of(node).public) for node in nodes).write(folder / "keys.json")


def write_passwords(folder: Path, users: Mapping[str, str] = USERS) -> None:
    lines = (f"{user}:{hash_password(password.encode())}\n" for user, password in users.items())
    (folder / "passwords").write_text("".join(lines))


@contextmanager
def token_node(tokens: Mapping[str, Any] | None = None, **more: Any) -> Iterator[LiveNode]:
    """Node `main` with an admin address. `tokens` says more of them, `more` of the domain."""
    with tempfile.TemporaryDirectory(prefix="keys-") as name:
        folder = Path(name)
        write_keys(folder, "main")
        write_passwords(folder)
        (folder / "revoked").touch()
        files = {"signing_key": str(folder / "main.pem"), "passwords": str(folder / "passwords")}
        of_tokens = {"keys": str(folder / "keys.json"), "revoked": str(folder / "revoked"), "grants": GRANTS}
        settings = {"admin": ANY_PORT, **files}
        with running(settings, tokens={**of_tokens, **(tokens or {})}, **more) as node:
            yield node
            assert "Traceback" not in node.log
            assert not [secret for secret in USERS.values() if secret in node.log]


def federation_of_two(folder: Path, **trust: Any) -> dict[str, Any]:
    """A domain of nodes `b1` and `b2` that ask for tokens; the keys are written into the folder."""
    write_keys(folder, "b1", "b2")
    return {
        "nodes": {name: {"store": "memory", "signing_key": str(folder / f"{name}.pem")} for name in ("b1", "b2")},
        "links": [{"between": ["b1", "b2"], "type": "default"}],
        "brokering": {"types": ["default"], "default": "default"},
        "tokens": {"keys": str(folder / "keys.json")},
        "trust": {"sign": 0.5, "feedback": {"least": 1, "from": "*"}, **trust},
    }


def issued(node: str, client: str, seconds: int = 3600, **changes: Any) -> str:
    """A token of a node in the domain `test`, for all below `home`, without asking the node."""
    now = int(time.time())
    home = frozenset({"home/#"})
    claims = Claims(
        issuer=node,
        subject=Party("client", client),
        audience=frozenset({Party("domain", "test")}),
        publish=home,
        subscribe=home,
        issued=now,
        not_before=now,
        expiry=now + seconds,
        id=new_token_id(),
    )
    return issue(replace(claims, **changes), key_of(node)).text.decode()


class HttpAnswer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(
    node: LiveNode, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    connection = http.client.HTTPConnection(HOST, node.ports("http")[0], timeout=PATIENCE)
    try:
        connection.request(method, path, body, dict(headers or {}))
        found = connection.getresponse()
        return HttpAnswer(found.status, found.headers, found.read())
    finally:
        connection.close()


def basic(user: str, password: str) -> str:
    said = f"{quote_plus(user)}:{quote_plus(password)}"
    return f"Basic {base64.b64encode(said.encode()).decode()}"


def ask(node: LiveNode, user: str, password: str | None = None, **parameters: str) -> HttpAnswer:
    """Ask for a token with Basic authentication; the password is the user's unless given."""
    said = urlencode({"grant_type": "client_credentials", **parameters}).encode()
    headers = {"Authorization": basic(user, USERS.get(user, "") if password is None else password)}
    return send(node, "POST", "/token", said, {"Content-Type": "application/x-www-form-urlencoded", **headers})


def token_for(node: LiveNode, user: str, **parameters: str) -> str:
    answer = ask(node, user, **parameters)
    assert answer.status == 200, answer
    found: str = answer.json["access_token"]
    return found
