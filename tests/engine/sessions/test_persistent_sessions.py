"""Whose a session is that waits, and what of it is sent when its client is back."""

from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages.admit import Door
from penstock.policy.access.acl import Acl
from tests.support.memory.node import Client, MemoryNode

INSIDE, OUTSIDE = Door("here", "test/0", True), Door("here", "test/1", True)
STAFF = {"node": "test", "type": "inside", "listener": "127.0.0.1:1"}
GUESTS = {"node": "test", "type": "outside", "listener": "127.0.0.1:2"}


def domain(**more: Any) -> Ensemble:
    plain = {
        "nodes": {"test": {"listen": ["127.0.0.1:1", "127.0.0.1:2"], "store": "memory"}},
        "clients": {"staff": STAFF, "guests": GUESTS},
        "brokering": {"types": ["inside", "outside"], "deny": [{"from": "inside", "to": "outside"}]},
    }
    return ensemble(Domain.model_validate({**plain, **more}))


def at(joined: MemoryNode, door: Door) -> MemoryNode:
    joined.door = door
    return joined


def back(joined: MemoryNode, door: Door, **fields: Any) -> Client:
    return at(joined, door).connect("tab", clean_start=False, session_expiry=600, **fields)


def acl(folder: Path, text: str) -> Acl:
    (folder / "acl").write_text(text)
    return Acl.read(folder / "acl")


def left(filter: str = "secret/#", **fields: Any) -> MemoryNode:
    """A node with a session of the staff's that waits, and for which something was published."""
    joined = MemoryNode(whole=domain(), durable=True)
    at(joined, INSIDE).connect("tab", session_expiry=600, **fields).subscribe(filter, 1).leave()
    at(joined, INSIDE).connect("sensor").publish("secret/x", b"for staff", 1)
    return joined


@pytest.mark.parametrize("filter", ["secret/#", "$share/group/secret/#"])
@pytest.mark.parametrize(("door", "is_present", "gets"), [(INSIDE, True, ["for staff"]), (OUTSIDE, False, [])])
def test_a_session_is_for_who_is_at_its_place(filter: str, door: Door, is_present: bool, gets: list[str]) -> None:
    joined = left(filter)
    client = back(joined, door)
    assert (joined.session_present(client), client.payloads()) == (is_present, gets)
    at(joined, INSIDE).connect("sensor").publish("secret/x", b"more", 1)
    assert client.payloads() == (["more"] if is_present else [])


def test_what_is_not_acknowledged_is_not_repeated_to_another() -> None:
    joined = left()
    assert back(joined, INSIDE).payloads() == ["for staff"]  # takes the place of the one that is connected
    assert back(joined, OUTSIDE).payloads() == []
    assert back(joined, INSIDE).payloads() == []


def test_retained_messages_still_to_come_do_not_go_to_another() -> None:
    joined = MemoryNode(whole=domain())
    at(joined, INSIDE).connect("sensor").publish("secret/x", b"kept", 1, retain=True)
    staff = at(joined, INSIDE).connect("tab", session_expiry=600)
    staff.goes_deaf()
    staff.subscribe("secret/#", 1).lose()
    assert back(joined, OUTSIDE).payloads() == []


@pytest.mark.parametrize(
    ("table", "gets"),
    [({}, ["for staff"]), ({"deny": [{"from": "inside", "to": "inside"}]}, [])],
    ids=["the same table", "a table that closes the link"],
)
@pytest.mark.parametrize("is_sent", [False, True], ids=["queued", "not acknowledged"])
def test_a_reload_holds_what_waits_against_the_table(is_sent: bool, table: dict[str, Any], gets: list[str]) -> None:
    joined = left()
    if is_sent:
        back(joined, INSIDE).lose()
    joined.govern(None, domain(brokering={"types": ["inside", "outside"], **table}) if table else domain())
    assert back(joined, INSIDE).payloads() == gets


def test_what_a_reload_gives_to_another_type_is_held_against_that() -> None:
    joined = left()
    joined.govern(None, domain(clients={"staff": {**STAFF, "type": "outside"}, "sensor": {**STAFF, "id": "sensor"}}))
    assert back(joined, INSIDE).payloads() == []


@pytest.mark.parametrize("moment", ["away", "connected"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_right_that_a_reload_takes_away_ends_repetition(moment: str, qos: int, tmp_path: Path) -> None:
    joined = MemoryNode(acl=acl(tmp_path, "topic readwrite #"), durable=True)
    client = joined.connect("tab", session_expiry=600).subscribe("pub/#", qos)
    joined.connect("sensor").publish("pub/x", b"1", qos).publish("pub/y", b"2", qos)
    assert client.payloads() == ["1", "2"]
    if moment == "away":
        client.lose()
    joined.govern(acl(tmp_path, "topic deny pub/x\ntopic readwrite #"))
    if moment == "connected":
        client.lose()
    again = joined.connect("tab", clean_start=False, session_expiry=600)
    assert again.payloads() == ["2"]
    assert again.session is not None
    assert len(again.session.outbox.inflight) == 1


def test_what_no_node_may_release_is_not_released_after_a_restart(tmp_path: Path) -> None:
    wants = {"of": {"filter": "bob/#", "scope": "local"}}
    said = {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {"bob": {"node": "a"}, "app": {"node": "b"}, "keeper": {"node": "b"}},
        "contracts": {
            "producers": {"bob": {"producer": "bob", "filter": "bob/#", "scope": "local", "rules": {"x": {}}}},
            "consumers": {
                "app": {"consumer": "app", "wants": wants},
                "keeper": {"consumer": "keeper", "wants": {"of": {"filter": "bob/#"}}},
            },
        },
    }
    domain = Domain.model_validate(said)
    stores = {name: Store(tmp_path / name, "full") for name in "ab"}
    rehearsal = Rehearsal(domain, ensemble(domain), stores=stores)
    for client in ("bob", "app", "keeper"):
        rehearsal.connect(client)
    rehearsal.subscribe("keeper", "bob/#")
    rehearsal.subscribe("app", "bob/#")
    rehearsal.run()
    rehearsal.publish("bob", "bob/at", b"48.9", 1, retain=True)
    rehearsal.run()
    assert "bob/at" in rehearsal.nodes["b"].retained
    assert rehearsal.deliveries("app") == ()
    rehearsal.restart("b")
    rehearsal.subscribe("app", "bob/at")
    rehearsal.run()
    assert rehearsal.deliveries("app") == ()
    for store in stores.values():
        store.close()
