"""The conditional subscriptions of one topic filter."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from penstock.language.condition import Condition
from penstock.model.content import Content

T = TypeVar("T")


class Predicates(Generic[T]):
    def __init__(self) -> None:
        self._all: dict[Hashable, tuple[Condition, T]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, key: Hashable, condition: Condition, value: T) -> None:
        self._all[key] = condition, value

    def remove(self, key: Hashable) -> bool:
        return self._all.pop(key, None) is not None

    def match(self, content: Content) -> list[T]:
        return [v for c, v in self._all.values() if c.holds(content) is True]
