"""Policies by name and version, for those that refer to them."""

from collections.abc import Iterable

from penstock.policy.xacml.limits import MAX_NESTING
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.tree import PolicyReference, Root, XacmlPolicy, XacmlPolicySet, inside
from penstock.policy.xacml.values.versions import is_wanted, version_key


class Repository:
    """All policies that can be referenced: the given ones, and those inside them.

    Raises `XacmlError` for references in a circle, and for sets nested too deeply. A reference to no policy, or to two,
    is allowed: its decision is Indeterminate.
    """

    def __init__(self, roots: Iterable[Root]) -> None:
        self._named: dict[tuple[str, bool], dict[str, list[Root]]] = {}
        roots = tuple(roots)
        for root in roots:
            for tree in inside(root):
                self._add(tree)
        self.unresolved: list[XacmlError] = []
        """The errors of unresolved references."""
        depths: dict[int, int] = {}
        for root in roots:
            self._depth(root, depths, [])

    def _add(self, tree: Root) -> None:
        is_set = isinstance(tree, XacmlPolicySet)
        named = self._named.setdefault((tree.id, is_set), {}).setdefault(tree.version, [])
        if len(named) < 2 and tree not in named:
            named.append(tree)

    def find(self, reference: PolicyReference) -> Root:
        """Return the latest version that a reference asks for; raises `XacmlError`."""
        versions = self._named.get((reference.id, reference.is_set), {})
        fitting = [
            version
            for version in versions
            if is_wanted(version, reference.version, reference.earliest, reference.latest)
        ]
        if not fitting:
            what = "policy set" if reference.is_set else "policy"
            raise XacmlError(f"there is no {what} {reference}")
        policy, *others = versions[max(fitting, key=version_key)]
        if others:
            raise XacmlError(f"two different policies have the name `{policy.id}` and the version {policy.version}")
        return policy

    def _below(self, child: XacmlPolicy | XacmlPolicySet | PolicyReference) -> Root | None:
        if not isinstance(child, PolicyReference):
            return child
        try:
            return self.find(child)
        except XacmlError as error:
            self.unresolved.append(error)
            return None

    def _depth(self, tree: Root, depths: dict[int, int], underway: list[Root]) -> int:
        """Return the nesting depth of sets, following references."""
        if id(tree) in depths:
            return depths[id(tree)]
        if any(tree is ancestor for ancestor in underway):
            circle = " -> ".join(f"`{ancestor.id}`" for ancestor in (*underway, tree))
            raise XacmlError(f"policies refer to each other in a circle: {circle}")
        if len(underway) >= MAX_NESTING:
            raise XacmlError(f"more than {MAX_NESTING} policy sets inside each other")
        depth = 0
        if isinstance(tree, XacmlPolicySet):
            underway.append(tree)
            for child in tree.children:
                below = self._below(child)
                depth = max(depth, 1 + (self._depth(below, depths, underway) if below is not None else 0))
            underway.pop()
        depths[id(tree)] = depth
        if len(underway) + depth > MAX_NESTING:
            raise XacmlError(f"more than {MAX_NESTING} policy sets inside each other")
        return depth
