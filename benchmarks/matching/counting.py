"""Two other ways to match, to compare with: counting satisfied predicates, and deciding each condition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.matching.workload import Subscription
from penstock.language.condition import Condition
from penstock.model.content.content import Content, Unreadable


class Counting:
    """A counting index: predicates that a publication satisfies are found by hash and by sorted bounds, and counted."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._wanted = [len(subscription) for subscription in subscriptions]
        self._equal: dict[str, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
        orders: dict[tuple[str, str], list[tuple[Any, int]]] = defaultdict(list)
        for number, subscription in enumerate(subscriptions):
            for attribute, operator, constant in subscription:
                if operator == "==":
                    self._equal[attribute][constant].append(number)
                else:
                    orders[attribute, operator].append((constant, number))
        self._sorted = {
            operator: ([constant for constant, _ in sorted(pairs)], [number for _, number in sorted(pairs)])
            for operator, pairs in orders.items()
        }

    def match(self, content: Content) -> list[int]:
        """The numbers of the subscriptions of which all predicates are satisfied."""
        attributes = content.attributes
        assert not isinstance(attributes, Unreadable)
        counts: Counter[int] = Counter()
        for attribute, value in attributes.items():
            if attribute in self._equal:
                counts.update(self._equal[attribute].get(value, ()))
            counts.update(self._satisfied(attribute, value))
        needed = self._wanted
        return [number for number, count in counts.items() if count == needed[number]]

    def _satisfied(self, attribute: str, value: Any) -> Iterable[int]:
        numbers_found: list[int] = []
        if (attribute, ">") in self._sorted:
            constants, numbers = self._sorted[attribute, ">"]
            numbers_found += numbers[: bisect_left(constants, value)]
        if (attribute, "<") in self._sorted:
            constants, numbers = self._sorted[attribute, "<"]
            numbers_found += numbers[bisect_right(constants, value) :]
        return numbers_found


class Each:
    """No index: each condition is decided."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions

    def match(self, content: Content) -> list[int]:
        """The numbers of the conditions that hold."""
        attributes = content.attributes
        return [number for number, condition in enumerate(self._conditions) if condition.decide(attributes) is True]
