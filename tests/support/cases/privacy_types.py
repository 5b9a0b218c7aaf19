"""A domain with a privacy policy for each case of `tests/cases/privacy/types.yaml`, for nodes and for Spark."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from penstock.domain import Domain

CASES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "cases/privacy/types.yaml").read_text("utf-8"))
CLIENTS = tuple(CASES["clients"])
_POLICY = ("combine", "attributes", "rules")


def film_club(folder: Path) -> Domain:
    """A cinema, and clients of several ages: each case is about a topic of its own."""
    privacy = []
    for at, case in enumerate(CASES["gets"]):
        file = folder / f"{at}.yaml"
        file.write_text(json.dumps({"policy": f"p{at}", **{key: case[key] for key in _POLICY if key in case}}))
        said = {"resource": case.get("resource", {}), "attributes": case.get("names", {})}
        privacy.append({"name": f"p{at}", "topics": f"film/{at}", "policies": str(file), **said})
    clients: dict[str, Any] = {name: {"node": "a", "attributes": one} for name, one in CASES["clients"].items()}
    return Domain.model_validate(
        {
            "nodes": {"a": {"listen": "127.0.0.1:0"}},
            "clients": {"cinema": {"node": "a"}, **clients},
            "privacy": privacy,
        }
    )


def story() -> list[tuple[str, str, dict[str, Any]]]:
    """Who says what on the topic of each case."""
    return [("cinema", f"film/{at}", {"v": at}) for at, _ in enumerate(CASES["gets"])]


def expected() -> dict[str, list[str]]:
    """By title, who gets the event."""
    return {case["title"]: case["who"] for case in CASES["gets"]}


def got(topics: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The same, of the topics of what each client got."""
    who: dict[str, list[str]] = {case["title"]: [] for case in CASES["gets"]}
    for client, several in sorted(topics.items()):
        for topic in several:
            who[CASES["gets"][int(topic.rpartition("/")[2])]["title"]].append(client)
    return who
