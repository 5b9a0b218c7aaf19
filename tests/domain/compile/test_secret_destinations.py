"""Destinations of links' secrets: a draft that sends a secret elsewhere is found."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.secret_destinations import redirected_secrets

NOW: dict[str, Any] = {
    "nodes": {
        name: {"listen": f"127.0.0.1:{port}"} for name, port in (("main", 1), ("edge", 2), ("far", 3), ("near", 4))
    },
    "foreign": {"old": {"address": "old:1883", "user": "u", "password_file": "old.password"}},
    "links": [
        {"between": ["main", "edge"], "secret": "a text"},
        {"between": ["main", "far"], "secret_file": "far.secret"},
        {"between": ["main", "near"]},
        {"between": ["main", "old"]},
    ],
}
Edit = Callable[[dict[str, Any]], object]
AWAY = "127.0.0.1:9"
ELSEWHERE: list[tuple[str, str, Edit]] = [
    ("another address", "main -> edge", lambda written: written["links"][0].update(address=AWAY)),
    ("the other listens elsewhere", "main -> edge", lambda written: written["nodes"]["edge"].update(listen=AWAY)),
    ("another end", "edge -> far", lambda written: written["links"][0].update(between=["edge", "far"])),
    ("encrypted otherwise", "main -> edge", lambda written: written["links"][0].update(tls={})),
    ("one in a file", "main -> far", lambda written: written["links"][1].update(address=AWAY)),
    ("a file for another link", "main -> near", lambda written: written["links"][2].update(secret_file="far.secret")),
    ("the one that is made", "main -> near", lambda written: written["links"][2].update(address=AWAY)),
    (
        "one more with the one that is made",
        "edge -> near",
        lambda written: written["links"].append({"between": ["edge", "near"]}),
    ),
    ("a foreign broker", "main -> old", lambda written: written["foreign"]["old"].update(address="evil:1883")),
    ("a foreign broker's link", "main -> old", lambda written: written["links"][3].update(address="evil:1883")),
]
SAME: list[tuple[str, Edit]] = [
    ("nothing", lambda written: None),
    ("another type", lambda written: written["links"][0].update(type="t")),
    ("another secret", lambda written: written["links"][0].update(address=AWAY, secret="another")),
    ("its order", lambda written: written["links"].reverse()),
    ("a link less", lambda written: written["links"].pop()),
    ("a link more", lambda written: written["links"].append({"between": ["edge", "near"], "secret": "of its own"})),
]


def changed(edit: Edit) -> tuple[str, ...]:
    written = deepcopy(NOW)
    edit(written)
    return redirected_secrets(Domain.model_validate(NOW), Domain.model_validate(written))


@pytest.mark.parametrize(("link", "edit"), [case[1:] for case in ELSEWHERE], ids=[case[0] for case in ELSEWHERE])
def test_a_secret_that_would_go_elsewhere(link: str, edit: Edit) -> None:
    assert changed(edit) == (link,)


@pytest.mark.parametrize("edit", [case[1] for case in SAME], ids=[case[0] for case in SAME])
def test_secrets_that_stay_where_they_are(edit: Edit) -> None:
    assert changed(edit) == ()
