"""Which children can match, by the values that their targets ask for.

A target that asks for a resource of the kind `location` cannot match a request of another kind, so its policy need not
even be looked at. Children are put into a tree: by the value of one attribute, below it by that of another. The
attribute may also be missing where it must be present; then the target fails instead of not matching, and the child is
to be evaluated.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.policy.xacml import names
from penstock.policy.xacml.names import FUNCTION_1
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.tree import AllOf, AnyOf, Designator, Target
from penstock.policy.xacml.values import Value

_EQUALITIES = {
    FUNCTION_1 + "string-equal": names.STRING,
    FUNCTION_1 + "anyURI-equal": names.ANY_URI,
    FUNCTION_1 + "integer-equal": names.INTEGER,
    FUNCTION_1 + "boolean-equal": names.BOOLEAN,
}
_MOST_ALTERNATIVES = 64
"""Alternatives of one part of a target that are worth an entry each."""
_FEW = 4
"""Children that are not worth a tree."""
_ENTRIES = 8
"""Entries for each child, at most, on average."""

_Key = tuple[str, str, str, str | None]
"""Category, attribute, type and issuer."""


class _Asked(NamedTuple):
    """What one part of a target asks of one attribute: one of these values."""

    key: _Key
    values: tuple[Value, ...]
    must_be_present: bool


class _Child(NamedTuple):
    at: int
    asked: tuple[_Asked, ...]


class _Node:
    """Some children: those found by an attribute's value, and the rest."""

    __slots__ = ("by_value", "if_missing", "key", "leaf", "rest")

    def __init__(self) -> None:
        self.leaf: tuple[int, ...] = ()
        self.key: _Key | None = None
        self.by_value: dict[Value, _Node] = {}
        self.if_missing: _Node | None = None
        self.rest: _Node | None = None


class Index:
    """Finds the children of a policy or policy set that can matter for a request."""

    def __init__(self, targets: Sequence[Target]) -> None:
        is_small = len(targets) <= _FEW
        children = [_Child(at, () if is_small else tuple(_asked(one))) for at, one in enumerate(targets)]
        self._budget = _ENTRIES * len(children)
        self._root = self._node(children)
        self.is_plain = self._root.key is None
        """Whether every child is a candidate always."""

    def candidates(self, context: Context) -> Sequence[int]:
        """The places of the children that can match, in order."""
        found: list[int] = []
        _collect(self._root, context, found)
        if len(found) > 1:
            return sorted(set(found))
        return found

    def _node(self, children: list[_Child]) -> _Node:
        node = _Node()
        key = self._best(children)
        if key is None:
            node.leaf = tuple(child.at for child in children)
            return node
        node.key = key
        by_value: dict[Value, list[_Child]] = {}
        missing: list[_Child] = []
        rest: list[_Child] = []
        for child in children:
            asked = next((one for one in child.asked if one.key == key), None)
            if asked is None:
                rest.append(child)
                continue
            below = _Child(child.at, tuple(one for one in child.asked if one is not asked))
            for value in asked.values:
                by_value.setdefault(value, []).append(below)
            if asked.must_be_present:
                missing.append(below)
        self._budget -= sum(map(len, by_value.values())) + len(missing)
        node.by_value = {value: self._node(several) for value, several in by_value.items()}
        node.if_missing = self._node(missing) if missing else None
        node.rest = self._node(rest) if rest else None
        return node

    def _best(self, children: list[_Child]) -> _Key | None:
        """The attribute that leaves the fewest children to look at; None if none is of use."""
        if len(children) <= _FEW or self._budget < 0:
            return None
        counts: dict[_Key, int] = {}
        values: dict[_Key, set[Value]] = {}
        for child in children:
            for asked in child.asked:
                counts[asked.key] = counts.get(asked.key, 0) + 1
                values.setdefault(asked.key, set()).update(asked.values)
        # By how many children are left on average for a value.
        left = {key: len(children) - count + count / len(values[key]) for key, count in counts.items()}
        best = min(left, key=left.__getitem__, default=None)
        return best if best is not None and left[best] <= len(children) - 1 else None


def _collect(node: _Node | None, context: Context, found: list[int]) -> None:
    while node is not None:
        if node.key is None:
            found += node.leaf
            return
        category, name, kind, issuer = node.key
        if issuer is None:
            bag = context.bags.get((category, name, kind), ())
        else:
            bag = context.issued.get((category, name, kind, issuer), ())
        if bag:
            for value in bag:
                _collect(node.by_value.get(value), context, found)
        else:
            _collect(node.if_missing, context, found)
        node = node.rest


def _asked(target: Target) -> Iterable[_Asked]:
    seen: set[_Key] = set()
    for any_of in target:
        for asked in _of_part(any_of):
            if asked.key not in seen:
                seen.add(asked.key)
                yield asked


def _of_part(any_of: AnyOf) -> Iterable[_Asked]:
    """The attributes that each alternative asks a value of."""
    if len(any_of) > _MOST_ALTERNATIVES:
        return
    first, *others = [_values(all_of) for all_of in any_of]
    for key in first:
        if all(key in other for other in others):
            several = [one[key] for one in (first, *others)]
            values = tuple(dict.fromkeys(value for value, _ in several))
            yield _Asked(key, values, any(must for _, must in several))


def _values(all_of: AllOf) -> dict[_Key, tuple[Value, bool]]:
    found: dict[_Key, tuple[Value, bool]] = {}
    for match in all_of:
        source = match.source
        if isinstance(source, Designator) and _EQUALITIES.get(match.function) == source.type:
            key = (source.category, source.id, source.type, source.issuer)
            found.setdefault(key, (match.literal.value, source.must_be_present))
    return found
