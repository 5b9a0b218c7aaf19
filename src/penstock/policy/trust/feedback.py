"""The bounds of clients' feedback: how often one client is heard, and how many must agree (trust §II-C)."""

from typing import NamedTuple, Protocol

from penstock.model.event import Event

MAX_RATED = 100_000
"""Ratings that are remembered, so that nobody rates one message twice."""
MAX_RATERS = 10_000
"""Raters and neighbours whose ratings are counted."""


class FeedbackBounds(Protocol):
    """The numbers of `trust.feedback`."""

    @property
    def most(self) -> int:
        """Ratings of one client about one neighbour in a period."""

    @property
    def least(self) -> int:
        """Clients that must have called something of a neighbour bad within a period for it to count."""

    @property
    def period(self) -> float:
        """In seconds."""


class RatingRefusal(NamedTuple):
    """The reason why a rating is no evidence: one client says too much, or too few say so."""

    is_too_much: bool
    reason: str


class FeedbackLimits:
    """The ratings by client, and their number within the limit's window."""

    def __init__(self) -> None:
        self._rated: dict[tuple[str, str, str], None] = {}
        self._came: dict[tuple[str, str, bytes], None] = {}
        self._said: dict[tuple[str, str], list[float]] = {}
        self._bad: dict[str, dict[str, float]] = {}
        """By neighbour, who has called something of it bad, and when last."""

    def is_first(self, event: Event) -> bool:
        """Return True if an event with this id has not come by another way; without an id there is one way."""
        if not event.id:
            return True
        key = (event.id, event.topic, event.payload)  # a neighbour may give one id to several
        if key in self._came:
            return False
        while len(self._came) >= MAX_RATED:
            del self._came[next(iter(self._came))]
        self._came[key] = None
        return True

    def judge(
        self, bounds: FeedbackBounds, rater: str, neighbour: str, message: tuple[str, str], is_good: bool, now: float
    ) -> RatingRefusal | None:
        """Count a client's rating of a message; return why it is no evidence, None if it is."""
        refused = self._takes(rater, neighbour, message, bounds.most, bounds.period, now)
        if refused:
            return RatingRefusal(True, refused)
        if not is_good and self._is_alone(rater, neighbour, bounds.least, bounds.period, now):
            return RatingRefusal(False, f"it counts once {bounds.least} clients say so within {bounds.period:g} s")
        return None

    def _is_alone(self, rater: str, neighbour: str, least: int, period: float, now: float) -> bool:
        """Return True if too few clients, this one included, have recently rated events of a neighbour as bad."""
        raters = self._bad.setdefault(neighbour, {})
        raters.pop(rater, None)
        raters[rater] = now
        while len(raters) > MAX_RATERS:
            del raters[next(iter(raters))]
        return sum(at > now - period for at in raters.values()) < least

    def _takes(
        self, rater: str, neighbour: str, message: tuple[str, str], limit: int, period: float, now: float
    ) -> str:
        """Count a rating; return why it does not count, empty if it does."""
        key = (rater, *message)
        if key in self._rated:
            return f"it has been rated by {'this' if rater else 'such a'} client already"
        times = [at for at in self._said.get((rater, neighbour), ()) if at > now - period]
        if len(times) >= limit:
            return f"more than {limit} ratings of one client about one neighbour in {period:g} s"
        while len(self._rated) >= MAX_RATED:
            del self._rated[next(iter(self._rated))]
        self._rated[key] = None
        self._said.pop((rater, neighbour), None)
        while len(self._said) >= MAX_RATERS:
            del self._said[next(iter(self._said))]
        self._said[rater, neighbour] = [*times, now]
        return ""
