"""The load of statements §6, scaled up: subscriptions of four predicates on average, to classes of events.

The paper says how many subscriptions, predicates and classes there are, and that subscriptions overlap little or much;
the rest is chosen here. An event has its class and four numbers. A subscription wants one class, and ranges of one or
two of the numbers. The more subscriptions there are, the narrower their ranges, so that a publication always matches as
many of them.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

ATTRIBUTES = ("a", "b", "c", "d")
SCALE = 1_000
CROWDED = NormalDist(0.5, 0.1)


class Predicate(NamedTuple):
    """An attribute compared with a constant."""

    attribute: str
    operator: str
    constant: Any

    def __str__(self) -> str:
        shown = f"'{self.constant}'" if isinstance(self.constant, str) else repr(self.constant)
        return f"{self.attribute} {self.operator} {shown}"


Subscription = tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Subscriptions and publications of which each pair has the same chance, whatever their number."""

    name: str
    classes: int
    is_crowded: bool
    """Ranges and values gather around the middle, so that many ranges overlap; else they are evenly spread."""
    matches: float
    """Subscriptions that a publication matches on average."""

    @property
    def title(self) -> str:
        """Its description."""
        overlap = "high" if self.is_crowded else "low"
        return f"{self.classes} event classes, {overlap} overlap, {self.matches:g} matches for each publication"

    def subscriptions(self, count: int) -> list[Subscription]:
        """Return that many subscriptions of three, four and five predicates."""
        chance = random.Random(f"{self.name} {count}")
        width = self._width(self.matches * self.classes / count)
        return [self._subscription(chance, width) for _ in range(count)]

    def publications(self, count: int) -> list[bytes]:
        """The payloads of so many publications."""
        chance = random.Random(self.name)
        return [json.dumps(self._publication(chance)).encode() for _ in range(count)]

    def _subscription(self, chance: random.Random, width: float) -> Subscription:
        first, second = chance.sample(ATTRIBUTES, 2)
        predicates = [Predicate("class", "==", self._class(chance)), *self._range(chance, first, width)]
        match chance.randrange(3):
            case 1:
                predicates.append(Predicate(second, chance.choice("<>"), _scaled(chance.random())))
            case 2:
                predicates += self._range(chance, second, width)
        return tuple(predicates)

    def _range(self, chance: random.Random, attribute: str, width: float) -> list[Predicate]:
        middle = self._value(chance)
        edges = (">", middle - width / 2), ("<", middle + width / 2)
        return [Predicate(attribute, operator, _scaled(edge)) for operator, edge in edges]

    def _publication(self, chance: random.Random) -> dict[str, Any]:
        values = {name: _scaled(self._value(chance)) for name in ATTRIBUTES}
        return {"class": self._class(chance), **values}

    def _class(self, chance: random.Random) -> str:
        return f"class-{chance.randrange(self.classes)}"

    def _value(self, chance: random.Random) -> float:
        return CROWDED.inv_cdf(chance.uniform(1e-6, 1 - 1e-6)) if self.is_crowded else chance.random()

    def _width(self, width: float) -> float:
        """Return the width of ranges with which a publication matches this share of the subscriptions to its class."""
        # With p for one range, subscriptions match with p, p / 2 and p^2, one third of them each.
        in_range = (math.sqrt(2.25 + 12 * width) - 1.5) / 2
        if self.is_crowded:  # the distance of two values is normal, too
            return 2 * NormalDist(0, math.sqrt(2) * CROWDED.stdev).inv_cdf((1 + in_range) / 2)
        return 2 - 2 * math.sqrt(1 - in_range)


def _scaled(value: float) -> float:
    return round(SCALE * value, 6)


WORKLOADS = (
    Workload("200-low", 200, is_crowded=False, matches=2),
    Workload("200-high", 200, is_crowded=True, matches=4),
    Workload("20-low", 20, is_crowded=False, matches=2),
    Workload("20-high", 20, is_crowded=True, matches=20),
)
