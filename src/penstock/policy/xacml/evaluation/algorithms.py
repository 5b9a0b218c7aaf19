"""Combining algorithms (appendix C) as tables: which decisions stop the evaluation, and the combined decision.

What the norm says as programs, `reference.py` transcribes; tests hold both together.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.policy.xacml.evaluation.decision import XacmlDecision
from penstock.policy.xacml.status import XacmlError

NONE, P, D = XacmlDecision.NOT_APPLICABLE, XacmlDecision.PERMIT, XacmlDecision.DENY
IP, ID, IDP = XacmlDecision.INDETERMINATE_P, XacmlDecision.INDETERMINATE_D, XacmlDecision.INDETERMINATE_DP
FAILURES = IP | ID | IDP


class Algorithm(NamedTuple):
    """An algorithm: evaluate in order until a decision is in `stops`; `of` combines all decisions seen."""

    stops: XacmlDecision
    of: Callable[[XacmlDecision], XacmlDecision]
    is_only_one: bool = False
    """True if targets are evaluated first, and only one may match."""


Combine = Callable[[XacmlDecision], XacmlDecision]


def _overrides(wins: XacmlDecision, may_win: XacmlDecision, other: XacmlDecision, may_other: XacmlDecision) -> Combine:
    def combine(seen: XacmlDecision) -> XacmlDecision:
        if seen & wins:
            return wins
        if seen & IDP or (seen & may_win and seen & (may_other | other)):
            return IDP
        return next((decision for decision in (may_win, other, may_other) if seen & decision), NONE)

    return combine


def _old_rule_overrides(wins: XacmlDecision, may_win: XacmlDecision, other: XacmlDecision) -> Combine:
    def combine(seen: XacmlDecision) -> XacmlDecision:
        if seen & wins:
            return wins
        if seen & (may_win | IDP):
            return IDP
        return other if seen & other else IDP if seen & FAILURES else NONE

    return combine


def _first(seen: XacmlDecision) -> XacmlDecision:
    return seen


def _old_policy_deny_overrides(seen: XacmlDecision) -> XacmlDecision:
    return D if seen & (D | FAILURES) else P if seen & P else NONE


def _old_policy_permit_overrides(seen: XacmlDecision) -> XacmlDecision:
    return P if seen & P else D if seen & D else IDP if seen & FAILURES else NONE


_DENY, _PERMIT = Algorithm(D, _overrides(D, ID, P, IP)), Algorithm(P, _overrides(P, IP, D, ID))
_BOTH = {
    "3.0:{}-combining-algorithm:deny-overrides": _DENY,
    "3.0:{}-combining-algorithm:permit-overrides": _PERMIT,
    "3.0:{}-combining-algorithm:ordered-deny-overrides": _DENY,
    "3.0:{}-combining-algorithm:ordered-permit-overrides": _PERMIT,
    "3.0:{}-combining-algorithm:deny-unless-permit": Algorithm(P, lambda seen: P if seen & P else D),
    "3.0:{}-combining-algorithm:permit-unless-deny": Algorithm(D, lambda seen: D if seen & D else P),
    "1.0:{}-combining-algorithm:first-applicable": Algorithm(P | D | FAILURES, _first),
}
_OLD = {
    "rule": (Algorithm(D, _old_rule_overrides(D, ID, P)), Algorithm(P, _old_rule_overrides(P, IP, D))),
    "policy": (Algorithm(D | FAILURES, _old_policy_deny_overrides), Algorithm(P, _old_policy_permit_overrides)),
}
_PREFIX = "urn:oasis:names:tc:xacml:"


def _table(kind: str) -> dict[str, Algorithm]:
    table = {_PREFIX + name.format(kind): algorithm for name, algorithm in _BOTH.items()}
    deny, permit = _OLD[kind]
    table |= {
        f"{_PREFIX}1.0:{kind}-combining-algorithm:deny-overrides": deny,
        f"{_PREFIX}1.0:{kind}-combining-algorithm:permit-overrides": permit,
        f"{_PREFIX}1.1:{kind}-combining-algorithm:ordered-deny-overrides": deny,
        f"{_PREFIX}1.1:{kind}-combining-algorithm:ordered-permit-overrides": permit,
    }
    return table


RULE_ALGORITHMS = _table("rule")
POLICY_ALGORITHMS = _table("policy") | {
    f"{_PREFIX}1.0:policy-combining-algorithm:only-one-applicable": Algorithm(NONE, _first, is_only_one=True)
}


def short_name(identifier: str) -> str:
    return identifier.rpartition(":")[2]


def algorithm_named(short: str, kind: str) -> str:
    """Return the identifier of an algorithm, the latest of its name; raises `XacmlError`."""
    table = RULE_ALGORITHMS if kind == "rule" else POLICY_ALGORITHMS
    identifiers = [identifier for identifier in table if identifier == short or short_name(identifier) == short]
    if not identifiers:
        available = ", ".join(sorted({short_name(identifier) for identifier in table}))
        raise XacmlError(f"`{short}` is not a combining algorithm of this kind; there are {available}")
    return max(identifiers)


def algorithm_of(identifier: str, kind: str) -> Algorithm:
    """Return the algorithm of an identifier for rules or policies; raises `XacmlError`."""
    table, other = (RULE_ALGORITHMS, POLICY_ALGORITHMS) if kind == "rule" else (POLICY_ALGORITHMS, RULE_ALGORITHMS)
    if identifier in table:
        return table[identifier]
    what = f"does not combine {kind}s" if identifier in other else "is not a combining algorithm that is known here"
    raise XacmlError(f"`{identifier}` {what}")
