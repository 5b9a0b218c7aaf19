"""Access policies one by one at a live node: added, changed, ended and listed, checked, audited, kept in their file."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

import pytest

from penstock.model.sparkplug.plain import read_plain, write_plain
from penstock.policy.sparkplug.bulk_files import read_policies
from tests.broker.http.test_api import ask, base, log_in
from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

NBIRTH = "spBv1.0/G1/NBIRTH/E1"
EDGE = {"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": "write"}
FIRST = {"id": "first", "subject": "a1", "topics": "spBv1.0/STATE/+", "may": "read"}
OPEN = {"id": "open", "subject": "a1", "topics": "spBv1.0/G1/#", "may": "read"}
DOMAIN: dict[str, Any] = {
    "domain": "plant",
    "clients": {"e1": {"node": "main", "edge": "G1/E1"}, "a1": {"node": "main"}},
    "access": {"policies": [EDGE], "files": ["bulk.jsonl", "old.csv"]},
    "admin": {"passwords": "people", "users": {"ada": "change", "eve": "read"}, "audit": "audit.jsonl"},
}


@pytest.fixture
def live() -> Iterator[LiveNode]:
    files = {
        "people": passwords(ada="a", eve="e"),
        "bulk.jsonl": json.dumps(FIRST) + "\n",
        "old.csv": "subject,topics,except,may,when\na1,spBv1.0/G9/#,,read,\n",
    }
    with running({"admin": ANY_PORT}, files, **DOMAIN) as node:
        yield node


def listed(node: LiveNode) -> dict[str, dict[str, Any]]:
    status, answer = ask(node, "GET", "/api/access")
    assert status == 200, answer
    return {each["id"].rpartition("/")[2]: each for each in answer["policies"]}


def kept(node: LiveNode) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (node.folder / "bulk.jsonl").read_text().splitlines()]


def test_a_policy_is_added_changed_and_ended_without_a_restart(live: LiveNode) -> None:
    ada = log_in(live, "ada", "a")
    with Paho("e1").connects(live.port) as edge, Paho("a1").connects(live.port) as reader:
        reader.subscribe("spBv1.0/#", 1)
        edge.publish(NBIRTH, write_plain({"x": 1, "y": 1}, 0), qos=1)
        reader.nothing_arrives()
        assert ask(live, "POST", "/api/access", ada, {"policy": OPEN})[0] == 200
        edge.publish(NBIRTH, write_plain({"x": 2, "y": 2}, 0), qos=1)
        assert read_plain(bytes(reader.receive().payload)) == {"x": 2, "y": 2}
        revision = listed(live)["open"]["revision"]
        change = {"policy": OPEN | {"except": "y"}, "revision": revision}
        assert ask(live, "POST", "/api/access/change", ada, change)[0] == 200
        edge.publish(NBIRTH, write_plain({"x": 3, "y": 3}, 0), qos=1)
        assert read_plain(bytes(reader.receive().payload)) == {"x": 3}
        assert kept(live) == [FIRST, OPEN | {"except": "y"}]
        status, answer = ask(live, "POST", "/api/access/change", ada, change)
        assert (status, "has been changed since" in answer["error"]) == (409, True)
        assert ask(live, "POST", "/api/access/end", ada, {"id": "open"})[0] == 200
        edge.publish(NBIRTH, write_plain({"x": 4}, 0), qos=1)
        reader.nothing_arrives()
        assert kept(live) == [FIRST]
        assert edge.ends.empty()
        assert reader.ends.empty()
    audited = [json.loads(line) for line in (live.folder / "audit.jsonl").read_text().splitlines()]
    done = [(each["who"], each["what"], each["done"]) for each in audited if each["what"].startswith("access")]
    assert done == [
        ("ada", "access policy added", True),
        ("ada", "access policy changed", True),
        ("ada", "access/change", False),
        ("ada", "access policy ended", True),
    ]
    changed = next(each for each in audited if each["what"] == "access policy changed")
    assert changed["detail"] == f"{json.dumps(OPEN | {'except': 'y'}, separators=(',', ':'))} was " + json.dumps(
        OPEN, separators=(",", ":")
    )
    assert abs(changed["at"] - time.time()) < 60


def test_policies_in_csv_are_added_changed_and_ended_too(live: LiveNode) -> None:
    file, head = live.folder / "old.csv", 'topics,"id",subject,may,except\nspBv1.0/G9/#,"nine",a1,read,\n'
    file.write_text(head)
    with Paho("e1").connects(live.port) as edge, Paho("a1").connects(live.port) as reader:
        reader.subscribe("spBv1.0/#", 1)
        status, answer = ask(live, "POST", "/api/access", None, {"policy": OPEN, "file": "old.csv"})
        assert status == 200, answer
        assert answer["policy"]["revision"] == listed(live)["open"]["revision"]
        edge.publish(NBIRTH, write_plain({"x": 1, "y": 1}, 0), qos=1)
        assert read_plain(bytes(reader.receive().payload)) == {"x": 1, "y": 1}
        change = {"policy": OPEN | {"except": "y"}, "revision": answer["policy"]["revision"]}
        assert ask(live, "POST", "/api/access/change", None, change)[0] == 200
        edge.publish(NBIRTH, write_plain({"x": 2, "y": 2}, 0), qos=1)
        assert read_plain(bytes(reader.receive().payload)) == {"x": 2}
        assert file.read_text() == head + "spBv1.0/G1/#,open,a1,read,y\n"
        assert ask(live, "POST", "/api/access/change", None, change)[0] == 409
        node = ("--node", base(live))
        code, out, err = run(penstock("access", "end", *node, "open"))
        assert (code, out) == (0, "`open` ended: it is out of `old.csv`, and in force\n"), err
        edge.publish(NBIRTH, write_plain({"x": 3}, 0), qos=1)
        reader.nothing_arrives()
    assert file.read_text() == head
    audited = [json.loads(line)["what"] for line in (live.folder / "audit.jsonl").read_text().splitlines()]
    assert [what for what in audited if what.startswith("access policy")] == [
        "access policy added",
        "access policy changed",
        "access policy ended",
    ]


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("", {"policy": OPEN | {"may": "reed"}}, 422, "unknown privilege `reed`"),
    ("", {"policy": OPEN | {"when": "x >"}}, 422, "`when`"),
    ("", {"policy": OPEN | {"topics": "a/#/b"}}, 422, "`topics`"),
    ("", {"policy": OPEN | {"colour": "red"}}, 422, "unknown column `colour`"),
    ("", {"policy": OPEN | {"valid": {"from": "08:00"}}}, 422, "two times of the day"),
    ("", {"policy": {**OPEN, "id": ""}}, 400, "`id` is missing"),
    ("", {"policy": FIRST}, 409, "there is a policy `first` already"),
    ("", {"policy": OPEN, "file": "old.csv"}, 422, "old.csv:1: the file has no column `id`"),
    ("", {"policy": OPEN, "file": "new.csv"}, 409, "no file `new.csv`"),
    ("/change", {"policy": OPEN}, 404, "no policy `open`"),
    ("/change", {"policy": FIRST | {"subject": "a:b/"}, "revision": ""}, 422, "is no subject"),
    ("/end", {"id": "access.policies[0]"}, 404, "no policy"),
]


def test_what_does_not_check_is_refused_and_the_old_stays(live: LiveNode) -> None:
    before = (live.folder / "bulk.jsonl").read_bytes()
    for path, body, status, why in WRONG:
        found, answer = ask(live, "POST", f"/api/access{path}", None, body)
        assert (found, why in answer["error"]) == (status, True), (body, answer)
    assert (live.folder / "bulk.jsonl").read_bytes() == before
    eve = log_in(live, "eve", "e")
    assert ask(live, "POST", "/api/access", eve, {"policy": OPEN})[0] == 403
    assert ask(live, "GET", "/api/access", eve)[0] == 200
    live.configure({"admin": ANY_PORT}, **DOMAIN | {"clients": {"e1": {"node": "nowhere"}}})  # does not check any more
    status, answer = ask(live, "POST", "/api/access", None, {"policy": OPEN})
    assert (status, "not reloaded" in answer["error"]) == (409, True)
    assert (live.folder / "bulk.jsonl").read_bytes() == before


def test_changes_at_once_are_all_made(live: LiveNode) -> None:
    token = log_in(live, "ada", "a")
    found: list[int] = []

    def add(number: int) -> None:
        status, _ = ask(live, "POST", "/api/access", token, {"policy": OPEN | {"id": f"p{number}"}})
        found.append(status)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 8
    assert {row["id"] for row in kept(live)} == {"first", *(f"p{number}" for number in range(8))}


def test_a_node_that_is_killed_while_it_writes_leaves_one_of_the_two_versions(live: LiveNode) -> None:
    token = log_in(live, "ada", "a")
    many = [OPEN | {"id": f"m{number}", "topics": f"spBv1.0/G{number}/#"} for number in range(2_000)]
    (live.folder / "bulk.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in many))
    for attempt in range(3):
        before = kept(live)
        added = OPEN | {"id": f"new{attempt}"}

        def change(added: dict[str, Any] = added, token: str = token) -> None:
            with contextlib.suppress(OSError, HTTPException):
                ask(live, "POST", "/api/access", token, {"policy": added})

        thread = threading.Thread(target=change)
        thread.start()
        time.sleep(0.02 + 0.05 * attempt)
        os.kill(live.pid, signal.SIGKILL)
        thread.join()
        live.kill()
        assert kept(live) in (before, [*before, added])
        assert read_policies(live.folder / "bulk.jsonl")
        live.start()
        token = log_in(live, "ada", "a")


def test_the_command_line_does_it_too(live: LiveNode) -> None:
    node = ("--node", base(live))
    code, out, err = run(penstock("access", "add", *node, json.dumps(OPEN | {"subject": "a2"})))
    assert (code, out) == (0, "`open` added to `bulk.jsonl`, and in force\n"), err
    assert "a2" in err
    code, out, err = run(penstock("access", "change", *node, json.dumps(OPEN)))
    assert (code, err) == (0, "")
    code, out, err = run(penstock("access", "list", *node, "--subject", "a1"))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if "bulk.jsonl" in line] == ["first", "open"]
    code, out, err = run(penstock("access", "end", *node, "open"))
    assert (code, err) == (0, "")
    assert kept(live) == [FIRST]
    code, out, err = run(penstock("access", "end", *node, "open"))
    assert code != 0
    assert "no policy `open`" in err
