"""A protocol between entities, compiled to the monitors that enforce it (beyond brokering; its future work 1).

Two things are enforced: that those whom the protocol protects see its events in order, by an automaton on a link on
which all of them come; and that each event comes from its senders only, by filters on the links of everybody else.
Events that are not the protocol's pass.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.language.words import question
from penstock.model.errors import PolicyError
from penstock.model.topic import covers
from penstock.policy.monitors.protocol_machine import TopicKind, edges_of, kinds_of, order_states
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
    protects: tuple[str, ...]
    """The entities that must see the events in order."""
    senders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The entities that may send an event; an event that is not here may come from anybody."""
    guard: tuple[str, ...] | None = None
    """The events that are suppressed when they are out of order; None: all of the protocol."""
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", parse_protocol(self.text))
        if not self.protects:
            raise PolicyError("`protects` names nobody: where the order must hold is not known")
        for key, events in (("senders", tuple(self.senders)), ("guard", self.guard or ())):
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
    order = MonitorDefinition(f"{protocol.name}-order", links, order_states(protocol.tree, guard))
    return (*_sender_filters(protocol, around), order)


def enforced_where(protocol: Protocol, definitions: Iterable[MonitorDefinition]) -> list[str]:
    """Return for each event of a protocol, in words, the links that keep it to its senders and in order."""
    *filters, order = definitions
    lines = []
    for event in protocol.events:
        refusing = [
            link
            for definition in filters
            if any(does == "suppress" and covers(event, kind) for kind, does in definition.states["q0"].items())
            for link in definition.links
        ]
        senders = ", ".join(protocol.senders.get(event, ())) or "anybody"
        kept = f", refused on {_texts(refusing)}" if refusing else ""
        is_guarded = protocol.guard is None or event in protocol.guard
        place = "suppressed out of order" if is_guarded else "seen"
        lines.append(f"{event} from {senders}{kept}; {place} on {_texts(order.links)}")
    return lines


def _texts(links: Iterable[Ends]) -> str:
    return ", ".join(f"{source} -> {target}" for source, target in links)


def _check_entities(protocol: Protocol, around: Surroundings) -> None:
    for event, senders in protocol.senders.items():
        for sender in senders:
            if sender not in around.homes:
                hint = question(sender, around.homes)
                raise PolicyError(f"`senders`: `{event}`: `{sender}` is not a client or foreign broker ({hint})")
            if sender in protocol.protects:
                raise PolicyError(
                    f"`senders`: `{event}`: `{sender}` is also under `protects`; no link to it has the events it sends"
                )
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
    if all(event in protocol.senders for event in protocol.events):
        return {sender for senders in protocol.senders.values() for sender in senders}
    return {*around.homes, *around.open_nodes} - {entity}


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


def _sender_filters(protocol: Protocol, around: Surroundings) -> list[MonitorDefinition]:
    """Return filters that keep events from other origins than their senders, one for each set of such events."""
    kinds = kinds_of(protocol.events)
    sources = [(name, node) for name, nodes in around.homes.items() for node in nodes]
    sources += [(UNLISTED, node) for node in sorted(around.open_nodes)]
    links: dict[frozenset[str], list[Ends]] = {}
    for link in sources:
        refused = frozenset(
            event for event in protocol.events if event in protocol.senders and link[0] not in protocol.senders[event]
        )
        if refused:
            links.setdefault(refused, []).append(link)
    definitions = []
    for number, (refused, on) in enumerate(links.items(), 1):
        name = f"{protocol.name}-senders" if number == 1 else f"{protocol.name}-senders-{number}"
        definitions.append(MonitorDefinition(name, tuple(on), {"q0": _without(kinds, refused)}))
    return definitions


def _without(kinds: Collection[TopicKind], refused: frozenset[str]) -> dict[str, object]:
    return edges_of(kinds, lambda kind: "suppress" if kind.events <= refused else "pass")
