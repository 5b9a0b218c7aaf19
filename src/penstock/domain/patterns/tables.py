"""Brokering tables of patterns, joined with the table of the file."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.domain.schema.policies import BrokeringRule, BrokeringSettings
from penstock.domain.units import Pair

Kind = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True)
class PatternTable:
    """A brokering table over some link types: all pairs that are allowed, or all that are denied."""

    types: tuple[str, ...]
    kind: Kind
    pairs: frozenset[Pair]

    @property
    def allowed(self) -> frozenset[Pair]:
        """Return the pairs of its types that are allowed."""
        if self.kind == "allow":
            return self.pairs
        return frozenset((source, target) for source in self.types for target in self.types) - self.pairs

    @property
    def denied(self) -> frozenset[Pair]:
        """Return the pairs that it denies by name."""
        return frozenset() if self.kind == "allow" else self.pairs


def join_tables(written: BrokeringSettings | None, part: PatternTable) -> BrokeringSettings:
    """Join the table of the file with that of a pattern.

    Lists of one kind are united. If the kinds differ, the result is an `allow` list, so that nothing is allowed by
    not being named: of a `deny` list it has the pairs that are left of the types which only that list knows; and
    what is denied by name stays denied.
    """
    default = written.default if written is not None else None
    if written is None or (written.types is None and written.listed is None):
        return settings(part, default)
    own = _part(written)
    types = tuple(dict.fromkeys(own.types + part.types))
    if own.kind == part.kind:
        return settings(PatternTable(types, own.kind, own.pairs | part.pairs), default)
    alone = PatternTable(tuple(name for name in own.types if name not in part.types), own.kind, own.pairs)
    allowed = (alone.allowed | part.allowed) - own.denied - part.denied
    return settings(PatternTable(types, "allow", allowed), default)


def _part(written: BrokeringSettings) -> PatternTable:
    pairs = frozenset(pair for _, rules in [written.listed or ("deny", ())] for rule in rules for pair in rule.pairs)
    return PatternTable(written.types or (), "allow" if written.allow is not None else "deny", pairs)


def settings(part: PatternTable, default: object = None) -> BrokeringSettings:
    """Return the table as settings of the domain file."""
    rules = tuple(as_rules(part.pairs, part.types))
    return BrokeringSettings.model_validate({"types": part.types, part.kind: rules, "default": default})


def as_rules(pairs: Collection[Pair], types: Iterable[str]) -> Iterable[BrokeringRule]:
    """Return the pairs as rules, one for each source type, in the order of the types."""
    order = list(dict.fromkeys([*types, *(name for pair in sorted(pairs) for name in pair)]))
    for source in order:
        targets = [target for target in order if (source, target) in pairs]
        if targets:
            yield BrokeringRule.model_validate({"from": source, "to": targets})
