"""A protocol between entities, compiled to the monitors that enforce it (beyond brokering; its future work 1).

Four things are enforced: that those whom the protocol protects see its events in order, by an automaton on a link on
which all of them come; that a sender sends in an order that can be right, by an automaton on the link from it; that
each event comes from its senders only, and goes to its receivers only, by filters on the links of everybody else.
Events that are not the protocol's pass.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.language.words import question
from penstock.model.errors import PolicyError
from penstock.model.topic import covers
from penstock.policy.monitors.protocol_machine import TopicKind, edges_of, kinds_of, order_states, sending_states
from penstock.policy.monitors.protocol_text import Tree, events_of, parse_protocol

UNLISTED = "?"
"""In a link, any client that the domain does not list."""

Ends = tuple[str, str]
"""A link, as source and target."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol of a domain. Raises `PolicyError` if its parts do not fit each other."""

    name: str
    text: str
    protects: tuple[str, ...] = ()
    """The entities that must see the events in order; none: all senders and receivers."""
    senders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The entities that may send an event; an event that is not here may come from anybody."""
    guard: tuple[str, ...] | None = None
    """The events that are suppressed when they are out of order; None: all of the protocol."""
    receivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The entities that get an event; an event that is not here goes to whoever subscribes to it."""
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", parse_protocol(self.text))
        if not self.protects:
            object.__setattr__(self, "protects", self.participants)
        if not self.protects:
            raise PolicyError("`protects` names nobody, and no event has `senders` or `receivers`")
        named = (("senders", self.senders), ("receivers", self.receivers), ("guard", self.guard or ()))
        for key, events in named:
            for event in events:
                if event not in self.events:
                    hint = question(event, self.events)
                    raise PolicyError(f"`{key}`: `{event}` is not an event of the protocol ({hint})")
        if self.guard == ():
            raise PolicyError("`guard` is empty: nothing would be kept in order")

    @property
    def events(self) -> tuple[str, ...]:
        """Its events, as topic filters."""
        return events_of(self.tree)

    @property
    def participants(self) -> tuple[str, ...]:
        """The entities that it names, each once: senders, receivers, and those whom it protects."""
        named = [name for each in (self.senders, self.receivers) for names in each.values() for name in names]
        return tuple(dict.fromkeys([*named, *self.protects]))

    def may_send(self, entity: str, event: str) -> bool:
        """Return whether an event may come from an entity."""
        return event not in self.senders or entity in self.senders[event]

    def may_get(self, entity: str, event: str) -> bool:
        """Return whether an event may go to an entity; nobody needs its own events."""
        if event in self.receivers:
            return entity in self.receivers[event]
        return self.senders.get(event) != (entity,)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The entities and links that a protocol is compiled for."""

    nodes: frozenset[str]
    homes: Mapping[str, tuple[str, ...]]
    """The nodes of each client, and of each foreign broker."""
    joined: frozenset[Ends]
    """The links between nodes, each direction."""
    open_nodes: frozenset[str] = frozenset()
    """The nodes that admit clients which are not listed."""


@dataclass(frozen=True, slots=True)
class MonitorDefinition:
    """A monitor as the domain file could have written it."""

    name: str
    links: tuple[Ends, ...]
    states: Mapping[str, Mapping[str, object]]
    keeps: Literal["senders", "turns", "order", "receivers"]
    """The part that it enforces: who sends, when a sender may send, the order, who receives."""

    def suppresses(self, event: str) -> bool:
        """Return whether it suppresses an event, or some topics of it, in some state."""
        return any(
            does == "suppress" and covers(event, kind) for edges in self.states.values() for kind, does in edges.items()
        )

    def plain(self) -> dict[str, object]:
        """Return the entry under `monitors`."""
        links = [f"{source} -> {target}" for source, target in self.links]
        states = {state: dict(edges) for state, edges in self.states.items()}
        return {"link": links[0] if len(links) == 1 else links, "states": states}


def compile_protocol(protocol: Protocol, around: Surroundings) -> tuple[MonitorDefinition, ...]:
    """Return the monitors that enforce a protocol; raises `PolicyError` if no links are there on which they could."""
    _check_entities(protocol, around)
    links = tuple(dict.fromkeys(link for entity in protocol.protects for link in _last_links(protocol, around, entity)))
    guard = protocol.events if protocol.guard is None else protocol.guard
    order = MonitorDefinition(f"{protocol.name}-order", links, order_states(protocol.tree, guard), "order")
    # On one link the order is kept before receivers are: it must see what is not for them, too.
    return (
        *_end_filters(protocol, around, "senders"),
        *_sending(protocol, around, guard),
        order,
        *_end_filters(protocol, around, "receivers"),
    )


def enforced_where(protocol: Protocol, definitions: Iterable[MonitorDefinition]) -> list[str]:
    """Return for each event of a protocol, in words, the links that keep it to its senders, receivers and order."""
    definitions = tuple(definitions)

    def stopping(event: str, keeps: str, words: str) -> str:
        stops = [each for each in definitions if each.keeps == keeps and each.suppresses(event)]
        return f", {words} on {_texts(link for each in stops for link in each.links)}" if stops else ""

    order = next(each for each in definitions if each.keeps == "order")
    lines = []
    for event in protocol.events:
        senders = ", ".join(protocol.senders.get(event, ())) or "anybody"
        receivers = f" to {', '.join(protocol.receivers[event])}" if event in protocol.receivers else ""
        refused = stopping(event, "senders", "refused") + stopping(event, "turns", "refused before its turn")
        is_guarded = protocol.guard is None or event in protocol.guard
        place = "suppressed out of order" if is_guarded else "seen"
        withheld = stopping(event, "receivers", "withheld")
        lines.append(f"{event} from {senders}{receivers}{refused}; {place} on {_texts(order.links)}{withheld}")
    return lines


def _texts(links: Iterable[Ends]) -> str:
    return ", ".join(f"{source} -> {target}" for source, target in links)


def _check_entities(protocol: Protocol, around: Surroundings) -> None:
    for key, ends in (("senders", protocol.senders), ("receivers", protocol.receivers)):
        for event, names in ends.items():
            for name in names:
                if name not in around.homes:
                    hint = question(name, around.homes)
                    raise PolicyError(f"`{key}`: `{event}`: `{name}` is not a client or foreign broker ({hint})")
    known = (*around.homes, *around.nodes)
    for entity in protocol.protects:
        if entity not in known:
            raise PolicyError(f"`protects`: `{entity}` is not an entity ({question(entity, known)})")


def _last_links(protocol: Protocol, around: Surroundings, entity: str) -> list[Ends]:
    """Return the links, one for each of the entity's nodes, on which all of the protocol's events for it arrive.

    That is the link into its node if all senders are beyond that one link, else the link to the entity itself.
    """
    links = []
    for node in (entity,) if entity in around.nodes else around.homes[entity]:
        ways = {way for sender in _origins(protocol, around, entity) for way in _ways(around, sender, node)}
        if len(ways) == 1 and None not in ways:
            links.append((next(iter(ways - {None})) or "", node))
        elif entity in around.nodes:
            raise PolicyError(
                f"`protects`: the events come to node `{entity}` by more than one link, so that none has all of them; "
                "name the clients there instead"
            )
        else:
            links.append((node, entity))
    return links


def _origins(protocol: Protocol, around: Surroundings, entity: str) -> set[str]:
    """Return the possible origins of the protocol's events: clients, foreign brokers, nodes with unlisted clients."""
    named = {sender for senders in protocol.senders.values() for sender in senders}
    if all(event in protocol.senders for event in protocol.events):
        return named
    return {*around.homes, *around.open_nodes} - ({entity} - named)


