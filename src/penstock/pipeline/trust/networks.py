"""Random networks of nodes for the simulation of trust, and the ways that messages take through them.

For each publisher the links that lead away from it are a directed acyclic graph, in layers by distance: a message comes
to a node in as many copies as there are links from the layer before. All that depends only on the network is laid out
once, as arrays in the order of layers, so that a round of messages is a few operations on slices of them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.pipeline.errors import ArgumentError

Ints = NDArray[np.int64]
TOPOLOGIES = ("tree", "scale-free")
_EXTRA = 0.2
"""Links beside the tree's, for each node."""
_ATTACHED = 2
"""Links of a newcomer to a network that is scale free."""


@dataclass(frozen=True, slots=True)
class Links:
    """Every link in both directions: edge i leads from `rated[i]` to `rater[i]`, which rates it."""

    size: int
    rated: Ints
    rater: Ints


class Level(NamedTuple):
    """Pairs of a node and one so many edges before it: all walks between them, each by its last copy and the rest."""

    starts: Ints
    """Of each pair, where its terms begin."""
    pair: Ints
    """Of each term, its pair."""
    copy: Ints
    """Of each term, the last copy of the walk."""
    before: Ints
    """Of each term, the pair of the level before that is the rest."""
    origin: Ints
    """Of each pair, the node that the walks come from."""
    place: Ints
    """Of each pair, the place that they lead to."""
    pair_bounds: Ints
    """Where the pairs of each layer begin."""
    term_bounds: Ints


@dataclass(frozen=True, slots=True)
class Routes:
    """The ways of messages. A place is a node as one publisher's messages see it; places are in order of layers."""

    links: Links
    origins: Ints
    """The nodes that publishers are at."""
    node: Ints
    """Of each place, its node."""
    publisher: Ints
    """Of each place, whose messages come there."""
    bounds: Ints
    """Where the places of each layer begin; those of layer 0 are the publishers' own."""
    edge: Ints
    """Of each copy, the edge it takes. Copies are in order of the places they come to."""
    source: Ints
    """Of each copy, the place it comes from."""
    starts: Ints
    """Of each place from layer 1 on, where its copies begin."""
    copy_bounds: Ints
    """Where the copies to each layer begin."""
    levels: tuple[Level, ...]
    """From walks of two edges on; a walk of one edge is a copy."""


def make_links(topology: str, size: int, draw: np.random.Generator) -> Links:
    """Return a random network of so many nodes, all of them joined."""
    if size < 3:
        raise ArgumentError(f"a network has at least 3 nodes, not `{size}`")
    if topology == "tree":
        pairs = _tree(size, draw)
    elif topology == "scale-free":
        pairs = _scale_free(size, draw)
    else:
        raise ArgumentError(f"`{topology}` is not a topology: expected {' or '.join(TOPOLOGIES)}")
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keys = np.unique((low * size + high)[low != high])
    low, high = keys // size, keys % size
    return Links(size, np.concatenate((low, high)), np.concatenate((high, low)))


def _tree(size: int, draw: np.random.Generator) -> Ints:
    """Join each newcomer to a random node before it; then add some more links."""
    later = np.arange(1, size)
    tree = np.stack((draw.integers(0, later), later), axis=1)
    return np.concatenate((tree, draw.integers(0, size, (round(_EXTRA * size), 2))))


def _scale_free(size: int, draw: np.random.Generator) -> Ints:
    """Join each newcomer to two nodes, the likelier the more links they have (Barabási and Albert)."""
    ends = [0, 1]
    for later in range(2, size):
        for pick in draw.integers(0, len(ends), _ATTACHED).tolist():
            ends += (ends[pick], later)
    return np.array(ends, np.int64).reshape(-1, 2)


def make_routes(links: Links, origins: Ints, reach: int) -> Routes:
    """Return the ways from these nodes, and the walks of at most `reach` edges along them."""
    size, count = links.size, len(origins)
    layer = _layers(links, origins)
    order = np.argsort(layer, axis=None, kind="stable")
    place = np.empty(count * size, np.int64)
    place[order] = np.arange(count * size)
    layers = int(layer.max()) + 1
    bounds = np.searchsorted(layer.ravel()[order], np.arange(layers + 1))

    publisher, edge = np.nonzero(layer[:, links.rater] == layer[:, links.rated] + 1)
    source, target = place[publisher * size + links.rated[edge]], place[publisher * size + links.rater[edge]]
    by_target = np.argsort(target, kind="stable")
    edge, source, target = edge[by_target], source[by_target], target[by_target]
    starts = np.searchsorted(target, np.arange(count, count * size))
    copy_bounds = np.searchsorted(target, bounds)
    node = order % size
    levels = _levels(node, bounds, source, target, reach, size)
    return Routes(links, origins, node, order // size, bounds, edge, source, starts, copy_bounds, levels)


def _layers(links: Links, origins: Ints) -> Ints:
    """Return how far each node is from each origin."""
    far = np.full((len(origins), links.size), -1, np.int64)
    far[np.arange(len(origins)), origins] = 0
    for distance in range(links.size):
        publisher, edge = np.nonzero((far[:, links.rated] == distance) & (far[:, links.rater] < 0))
        if not len(edge):
            break
        far[publisher, links.rater[edge]] = distance + 1
    return far


def _levels(node: Ints, bounds: Ints, source: Ints, target: Ints, reach: int, size: int) -> tuple[Level, ...]:
    levels: list[Level] = []
    origin, place = node[source], target
    for _ in range(2, reach + 1):
        first = np.searchsorted(place, source)
        number = np.searchsorted(place, source, side="right") - first
        copy = np.repeat(np.arange(len(source)), number)
        before = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number) + np.repeat(first, number)
        key = target[copy] * size + origin[before]
        by_key = np.argsort(key, kind="stable")
        copy, before, key = copy[by_key], before[by_key], key[by_key]
        keys, starts, pair = np.unique(key, return_index=True, return_inverse=True)
        origin, place = keys % size, keys // size
        of_layers = np.searchsorted(place, bounds), np.searchsorted(target[copy], bounds)
        levels.append(Level(starts, pair, copy, before, origin, place, *of_layers))
    return tuple(levels)
