"""Budgets of clients for conditions: each client may cause a number of evaluation steps a second.

It has one budget for what it publishes and one for its subscriptions. Steps come back as time goes on. A tenth of a
second's steps can be used at once, so no client holds the node up for long. One evaluation, and all on one event, have
the same bound for every client: what a node decides does not depend on how many steps a client has left.
"""

STRETCH = 0.1
"""Seconds whose steps may be used at once."""


def at_once(steps_per_second: int) -> int:
    """Return the steps that a client may use at once."""
    return int(steps_per_second * STRETCH)


class StepBudget:
    """The steps of one client that count against its limit now."""

    __slots__ = ("_at", "_spent")

    def __init__(self) -> None:
        self._at = 0.0
        self._spent = 0.0

    def is_left(self, now: float, steps_per_second: int) -> bool:
        """Return whether more steps may be taken."""
        if now > self._at:
            self._spent = max(0.0, self._spent - (now - self._at) * steps_per_second)
            self._at = now
        return self._spent <= at_once(steps_per_second)

    def charge(self, steps: int) -> None:
        """Count steps that were taken."""
        self._spent += steps
