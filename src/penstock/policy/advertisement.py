"""Advertisements: what a producer says that it will publish."""

from dataclasses import dataclass
from typing import Literal

from penstock.language.condition import Condition

Scope = Literal["global", "local"]
"""Whether other nodes are told of an advertisement or subscription."""


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What its producer will publish: events on these topics whose content satisfies the condition (None: any)."""

    name: str
    """Tells it from the producer's other advertisements."""
    filter: str
    condition: Condition | None = None
    scope: Scope = "global"
