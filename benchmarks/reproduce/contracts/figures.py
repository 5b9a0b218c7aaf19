"""The measurements of the contracts paper, on our nodes: each figure as points that can be drawn and printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.reproduce.contracts.live import Cost, Extent, Setup, listing_1, measure, notification, searching

SUBSCRIPTIONS = (1, 10, 100, 1_000)
POLICIES = (1, 10, 100, 500, 1_000, 10_000)
ATTRIBUTES = (1, 2, 4, 8, 16, 32)
METADATA = (0, 1, 2, 4, 8, 16)
CONSTRAINTS = (0, 1, 2, 4, 8, 16)
CONSUMERS = (1, 10, 100, 1_000)
MAX_CONNECTED = 50


class Point(NamedTuple):
    """One measurement: how many of what was varied, and what a publication costs."""

    line: str
    number: int
    cost: Cost


def subscriptions(extent: Extent) -> list[Point]:
    """Section 4: context-based filters (Listing 1), each about another sensor; such that each must be evaluated; and
    the same filter again and again.
    """
    points = []
    lines = (
        ("one of them matches", listing_1(), listing_1),
        ("one of them matches, and each is evaluated", searching(), searching),
        ("all match", listing_1(), lambda _: listing_1()),
    )
    for line, first, other in lines[: extent.lines]:
        for count in _within(SUBSCRIPTIONS, extent):
            wheres = [first, *(other(str(1_000 + at)) for at in range(count - 1))]
            points.append(Point(line, count, measure(Setup(min(count, MAX_CONNECTED), wheres), extent)))
    return points


def policies(extent: Extent) -> list[Point]:
    """Fig. 4: privacy policies in XACML, of which the last one fits."""
    return [Point("policies", count, measure(Setup(1, policies=count), extent)) for count in _within(POLICIES, extent)]


def attributes(extent: Extent) -> list[Point]:
    """Fig. 5: one policy with so many attributes of the consumer."""
    return [
        Point("attributes", count, measure(Setup(1, policies=1, purposes=count), extent))
        for count in _within(ATTRIBUTES, extent)
    ]


def metadata(extent: Extent) -> list[Point]:
    """Fig. 6 and 7: so many quality metadata in the notification, and one constraint on the first of them."""
    return [
        Point(line, count, _constrained(line, count, min(count, 1), extent))
        for line in LINES[: extent.lines]
        for count in _within(METADATA, extent)
    ]


def constraints(extent: Extent) -> list[Point]:
    """Fig. 8 and 9: so many constraints on a notification with 16 metadata."""
    return [
        Point(line, count, _constrained(line, 16, count, extent))
        for line in LINES[: extent.lines]
        for count in _within(CONSTRAINTS, extent)
    ]


def consumers(extent: Extent) -> list[Point]:
    """A figure that the paper lacks: a private event, and the set of those for whom access is enabled, against the
    consumers that have contracts about it; of which all subscribe, or one.
    """
    points = []
    for line, is_all in (("all subscribe", True), ("one subscribes", False))[: extent.lines]:
        for count in _within(CONSUMERS, extent):
            wants = {"pollution": {"filter": "paris/#"}}
            several = [f"consumer{at}" for at in range(count)]
            contracts = {
                "producers": {
                    "pollution": {
                        "producer": "producer",
                        "filter": "paris/#",
                        "scope": "local",
                        "rules": {"health": {"purpose": "health"}},
                    }
                },
                "consumers": {name: {"consumer": name, "purpose": "health", "wants": wants} for name in several},
            }
            subscribers = count if is_all else 1
            setup = Setup(count, [""] * subscribers, more={"contracts": contracts}, subscribers=subscribers)
            points.append(Point(line, count, measure(setup, extent)))
    return points


def _within(counts: Sequence[int], extent: Extent) -> Iterable[int]:
    return [count for count in counts if count <= extent.most]


CRITERION, VALUE, OURS = "criterion, XPath (Listing 3)", "value, XPath (Listing 3)", "value, measured and in JSON"
LINES = (CRITERION, VALUE, OURS)


def _constrained(line: str, metadata: int, constraints: int, extent: Extent) -> Cost:
    needs: list[Any] = [_need(line, at) for at in range(constraints)]
    indicators = {str(at): {"criterion": f"{at}.1", "definitions": {f"{at}.1": {}}} for at in range(16)}
    wants = {"pollution": {"filter": "paris/#", "needs": needs}}
    contracts = {
        "producers": {"pollution": {"producer": "producer", "filter": "paris/#", "scope": "local"}},
        "consumers": {"consumer": {"consumer": "consumer0", "purpose": "health", "wants": wants}},
    }
    more = {"quality": {"indicators": indicators}, "contracts": contracts}
    is_xml = line != OURS
    advertised = listing_1() if is_xml else 'observation.observable.uri == "#pollution"'
    return measure(Setup(1, payload=notification(metadata, is_xml), advertised=advertised, more=more), extent)


def _need(line: str, at: int) -> Any:
    if line == OURS:
        return f"{at}/{at}.1/{at}.1 >= 40"
    value = " and qocmetricvalue[@value>='40']" if line == VALUE else ""
    path = f"//qocindicator[@id='{at}' and qocriterion[@id='{at}.1']/qocmetricdefinition[@id='{at}.1']{value}]"
    return {"xpath": path}
