"""Drafts of the domain file: what is shown of it to whom, and what one may bring in."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

from penstock.broker.http.endpoint import ApiError
from penstock.broker.http.processes import MAX_AT_ONCE, MAX_WAITING, Turns, run_masks
from penstock.broker.http.secret_masks import HIDDEN, MaskError, mask_for_rights, mask_secrets
from penstock.client.local_token import find_token
from tests.broker.http.test_api import ask, base, log_in
from tests.support.processes.commands import until
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

SECRET = "the-secret-of-the-link"
FILE_SECRET = "a-secret-that-is-in-a-file"
DOMAIN: dict[str, Any] = {
    "domain": "lab",
    "nodes": {
        "main": {"listen": ANY_PORT, "store": "memory", "admin": ANY_PORT},
        "edge": {"listen": ANY_PORT, "store": "memory"},
        "far": {"listen": ANY_PORT, "store": "memory"},
        "near": {"listen": ANY_PORT, "store": "memory"},
    },
    "links": [
        {"between": ["main", "edge"], "secret": SECRET},
        {"between": ["main", "far"], "secret_file": "far.secret"},
        {"between": ["main", "near"]},
    ],
    "clients": {"doc": {"node": "main", "attributes": {"clearance": 3, "ssn": "123-45-6789"}}},
    "admin": {
        "passwords": "people",
        "users": {"ada": "change", "eve": "read", "cai": "content"},
        "audit": "changes.jsonl",
    },
}
COMMENT = "# was: secret: OldSecretValue"
SLOW = """import os, time
from pathlib import Path
Path(__file__).with_name(f"begun-{os.getpid()}").write_text("")
time.sleep(600)
"""
EVIL = "from pathlib import Path\nPath(__file__).with_name('it-ran').write_text('')\n"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveNode]:
    files = {
        "people": passwords(ada="a", eve="e", cai="c"),
        "far.secret": FILE_SECRET,
        "evil.py": EVIL,
        "slow.py": SLOW,
    }
    with running({}, files, **DOMAIN) as node:
        file = node.folder / "domain.yaml"
        file.write_text(f"{COMMENT}\n{file.read_text()}")
        yield node


def present(node: LiveNode) -> dict[str, str]:
    answer: dict[str, str] = ask(node, "GET", "/api/draft", log_in(node, "ada", "a"))[1]
    return answer


def test_what_is_shown_is_for_who_may_see_it(live: LiveNode) -> None:
    answer = dict[str, str]()
    for user in ("ada", "cai", "eve"):
        answer[user] = ask(live, "GET", "/api/draft", log_in(live, user, user[0]))[1]["text"]
    assert all(SECRET not in text for text in answer.values())
    assert [COMMENT in answer[user] for user in answer] == [True, False, False]
    assert ["123-45-6789" in answer[user] for user in answer] == [True, True, False]
    assert yaml.safe_load(answer["eve"])["clients"]["doc"]["attributes"] == {"clearance": HIDDEN, "ssn": HIDDEN}


def test_attributes_are_content(live: LiveNode) -> None:
    eve, cai = log_in(live, "eve", "e"), log_in(live, "cai", "c")
    for path in ("/api/subject?name=doc", "/api/revision"):
        assert "123-45-6789" in json.dumps(ask(live, "GET", path, cai)[1]), path
        answer = json.dumps(ask(live, "GET", path, eve)[1])
        assert "ssn" in answer
        assert "123-45-6789" not in answer, path


def test_a_secret_that_is_kept_goes_nowhere_else(live: LiveNode) -> None:
    now = present(live)
    written = yaml.safe_load(now["text"])
    written["links"][0]["address"] = "127.0.0.1:29999"
    draft = {"text": yaml.safe_dump(written), "revision": now["revision"]}
    status, answer = ask(live, "POST", "/api/draft", log_in(live, "ada", "a"), draft)
    assert (status, "link `main -> edge`" in answer["error"]) == (403, True), answer


def test_a_link_with_a_new_secret_goes_where_it_is_said(live: LiveNode) -> None:
    now = present(live)
    written = yaml.safe_load(now["text"])
    written["links"][0].update(address="127.0.0.1:29999", secret="another")
    draft = {"text": yaml.safe_dump(written), "revision": now["revision"]}
    assert ask(live, "POST", "/api/draft/check", log_in(live, "ada", "a"), draft)[1]["good"]


def test_a_file_that_is_one_thing_is_not_another(live: LiveNode) -> None:
    """What is wrong with a password file that is read as an access list would be told with what stands in it."""
    now = present(live)
    written = yaml.safe_load(now["text"])
    written["nodes"]["main"]["acl"] = "people"
    draft = {"text": yaml.safe_dump(written), "revision": now["revision"]}
    status, answer = ask(live, "POST", "/api/draft/check", log_in(live, "ada", "a"), draft)
    assert (status, "people" in answer["error"]) == (403, True)


def test_the_record_of_changes_is_not_ended_by_one_of_them(live: LiveNode) -> None:
    now, ada = present(live), log_in(live, "ada", "a")
    for without in ("audit", "admin"):
        written = yaml.safe_load(now["text"])
        del (written["admin"] if without == "audit" else written)[without]
        draft = {"text": yaml.safe_dump(written), "revision": now["revision"]}
        for path in ("/api/draft/check", "/api/draft"):
            status, answer = ask(live, "POST", path, ada, draft)
            assert (status, "it ends the audit file `" in answer["error"]) == (403, True), answer


def test_a_draft_with_a_mistake_is_told_what_is_wrong(live: LiveNode) -> None:
    now, ada = present(live), log_in(live, "ada", "a")
    draft = {"text": now["text"] + "\nnonsense: 1\n", "revision": now["revision"]}
    answer = ask(live, "POST", "/api/draft/check", ada, draft)[1]
    assert (answer["good"], answer["problems"][0]["file"], answer["problems"][0]["path"]) == (
        False,
        "domain.yaml",
        "nonsense",
    )
    answer = ask(live, "POST", "/api/draft", ada, draft)[1]
    assert (answer["done"], answer["checked"]["good"]) == (False, False)


def test_nothing_is_brought_in_while_the_file_is_not_good(live: LiveNode) -> None:
    file, ada = live.folder / "domain.yaml", log_in(live, "ada", "a")
    good = file.read_text()
    try:
        file.write_text(good + "\nfoo: bar\n")
        written = yaml.safe_load(good)
        written["links"][0]["secret"] = "another"
        written["monitors"] = {"m": {"link": "doc -> main", "python": "evil:M"}}
        for path in ("/api/draft/check", "/api/draft"):
            status, answer = ask(live, "POST", path, ada, {"text": yaml.safe_dump(written)})
            assert status == 403, answer
        assert not (live.folder / "it-ran").exists()
    finally:
        file.write_text(good)


def test_checks_are_few_at_a_time_and_end_with_who_asks(live: LiveNode) -> None:
    now = ask(live, "GET", "/api/draft")[1]
    text = now["text"] + "monitors: {m: {link: doc -> main, python: 'slow:M'}}\n"
    body = json.dumps({"text": text, "revision": now["revision"]}).encode()
    parts = urlsplit(base(live))
    lines = ("POST /api/draft/check HTTP/1.1", "Host: localhost", f"Authorization: Bearer {find_token(base(live))}")
    head = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", ""))

    def begun() -> int:
        return len(list(live.folder.glob("begun-*")))

    with contextlib.ExitStack() as open_ones:
        for _ in range(MAX_AT_ONCE + MAX_WAITING):
            connection = open_ones.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0)))
            connection.sendall(head.encode() + body)
        until(lambda: begun() >= MAX_AT_ONCE, "some are under way")
        until(lambda: ask(live, "POST", "/api/draft/check", None, {"text": "["})[0] == 503, "all the others wait")
    until(lambda: not psutil.Process(live.pid).children(), "all have ended")
    until(lambda: not list(live.folder.glob(".draft-*")), "what they were written to is gone")
    assert begun() == MAX_AT_ONCE


# --- without a node


async def test_only_so_many_wait() -> None:
    turns, held = Turns(), contextlib.AsyncExitStack()
    for _ in range(MAX_AT_ONCE):
        await held.enter_async_context(turns.turn())

    async def wait() -> None:
        async with turns.turn():
            pass

    waiting = [asyncio.create_task(wait()) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as caught:
        await wait()
    assert caught.value.status == 503
    await held.aclose()
    await asyncio.gather(*waiting)
    await wait()


@pytest.mark.parametrize("text", ["[" * 100_000, f"x: [{'a,' * 20_000}a]"], ids=["deep", "long"])
async def test_a_text_takes_its_time_in_a_process_of_its_own(text: str) -> None:
    code, written = await run_masks(json.dumps({"draft": text, "now": "a: 1"}).encode())
    assert code == 0
    assert ("error" in json.loads(written)) == text.startswith("[")


def test_without_the_fast_parser_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "é: 1\nlinks:\n- {between: [a, b], secret: 'ü x'} # note\n- secret: |\n    ab\n    cd\n  tls: {}\n"
    fast = mask_secrets(text), mask_for_rights(text)
    monkeypatch.setattr(sys.modules["penstock.broker.http.secret_masks"], "yaml_loader", lambda: yaml.SafeLoader)
    assert (mask_secrets(text), mask_for_rights(text)) == fast


@pytest.mark.parametrize(
    "text",
    [
        "s: &s 1\nclients: {a: {attributes: {ssn: *s}}}",
        "b: &b {attributes: {ssn: 1}}\nclients: {a: {<<: *b}}",
        "c: &c {}\nclients: *c",
    ],
    ids=range(3),
)
def test_attributes_that_stand_elsewhere_are_not_shown(text: str) -> None:
    assert mask_for_rights(text).read == ""
    assert "ssn" in mask_for_rights(text).content or "*c" in mask_for_rights(text).content


@pytest.mark.parametrize("text", ["links: &l []\nx: *l", "x: &x []\nlinks: *x", "? [a]\n: 1", "x: &x f\ninclude: *x"])
def test_what_stands_elsewhere_cannot_be_masked(text: str) -> None:
    with pytest.raises(MaskError):
        mask_secrets(text)
