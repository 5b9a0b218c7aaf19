"""Changes of a domain that aim at one message: each is in just one policy, and does not let it pass any more."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from tests.support.models.present_domain import EDGE, FOREIGN, TOPICS, Present, Sent


class Aim(NamedTuple):
    """A message that the present domain allows a reader."""

    sent: Sent
    reader: str
    metrics: tuple[str, ...] = ()
    """Of Sparkplug."""


Change = dict[str, Any]


def is_allowed(present: Present, aim: Aim, now: float) -> bool:
    """Whether the reader may be sent the message, as it was published."""
    sent, reader, metrics = aim
    if metrics:
        return present.allows_metrics(sent, reader, metrics, now)
    return present.allows(sent, reader, True, now)


def closing(present: Present, aim: Aim, now: float) -> dict[str, list[Present]]:
    """Other domains that do not allow the message, by the policy in which they differ."""
    found: dict[str, list[Present]] = {}
    for name, change in (*(_metrics if aim.metrics else _content)(present, aim), *_way(present, aim)):
        changed = replace(present, **change)
        if not is_allowed(changed, aim, now):
            found.setdefault(name, []).append(changed)
    return found


def _way(present: Present, aim: Aim) -> Iterator[tuple[str, Change]]:
    """What concerns all that a publisher says to a reader."""
    publisher, reader = aim.sent.publisher, aim.reader
    for opens in (reader, *present.shape.nodes):
        yield "types", {"denies": True, "types": present.types | {publisher: "secret", opens: "open"}}
        secret = {publisher: "open", opens: "secret", reader: "open"}
        yield "types", {"denies": True, "types": present.types | secret}
    if publisher != FOREIGN:
        yield "unlisted", {"unlisted": present.unlisted | {publisher}}
        for rule in ("plain", "delay"):
            yield "contracts", {"contracts": present.contracts | {publisher: rule}}
        if publisher in present.contracts:
            yield "purposes", {"purposes": present.purposes | {reader: "sales"}}
    if aim.sent.token:
        yield "revoked", {"revoked": present.revoked | {aim.sent.token}}


def _content(present: Present, aim: Aim) -> Iterator[tuple[str, Change]]:
    publisher, reader, x = aim.sent.publisher, aim.reader, aim.sent.x
    other = frozenset(TOPICS) - {aim.sent.topic}
    yield "writes", {"lists": present.lists | {"in" if publisher == FOREIGN else publisher: other}}
    yield "reads", {"lists": present.lists | {"out" if reader == FOREIGN else reader: other}}
    for link in present.shape.monitored:
        kind = "monitors in" if link[0] == publisher else "monitors out" if link[1] == reader else "monitors"
        yield kind, {"monitors": present.monitors | {link: x - 1}}
    for name in (name for name in (publisher, reader) if name != FOREIGN):
        for effect in ("block", "remove"):
            yield "statements", {"statements": present.statements | {name: effect}}
    if reader != FOREIGN:
        yield "where", {"where": present.where | {reader: x}}
    if publisher != FOREIGN:
        yield "advertises", {"advertises": present.advertises | {publisher: x}}
        kept = {"contracts": present.contracts | {publisher: "keep"}}
        yield "contracts", kept | {"purposes": present.purposes | {reader: "health"}}


def _metrics(present: Present, aim: Aim) -> Iterator[tuple[str, Change]]:
    yield "unread", {"unread": present.unread | {aim.reader}}
    for metric in aim.metrics:
        yield "withheld", {"withheld": present.withheld | {(aim.reader, metric)}}
        yield "unwritten", {"withheld": present.withheld | {(EDGE, metric)}}
