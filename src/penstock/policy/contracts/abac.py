"""Attribute conditions as plain data: what contracts compile to, in between them and an engine for policies.

It is a small neutral tree. Whoever has an engine for XACML makes its policies from it; `decide` is the reference that
says what it means: the first rule that permits does so, with its obligations; without one, it is denied. What is not
known of an attribute never permits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class AttributeCategory(StrEnum):
    """Whose attribute it is, as XACML has it."""

    SUBJECT = "subject"
    RESOURCE = "resource"
    ACTION = "action"
    ENVIRONMENT = "environment"


class AttributeName(NamedTuple):
    """Which attribute is meant: `AttributeName(Category.SUBJECT, "purpose")`."""

    category: AttributeCategory
    attribute: str

    def __str__(self) -> str:
        return f"{self.category} {self.attribute}"


Texts = frozenset[str]
Attributes = Mapping[AttributeName, Texts | float]
"""What is known for a request: texts, of which there may be none, or one number."""


class Relation(StrEnum):
    """What is asked of an attribute; the first four of texts, the others of a number."""

    ANY_OF = "any of"
    """One of its texts is among those of the condition."""
    ONLY = "only"
    """It has texts, and all of them are among those of the condition."""
    ALL_OF = "all of"
    """All texts of the condition are among its own."""
    NONE_OF = "none of"
    """No text of the condition is among its own."""
    AT_LEAST = ">="
    AT_MOST = "<="
    ABOVE = ">"
    BELOW = "<"
    KNOWN = "known"
    """There is such a number."""


_OF_TEXTS: Mapping[Relation, Callable[[Texts, Texts], bool]] = {
    Relation.ANY_OF: lambda found, asked: bool(found & asked),
    Relation.ONLY: lambda found, asked: bool(found) and found <= asked,
    Relation.ALL_OF: lambda found, asked: asked <= found,
    Relation.NONE_OF: lambda found, asked: not found & asked,
}
_OF_NUMBERS: Mapping[Relation, Callable[[float, float], bool]] = {
    Relation.AT_LEAST: lambda found, bound: found >= bound,
    Relation.AT_MOST: lambda found, bound: found <= bound,
    Relation.ABOVE: lambda found, bound: found > bound,
    Relation.BELOW: lambda found, bound: found < bound,
    Relation.KNOWN: lambda found, bound: True,
}


@dataclass(frozen=True, slots=True)
class Compare:
    """One condition on one attribute."""

    name: AttributeName
    relation: Relation
    texts: Texts = frozenset()
    number: float = 0.0

    def __str__(self) -> str:
        if self.relation in _OF_TEXTS:
            return f"{self.name} {self.relation} {', '.join(f'`{text}`' for text in sorted(self.texts))}"
        return f"{self.name} {self.relation}" + ("" if self.relation is Relation.KNOWN else f" {self.number:g}")

    def why_not(self, attributes: Attributes) -> str:
        """Return why it does not hold; empty if it does."""
        found = attributes.get(self.name)
        if found is None:
            return f"{self.name} is not known"
        if isinstance(found, frozenset):
            shown = ", ".join(f"`{text}`" for text in sorted(found)) or "none"
            holds = self.relation in _OF_TEXTS and _OF_TEXTS[self.relation](found, self.texts)
        else:
            shown = f"{found:g}"
            holds = self.relation in _OF_NUMBERS and _OF_NUMBERS[self.relation](found, self.number)
        return "" if holds else f"{self.name} is {shown}, asked is: {str(self).removeprefix(f'{self.name} ')}"


@dataclass(frozen=True, slots=True)
class AbacObligation:
    """What must be done with what is permitted, by its name and its arguments as text or number."""

    name: str
    arguments: tuple[tuple[str, str | float], ...] = ()


@dataclass(frozen=True, slots=True)
class AbacRule:
    """Permits if all of its conditions hold."""

    id: str
    conditions: tuple[Compare, ...]
    obligations: tuple[AbacObligation, ...] = ()

    def why_not(self, attributes: Attributes) -> tuple[str, ...]:
        reasons = (one.why_not(attributes) for one in self.conditions)
        return tuple(reason for reason in reasons if reason)


@dataclass(frozen=True, slots=True)
class AbacPolicy:
    """The rules about some resources, in order; the first that permits counts, and all else is denied."""

    id: str
    target: tuple[Compare, ...]
    """What it is about: on all else it says nothing."""
    rules: tuple[AbacRule, ...]


class AbacRuling(NamedTuple):
    """What a policy says of a request."""

    rule: AbacRule | None
    """The one that permits."""
    reasons: tuple[str, ...] = ()
    """Why none does."""


def decide(policy: AbacPolicy, attributes: Attributes) -> AbacRuling | None:
    """What a policy says of a request; None if it is not about it."""
    if any(one.why_not(attributes) for one in policy.target):
        return None
    reasons: list[str] = []
    for rule in policy.rules:
        wrong = rule.why_not(attributes)
        if not wrong:
            return AbacRuling(rule)
        reasons += [f"rule `{rule.id}`: {reason}" for reason in wrong]
    return AbacRuling(None, tuple(reasons) or ("no rule permits anything",))
