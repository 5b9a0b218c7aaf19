"""Protocols in live nodes: each participant, senders too, sends and gets what the protocol foresees (brokering §9)."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from penstock.wire.reason import Reason
from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run
from tests.support.processes.federation import Nodes, federated, heard, settled

HOMES = {"phone": "cloud", "bell": "gateway", "lock": "locks"}
UNLOCK = {
    "protocol": "AC_request (AC_grant DL_unlock? | AC_deny)",
    "senders": {"AC_request": "bell", "AC_grant": "phone", "AC_deny": "phone", "DL_unlock": "bell"},
    "receivers": {"AC_request": "phone", "AC_grant": "bell", "AC_deny": "bell", "DL_unlock": "lock"},
}
HOME: dict[str, Any] = {
    "nodes": {name: {"store": "memory"} for name in ("cloud", "gateway", "locks")},
    "links": [{"between": ["gateway", "cloud"]}, {"between": ["locks", "gateway"]}],
    "clients": {name: {"node": node} for name, node in HOMES.items()},
}


def joined(nodes: Nodes, stack: ExitStack, **homes: str) -> list[Paho]:
    """Clients that are subscribed to everything that others say, once all of them hear each other."""
    clients = [stack.enter_context(Paho(name).connects(nodes.ports[node])) for name, node in homes.items()]
    for client in clients:
        client.subscribe("#", 1, noLocal=True)
    for client in clients:
        for other in clients:
            if client is not other:
                settled(client, other)
    for client in clients:  # what was said to settle others
        client.publish("marked", client.client._client_id, 1)
    for client in clients:
        marks = 0
        while marks < len(clients) - 1:
            marks += client.receive().topic == "marked"
    return clients


def test_senders_are_neither_sent_nor_may_publish_what_is_out_of_order() -> None:
    with federated({**HOME, "protocols": {"unlock": UNLOCK}}) as nodes, ExitStack() as stack:
        phone, bell, lock = joined(nodes, stack, **HOMES)
        assert bell.publish("DL_unlock", b"", 1) == Reason.NOT_AUTHORIZED, "nobody has asked"
        assert bell.publish("AC_grant", b"", 1) == Reason.NOT_AUTHORIZED, "it does not grant"
        assert phone.publish("AC_grant", b"", 1) == Reason.SUCCESS, "on its own link a grant may be right"
        assert heard(bell, phone) == [], "it has not asked"
        assert heard(lock, phone) == []
        assert bell.publish("AC_request", b"", 1) == Reason.SUCCESS
        assert heard(phone, bell) == ["AC_request"]
        assert phone.publish("AC_grant", b"", 1) == Reason.SUCCESS
        assert phone.publish("AC_deny", b"", 1) == Reason.SUCCESS
        assert heard(bell, phone) == ["AC_grant"], "it is one or the other"
        assert bell.publish("DL_unlock", b"", 1) == Reason.SUCCESS
        assert bell.publish("DL_unlock", b"", 1) == Reason.NOT_AUTHORIZED
        assert heard(lock, bell) == ["DL_unlock"]
        assert heard(phone, bell) == [], "an unlock is not for the phone"


def test_an_unlock_before_the_grant_reaches_nobody() -> None:
    """The link from the bell cannot know of the grant; every link to a participant does."""
    with federated({**HOME, "protocols": {"unlock": UNLOCK}}) as nodes, ExitStack() as stack:
        phone, bell, lock = joined(nodes, stack, **HOMES)
        bell.publish("AC_request", b"", 1)
        assert bell.publish("DL_unlock", b"", 1) == Reason.SUCCESS
        assert heard(lock, bell) == []
        assert heard(phone, bell) == ["AC_request"]


def test_with_a_table_of_its_own_participants_talk_to_each_other_only() -> None:
    domain = {
        **HOME,
        "clients": {**HOME["clients"], "camera": {"node": "gateway", "type": "other"}},
        "brokering": {"types": ["other"]},
        "protocols": {"unlock": {**UNLOCK, "table": True}},
    }
    with federated(domain) as nodes, ExitStack() as stack:
        phone, bell, lock = (stack.enter_context(Paho(name).connects(nodes.ports[at])) for name, at in HOMES.items())
        camera = stack.enter_context(Paho("camera").connects(nodes.ports["gateway"]))
        for client in (phone, lock, camera):
            client.subscribe("#", 1, noLocal=True)
        settled(phone, bell)
        settled(lock, bell)
        bell.publish("AC_request", b"", 1)
        bell.publish("end", b"", 1)
        while phone.receive().topic != "AC_request":
            pass
        assert phone.receive().topic == "end"
        while (topic := lock.receive().topic) != "end":
            assert topic != "AC_request"
        camera.nothing_arrives()


def test_check_shows_what_each_participant_sees(tmp_path: Path) -> None:
    nodes = {name: {"listen": "127.0.0.1:0", "store": "memory"} for name in HOME["nodes"]}
    file = tmp_path / "domain.yaml"
    unlock = {**UNLOCK, "table": True}
    file.write_text(
        yaml.safe_dump({"domain": "home", **HOME, "nodes": nodes, "protocols": {"unlock": unlock}}, sort_keys=False)
    )
    shown = run(penstock("check", str(file), "--expand"))[1]
    assert (
        "# protocol unlock: bell: sends AC_request, (gets AC_grant, (sends DL_unlock)? | gets AC_deny);"
        " links bell -> gateway (unlock-from-bell), gateway -> bell (unlock-to-bell); allow "
    ) in shown
    (tmp_path / "expanded.yaml").write_text(shown)
    assert run(penstock("check", str(tmp_path / "expanded.yaml"), "--against", str(file)))[1].endswith(
        "nothing changes\n"
    )
    told = json.loads(run(penstock("check", str(file), "--json"))[1])
    assert [view["participant"] for view in told["projections"]] == ["bell", "phone", "lock"]
