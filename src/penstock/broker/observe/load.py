"""The load of a node: the share of the last seconds in which its process had the processor."""

import time

_WEIGHT = 0.5
"""The weight of the last second against those before."""


class ProcessorLoad:
    """A load from 0 to 1; an event loop can use one processor."""

    def __init__(self) -> None:
        self.index = 0.0
        self._at, self._used = time.monotonic(), time.process_time()

    def tick(self) -> float:
        """Measure the time since the last call; return the load."""
        at, used = time.monotonic(), time.process_time()
        if at > self._at:
            share = min(1.0, (used - self._used) / (at - self._at))
            self.index += _WEIGHT * (share - self.index)
        self._at, self._used = at, used
        return self.index
