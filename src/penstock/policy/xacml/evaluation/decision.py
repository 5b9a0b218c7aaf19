"""The results of evaluation: decisions with the three kinds of Indeterminate (7.10), obligations and advice."""

from enum import IntFlag
from typing import NamedTuple

from penstock.policy.xacml.status import FINE, Status
from penstock.policy.xacml.values.values import Value


class XacmlDecision(IntFlag):
    """A decision as a bit, so that several form a set."""

    NOT_APPLICABLE = 0
    PERMIT = 1
    DENY = 2
    INDETERMINATE_P = 4
    """It could have been Permit, but not Deny."""
    INDETERMINATE_D = 8
    INDETERMINATE_DP = 16

    @property
    def shown(self) -> str:
        """The decision as a response writes it."""
        return _SHOWN.get(self, "Indeterminate")


_SHOWN = {XacmlDecision.NOT_APPLICABLE: "NotApplicable", XacmlDecision.PERMIT: "Permit", XacmlDecision.DENY: "Deny"}


class AssignedAttribute(NamedTuple):
    """An attribute of an obligation or advice, with one value."""

    id: str
    type: str
    value: Value
    category: str | None = None
    issuer: str | None = None


class Duty(NamedTuple):
    """An obligation or advice that goes with a decision."""

    id: str
    assigned: tuple[AssignedAttribute, ...] = ()


class PolicyName(NamedTuple):
    id: str
    version: str
    is_set: bool


class XacmlOutcome(NamedTuple):
    """The outcome of a rule, a policy or a policy set."""

    decision: XacmlDecision
    status: Status = FINE
    obligations: tuple[Duty, ...] = ()
    advice: tuple[Duty, ...] = ()
    policies: tuple[PolicyName, ...] = ()
    """The applicable policies."""


NOT_APPLICABLE = XacmlOutcome(XacmlDecision.NOT_APPLICABLE)
