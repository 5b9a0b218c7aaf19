"""What evaluation comes to: decisions with the three kinds of Indeterminate (7.10), obligations and advice."""

from enum import IntFlag
from typing import NamedTuple

from penstock.policy.xacml.status import FINE, Status
from penstock.policy.xacml.values.values import Value


class Decision(IntFlag):
    """A decision, as a bit, so that several are a set."""

    NOT_APPLICABLE = 0
    PERMIT = 1
    DENY = 2
    INDETERMINATE_P = 4
    """It could have been Permit, but not Deny."""
    INDETERMINATE_D = 8
    INDETERMINATE_DP = 16

    @property
    def shown(self) -> str:
        """As a response says it."""
        return _SHOWN[self]


_SHOWN = {
    Decision.NOT_APPLICABLE: "NotApplicable",
    Decision.PERMIT: "Permit",
    Decision.DENY: "Deny",
    Decision.INDETERMINATE_P: "Indeterminate",
    Decision.INDETERMINATE_D: "Indeterminate",
    Decision.INDETERMINATE_DP: "Indeterminate",
}


class Assigned(NamedTuple):
    """An attribute of an obligation or advice, with one value."""

    id: str
    type: str
    value: Value
    category: str | None = None
    issuer: str | None = None


class Duty(NamedTuple):
    """An obligation or advice that goes with a decision."""

    id: str
    assigned: tuple[Assigned, ...] = ()


class PolicyName(NamedTuple):
    id: str
    version: str
    is_set: bool


class Outcome(NamedTuple):
    """What a rule, a policy or a policy set comes to."""

    decision: Decision
    status: Status = FINE
    obligations: tuple[Duty, ...] = ()
    advice: tuple[Duty, ...] = ()
    policies: tuple[PolicyName, ...] = ()
    """The policies that were applicable."""


NOT_APPLICABLE = Outcome(Decision.NOT_APPLICABLE)

IF_TARGET_FAILS = {
    Decision.NOT_APPLICABLE: Decision.NOT_APPLICABLE,
    Decision.PERMIT: Decision.INDETERMINATE_P,
    Decision.DENY: Decision.INDETERMINATE_D,
    Decision.INDETERMINATE_P: Decision.INDETERMINATE_P,
    Decision.INDETERMINATE_D: Decision.INDETERMINATE_D,
    Decision.INDETERMINATE_DP: Decision.INDETERMINATE_DP,
}
"""Table 7: what is left of a decision if it is not known whether the target matches."""
