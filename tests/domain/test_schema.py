"""The settings as values, and as a JSON schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.domain import Address, Domain, LimitSettings, Listener, NodeSettings, default_domain
from penstock.domain.schema.domain import DomainFile


def test_the_default_domain_is_one_open_node_on_loopback() -> None:
    node = default_domain().nodes["main"]
    (listener,) = node.listeners
    assert (listener.address, node.store, node.durable) == (Address("127.0.0.1", 1883), "memory", False)
    assert node.allows_anonymous(listener)


def test_the_default_domain_takes_port_store_and_host() -> None:
    node = default_domain(0, "x.db", "::1").nodes["main"]
    assert (node.listeners[0].address, node.store) == (Address("::1", 0), "x.db")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert Address(host, 1883).loopback is loopback


@pytest.mark.parametrize(
    ("host", "node", "listener", "passwords", "allowed"),
    [
        ("127.0.0.1", None, None, None, True),
        ("0.0.0.0", None, None, None, False),
        ("127.0.0.1", None, None, "users", False),
        ("127.0.0.1", True, None, "users", True),
        ("0.0.0.0", True, None, None, True),
        ("127.0.0.1", False, None, None, False),
        ("0.0.0.0", False, True, None, True),
        ("127.0.0.1", True, False, None, False),
    ],
)
def test_who_may_connect_without_a_name(
    host: str, node: bool | None, listener: bool | None, passwords: str | None, allowed: bool
) -> None:
    where = Listener(address=Address(host, 1883), anonymous=listener)
    users = Path(passwords) if passwords else None
    assert NodeSettings(listen=(where,), anonymous=node, passwords=users).allows_anonymous(where) is allowed


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        LimitSettings().inflight = 5  # type: ignore[misc]


def test_settings_are_equal_if_they_say_the_same() -> None:
    assert default_domain() == default_domain()
    assert default_domain() != default_domain(1884)


def test_a_domain_can_be_written_down_and_read_again() -> None:
    domain = default_domain(store="x.db")
    assert Domain.model_validate(domain.model_dump(mode="json", exclude_unset=True)) == domain


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key of each model in a JSON schema."""
    for name, model in {"DomainFile": schema, **schema["$defs"]}.items():
        for key, value in model["properties"].items():
            yield f"{name}.{key}", value


def test_every_key_of_the_json_schema_is_described() -> None:
    described = {name: value.get("description") for name, value in properties(DomainFile.model_json_schema())}
    assert [name for name, description in described.items() if not description] == []
    assert {"DomainFile.include", "NodeSettings.listen", "Tls.identity"} <= described.keys()


def test_every_quantity_says_its_unit() -> None:
    units = ("seconds", "bytes")
    quantities = {
        name: value["description"]
        for name, value in properties(DomainFile.model_json_schema())
        if name.endswith(("_timeout", "_interval", "_keepalive", "_expiry", "_bytes", "_size"))
    }
    assert len(quantities) == 9
    assert [name for name, text in quantities.items() if not text.startswith(units)] == []


def test_the_short_forms_of_listen_are_in_the_json_schema() -> None:
    listen = DomainFile.model_json_schema()["$defs"]["NodeSettings"]["properties"]["listen"]
    assert [form.get("type", "listener") for form in listen["anyOf"]] == ["string", "listener", "array"]
