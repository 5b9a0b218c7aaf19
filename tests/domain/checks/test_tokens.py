"""Warnings of `penstock check` about tokens."""

from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble


def domain(node: dict[str, Any] | None = None, **more: Any) -> Domain:
    grants = [{"clients": "*", "publish": "a"}]
    return Domain.model_validate(
        {
            "nodes": {"main": {"listen": "127.0.0.1:0", "signing_key": "main.pem", **(node or {})}},
            "tokens": {"keys": "keys.json", "grants": grants},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("user", "holder"),
    [
        pytest.param("ann", "pump", id="the client that is listed with the user"),
        pytest.param("bob", "bob", id="nobody is listed"),
        pytest.param("valve", "valve", id="listed by its client id: anybody may be it who has the id"),
        pytest.param("pump", None, id="somebody else is that client"),
        pytest.param("door", None, id="who has a certificate is that client"),
        pytest.param("both", None, id="two clients"),
        pytest.param("lamp", "lamp", id="itself"),
    ],
)
def test_whose_token_a_user_gets(user: str, holder: str | None) -> None:
    clients = {
        "pump": {"user": "ann"},
        "valve": {},
        "door": {"certificate": "door"},
        "one": {"user": "both", "id": "one"},
        "two": {"user": "both", "id": "two"},
        "lamp": {"user": "lamp"},
    }
    listed = {name: {"node": "main", **client} for name, client in clients.items()}
    compiled = ensemble(domain(clients=listed, brokering={"types": ["default"], "default": "default"}))
    assert compiled.holder(user) == holder
