"""Interleavings of a system that can be played again from the beginning, one of each kind.

Two moves are in conflict if one writes what the other reads or writes. Interleavings that differ only in the order of
moves without conflict end alike, and one of them is played (partial-order reduction with source sets and sleep sets:
Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic partial order reduction", POPL 2014).
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.model.errors import PenstockError

Actor = Hashable
"""A client that publishes, a wire that keeps its order, or one packet on a wire that does not."""


class PlayedMove(NamedTuple):
    """A step of the system, as it was done."""

    actor: Actor
    key: Hashable
    """The same in all interleavings in which it happens."""
    cause: Hashable = None
    """The key of the move without which it could not happen."""
    reads: frozenset[Hashable] = frozenset()
    writes: frozenset[Hashable] = frozenset()
    is_packet: bool = False
    """A packet that its cause has sent; else something that an entity does by itself."""
    joins: bool = False
    """It happens only when nothing else can."""
    text: str = ""

    def conflicts(self, other: "PlayedMove") -> bool:
        """Return whether the order of the two matters."""
        return not (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )


class System(Protocol):
    """A system that makes the same moves whenever it is told to."""

    def begin(self) -> None:
        """Begin anew."""

    def options(self) -> Sequence[Actor]:
        """Return who can move next, the usual order first; nobody: it is over."""

    def take(self, actor: Actor) -> PlayedMove:
        """Let it move."""


class ReplayError(PenstockError):
    """A system that did something else when it was played again."""


class Trace:
    """The moves of one interleaving, and which must come before which."""

    def __init__(self) -> None:
        self.moves: list[PlayedMove] = []
        self.before: list[int] = []
        """For each move the set, as bits, of those that come before it in every interleaving of this kind."""

    def add(self, move: PlayedMove) -> list[int]:
        """Append a move, and return the earlier ones that it could have come before instead."""
        races = []
        before = 0
        for at in range(len(self.moves) - 1, -1, -1):
            other = self.moves[at]
            if before >> at & 1:
                continue
            is_fixed = other.actor == move.actor or other.key == move.cause or other.joins or move.joins
            if is_fixed or move.conflicts(other):
                before |= 1 << at | self.before[at]
                if not is_fixed:
                    races.append(at)
        self.moves.append(move)
        self.before.append(before)
        return races

    def cut(self, length: int) -> None:
        """Keep the first moves only."""
        del self.moves[length:], self.before[length:]

    def first_without(self, at: int) -> dict[Actor, None]:
        """Return who can move first in what is left for the last move to come without the move at this place."""
        rest = [k for k in range(at + 1, len(self.moves) - 1) if not self.before[k] >> at & 1]
        rest.append(len(self.moves) - 1)
        inside = sum(1 << k for k in rest)
        return {self.moves[k].actor: None for k in rest if not self.before[k] & inside}


class _Turn:
    """A state of the system on the present path: who moves there, who is to, and who need not any more."""

    def __init__(self, sleeping: dict[Actor, PlayedMove], chosen: Actor) -> None:
        self.sleeping = sleeping
        self.chosen = chosen
        self.wanted = {chosen: None}


def interleavings(system: System) -> Iterator[Trace]:
    """Yield one interleaving of each kind, the usual one first; the trace is good until the next is asked for."""
    path: list[_Turn] = []
    trace = Trace()
    while True:
        system.begin()
        known = len(trace.moves)
        for turn, move in zip(path, trace.moves, strict=False):
            if system.take(turn.chosen).key != move.key:
                raise ReplayError(f"not the same when it is played again: {move.text}")
        if len(path) > known:  # the last turn has a new move
            _take(system, path, trace)
        if _go_on(system, path, trace):
            yield trace
        while path:
            turn = path[-1]
            turn.sleeping[turn.chosen] = trace.moves[len(path) - 1]
            open_ = [actor for actor in turn.wanted if actor not in turn.sleeping]
            if open_:
                turn.chosen = open_[0]
                break
            path.pop()
        if not path:
            return
        trace.cut(len(path) - 1)


def _go_on(system: System, path: list[_Turn], trace: Trace) -> bool:
    """Play on to the end; False if everything that could follow has been seen in another order."""
    while options := system.options():
        sleeping: dict[Actor, PlayedMove] = {}
        if path:
            last = trace.moves[-1]
            sleeping = {actor: move for actor, move in path[-1].sleeping.items() if not _is_bound(move, last)}
        awake = [actor for actor in options if actor not in sleeping]
        if not awake:
            return False
        path.append(_Turn(sleeping, awake[0]))
        _take(system, path, trace)
    return True


def _is_bound(move: PlayedMove, other: PlayedMove) -> bool:
    return move.joins or other.joins or move.conflicts(other)


def _take(system: System, path: list[_Turn], trace: Trace) -> None:
    """Let the chosen one move, and note where another order is to be tried."""
    for at in trace.add(system.take(path[-1].chosen)):
        first = trace.first_without(at)
        if not first.keys() & path[at].wanted.keys():
            path[at].wanted[next(iter(first))] = None


def in_fifo_order(trace: Trace) -> tuple[PlayedMove, ...] | None:
    """Return the moves in an order in which packets are handed over as they were sent; None if there is none.

    It is an interleaving of the same kind. Packets that one move has sent may come in any order.
    """
    places = {move.key: at for at, move in enumerate(trace.moves)}
    sent: dict[int, list[int]] = {}
    own = []
    for at, move in enumerate(trace.moves):
        if move.is_packet:
            sent.setdefault(places[move.cause], []).append(at)
        else:
            own.append(at)
    seen = set()
    waiting: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [((), 0, ())]
    while waiting:
        order, done, queue = waiting.pop()
        if len(order) == len(trace.moves):
            return tuple(trace.moves[at] for at in order)
        while queue and all(done >> at & 1 for at in sent[queue[0]]):
            queue = queue[1:]
        if (done, queue) in seen:
            continue
        seen.add((done, queue))
        for at in (*own, *(sent[queue[0]] if queue else ())):
            if not done >> at & 1 and not trace.before[at] & ~done:
                waiting.append(((*order, at), done | 1 << at, (*queue, at) if at in sent else queue))
    return None
