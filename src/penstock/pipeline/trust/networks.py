"""Random networks of nodes for the simulation of trust."""

from dataclasses import dataclass

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


def neighbours(links: Links) -> dict[str, tuple[str, ...]]:
    """Return the neighbours of each node, by name."""
    joined: dict[str, list[str]] = {str(number): [] for number in range(links.size)}
    for rated, rater in zip(links.rated.tolist(), links.rater.tolist(), strict=True):
        joined[str(rater)].append(str(rated))
    return {node: tuple(others) for node, others in joined.items()}
