"""The sparkplug paper's Definitions 2 to 5 as set expressions over whole histories."""

from collections.abc import Sequence
from typing import Any, Protocol

State = dict[str, Any]
"""Values by metric."""


class Policy(Protocol):
    """A policy that grants, and takes metrics out."""

    @property
    def exceptions(self) -> frozenset[str]: ...

    def outcome(self, metrics: State, /) -> bool | None:
        """Whether its condition holds; None: it cannot be evaluated."""


def granted(policies: Sequence[Policy], metrics: State) -> State | None:
    """Definitions 2 and 3: what is left of metrics; None if no policy grants anything."""
    outcomes = [(policy, policy.outcome(metrics)) for policy in policies]
    if not any(outcome is True for _, outcome in outcomes):
        return None
    gone = {name for policy, outcome in outcomes if outcome is not False for name in policy.exceptions}
    return {name: value for name, value in metrics.items() if name not in gone}


def views(policies: Sequence[Policy], birth: State, reports: Sequence[State]) -> list[State | None]:
    """The views of all reports, each from the whole history before it.

    m[j], M[j] and E[j] are the paper's m_i,j with its metrics, M_i,j and E_i,j; included[j] and excluded[j] its M^s and
    M^s-, which are there only where a view is.
    """
    m = [birth, *reports]
    E = [{name: value for report in m[: j + 1] for name, value in report.items()} for j in range(len(m))]
    included: dict[int, set[str]] = {}
    excluded: dict[int, set[str]] = {}
    found: list[State | None] = []
    for j in range(1, len(m)):
        M = set(m[j])
        C = {
            mt
            for mt in set(E[j]) - M
            if any(
                mt in excluded.get(k, ())
                and not any(mt in included.get(x, ()) or mt in excluded.get(x, ()) for x in range(k + 1, j))
                for k in range(1, j)
            )
        }
        augmented = {mt: E[j][mt] for mt in M | C}
        view = granted(policies, augmented)
        if view is not None:
            included[j], excluded[j] = set(view), set(augmented) - set(view)
        found.append(view)
    return found
