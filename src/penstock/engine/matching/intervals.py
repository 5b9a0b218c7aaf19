"""Keys that have an interval each, found by how it lies beside another one."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_BLOCK_ENTRIES = 128


class _Entry(NamedTuple):
    """Entries are in the order of where they begin; numbers tell those apart that begin and end together."""

    low: Any
    high: Any
    number: int
    key: Any


class Intervals(Generic[K]):
    """Intervals with both ends in them, sorted in blocks; each block knows the highest end in it.

    What is asked for costs what is found, and a look at each block.
    """

    __slots__ = ("_blocks", "_entries", "_highest", "_number")

    def __init__(self) -> None:
        self._blocks: list[list[_Entry]] = []
        self._highest: list[Any] = []
        self._entries: dict[K, _Entry] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def add(self, key: K, low: Any, high: Any) -> None:
        """Put in a key that is not there."""
        self._number += 1
        entry = self._entries[key] = _Entry(low, high, self._number, key)
        at = self._block(entry)
        if at < 0:
            self._blocks.insert(0, [entry])
            self._highest.insert(0, high)
            return
        block = self._blocks[at]
        insort(block, entry)
        self._highest[at] = max(self._highest[at], high)
        if len(block) > MAX_BLOCK_ENTRIES:
            half = len(block) // 2
            parts = self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._highest[at : at + 1] = [max(interval.high for interval in part) for part in parts]

    def remove(self, key: K) -> None:
        entry = self._entries.pop(key)
        at = self._block(entry)
        block = self._blocks[at]
        del block[bisect_left(block, entry)]
        if not block:
            del self._blocks[at], self._highest[at]
        elif self._highest[at] == entry.high:
            self._highest[at] = max(interval.high for interval in block)

    def containing(self, low: Any, high: Any) -> Iterator[K]:
        """Return those that this interval is inside of."""
        return self._found(low, high, None)

    def meeting(self, low: Any, high: Any) -> Iterator[K]:
        """Return those that have something in common with this interval."""
        return self._found(high, low, None)

    def inside(self, low: Any, high: Any) -> Iterator[K]:
        """Return those that are inside of this interval."""
        return self._found(high, low, (low, high))

    def _found(self, latest: Any, earliest: Any, bounds: tuple[Any, Any] | None) -> Iterator[K]:
        """Yield those that begin by `latest` and end at `earliest` or after, and within the bounds if there are any."""
        for block, highest in zip(self._blocks, self._highest, strict=True):
            if block[0].low > latest:
                return
            if highest < earliest or (bounds is not None and block[-1].low < bounds[0]):
                continue
            for low, high, _, key in block:
                if low > latest:
                    return
                if high >= earliest and (bounds is None or (low >= bounds[0] and high <= bounds[1])):
                    yield key

    def _block(self, entry: _Entry) -> int:
        """Return the last block that begins before the entry; -1 if there is none."""
        low, high = 0, len(self._blocks)
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle][0][:3] <= entry[:3]:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low or not self._blocks else 0
