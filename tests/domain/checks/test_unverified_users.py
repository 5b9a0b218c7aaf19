"""Settings that depend on user names where no node checks them: warnings of `penstock check`, and refused clients."""

from pathlib import Path
from typing import Any

import pytest

from penstock.broker.server import Server
from penstock.domain import Domain, NodeSettings
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.compile.users import warnings
from tests.support.memory.node import MemoryNode

ALICE = {"alice": {"node": "test", "user": "alice"}}
BOB = {"node": "test", "user": "bob"}
RULES = {"rules": {"some": {"visible_to": {"user": ["alice"]}}}}
CONTRACTS = {"producers": {"m": {"producer": "bob", "filter": "m/#", **RULES}}}
ANYBODY = {"types": ["default"], "default": "default"}


def domain(node: dict[str, Any], **more: Any) -> Domain:
    return Domain.model_validate({"nodes": {"test": {"listen": "127.0.0.1:0", "store": "memory", **node}}, **more})


@pytest.mark.parametrize(
    ("title", "node", "more", "told"),
    [
        ("a client", {}, {"clients": ALICE}, ["client `alice` is known by its user name"]),
        ("a contract", {}, {"contracts": CONTRACTS}, ["rule `some` of contract `m` is for some user names"]),
        ("nothing", {}, {"clients": {"bob": {"node": "test"}}}, []),
        ("a password file", {"passwords": "passwords"}, {"clients": {**ALICE, "bob": BOB}}, []),
        ("nobody comes in without", {"anonymous": False}, {"clients": ALICE}, []),
        ("also a certificate", {}, {"clients": {"alice": {**ALICE["alice"], "certificate": "alice"}}}, []),
    ],
)
def test_it_is_told_what_counts_on_user_names(
    title: str, node: dict[str, Any], more: dict[str, Any], told: list[str]
) -> None:
    written = domain(node, clients={"bob": {"node": "test"}, **more.pop("clients", {})}, **more)
    assert [warning.what.partition(",")[0] for warning in warnings(written)] == told, title
    assert list(ensemble(written).unchecked.values()) == told, title


def test_it_is_told_that_any_user_may_be_a_client_of_which_nothing_is_asked() -> None:
    clients = {"bob": BOB, "carol": {"node": "test", "certificate": "carol"}, "dave": {"node": "test", "id": "d"}}
    (told,) = warnings(domain({"passwords": "passwords"}, clients=clients))
    assert told.loc == ("clients", "dave")
    assert told.what.startswith("every user of `test` may connect as `dave`")
    assert not list(warnings(domain({}, clients={"dave": clients["dave"]})))


def test_who_gives_a_name_is_refused_where_it_counts() -> None:
    compiled = ensemble(domain({}, clients=ALICE, brokering=ANYBODY))
    joined = MemoryNode(whole=compiled)
    joined.node.admission.unchecked = compiled.unchecked["test"]
    for user, is_refused in (("alice", True), ("eve", True), (None, False)):
        client = joined.connect("some", user=user)
        assert (client.refused is not None) is is_refused, user


@pytest.mark.parametrize(
    ("acl", "counts"),
    [("topic readwrite #\n", False), ("user alice\ntopic readwrite #\n", True), ("pattern read a/%u\n", True)],
)
def test_a_node_warns_of_users_in_its_access_control_file(
    acl: str, counts: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "acl").write_text(acl)
    settings = NodeSettings.model_validate({"listen": "127.0.0.1:0", "store": "memory", "acl": str(tmp_path / "acl")})
    Server("test", settings, ensemble(domain({})))
    assert ("does not check them" in caplog.text) is counts
