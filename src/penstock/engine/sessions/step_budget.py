"""The steps of conditions that a client may cause in a second, by what it publishes and by what it subscribes to.

One evaluation, and all on one event, may take as many steps as a client may use at once: so what a node decides does
not depend on who has used how many. A client can cause many evaluations, so it has a budget besides. Steps come
back as time goes on, and a tenth of a second's steps can be used at once: so no client takes the node for long at a
stretch.
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
