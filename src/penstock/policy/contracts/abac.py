"""Attribute conditions as plain data: the form that contracts compile to, before an engine for policies.

What is not known of an attribute never permits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class AttributeCategory(StrEnum):
    """The category of an attribute, as in XACML."""

    SUBJECT = "subject"
    RESOURCE = "resource"
    ACTION = "action"
    ENVIRONMENT = "environment"


class AttributeName(NamedTuple):
    """The name of an attribute: `AttributeName(AttributeCategory.SUBJECT, "purpose")`."""

    category: AttributeCategory
    attribute: str

    def __str__(self) -> str:
        return f"{self.category} {self.attribute}"


Texts = frozenset[str]
Attributes = Mapping[AttributeName, Texts | float]
"""The known attributes of a request: texts, of which there may be none, or one number."""


class Relation(StrEnum):
    """The relation of a condition; the first four are of texts, the others of a number."""

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
    Relation.ANY_OF: lambda values, texts: bool(values & texts),
    Relation.ONLY: lambda values, texts: bool(values) and values <= texts,
    Relation.ALL_OF: lambda values, texts: texts <= values,
    Relation.NONE_OF: lambda values, texts: not values & texts,
}
_OF_NUMBERS: Mapping[Relation, Callable[[float, float], bool]] = {
    Relation.AT_LEAST: lambda value, bound: value >= bound,
    Relation.AT_MOST: lambda value, bound: value <= bound,
    Relation.ABOVE: lambda value, bound: value > bound,
    Relation.BELOW: lambda value, bound: value < bound,
    Relation.KNOWN: lambda value, bound: True,
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
        value = attributes.get(self.name)
        if value is None:
            return f"{self.name} is not known"
        if isinstance(value, frozenset):
            shown = ", ".join(f"`{text}`" for text in sorted(value)) or "none"
            holds = self.relation in _OF_TEXTS and _OF_TEXTS[self.relation](value, self.texts)
        else:
            shown = f"{value:g}"
            holds = self.relation in _OF_NUMBERS and _OF_NUMBERS[self.relation](value, self.number)
        return "" if holds else f"{self.name} is {shown}, asked is: {str(self).removeprefix(f'{self.name} ')}"
