"""What the monitors of links remember, from row to row and, over a stream, from batch to batch."""

from typing import Any

import msgspec

from penstock.engine import governing
from penstock.engine.node import Node
from penstock.pipeline.spark.policies import CompiledDomain, Policies
from penstock.pipeline.state.buckets import Kept, StateVariable
from penstock.pipeline.state.rows import Fields
from penstock.pipeline.state.ways import is_first

LINKS = StateVariable("links", "links", 1)

Ends = tuple[str, str]
"""A link at a node: the node, and the other end."""


class LinkMemory(msgspec.Struct):
    """What is remembered of a link."""

    states: list[tuple[str, str, str, Any]] = msgspec.field(default_factory=list)
    """Of its monitors: source, target and name, with the state."""
    seen: dict[str, int] = msgspec.field(default_factory=dict)
    """Which events came lately, and by which arrival, where they may come by several ways."""

    def is_first(self, row: Fields) -> bool:
        """Return whether an event has not come to the link by an earlier arrival."""
        return is_first(self.seen, row, row["said"])


class LinkMonitors:
    """The nodes at one end of links, one link after the other, with the states of the links' monitors."""

    def __init__(self, policies: Policies, end: str, kept: Kept | None) -> None:
        """`end` is the column that names the other end of a link."""
        self._policies = policies
        self._end = end
        self._links: dict[Ends, LinkMemory] | None = None
        if kept is not None:
            stored = msgspec.json.decode(kept.get(LINKS.name, b"[]"), type=list[tuple[str, str, LinkMemory]])
            self._links = {(node, other): link for node, other, link in stored}
        self._ends: Ends | None = None
        self._policy: CompiledDomain | None = None
        self._node: Node | None = None

    def link(self, row: Fields) -> LinkMemory:
        """Return what is remembered of a row's link."""
        return self._link((row["node"], row[self._end]))

    def enter(self, row: Fields) -> tuple[CompiledDomain, Node, bool]:
        """Return the policy and the node that a row came to, and whether it is the first of its link here.

        The monitors go on in their states when other policies come into force.
        """
        policy = self._policies.by_digest[row["policy"]].compiled()
        ends = row["node"], row[self._end]
        if self._node is None or ends != self._ends:
            self._leave()
            node = policy.new_node(row["node"])
            node.monitors.stored = {
                (source, target, name): state for source, target, name, state in self._link(ends).states
            }
            self._ends, self._policy, self._node = ends, policy, node
            return policy, node, True
        if policy is not self._policy:
            self._policy = policy
            governing.govern(self._node, self._node.limits, None, policy.acls.get(row["node"]), policy.ensemble)
        return policy, self._node, False

    def keep(self) -> Kept:
        """Return the states of all links."""
        self._leave()
        links = [(*ends, link) for ends, link in (self._links or {}).items() if link.states or link.seen]
        return {LINKS.name: msgspec.json.encode(links)}

    def _link(self, ends: Ends) -> LinkMemory:
        return LinkMemory() if self._links is None else self._links.setdefault(ends, LinkMemory())

    def _leave(self) -> None:
        if self._ends is not None and self._node is not None:
            self._link(self._ends).states = [
                (watch.link.source, watch.link.target, monitor.name, state)
                for watch in self._node.monitors.watches.values()
                for monitor, state in zip(watch.monitors, watch.states, strict=True)
            ]
