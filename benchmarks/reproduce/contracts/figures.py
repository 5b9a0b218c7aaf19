"""The measurements of the contracts paper, on our nodes: each figure as points that can be drawn and printed."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.reproduce.contracts.inside import Cost, domain, listing_1, measure, notification, played, searching

SUBSCRIPTIONS = (1, 10, 100, 1_000)
POLICIES = (1, 10, 100, 1_000, 10_000, 100_000)
ATTRIBUTES = (1, 2, 4, 8, 16, 32)
METADATA = (0, 1, 2, 4, 8, 16)
CONSTRAINTS = (0, 1, 2, 4, 8, 16)
NO_QUALITY: dict[str, Any] = {"quality": {}}


class Point(NamedTuple):
    """One measurement: how many of what was varied, and what a publication costs."""

    line: str
    number: int
    cost: Cost


class Extent(NamedTuple):
    rounds: int = 9
    publications: int = 200
    most: int = 100_000
    """The value of the varied parameter."""


def subscriptions(extent: Extent) -> list[Point]:
    """Section 4: context-based filters (Listing 1), each about another sensor; such that each must be evaluated; and
    the same filter again and again.
    """
    points = []
    for line, first, other in (
        ("one of them matches", listing_1(), listing_1),
        ("one of them matches, and each is evaluated", searching(), searching),
        ("all match", listing_1(), lambda _: listing_1()),
    ):
        for count in [count_ for count_ in SUBSCRIPTIONS if count_ <= extent.most]:
            points_ = played(domain(min(count, 50)), [first, *(other(str(1_000 + at)) for at in range(count - 1))])
            points.append(Point(line, count, measure(points_, notification(), extent.rounds, extent.publications)))
    return points


def policies(extent: Extent) -> list[Point]:
    """Fig. 4: privacy policies in XACML, of which the last one fits."""
    points_ = [_private(count, 1, extent) for count in POLICIES if count <= extent.most]
    return [Point("policies", count, cost) for count, cost in zip(POLICIES, points_, strict=False)]


def attributes(extent: Extent) -> list[Point]:
    """Fig. 5: one policy with so many attributes of the consumer."""
    return [Point("attributes", count, _private(1, count, extent)) for count in ATTRIBUTES if count <= extent.most]


def _private(policies: int, purposes: int, extent: Extent) -> Cost:
    points_ = played(domain(1, **NO_QUALITY), [""], policies, purposes)
    return measure(points_, notification(), extent.rounds, extent.publications)


def metadata(extent: Extent) -> list[Point]:
    """Fig. 6 and 7: so many quality metadata in the notification, and one constraint on the first of them."""
    return [
        Point(line, count, _constrained(line, count, min(count, 1), extent))
        for line in LINES
        for count in METADATA
        if count <= extent.most
    ]


def constraints(extent: Extent) -> list[Point]:
    """Fig. 8 and 9: so many constraints on a notification with 16 metadata."""
    return [
        Point(line, count, _constrained(line, 16, count, extent))
        for line in LINES
        for count in CONSTRAINTS
        if count <= extent.most
    ]


CRITERION, VALUE, OURS = "criterion, XPath (Listing 3)", "value, XPath (Listing 3)", "value, measured and in JSON"
LINES = (CRITERION, VALUE, OURS)


def _constrained(line: str, metadata: int, constraints: int, extent: Extent) -> Cost:
    needs: list[Any] = [_need(line, at) for at in range(constraints)]
    indicators = {str(at): {"criterion": f"{at}.1", "definitions": {f"{at}.1": {}}} for at in range(16)}
    wants = {"pollution": {"filter": "paris/#", "needs": needs}}
    contracts = {
        "producers": {"pollution": {"producer": "producer", "filter": "paris/#"}},
        "consumers": {"consumer": {"consumer": "consumer0", "purpose": "health", "wants": wants}},
    }
    points_ = played(domain(1, quality={"indicators": indicators}, contracts=contracts), [""])
    return measure(points_, notification(metadata, line != OURS), extent.rounds, extent.publications)


def _need(line: str, at: int) -> Any:
    if line == OURS:
        return f"{at}/{at}.1/{at}.1 >= 40"
    value = " and qocmetricvalue[@value>='40']" if line == VALUE else ""
    path = f"//qocindicator[@id='{at}' and qocriterion[@id='{at}.1']/qocmetricdefinition[@id='{at}.1']{value}]"
    return {"xpath": path}
