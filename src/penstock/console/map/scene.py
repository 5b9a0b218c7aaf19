"""The scene of the map: nodes, links and clients with their positions, and their live values."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from penstock.analysis.layout import Size, layout
from penstock.broker.http.answers.status import NodeState
from penstock.console.map.rates import Rates
from penstock.domain import Domain
from penstock.domain.compile.graph import client_types
from penstock.policy.access.brokering import DEFAULT_TYPE

FEW = 8
"""Clients of a node that are drawn one by one; more are a number that opens a list."""
FEW_IN_ALL = 80
BOX = (150, 58)
CLIENT = (132, 30)
STUB = 180
"""Length of the line between a node and its clients."""
ROW = 58
"""Height of a client: its label with a number of refusals below."""
GAP = 120
MAX_LAYERED = 40
MAX_WIDTH = 4_000
"""Larger ensembles are laid out by the page, by forces."""


Point = tuple[float, float]
LinkNow = tuple[str, float, float, int, int, bool]
"""State (`up`, `down`, `away`, `silent`), packets per second from `a` to `b` and back, refusals, waiting messages,
whether something was refused in the last seconds."""


class DrawnNode(msgspec.Struct, frozen=True):
    name: str
    foreign: bool
    clients: int
    """Number of clients, if they are not drawn one by one."""
    drawn: int
    """Number of clients drawn beside it."""
    at: Point | None


class DrawnLink(msgspec.Struct, frozen=True):
    """Both directions of one connection: of two nodes, or of a client (`a`) and its node (`b`)."""

    a: str
    b: str
    there: str
    back: str
    client: bool
    row: int = 0
    """Of a client: its place beside its node."""
    bends: tuple[Point, ...] = ()


class Scene(msgspec.Struct, frozen=True):
    """Changes only if nodes, links, or drawn clients come and go."""

    nodes: tuple[DrawnNode, ...]
    links: tuple[DrawnLink, ...]
    types: tuple[str, ...]


class Live(msgspec.Struct, frozen=True):
    """The live values, in the order of the scene: short, because they are sent to every browser each second."""

    nodes: tuple[tuple[str, int, float, int], ...]
    """State (`up`, `trouble`, `silent`, `down`), connected clients, packets per second, refusals."""
    links: tuple[LinkNow, ...]


Listed = Mapping[str, Sequence[DrawnLink]]


def listed(domain: Domain | None) -> Listed:
    """Return the clients that a domain lists, by node."""
    by_node: dict[str, list[DrawnLink]] = {}
    if domain is None:
        return by_node
    for name, client in domain.clients.items():
        for node in client.node:
            types = client_types(domain, name, node)
            by_node.setdefault(node, []).append(DrawnLink(name, node, types.publish, types.notify, True))
    return by_node


def scene(
    domain: Domain | None, listed_clients: Listed, states: Mapping[str, NodeState], also: Iterable[str] = ()
) -> Scene:
    """Return the picture of a live domain; `listed_clients` are its clients. Those in `also` are drawn in any case."""
    links = _links(domain, states)
    names = list(domain.nodes) if domain is not None else []
    names = list(dict.fromkeys([*names, *states, *(end for link in links for end in (link.b, link.a))]))
    foreign = set(domain.foreign) if domain is not None else set[str]()
    clients = {
        name: _clients(listed_clients.get(name, ()), name, states.get(name)) for name in names if name not in foreign
    }
    shown = _shown(clients, frozenset(also))
    rest = {name: len(all_) if len(all_) > len(shown.get(name, ())) else 0 for name, all_ in clients.items()}
    places, bends = _places(tuple(names), tuple(links), tuple(len(shown.get(name, ())) for name in names))
    nodes = tuple(
        DrawnNode(name, name in foreign, rest.get(name, 0), len(shown.get(name, ())), places.get(name))
        for name in names
    )
    drawn = [_bent(link, bends) for link in links] + [link for client_links in shown.values() for link in client_links]
    used = dict.fromkeys(kind for link in drawn for kind in (link.there, link.back))
    types = (domain.types if domain is not None else None) or ()
    return Scene(nodes, tuple(drawn), tuple(dict.fromkeys([*types, *used])))


def live(scene: Scene, states: Mapping[str, NodeState], rates: Rates) -> Live:
    """Return the live values of a scene."""
    links = tuple(link_now(link, states, rates) for link in scene.links)
    reached: dict[str, set[str]] = {node.name: set() for node in scene.nodes}
    for link, now in zip(scene.links, links, strict=True):
        if not link.client:
            reached[link.a].add(now[0])
            reached[link.b].add(now[0])
    return Live(tuple(_node_now(node, states.get(node.name), reached[node.name], rates) for node in scene.nodes), links)


def last_known(now: Live) -> Live:
    """Return the last live values for nodes that no longer answer: counters stay, states are unknown."""
    nodes = tuple(("silent", 0, 0.0, denied) for _, _, _, denied in now.nodes)
    return Live(nodes, tuple(map(silent, now.links)))


def silent(link: LinkNow) -> LinkNow:
    """Return the last live values of a link whose state is unknown."""
    _, _, _, denied, waiting, _ = link
    return "silent", 0.0, 0.0, denied, waiting, False


# --- contents


def _links(domain: Domain | None, states: Mapping[str, NodeState]) -> list[DrawnLink]:
    by_ends: dict[frozenset[str], DrawnLink] = {}
    for settings in domain.links if domain is not None else ():
        kind = settings.type or DEFAULT_TYPE
        by_ends[frozenset(settings.between)] = DrawnLink(*settings.between, kind, settings.back or kind, False)
    for name, state in states.items():
        for link in state.portrait.links:
            drawn_link = DrawnLink(name, link.neighbour, link.back, link.type, False)
            by_ends.setdefault(frozenset((name, link.neighbour)), drawn_link)
    return list(by_ends.values())


def _clients(listed_clients: Sequence[DrawnLink], node: str, state: NodeState | None) -> list[DrawnLink]:
    """Return the listed clients in the order of the domain, then others that have a session, by name."""
    by_name = {link.a: link for link in listed_clients}
    for client in sorted(state.portrait.clients, key=lambda client: client.entity) if state is not None else ():
        by_name[client.entity] = DrawnLink(client.entity, node, client.publish_type, client.notify_type, True)
    return list(by_name.values())


def _shown(clients: Mapping[str, list[DrawnLink]], also: frozenset[str]) -> dict[str, list[DrawnLink]]:
    """Return the clients that are drawn one by one."""
    room = FEW_IN_ALL if sum(map(len, clients.values())) <= FEW_IN_ALL else 0
    by_node: dict[str, list[DrawnLink]] = {}
    for node, all_ in clients.items():
        chosen = all_ if len(all_) <= FEW and room else [link for link in all_ if link.a in also]
        by_node[node] = [msgspec.structs.replace(link, row=row) for row, link in enumerate(chosen)]
    return by_node


# --- positions


@lru_cache(maxsize=16)
def _places(
    names: tuple[str, ...], links: tuple[DrawnLink, ...], beside: tuple[int, ...]
) -> tuple[Mapping[str, Point], Mapping[tuple[str, str], tuple[Point, ...]]]:
    """Return the middle of each node and the corners of long lines, in layers; nothing if there are too many."""
    if len(names) > MAX_LAYERED:
        return {}, {}
    highs = {name: max(BOX[1], ROW * count) for name, count in zip(names, beside, strict=True)}
    sizes = {
        name: Size(BOX[0] + (STUB + CLIENT[0] if count else 0), highs[name], BOX[0] / 2)
        for name, count in zip(names, beside, strict=True)
    }
    parents: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        parents[link.a].append(link.b)
    layers = layout(sizes, parents, GAP)
    if layers.width > MAX_WIDTH or layers.height > MAX_WIDTH:
        return {}, {}
    middles = {name: (x + BOX[0] / 2, y + highs[name] / 2) for name, (x, y) in layers.corners.items()}
    bends = {}
    for (upper, lower), columns in layers.columns.items():
        first = layers.layers[upper] + 1
        points = []
        for at, x in enumerate(columns, first):
            points += [(x, layers.tops[at]), (x, layers.tops[at + 1] - GAP)]
        bends[upper, lower] = tuple(points)
        bends[lower, upper] = tuple(reversed(points))
    return middles, bends


def _bent(link: DrawnLink, bends: Mapping[tuple[str, str], tuple[Point, ...]]) -> DrawnLink:
    points = bends.get((link.a, link.b))
    return msgspec.structs.replace(link, bends=points) if points else link


# --- live values


def link_now(link: DrawnLink, states: Mapping[str, NodeState], rates: Rates) -> LinkNow:
    """Return the live values of one link."""
    return _client_now(link, states, rates) if link.client else _node_link_now(link, rates)


def _node_link_now(link: DrawnLink, rates: Rates) -> LinkNow:
    """Combine the reports of both ends: what one sends the other takes, and either may see that the link is broken."""
    at_a, at_b = (link.a, "link", link.b), (link.b, "link", link.a)
    flow_a, rate_a, flow_b, rate_b = rates.flow(at_a), rates.rate(at_a), rates.flow(at_b), rates.rate(at_b)
    flows = [flow for flow in (flow_a, flow_b) if flow is not None]
    state = "silent" if not flows else "up" if all(flow.up for flow in flows) else "down"
    there = rate_b.received if flow_b is not None else rate_a.sent
    back = rate_a.received if flow_a is not None else rate_b.sent
    denied, waiting = sum(flow.denied for flow in flows), sum(flow.waiting for flow in flows)
    return state, round(there, 2), round(back, 2), denied, waiting, rate_a.denied + rate_b.denied > 0


def _client_now(link: DrawnLink, states: Mapping[str, NodeState], rates: Rates) -> LinkNow:
    key = (link.b, "client", link.a)
    flow, rate = rates.flow(key), rates.rate(key)
    if link.b not in states:
        return "silent", 0.0, 0.0, 0, 0, False
    if flow is None:
        return "away", 0.0, 0.0, 0, 0, False
    state = "up" if flow.up else "away"
    return state, round(rate.received, 2), round(rate.sent, 2), flow.denied, flow.waiting, rate.denied > 0


def _node_now(node: DrawnNode, state: NodeState | None, links: set[str], rates: Rates) -> tuple[str, int, float, int]:
    """Return the live values of a node. If it does not answer, its neighbours know whether they reach it."""
    if state is None:
        return ("down" if links == {"down"} else "up" if node.foreign and "up" in links else "silent"), 0, 0.0, 0
    rate = rates.rate((node.name, "node", ""))
    up = sum(client.up for client in state.portrait.clients)
    return ("trouble" if state.trouble else "up"), up, round(rate.received, 1), state.counters.denied
