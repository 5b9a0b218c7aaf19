"""The orderings of events under which a policy test holds (brokering §5.1: relative network speeds).

Every interleaving of an ordering is one of the next as well: `fifo` of `in-order`, and that of `unordered`.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from penstock.domain.schema.tests import PolicyTest
from penstock.engine.rehearsal.interleavings import PlayedMove, in_fifo_order, interleavings
from penstock.engine.rehearsal.ordered_play import OrderedPlay
from penstock.engine.rehearsal.policy_test import Mismatch
from penstock.engine.rehearsal.rehearsal import Rehearsal

MAX_INTERLEAVINGS = 20_000
"""Of one test; what needs more is not decided."""


class LinkOrdering(StrEnum):
    """The order in which events arrive, as far as it is known."""

    FIFO = "fifo"
    """All links are equally fast: what was sent first arrives first, anywhere."""
    IN_ORDER = "in-order"
    """Each link keeps the order of its events; nothing is known of one link and another."""
    UNORDERED = "unordered"
    """Nothing is known: an event may overtake another on the same link."""


class Break(msgspec.Struct, frozen=True):
    """An interleaving in which a test does not hold."""

    failures: tuple[Mismatch, ...]
    moves: tuple[str, ...]


class OrdersResult(msgspec.Struct, frozen=True):
    """The orderings under which a test holds, as far as it was asked."""

    title: str
    asked: LinkOrdering
    breaks: dict[LinkOrdering, Break | None]
    """By ordering, the first interleaving in which the test does not hold; None: it holds in all."""
    played: int
    """The number of interleavings that were played."""
    is_cut_short: bool = False
    """There are too many interleavings; an ordering that is not in `breaks` is not decided."""

    @property
    def holds(self) -> bool:
        """True if it holds under the ordering that was asked about."""
        return self.asked in self.breaks and self.breaks[self.asked] is None


def try_orders(title: str, test: PolicyTest, start: Callable[[], Rehearsal], asked: LinkOrdering) -> OrdersResult:
    """Play a test in every interleaving that differs, under an ordering; if it breaks, under stricter ones too."""
    breaks: dict[LinkOrdering, Break | None] = {}
    played = 0
    if asked is LinkOrdering.UNORDERED:
        play = OrderedPlay(test, start, keeps_order=False)
        for trace in interleavings(play):
            played += 1
            if play.failures:
                breaks[asked] = _break(play, trace.moves)
                break
            if played == MAX_INTERLEAVINGS:
                return OrdersResult(title, asked, breaks, played, True)
        else:
            return OrdersResult(title, asked, dict.fromkeys(LinkOrdering), played)
    play = OrderedPlay(test, start, keeps_order=True)
    last = played + MAX_INTERLEAVINGS
    for trace in interleavings(play):
        played += 1
        if play.failures:
            breaks.setdefault(LinkOrdering.IN_ORDER, _break(play, trace.moves))
            if order := in_fifo_order(trace):
                breaks[LinkOrdering.FIFO] = _break(play, order)
                return OrdersResult(title, asked, breaks, played)
        if played == last:
            return OrdersResult(title, asked, breaks, played, True)
    return OrdersResult(title, asked, {LinkOrdering.FIFO: None, LinkOrdering.IN_ORDER: None, **breaks}, played)


def _break(play: OrderedPlay, moves: Iterable[PlayedMove]) -> Break:
    """Return an interleaving in words; what others than nodes and those that it went wrong for get is left out."""
    concerned = {failure.about for failure in play.failures} | play.play.nodes.keys()
    shown = (move for move in moves if move.text and (not move.is_packet or _receiver(move) in concerned))
    return Break(play.failures, tuple(move.text for move in shown))


def _receiver(move: PlayedMove) -> str:
    return move.text.partition(" ")[0]
