"""What `penstock test --orders` and `penstock check --orders` say of slow links, on live nodes with such a link."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run
from tests.support.processes.federation import Nodes, heard, settled
from tests.support.processes.wiretap import Wiretap

HOMES = {"host": "hall", "guest": "desk", "lock": "door"}
LINKS = [["desk", "hall"], ["desk", "door"], ["hall", "door"]]
TITLE = "ready, then go"
DOMAIN: dict[str, Any] = {
    "nodes": {name: {"store": "memory"} for name in HOMES.values()},
    "links": [{"between": between, "type": "way"} for between in LINKS],
    "clients": {name: {"node": node, "type": "own"} for name, node in HOMES.items()},
    # Each node is told by the one where it happens, and not by others.
    "brokering": {"types": ["own", "way"], "deny": [{"from": "way", "to": "way"}]},
    "monitors": {
        "go-after-ready": {
            "link": "door -> lock",
            "states": {
                "q0": {"ready": {"pass": True, "next": "q1"}, "go": "suppress", "*": "pass"},
                "q1": {"go": {"pass": True, "next": "q0"}, "*": "pass"},
            },
        }
    },
    "tests": {
        TITLE: {
            "subscribe": {"guest": "ready", "lock": ["ready", "go"]},
            "steps": [
                {"publish": {"host": "ready"}, "expect": {"guest": "ready", "lock": "ready"}},
                {"publish": {"guest": "go"}, "expect": {"lock": "go"}},
            ],
        }
    },
}


@contextmanager
def house(folder: Path) -> Iterator[tuple[Nodes, Wiretap, Paho, Paho, Paho]]:
    """Three nodes, each linked with both others, of which `hall` reaches `door` by a proxy; and their clients."""
    nodes = Nodes(folder, DOMAIN)
    with Wiretap(nodes.ports["door"]) as tap, ExitStack() as stack:
        links = [dict(link) for link in DOMAIN["links"]]
        links[2]["address"] = f"127.0.0.1:{tap.port}"
        nodes.write({**DOMAIN, "links": links})
        stack.callback(nodes.stop)
        stack.callback(tap.release)
        nodes.start(*HOMES.values())
        for dialling, dialled in LINKS:
            nodes.until_logged(dialling, "linked", f"neighbour={dialled}")
        host, guest, lock = (stack.enter_context(Paho(name).connects(nodes.ports[at])) for name, at in HOMES.items())
        lock.subscribe("#", 1)
        for topic in ("ready", "settled", "settle"):
            guest.subscribe(topic, 1, noLocal=True)
        settled(guest, host)
        settled(lock, host)
        settled(lock, guest)
        while guest.messages.qsize():
            guest.receive()
        heard(lock, host)
        yield nodes, tap, host, guest, lock


def orders(nodes: Nodes, command: str, ordering: str) -> tuple[int, list[str]]:
    code, out, _ = run(penstock(command, str(nodes.folder / "domain.yaml"), "--orders", ordering))
    return code, out.splitlines()


def play(host: Paho, guest: Paho) -> None:
    """The steps of the test, each client in its turn."""
    host.publish("ready", b"", 1)
    while guest.receive().topic != "ready":
        pass
    guest.publish("go", b"", 1)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_slow_link_breaks_live_what_the_command_says_it_breaks(tmp_path: Path, is_slow: bool) -> None:
    with house(tmp_path) as (nodes, tap, host, guest, lock):
        code, lines = orders(nodes, "test", "in-order")
        assert code == 4
        assert lines[0].startswith(f"FAIL  {TITLE}: holds fifo, breaks in-order")
        assert " ".join(lines[2:5]).split() == ["expected", "ready", "go", "got", "ready"]
        late = next(at for at, line in enumerate(lines) if "door gets ready from hall" in line)
        early = next(at for at, line in enumerate(lines) if "door gets go from desk" in line)
        assert early < late, "the interleaving that is told"
        if not is_slow:
            play(host, guest)
            assert heard(lock, guest) == ["ready", "go"]
            return
        tap.hold()
        play(host, guest)
        assert heard(lock, guest) == [], "it has overtaken what it waits for"
        tap.release()
        assert heard(lock, host) == ["ready"], "and is lost, as told"


def test_a_monitor_that_can_be_enforced_holds_on_slow_links(tmp_path: Path) -> None:
    with house(tmp_path) as (nodes, tap, host, guest, lock):
        code, lines = orders(nodes, "check", "in-order")
        assert code == 0
        assert "go-after-ready on door -> lock: enforceable: what it lets out arrives in that order" in lines
        got = []
        for _ in range(3):
            tap.hold()
            play(host, guest)
            got += heard(lock, guest)
            tap.release()
            guest.publish("go", b"", 1)
            got += [*heard(lock, guest), *heard(lock, host)]
            guest.publish("go", b"", 1)
            got += heard(lock, guest)
        assert got.count("ready") == 3
        assert "go" in got
        is_ready = False
        for topic in got:
            assert is_ready or topic != "go", "no go without its ready"
            is_ready = topic == "ready"
