"""§5.1, system configuration: what does not change while the system runs. Checked when made."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from penstock.model.errors import PenstockError

from .ordering import Ordering

Pair = tuple[str, str]
"""A link: from an entity to an entity."""


class SchemaError(PenstockError):
    """A schema that does not meet what §5.1 requires."""


@dataclass(frozen=True)
class ConnectionGraph:
    """CG = <D, B, link>."""

    devices: frozenset[str]
    brokers: frozenset[str]
    link: frozenset[Pair]

    def __post_init__(self) -> None:
        if common := self.devices & self.brokers:
            raise SchemaError(f"`{min(common)}` is a device and a broker")
        for x, y in sorted(self.link):
            if unknown := {x, y} - self.entities:
                raise SchemaError(f"link `{x} -> {y}` has the unknown entity `{min(unknown)}`")
            if x == y:
                raise SchemaError(f"link `{x} -> {y}` is not irreflexive")
            if (y, x) not in self.link:
                raise SchemaError(f"link `{x} -> {y}` is not symmetric: there is no `{y} -> {x}`")
            if x in self.devices and y in self.devices:
                raise SchemaError(f"link `{x} -> {y}` joins two devices")

    @property
    def entities(self) -> frozenset[str]:
        """E = D | B."""
        return self.devices | self.brokers

    def publish(self, x: str, y: str) -> bool:
        """Return whether (x, y) goes from a device to a broker."""
        return (x, y) in self.link and x in self.devices

    def notify(self, x: str, y: str) -> bool:
        """Return whether (x, y) goes from a broker to a device."""
        return (x, y) in self.link and y in self.devices

    def bridge(self, x: str, y: str) -> bool:
        """Return whether (x, y) goes from a broker to a broker."""
        return (x, y) in self.link and {x, y} <= self.brokers

    def monitored(self, x: str, y: str) -> bool:
        """Return whether (x, y) has a broker as its destination: link without notify."""
        return (x, y) in self.link and not self.notify(x, y)


@dataclass(frozen=True)
class BrokeringPolicy:
    """BP = <T, type, allow>."""

    types: frozenset[str]
    type: Mapping[Pair, str]
    allow: frozenset[Pair]
    overrides: Mapping[str, frozenset[Pair]] = field(default_factory=lambda: MappingProxyType({}))
    """Brokers with an `allow` of their own (§7.2)."""

    def __post_init__(self) -> None:
        for (x, y), name in self.type.items():
            if name not in self.types:
                raise SchemaError(f"link `{x} -> {y}` has the unknown link type `{name}`")
        for allow in (self.allow, *self.overrides.values()):
            for pair in sorted(allow):
                if unknown := set(pair) - self.types:
                    raise SchemaError(f"`allow` has the unknown link type `{min(unknown)}`")

    def allows(self, broker: str, source: str, target: str) -> bool:
        """Return whether this broker may pass an event from a link of one type to a link of another."""
        return (source, target) in self.overrides.get(broker, self.allow)


def liberal(graph: ConnectionGraph) -> BrokeringPolicy:
    """Return BP0 of §6.1: one link type, from which every event goes on to every link."""
    return BrokeringPolicy(frozenset({"t0"}), dict.fromkeys(graph.link, "t0"), frozenset({("t0", "t0")}))


MonitorState = Hashable
Transition = Callable[[MonitorState, str], tuple[MonitorState, tuple[str, ...]]]
"""An edit automaton's transition function delta: Q x Sigma -> Q x Sigma*."""


class LinkMonitor(NamedTuple):
    """M(x, y): a transition function and the state that it starts in."""

    step: Transition
    start: MonitorState = "q0"


UNMONITORED = LinkMonitor(lambda state, topic: (state, (topic,)))
"""The monitor of a link without one: it leaves every event as it is."""


def event_filter(topics: frozenset[str]) -> LinkMonitor:
    """Return filter(E) of §6.2.1: events that are not in E are suppressed."""
    return LinkMonitor(lambda state, topic: (state, (topic,) if topic in topics else ()))


def event_mapper(name: Callable[[str], str]) -> LinkMonitor:
    """Return mapper(f) of §6.2.2: each event is renamed."""
    return LinkMonitor(lambda state, topic: (state, (name(topic),)))


def in_turn(*monitors: LinkMonitor) -> LinkMonitor:
    """Return one monitor that applies these one after the other, each to the output of the one before it."""

    def step(state: MonitorState, topic: str) -> tuple[MonitorState, tuple[str, ...]]:
        assert isinstance(state, tuple)
        states, topics = list(state), [topic]
        for at, monitor in enumerate(monitors):
            out: list[str] = []
            for item in topics:
                states[at], outputs = monitor.step(states[at], item)
                out += outputs
            topics = out
        return tuple(states), tuple(topics)

    return LinkMonitor(step, tuple(monitor.start for monitor in monitors))


@dataclass(frozen=True)
class EventPolicy:
    """EP = <Sigma, Q, q0, Delta>. Q is whatever the monitors make of it; a link that is not named is `UNMONITORED`."""

    topics: frozenset[str]
    monitors: Mapping[Pair, LinkMonitor] = field(default_factory=lambda: MappingProxyType({}))

    def monitor(self, x: str, y: str) -> LinkMonitor:
        """Return M(x, y)."""
        return self.monitors.get((x, y), UNMONITORED)


@dataclass(frozen=True)
class Schema:
    """chi = <CG, BP, EP, sub, the ordering>."""

    graph: ConnectionGraph
    brokering: BrokeringPolicy
    events: EventPolicy
    sub: Mapping[Pair, frozenset[str]]
    """The topics that each device is subscribed to at each broker: nothing, where (broker, device) is not named."""
    ordering: Ordering

    def __post_init__(self) -> None:
        for x, y in sorted(self.graph.link ^ self.brokering.type.keys()):
            what = "has no link type" if (x, y) in self.graph.link else "has a link type, but is not there"
            raise SchemaError(f"link `{x} -> {y}` {what}")
        for broker in self.brokering.overrides:
            if broker not in self.graph.brokers:
                raise SchemaError(f"`{broker}` has a brokering table, but is not a broker")
        for x, y in self.events.monitors:
            if (x, y) not in self.graph.link:
                raise SchemaError(f"link `{x} -> {y}` has a monitor, but is not there")
        for (x, y), topics in self.sub.items():
            if not self.graph.notify(x, y):
                raise SchemaError(f"subscription at `{x} -> {y}`, which is not a link from a broker to a device")
            if unknown := topics - self.events.topics:
                raise SchemaError(f"subscription of `{y}` to the unknown topic `{min(unknown)}`")

    def propagate(self, x: str, y: str, z: str) -> bool:
        """Return whether an event that came through (x, y) may be passed on through (y, z) by the broker y."""
        types = self.brokering.type
        return (
            (x, y) in self.graph.link
            and (y, z) in self.graph.link
            and self.brokering.allows(y, types[x, y], types[y, z])
        )

    def subscribed(self, x: str, y: str) -> frozenset[str]:
        """Return sub(x, y): the topics that device y is subscribed to at broker x."""
        return self.sub.get((x, y), frozenset())
