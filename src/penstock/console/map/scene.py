"""What the map draws: nodes, links and clients with their places, and what changes about them every second."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from penstock.analysis.layout import Size, layout
from penstock.broker.http.answers.status import NodeState
from penstock.console.map.rates import Flow, Rate, Rates
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
"""Of a client: its label with a number of refusals below."""
GAP = 120
MOST_LAYERED = 40
WIDEST = 4_000
"""Larger ensembles are laid out by the page, by forces."""


Point = tuple[float, float]
LinkNow = tuple[str, float, float, int, int, bool]
"""State (`up`, `down`, `away`, `silent`), packets a second from `a` to `b` and back, refusals, messages that wait,
whether something was refused in the last seconds."""


class DrawnNode(msgspec.Struct, frozen=True):
    name: str
    foreign: bool
    clients: int
    """How many there are, if they are not drawn one by one."""
    drawn: int
    """How many of them stand beside it."""
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
    """Changes only if nodes, links, or clients that are drawn come and go."""

    nodes: tuple[DrawnNode, ...]
    links: tuple[DrawnLink, ...]
    types: tuple[str, ...]


class Live(msgspec.Struct, frozen=True):
    """What changes every second, in the order of the scene: short, because it is sent to each who looks."""

    nodes: tuple[tuple[str, int, float, int], ...]
    """State (`up`, `trouble`, `silent`, `down`), clients that are connected, packets a second, refusals."""
    links: tuple[LinkNow, ...]


Listed = Mapping[str, Sequence[DrawnLink]]


def listed(domain: Domain | None) -> Listed:
    """The clients that a domain lists, by node."""
    found: dict[str, list[DrawnLink]] = {}
    if domain is None:
        return found
    for name, client in domain.clients.items():
        for node in client.node:
            types = client_types(domain, name, node)
            found.setdefault(node, []).append(DrawnLink(name, node, types.publish, types.notify, True))
    return found


def scene(domain: Domain | None, known: Listed, states: Mapping[str, NodeState], also: Iterable[str] = ()) -> Scene:
    """The picture of a domain as it is live; `known` are its clients. Those in `also` are drawn in any case."""
    links = _links(domain, states)
    names = list(domain.nodes) if domain is not None else []
    names = list(dict.fromkeys([*names, *states, *(end for link in links for end in (link.b, link.a))]))
    foreign = set(domain.foreign) if domain is not None else set[str]()
    clients = {name: _clients(known.get(name, ()), name, states.get(name)) for name in names if name not in foreign}
    shown = _shown(clients, frozenset(also))
    rest = {name: len(all_) if len(all_) > len(shown.get(name, ())) else 0 for name, all_ in clients.items()}
    places, bends = _places(tuple(names), tuple(links), tuple(len(shown.get(name, ())) for name in names))
    nodes = tuple(
        DrawnNode(name, name in foreign, rest.get(name, 0), len(shown.get(name, ())), places.get(name))
        for name in names
    )
    drawn = [_bent(link, bends) for link in links] + [one for several in shown.values() for one in several]
    used = dict.fromkeys(kind for link in drawn for kind in (link.there, link.back))
    types = (domain.types if domain is not None else None) or ()
    return Scene(nodes, tuple(drawn), tuple(dict.fromkeys([*types, *used])))


def live(scene: Scene, states: Mapping[str, NodeState], rates: Rates) -> Live:
    """What is to be said of it now."""
    links = tuple(link_now(one, states, rates) for one in scene.links)
    seen: dict[str, set[str]] = {node.name: set() for node in scene.nodes}
    for link, now in zip(scene.links, links, strict=True):
        if not link.client:
            seen[link.a].add(now[0])
            seen[link.b].add(now[0])
    return Live(tuple(_node_now(one, states.get(one.name), seen[one.name], rates) for one in scene.nodes), links)


def from_before(now: Live) -> Live:
    """The same, if the nodes do not answer any more: what they have counted stands, how they are is not known."""
    nodes = tuple(("silent", 0, 0.0, denied) for _, _, _, denied in now.nodes)
    return Live(nodes, tuple(map(silent, now.links)))


def silent(link: LinkNow) -> LinkNow:
    """Of one link, if nobody tells how it is now."""
    _, _, _, denied, waiting, _ = link
    return "silent", 0.0, 0.0, denied, waiting, False


# --- what there is


def _links(domain: Domain | None, states: Mapping[str, NodeState]) -> list[DrawnLink]:
    found: dict[frozenset[str], DrawnLink] = {}
    for one in domain.links if domain is not None else ():
        kind = one.type or DEFAULT_TYPE
        found[frozenset(one.between)] = DrawnLink(*one.between, kind, one.back or kind, False)
    for name, state in states.items():
        for link in state.portrait.links:
            made = DrawnLink(name, link.neighbour, link.back, link.type, False)
            found.setdefault(frozenset((name, link.neighbour)), made)
    return list(found.values())


def _clients(known: Sequence[DrawnLink], node: str, state: NodeState | None) -> list[DrawnLink]:
    """Those that are listed, in the order of the domain, then others that have a session, by name."""
    found = {one.a: one for one in known}
    for one in sorted(state.portrait.clients, key=lambda one: one.entity) if state is not None else ():
        found[one.entity] = DrawnLink(one.entity, node, one.publish_type, one.notify_type, True)
    return list(found.values())


def _shown(clients: Mapping[str, list[DrawnLink]], also: frozenset[str]) -> dict[str, list[DrawnLink]]:
    """The clients that are drawn one by one."""
    room = FEW_IN_ALL if sum(map(len, clients.values())) <= FEW_IN_ALL else 0
    found: dict[str, list[DrawnLink]] = {}
    for node, all_ in clients.items():
        chosen = all_ if len(all_) <= FEW and room else [one for one in all_ if one.a in also]
        found[node] = [msgspec.structs.replace(one, row=row) for row, one in enumerate(chosen)]
    return found


# --- where it is


@lru_cache(maxsize=16)
def _places(
    names: tuple[str, ...], links: tuple[DrawnLink, ...], beside: tuple[int, ...]
) -> tuple[Mapping[str, Point], Mapping[tuple[str, str], tuple[Point, ...]]]:
    """In layers, if that is not too large: the middle of each node's box, and the corners of long lines."""
    if len(names) > MOST_LAYERED:
        return {}, {}
    highs = {name: max(BOX[1], ROW * count) for name, count in zip(names, beside, strict=True)}
    sizes = {
        name: Size(BOX[0] + (STUB + CLIENT[0] if count else 0), highs[name], BOX[0] / 2)
        for name, count in zip(names, beside, strict=True)
    }
    parents: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        parents[link.a].append(link.b)
    found = layout(sizes, parents, GAP)
    if found.width > WIDEST or found.height > WIDEST:
        return {}, {}
    middles = {name: (x + BOX[0] / 2, y + highs[name] / 2) for name, (x, y) in found.corners.items()}
    bends = {}
    for (upper, lower), columns in found.columns.items():
        first = found.layers[upper] + 1
        points = []
        for at, x in enumerate(columns, first):
            points += [(x, found.tops[at]), (x, found.tops[at + 1] - GAP)]
        bends[upper, lower] = tuple(points)
        bends[lower, upper] = tuple(reversed(points))
    return middles, bends


