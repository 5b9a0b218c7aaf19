"""The vertices that each vertex of a directed graph reaches, as bits, by strongly connected components (Tarjan)."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

V = TypeVar("V", bound=Hashable)


def closure_bits(starts: Iterable[V], after: Callable[[V], Iterable[V]], own: Callable[[V], int]) -> dict[V, int]:
    """Return for each start the union of the bits that `own` gives to it and to every vertex that it reaches.

    Vertices of one component reach the same; each component is done after those that it leads to (Tarjan).
    """
    numbers: dict[V, int] = {}
    vertices: list[V] = []
    for vertex in starts:
        if vertex not in numbers:
            numbers[vertex] = len(vertices)
            vertices.append(vertex)
    count = len(vertices)
    edges: list[list[int]] = []
    for vertex in vertices:  # grows while it is walked
        row = []
        for other in after(vertex):
            at = numbers.setdefault(other, len(vertices))
            if at == len(vertices):
                vertices.append(other)
            row.append(at)
        edges.append(row)
    bits = _bits_of_components(edges, [own(vertex) for vertex in vertices])
    return {vertex: bits[at] for at, vertex in enumerate(vertices[:count])}


def _bits_of_components(edges: list[list[int]], own: list[int]) -> list[int]:
    unseen, done = -1, len(edges)
    low = [unseen] * len(edges)  # the least number of a vertex on the stack that is reached; `done` when off it
    bits = own.copy()
    stack: list[int] = []
    seen = 0
    for root in range(len(edges)):
        if low[root] != unseen:
            continue
        low[root], seen = seen, seen + 1
        stack.append(root)
        walk = [(root, low[root], iter(edges[root]))]
        while walk:
            at, number, rest = walk[-1]
            for other in rest:
                if low[other] == unseen:
                    low[other], seen = seen, seen + 1
                    stack.append(other)
                    walk.append((other, low[other], iter(edges[other])))
                    break
                if low[other] == done:
                    bits[at] |= bits[other]
                else:
                    low[at] = min(low[at], low[other])
            else:
                walk.pop()
                if low[at] == number:
                    _close(at, stack, low, bits, done)
                if walk:
                    before = walk[-1][0]
                    bits[before] |= bits[at]
                    low[before] = min(low[before], low[at])
    return bits


def _close(root: int, stack: list[int], low: list[int], bits: list[int], done: int) -> None:
    """Take a whole component off the stack: all of it reaches what any of it reaches."""
    members = []
    while True:
        members.append(stack.pop())
        if members[-1] == root:
            break
    union = 0
    for member in members:
        union |= bits[member]
    for member in members:
        bits[member], low[member] = union, done
