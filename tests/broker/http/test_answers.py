"""The admin HTTP API behind the console's parts: subjects, drafts on a journal, jobs and their reports."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.local_token import find_token
from penstock.journal.jobs import JobRecord
from tests.support.processes.commands import until
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

DOMAIN: dict[str, Any] = {
    "domain": "office",
    "clients": {"ann": {"node": "main", "type": "inside"}, "bob": {"node": "main", "type": "outside"}},
    "brokering": {"types": ["inside", "outside"], "deny": [{"from": "inside", "to": "outside"}]},
    "admin": {"passwords": "people", "users": {"ada": "change", "eve": "read", "cai": "content"}},
    "nodes": {"main": {"listen": ANY_PORT, "store": "memory", "admin": ANY_PORT}},
}


@pytest.fixture(scope="module")
def live() -> Iterator[LiveNode]:
    people = passwords(ada="a", eve="e", cai="c")
    files = {"people": people, "slow.py": "import time\ntime.sleep(600)\n"}
    with running({}, files, **DOMAIN, journal={"folder": "journal"}) as node:
        yield node


def ask(node: LiveNode, path: str, user: str = "", body: object = None) -> tuple[int, Any]:
    base = next(address for address in node.addresses if address.startswith("http"))
    token = find_token(base)
    if user:
        token = _send(f"{base}/api/login", "", {"user": user, "password": user[0]})[1]["token"]
    return _send(f"{base}{path}", token or "", body)


def _send(url: str, token: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    question = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(question, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_subject_that_is_not_connected_is_told_of_as_the_domain_has_it(live: LiveNode) -> None:
    status, answer = ask(live, "/api/subject?name=ann", "eve")
    assert (status, answer["listed"], answer["nodes"]) == (200, True, ["main"])
    (closed,) = [clause for clause in answer["clauses"] if clause["kind"] == "brokering"]
    assert (closed["effect"], closed["may"]) == ("denies", "write")
    assert "`deny` from `inside` to `outside`" in closed["why"]


@pytest.mark.parametrize("path", ["/api/subject?name=zoe", "/api/subject?name=%00", "/api/draft/compare?id=7"])
def test_what_is_not_there_is_not_found(live: LiveNode, path: str) -> None:
    assert ask(live, path)[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [({"text": "", "last": 0}, 400), ({"text": "", "last": 10**6}, 400), ({"text": 1}, 400), ({"last": 5}, 400)],
)
def test_a_comparison_asks_for_a_draft_and_a_number_in_bounds(live: LiveNode, body: object, status: int) -> None:
    assert ask(live, "/api/draft/compare", body=body)[0] == status


def test_a_comparison_under_way_is_found_without_its_number_and_can_be_stopped(live: LiveNode) -> None:
    assert ask(live, "/api/draft/compare")[0] == 404
    slow = "monitors: {m: {link: ann -> main, python: 'slow:M'}}\n"
    draft = {"text": f"{(live.folder / 'domain.yaml').read_text()}\n{slow}"}
    status, begun = ask(live, "/api/draft/compare", body=draft)
    assert (status, begun["state"]) == (200, "running")
    assert ask(live, "/api/draft/compare", body=draft)[0] == 409
    status, comparison = ask(live, "/api/draft/compare")
    assert (status, comparison["id"], comparison["state"]) == (200, begun["id"], "running")
    assert ask(live, f"/api/draft/compare/stop?id={begun['id']}", body={})[0] == 200
    until(lambda: ask(live, "/api/draft/compare")[0] == 404, "it has ended")
    assert ask(live, f"/api/draft/compare?id={begun['id']}")[1]["why"] == "it was stopped"


@pytest.mark.parametrize("user", ["eve", "cai"])
def test_drafts_are_tried_by_who_may_change(live: LiveNode, user: str) -> None:
    assert ask(live, "/api/draft/compare", user, {"text": "domain: x"})[0] == 403
    assert ask(live, "/api/draft/compare?id=1", user)[0] == 403


def test_without_a_journal_there_is_nothing_to_compare_on() -> None:
    with running({}, {"people": passwords(ada="a")}, **DOMAIN) as node:
        status, answer = ask(node, "/api/draft/compare", body={"text": "domain: x"})
        assert (status, "journal" in answer["error"]) == (409, True)
        assert ask(node, "/api/pipeline") == (200, {"journal": "", "jobs": []})


def test_a_report_takes_the_right_to_see_content(live: LiveNode) -> None:
    record = JobRecord(live.folder / "journal", "audit", {"publish": "mqtt://ann:pa55@host"})
    record.add(report="<h1>who saw what</h1>")
    status, answer = ask(live, "/api/pipeline", "eve")
    (job,) = answer["jobs"]
    assert (status, job["job"], job["state"], job["has_report"]) == (200, "audit", "running", True)
    assert "pa55" not in json.dumps(answer)
    path = f"/api/pipeline/report?id={job['id']}"
    assert ask(live, path, "eve")[0] == 403
    assert ask(live, path, "cai") == (200, {"id": job["id"], "html": "<h1>who saw what</h1>"})
    for trick in (f"../jobs/{job['id']}", f"{job['id']}.html", "%2e%2e%2fpeople", "", f"{job['id']}%00"):
        assert ask(live, f"/api/pipeline/report?id={trick}", "cai")[0] == 404, trick
