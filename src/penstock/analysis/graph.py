"""The graph that flow analysis works on: entities, typed links, brokering tables, possible outputs of monitors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from penstock.domain.compile.ensemble import Ensemble
from penstock.model.errors import PenstockError
from penstock.model.link import Link
from penstock.model.topic import intersection
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.monitors.protocol import UNLISTED

Pair = tuple[str, str]


class FlowError(PenstockError):
    """A question about an entity or a link that does not exist, or a graph that is inconsistent."""


class EntityKind(StrEnum):
    """The kind of an entity, which decides what it does with the events that it receives."""

    NODE = "node"
    """Passes events on by its brokering table, never back to where they came from."""
    DEVICE = "device"
    """May publish anything that it has learned, wherever it is connected."""
    FOREIGN = "foreign"
    """A broker that is not ours: nothing is known of what it passes on, or under which topic."""


class Editor(Protocol):
    """The part of a monitor that flow analysis uses (see `policy.monitors.monitor.Monitor`)."""

    @property
    def name(self) -> str: ...

    def outputs(self, topic_filter: str) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """A connection graph with what governs it; made by hand or by `flow_graph`."""

    kinds: Mapping[str, EntityKind]
    """Every entity."""
    links: tuple[Link, ...]
    tables: Mapping[str, BrokeringTable]
    """The brokering table of each node."""
    monitors: Mapping[Pair, tuple[Editor, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The monitors of those links that have any, in the order in which they are applied."""

    def __post_init__(self) -> None:
        if len(self.by_ends) != len(self.links):
            raise FlowError("two links have the same ends")
        for link in self.links:
            for end in link[:2]:
                if end not in self.kinds:
                    raise FlowError(f"link `{link}` has the unknown entity `{end}`")
            if EntityKind.NODE not in (self.kinds[link.source], self.kinds[link.target]):
                raise FlowError(f"link `{link}` does not join a node")
        for name, kind in self.kinds.items():
            if (kind is EntityKind.NODE) is not (name in self.tables):
                raise FlowError(f"`{name}` is a {kind}, and just nodes have a brokering table")
        for ends in self.monitors:
            if ends not in self.by_ends:
                raise FlowError(f"a monitor is on `{ends[0]} -> {ends[1]}`, which is not a link")

    @cached_property
    def by_ends(self) -> Mapping[Pair, Link]:
        return {(link.source, link.target): link for link in self.links}

    def allows(self, node: str, source_type: str, target_type: str) -> bool:
        """Return whether the node may pass an event from a link of one type on to a link of the other."""
        return self.tables[node].allows(source_type, target_type)

    def outputs(self, link: Link, topic_filter: str) -> tuple[str, ...]:
        """Return filters that cover what may come through a link when an event that matches the filter goes in.

        `()`: it is suppressed whatever the state of the monitors.
        """
        filters = [topic_filter]
        for monitor in self.monitors.get((link.source, link.target), ()):
            filters = list(dict.fromkeys(out for filter in filters for out in monitor.outputs(filter)))
        return tuple(filters)

    def suppressor(self, link: Link, topic_filter: str) -> str:
        """Return the name of the monitor that leaves nothing of such events."""
        filters = [topic_filter]
        for monitor in self.monitors.get((link.source, link.target), ()):
            filters = [out for filter in filters for out in monitor.outputs(filter)]
            if not filters:
                return monitor.name
        raise FlowError(f"no monitor on `{link}` suppresses `{topic_filter}`")


@dataclass(frozen=True, slots=True)
class Sent:
    """The filters of what is sent to a foreign broker; an editor like the monitors of the link."""

    name: str
    filters: tuple[str, ...]

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(meet for filter in self.filters for meet in intersection(filter, topic_filter)))


def flow_graph(ensemble: Ensemble) -> FlowGraph:
    """Return the graph of a domain's ensemble.

    A foreign broker gets only what `out` says; nothing holds it to `in`, it may send what it was not asked for. Where
    nodes admit clients that are not listed, these are one device more, `?`, connected to all such nodes: any of them
    may be connected to several, and any may tell another what it knows.
    """
    kinds = dict.fromkeys(ensemble.nodes, EntityKind.NODE)
    kinds |= dict.fromkeys(ensemble.devices, EntityKind.DEVICE)
    kinds |= dict.fromkeys(ensemble.foreign, EntityKind.FOREIGN)
    links = list(ensemble.links.values())
    for node in ensemble.nodes:
        entry = ensemble.client(node, UNLISTED)
        if entry is not None and not entry.listed:
            kinds[UNLISTED] = EntityKind.DEVICE
            links += entry.links(node)
    monitors: dict[Pair, tuple[Editor, ...]] = {link[:2]: ensemble.monitors(link) for link in links}
    for ends in monitors:
        filters = ensemble.sent.get(ends[1], ("#",))
        if "#" not in filters:
            monitors[ends] = (Sent(f"foreign.{ends[1]}.out", filters), *monitors[ends])
    return FlowGraph(
        kinds=MappingProxyType(kinds),
        links=tuple(links),
        tables=MappingProxyType({node: ensemble.table(node) for node in ensemble.nodes}),
        monitors=MappingProxyType({ends: some for ends, some in monitors.items() if some}),
    )
