"""An overview of nodes from two snapshots: states, rates and problems."""

from dataclasses import dataclass, field

import msgspec

from penstock.broker.http.answers.status import NodeState


@dataclass
class Snapshot:
    """The state of nodes at one moment."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """The time of each report."""
    silent: dict[str, str] = field(default_factory=dict)
    """Nodes that do not answer, and why."""
    revisions: dict[str, str] = field(default_factory=dict)


class NodeLine(msgspec.Struct, frozen=True):
    """A node. Rates are messages per second; counts are since it started."""

    node: str
    is_up: bool
    state: str
    seconds: float = 0.0
    """Since it started."""
    clients: int = 0
    connected: int = 0
    received: float = 0.0
    sent: float = 0.0
    denied: int = 0
    dropped: int = 0
    waiting: int = 0
    journal: str = ""


class LinkLine(msgspec.Struct, frozen=True):
    """The connection of a node with a neighbour, as the node sees it. Rates are packets per second."""

    node: str
    neighbour: str
    is_up: bool
    type: str
    received: float
    sent: float
    denied: int
    waiting: int


class Overview(msgspec.Struct, frozen=True):
    """The state of all nodes."""

    nodes: tuple[NodeLine, ...]
    links: tuple[LinkLine, ...]
    trouble: tuple[str, ...]
    """All problems."""
    ill: tuple[str, ...] = ()
    """The problems of the nodes themselves: links may be down because of other nodes."""


def overview(now: Snapshot, before: Snapshot) -> Overview:
    """Compute the overview; rates are since the earlier snapshot."""
    nodes = [_node(name, now, before) for name in now.nodes]
    nodes += [NodeLine(name, False, "no answer") for name in now.silent]
    links = tuple(_links(now, before))
    ill = _node_problems(now)
    return Overview(tuple(nodes), links, (*ill, *_link_problems(now, links)), ill)


def _node(name: str, now: Snapshot, before: Snapshot) -> NodeLine:
    state, old = now.nodes[name], before.nodes.get(name)
    seconds = now.times[name] - before.times.get(name, now.times[name])
    counters, clients = state.counters, state.portrait.clients
    was = old.counters if old is not None else counters
    head = (name, True, "trouble" if state.trouble else "up", max(0.0, now.times[name] - state.started))
    rates = (_rate(counters.received, was.received, seconds), _rate(counters.sent, was.sent, seconds))
    waiting = sum(client.waiting for client in clients)
    sessions = (len(clients), sum(client.up for client in clients))
    return NodeLine(*head, *sessions, *rates, counters.denied, counters.dropped, waiting, _journal(state))


def _journal(state: NodeState) -> str:
    if state.journal is None:
        return ""
    if state.journal.failing:
        return "failing"
    return f"{state.journal.rows} rows" + (f", {state.journal.lost} lost" if state.journal.lost else "")


def _links(now: Snapshot, before: Snapshot) -> list[LinkLine]:
    """Return each connection once, though both of its nodes report it: it is up if both say so."""
    by_ends: dict[frozenset[str], LinkLine] = {}
    for name, state in now.nodes.items():
        old = before.nodes.get(name)
        seconds = now.times[name] - before.times.get(name, now.times[name])
        were = {link.neighbour: link for link in old.portrait.links} if old is not None else {}
        for link in state.portrait.links:
            pair, was = frozenset((name, link.neighbour)), were.get(link.neighbour, link)
            if (other := by_ends.get(pair)) is not None:
                counts = {"denied": other.denied + link.denied, "waiting": other.waiting + link.waiting}
                by_ends[pair] = msgspec.structs.replace(other, is_up=other.is_up and link.up, **counts)
                continue
            kind = link.type if link.type == link.back else f"{link.type} / {link.back}"
            rates = (_rate(link.took, was.took, seconds), _rate(link.gave, was.gave, seconds))
            by_ends[pair] = LinkLine(name, link.neighbour, link.up, kind, *rates, link.denied, link.waiting)
    return list(by_ends.values())


def _node_problems(now: Snapshot) -> tuple[str, ...]:
    problems = [why if name in why else f"node `{name}`: {why}" for name, why in now.silent.items()]
    for name, state in now.nodes.items():
        if state.trouble:
            problems.append(f"node `{name}`: {state.trouble}")
        if state.journal is not None and state.journal.failing and state.journal.failing not in state.trouble:
            problems.append(f"journal of `{name}`: {state.journal.failing}")
    return tuple(problems)


def _link_problems(now: Snapshot, links: tuple[LinkLine, ...]) -> list[str]:
    problems = [f"link `{link.node} - {link.neighbour}` is down" for link in links if not link.is_up]
    if len(set(now.revisions.values())) > 1:
        held = ", ".join(f"`{name}` {digest[:12]}" for name, digest in now.revisions.items())
        problems.append(f"nodes have different policies in force: {held}; reload them")
    return problems


def _rate(now: int, before: int, seconds: float) -> float:
    """Return a rate per second; a restarted node counts from 0."""
    return max(0, now - before if now >= before else now) / seconds if seconds > 0 else 0.0