def _ways(around: Surroundings, sender: str, node: str) -> set[str | None]:
    """Return the neighbours by which events of a sender come to a node; None is the sender's own link."""
    homes = (sender,) if sender in around.nodes else around.homes[sender]
    if node in homes:
        return {None}
    return {near for near, far in around.joined if far == node and _reaches(around, homes, near, without=node)}


def _reaches(around: Surroundings, homes: Iterable[str], target: str, *, without: str) -> bool:
    seen = {without}
    waiting = list(homes)
    while waiting:
        node = waiting.pop()
        if node == target:
            return True
        if node not in seen:
            seen.add(node)
            waiting += [far for near, far in around.joined if near == node]
    return False


def _end_filters(
    protocol: Protocol, around: Surroundings, keeps: Literal["senders", "receivers"]
) -> list[MonitorDefinition]:
    """Return filters that keep events from all but their senders, or receivers, one for each set of such events."""
    allowed = protocol.senders if keeps == "senders" else protocol.receivers
    kinds = kinds_of(protocol.events)
    sources = [(name, node) for name, nodes in around.homes.items() for node in nodes]
    sources += [(UNLISTED, node) for node in sorted(around.open_nodes)]
    links: dict[frozenset[str], list[Ends]] = {}
    for entity, node in sources:
        refused = frozenset(event for event in protocol.events if event in allowed and entity not in allowed[event])
        if refused:
            links.setdefault(refused, []).append((entity, node) if keeps == "senders" else (node, entity))
    definitions = []
    for number, (refused, on) in enumerate(links.items(), 1):
        name = f"{protocol.name}-{keeps}" if number == 1 else f"{protocol.name}-{keeps}-{number}"
        definitions.append(MonitorDefinition(name, tuple(on), {"q0": _without(kinds, refused)}, keeps))
    return definitions


def _without(kinds: Collection[TopicKind], refused: frozenset[str]) -> dict[str, object]:
    return edges_of(kinds, lambda kind: "suppress" if kind.events <= refused else "pass")


def _sending(protocol: Protocol, around: Surroundings, guard: Collection[str]) -> list[MonitorDefinition]:
    """Return automata on the links from senders, of which each sees what that sender sends. A sender with links to
    several nodes has none: neither link has all.
    """
    definitions: list[MonitorDefinition] = []
    senders = dict.fromkeys(name for names in protocol.senders.values() for name in names)
    for sender in senders:
        others = [event for event in protocol.events if protocol.senders.get(event) != (sender,)]
        own = [event for event in protocol.events if protocol.may_send(sender, event)]
        states = sending_states(protocol.tree, guard, own, others)
        definition = MonitorDefinition(
            f"{protocol.name}-from-{sender}", tuple((sender, node) for node in around.homes[sender]), states, "turns"
        )
        if len(definition.links) == 1 and any(map(definition.suppresses, own)):
            definitions.append(definition)
    return definitions
