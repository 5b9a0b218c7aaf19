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


def _deny_overrides(seen: XacmlDecision) -> XacmlDecision:
    if seen & D:
        return D
    if seen & IDP or (seen & ID and seen & (IP | P)):
        return IDP
    return next((decision for decision in (ID, P, IP) if seen & decision), NONE)


def _permit_overrides(seen: XacmlDecision) -> XacmlDecision:
    if seen & P:
        return P
    if seen & IDP or (seen & IP and seen & (ID | D)):
        return IDP
    return next((decision for decision in (IP, D, ID) if seen & decision), NONE)


def _deny_unless_permit(seen: XacmlDecision) -> XacmlDecision:
    return P if seen & P else D


def _permit_unless_deny(seen: XacmlDecision) -> XacmlDecision:
    return D if seen & D else P


def _first(seen: XacmlDecision) -> XacmlDecision:
    return seen


def _old_rule_deny_overrides(seen: XacmlDecision) -> XacmlDecision:
    if seen & D:
        return D
    if seen & (ID | IDP):
        return IDP
    return P if seen & P else IDP if seen & FAILURES else NONE


def _old_rule_permit_overrides(seen: XacmlDecision) -> XacmlDecision:
    if seen & P:
        return P
    if seen & (IP | IDP):
        return IDP
    return D if seen & D else IDP if seen & FAILURES else NONE


def _old_policy_deny_overrides(seen: XacmlDecision) -> XacmlDecision:
    return D if seen & (D | FAILURES) else P if seen & P else NONE


def _old_policy_permit_overrides(seen: XacmlDecision) -> XacmlDecision:
    return P if seen & P else D if seen & D else IDP if seen & FAILURES else NONE


_FIRST = Algorithm(P | D | FAILURES, _first)
_BOTH = {
    "3.0:{}-combining-algorithm:deny-overrides": Algorithm(D, _deny_overrides),
    "3.0:{}-combining-algorithm:permit-overrides": Algorithm(P, _permit_overrides),
    "3.0:{}-combining-algorithm:ordered-deny-overrides": Algorithm(D, _deny_overrides),
    "3.0:{}-combining-algorithm:ordered-permit-overrides": Algorithm(P, _permit_overrides),
    "3.0:{}-combining-algorithm:deny-unless-permit": Algorithm(P, _deny_unless_permit),
    "3.0:{}-combining-algorithm:permit-unless-deny": Algorithm(D, _permit_unless_deny),
    "1.0:{}-combining-algorithm:first-applicable": _FIRST,
}
_OLD = {
    "rule": (Algorithm(D, _old_rule_deny_overrides), Algorithm(P, _old_rule_permit_overrides)),
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
