"""What two looks at nodes come to: states, rates, and what is wrong."""

from dataclasses import dataclass, field

import msgspec

from penstock.broker.http.answers.status import NodeState


@dataclass
class Seen:
    """One look."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """When each was as it is told."""
    silent: dict[str, str] = field(default_factory=dict)
    """Who does not answer, and why."""
    revisions: dict[str, str] = field(default_factory=dict)


class NodeLine(msgspec.Struct, frozen=True):
    """A node. Rates are messages a second; counts are since it began."""

    node: str
    is_up: bool
    state: str
    seconds: float = 0.0
    """Since it began."""
    clients: int = 0
    connected: int = 0
    received: float = 0.0
    sent: float = 0.0
    denied: int = 0
    dropped: int = 0
    waiting: int = 0
    journal: str = ""


class LinkLine(msgspec.Struct, frozen=True):
    """The connection of a node with a neighbour, as the node sees it. Rates are packets a second."""

    node: str
    neighbour: str
    is_up: bool
    type: str
    received: float
    sent: float
    denied: int
    waiting: int


class Overview(msgspec.Struct, frozen=True):
    """How nodes are."""

    nodes: tuple[NodeLine, ...]
    links: tuple[LinkLine, ...]
    trouble: tuple[str, ...]
    """All that is wrong."""
    ill: tuple[str, ...] = ()
    """Of that, what is wrong with the nodes themselves: links may be down because others are."""


def overview(now: Seen, before: Seen) -> Overview:
    """What is to be shown; rates are by what was seen before."""
    nodes = [_node(name, now, before) for name in now.nodes]
    nodes += [NodeLine(name, False, "no answer") for name in now.silent]
    links = tuple(_links(now, before))
    ill = _ill(now)
    return Overview(tuple(nodes), links, (*ill, *_between(now, links)), ill)


def _node(name: str, now: Seen, before: Seen) -> NodeLine:
    state, old = now.nodes[name], before.nodes.get(name)
    seconds = now.times[name] - before.times.get(name, now.times[name])
    counters, clients = state.counters, state.portrait.clients
    was = old.counters if old is not None else counters
    return NodeLine(
        name,
        True,
        "trouble" if state.trouble else "up",
        max(0.0, now.times[name] - state.started),
        len(clients),
        sum(one.up for one in clients),
        _rate(counters.received, was.received, seconds),
        _rate(counters.sent, was.sent, seconds),
        counters.denied,
        counters.dropped,
        sum(one.waiting for one in clients),
        _journal(state),
    )


def _journal(state: NodeState) -> str:
    if state.journal is None:
        return ""
    if state.journal.failing:
        return "failing"
    return f"{state.journal.rows} rows" + (f", {state.journal.lost} lost" if state.journal.lost else "")


def _links(now: Seen, before: Seen) -> list[LinkLine]:
    """Each connection once, though both of its nodes tell of it: it is up if both say so."""
    found: dict[frozenset[str], LinkLine] = {}
    for name, state in now.nodes.items():
        old = before.nodes.get(name)
        seconds = now.times[name] - before.times.get(name, now.times[name])
        were = {one.neighbour: one for one in old.portrait.links} if old is not None else {}
        for link in state.portrait.links:
            pair, was = frozenset((name, link.neighbour)), were.get(link.neighbour, link)
            if (other := found.get(pair)) is not None:
                found[pair] = msgspec.structs.replace(
                    other,
                    is_up=other.is_up and link.up,
                    denied=other.denied + link.denied,
                    waiting=other.waiting + link.waiting,
                )
                continue
            found[pair] = LinkLine(
                name,
                link.neighbour,
                link.up,
                link.type if link.type == link.back else f"{link.type} / {link.back}",
                _rate(link.took, was.took, seconds),
                _rate(link.gave, was.gave, seconds),
                link.denied,
                link.waiting,
            )
    return list(found.values())


def _ill(now: Seen) -> tuple[str, ...]:
    told = [why if name in why else f"node `{name}`: {why}" for name, why in now.silent.items()]
    for name, state in now.nodes.items():
        if state.trouble:
            told.append(f"node `{name}`: {state.trouble}")
        if state.journal is not None and state.journal.failing and state.journal.failing not in state.trouble:
            told.append(f"journal of `{name}`: {state.journal.failing}")
    return tuple(told)


def _between(now: Seen, links: tuple[LinkLine, ...]) -> list[str]:
    told = [f"link `{one.node} - {one.neighbour}` is down" for one in links if not one.is_up]
    if len(set(now.revisions.values())) > 1:
        held = ", ".join(f"`{name}` {digest[:12]}" for name, digest in now.revisions.items())
        told.append(f"not all have the same policies in force: {held}; reload them")
    return told


def _rate(now: int, before: int, seconds: float) -> float:
    """By the second; a node that began again counts from 0."""
    return max(0, now - before if now >= before else now) / seconds if seconds > 0 else 0.0