def _bent(link: DrawnLink, bends: Mapping[tuple[str, str], tuple[Point, ...]]) -> DrawnLink:
    points = bends.get((link.a, link.b))
    return msgspec.structs.replace(link, bends=points) if points else link


# --- how it is


def link_now(link: DrawnLink, states: Mapping[str, NodeState], rates: Rates) -> LinkNow:
    """What is to be said of one link."""
    return _client_now(link, states, rates) if link.client else _node_link_now(link, rates)


def _node_link_now(link: DrawnLink, rates: Rates) -> LinkNow:
    """Both ends are asked: what one sends the other takes, and either may see that it is broken."""
    sides = [("link", link.a, link.b), ("link", link.b, link.a)]
    told: list[tuple[Flow | None, Rate]] = [
        (rates.flow((here, kind, there)), rates.of((here, kind, there))) for kind, here, there in sides
    ]
    (flow_a, rate_a), (flow_b, rate_b) = told
    flows = [one for one in (flow_a, flow_b) if one is not None]
    state = "silent" if not flows else "up" if all(one.up for one in flows) else "down"
    there = rate_b.took if flow_b is not None else rate_a.gave
    back = rate_a.took if flow_a is not None else rate_b.gave
    denied, waiting = sum(one.denied for one in flows), sum(one.waiting for one in flows)
    return state, round(there, 2), round(back, 2), denied, waiting, rate_a.denied + rate_b.denied > 0


def _client_now(link: DrawnLink, states: Mapping[str, NodeState], rates: Rates) -> LinkNow:
    key = (link.b, "client", link.a)
    flow, rate = rates.flow(key), rates.of(key)
    if link.b not in states:
        return "silent", 0.0, 0.0, 0, 0, False
    if flow is None:
        return "away", 0.0, 0.0, 0, 0, False
    state = "up" if flow.up else "away"
    return state, round(rate.took, 2), round(rate.gave, 2), flow.denied, flow.waiting, rate.denied > 0


def _node_now(node: DrawnNode, state: NodeState | None, links: set[str], rates: Rates) -> tuple[str, int, float, int]:
    """Of a node that tells nothing, its neighbours know whether they reach it."""
    if state is None:
        return ("down" if links == {"down"} else "up" if node.foreign and "up" in links else "silent"), 0, 0.0, 0
    rate = rates.of((node.name, "node", ""))
    up = sum(one.up for one in state.portrait.clients)
    return ("trouble" if state.trouble else "up"), up, round(rate.took, 1), state.counters.denied
