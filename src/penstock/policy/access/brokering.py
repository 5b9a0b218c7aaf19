"""The brokering table: which link types a node may pass an event between (brokering §4.1)."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.language.words import question
from penstock.model.errors import PolicyError

DEFAULT_TYPE = "default"
"""The one link type of a domain that declares none."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class BrokeringTable:
    """The relation `allow` over link types. Made by `open`, `of_allow` or `of_deny`.

    Unlisted pairs follow the one list that is given: `allow` lists everything that is allowed, `deny` everything
    that is denied. A type that the table does not know gets nothing and gives nothing.
    """

    types: frozenset[str]
    pairs: frozenset[Pair]
    """The listed pairs, (type the event comes from, type it goes to)."""
    lists_allowed: bool
    """True if `pairs` are the allowed ones; else they are the denied ones."""

    def __post_init__(self) -> None:
        word = "allow" if self.lists_allowed else "deny"
        for source, target in sorted(self.pairs):
            for type in (source, target):
                if type not in self.types:
                    raise PolicyError(f"`{word}` from `{source}` to `{target}`: {_unknown(type, self.types)}")

    @classmethod
    def open(cls) -> "BrokeringTable":
        """Return the most liberal table (§6.1): one type, everything allowed."""
        return cls(frozenset({DEFAULT_TYPE}), frozenset(), lists_allowed=False)

    @classmethod
    def of_allow(cls, pairs: Iterable[Pair], types: Iterable[str]) -> "BrokeringTable":
        """Return the table that allows only the listed pairs."""
        return cls(frozenset(types), frozenset(pairs), lists_allowed=True)

    @classmethod
    def of_deny(cls, pairs: Iterable[Pair], types: Iterable[str]) -> "BrokeringTable":
        """Return the table that allows all but the listed pairs."""
        return cls(frozenset(types), frozenset(pairs), lists_allowed=False)

    @property
    def is_open(self) -> bool:
        """True if everything is allowed between the types it knows."""
        return not self.pairs if not self.lists_allowed else len(self.pairs) == len(self.types) ** 2

    def allows(self, source: str, target: str) -> bool:
        """Return whether an event from a link of type `source` may go on to a link of type `target`."""
        if source not in self.types or target not in self.types:
            return False
        return ((source, target) in self.pairs) is self.lists_allowed

    def why(self, source: str, target: str) -> str:
        """Return the rule that decides for this pair, in words."""
        for type in (source, target):
            if type not in self.types:
                return f"denied: {_unknown(type, self.types)}"
        pair = f"from `{source}` to `{target}`"
        is_listed = (source, target) in self.pairs
        if self.lists_allowed:
            return f"allowed by `allow` {pair}" if is_listed else f"denied: `allow` does not list {pair}"
        if is_listed:
            return f"denied by `deny` {pair}"
        return f"allowed: `deny` does not list {pair}" if self.pairs else f"allowed: nothing is denied {pair}"


def _unknown(type: str, types: frozenset[str]) -> str:
    return f"`{type}` is not a link type ({question(type, types)})"
