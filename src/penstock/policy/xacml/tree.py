"""Policies as a tree: the form of the XML, which the short form compiles to."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from penstock.policy.xacml.values.values import Value


class XacmlEffect(StrEnum):
    PERMIT = "Permit"
    DENY = "Deny"


@dataclass(frozen=True, slots=True)
class LiteralValue:
    type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Designator:
    """The bag of values of an attribute of the request (7.3.5)."""

    category: str
    id: str
    type: str
    must_be_present: bool
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """The bag of values that an XPath expression finds in the content of a category (7.3.7)."""

    category: str
    path: str
    type: str
    must_be_present: bool
    context_id: str | None
    prefixes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function as an argument of another."""

    id: str


@dataclass(frozen=True, slots=True)
class VariableReference:
    """The value of a variable of the policy."""

    variable: str


@dataclass(frozen=True, slots=True)
class Apply:
    function: str
    arguments: tuple["Expression", ...]


Expression = LiteralValue | Designator | Selector | FunctionName | VariableReference | Apply


@dataclass(frozen=True, slots=True)
class TargetMatch:
    function: str
    literal: LiteralValue
    source: Designator | Selector


AllOf = tuple[TargetMatch, ...]
AnyOf = tuple[AllOf, ...]
Target = tuple[AnyOf, ...]
"""Each of its parts must have one alternative of which every match holds. Without parts, it matches everything."""


@dataclass(frozen=True, slots=True)
class Assignment:
    id: str
    expression: Expression
    category: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class DutyExpression:
    """An obligation or advice, and the decision that it goes with."""

    id: str
    on: XacmlEffect
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class XacmlRule:
    id: str
    effect: XacmlEffect
    target: Target = ()
    condition: Expression | None = None
    obligations: tuple[DutyExpression, ...] = ()
    advice: tuple[DutyExpression, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class XacmlPolicy:
    id: str
    version: str
    algorithm: str
    target: Target = ()
    rules: tuple[XacmlRule, ...] = ()
    variables: tuple[tuple[str, Expression], ...] = ()
    obligations: tuple[DutyExpression, ...] = ()
    advice: tuple[DutyExpression, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class PolicyReference:
    """A policy or a policy set by its name, with the versions that will do (5.10 to 5.13)."""

    id: str
    is_set: bool
    version: str | None = None
    earliest: str | None = None
    latest: str | None = None

    def __str__(self) -> str:
        versions = (("version", self.version), ("earliest", self.earliest), ("latest", self.latest))
        return f"`{self.id}`" + "".join(f", {what} {text}" for what, text in versions if text is not None)


@dataclass(frozen=True, slots=True)
class XacmlPolicySet:
    id: str
    version: str
    algorithm: str
    target: Target = ()
    children: tuple["XacmlPolicy | XacmlPolicySet | PolicyReference", ...] = ()
    obligations: tuple[DutyExpression, ...] = ()
    advice: tuple[DutyExpression, ...] = ()
    description: str = ""


Root = XacmlPolicy | XacmlPolicySet


def inside(root: Root) -> Iterator[Root]:
    """Yield the policy itself, and all that are written inside it."""
    yield root
    if isinstance(root, XacmlPolicySet):
        for child in root.children:
            if not isinstance(child, PolicyReference):
                yield from inside(child)
