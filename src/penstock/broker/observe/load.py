"""How busy a node is: the share of the last seconds that its process had the processor."""

import time

_WEIGHT = 0.5
"""Of the last second beside those before."""


class Load:
    """From 0 to 1; one processor is all that an event loop can use."""

    def __init__(self) -> None:
        self.index = 0.0
        self._at, self._used = time.monotonic(), time.process_time()

    def tick(self) -> float:
        """Look at the time since the last look."""
        at, used = time.monotonic(), time.process_time()
        if at > self._at:
            share = min(1.0, (used - self._used) / (at - self._at))
            self.index += _WEIGHT * (share - self.index)
        self._at, self._used = at, used
        return self.index
