"""An index of the children that can match a request, by the values that their targets ask for.

A target that asks for a resource of the kind `location` cannot match a request of another kind, so its policy need not
even be looked at. Children are put into a tree: by the value of one attribute, below it by that of another. The
attribute may also be missing where it must be present; then the target fails instead of not matching, and the child is
to be evaluated.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.policy.xacml.names import FUNCTION_1
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.tree import AllOf, AnyOf, Designator, Target
from penstock.policy.xacml.values.values import SHORT_TYPES, Value

_EQUALITIES = {f"{FUNCTION_1}{word}-equal": SHORT_TYPES[word] for word in ("string", "anyURI", "integer", "boolean")}
_MAX_ALTERNATIVES = 64
"""Alternatives of one part of a target that are worth an entry each."""
_FEW = 4
"""Children that are not worth a tree."""
_DEPTH = 8
"""Attributes that decide one after the other, at most."""
_ENTRIES = 8
"""Entries for each child, at most, on average."""

_Key = tuple[str, str, str, str | None]
"""Category, attribute, type and issuer."""


class _AskedAttribute(NamedTuple):
    """The values of one attribute that one part of a target asks for."""

    key: _Key
    values: tuple[Value, ...]
    must_be_present: bool


class _Child(NamedTuple):
    at: int
    asked: tuple[_AskedAttribute, ...]


class _IndexBranch(NamedTuple):
    """Children by the value that they ask of one attribute, and those that fail if it is missing."""

    key: _Key
    by_value: dict[Value, "_IndexNode"]
    if_missing: "_IndexNode | None"


class _IndexNode(NamedTuple):
    """Some children: candidates at this node, and those that depend on an attribute's value."""

    leaf: tuple[int, ...]
    branches: tuple[_IndexBranch, ...] = ()


class TargetIndex:
    """An index of the children of a policy or policy set that can match a request."""

    def __init__(self, targets: Sequence[Target]) -> None:
        is_small = len(targets) <= _FEW
        children = [_Child(at, () if is_small else tuple(_asked(target))) for at, target in enumerate(targets)]
        self._budget = _ENTRIES * len(children)
        self._root = self._node(children, 0)
        self.is_plain = not self._root.branches
        """True if every child is a candidate always."""

    def candidates(self, context: Context) -> Sequence[int]:
        """Return the places of the children that can match, in order."""
        places: list[int] = []
        _collect(self._root, context, places)
        return sorted(set(places)) if len(places) > 1 else places

    def _node(self, children: list[_Child], depth: int) -> _IndexNode:
        if len(children) <= _FEW or self._budget < 0 or depth >= _DEPTH:
            return _IndexNode(tuple(child.at for child in children))
        values: dict[_Key, set[Value]] = {}
        for child in children:
            for asked in child.asked:
                values.setdefault(asked.key, set()).update(asked.values)
        groups: dict[_Key, list[tuple[_Child, _AskedAttribute]]] = {}
        leaf: list[int] = []
        for child in children:
            if child.asked:
                # By the attribute of most values, as that leaves the fewest of others.
                asked = max(child.asked, key=lambda attribute: len(values[attribute.key]))
                groups.setdefault(asked.key, []).append((child, asked))
            else:
                leaf.append(child.at)
        return _IndexNode(tuple(leaf), tuple(self._branch(key, group, depth) for key, group in groups.items()))

    def _branch(self, key: _Key, group: list[tuple[_Child, _AskedAttribute]], depth: int) -> _IndexBranch:
        by_value: dict[Value, list[_Child]] = {}
        missing: list[_Child] = []
        for child, asked in group:
            below = _Child(child.at, tuple(other for other in child.asked if other is not asked))
            for value in asked.values:
                by_value.setdefault(value, []).append(below)
            if asked.must_be_present:
                missing.append(below)
        self._budget -= sum(map(len, by_value.values())) + len(missing)
        return _IndexBranch(
            key,
            {value: self._node(children, depth + 1) for value, children in by_value.items()},
            self._node(missing, depth + 1) if missing else None,
        )


def _collect(node: _IndexNode, context: Context, places: list[int]) -> None:
    places += node.leaf
    for (category, name, kind, issuer), by_value, if_missing in node.branches:
        if issuer is None:
            bag = context.bags.get((category, name, kind), ())
        else:
            bag = context.issued.get((category, name, kind, issuer), ())
        if bag:
            for value in bag:
                below = by_value.get(value)
                if below is not None:
                    _collect(below, context, places)
        elif if_missing is not None:
            _collect(if_missing, context, places)


def _asked(target: Target) -> Iterable[_AskedAttribute]:
    seen: set[_Key] = set()
    for any_of in target:
        for asked in _of_part(any_of):
            if asked.key not in seen:
                seen.add(asked.key)
                yield asked


def _of_part(any_of: AnyOf) -> Iterable[_AskedAttribute]:
    """Yield the attributes that each alternative asks a value of."""
    if len(any_of) > _MAX_ALTERNATIVES:
        return
    first, *others = [_values(all_of) for all_of in any_of]
    for key in first:
        if all(key in other for other in others):
            alternatives = [asked[key] for asked in (first, *others)]
            values = tuple(dict.fromkeys(value for value, _ in alternatives))
            yield _AskedAttribute(key, values, any(must for _, must in alternatives))


def _values(all_of: AllOf) -> dict[_Key, tuple[Value, bool]]:
    values: dict[_Key, tuple[Value, bool]] = {}
    for match in all_of:
        source = match.source
        if isinstance(source, Designator) and _EQUALITIES.get(match.function) == source.type:
            key = (source.category, source.id, source.type, source.issuer)
            values.setdefault(key, (match.literal.value, source.must_be_present))
    return values
