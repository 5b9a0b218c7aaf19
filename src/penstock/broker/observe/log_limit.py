"""Refusals in the log, when there are very many: the first of a kind each time, then how many more there were."""

MOST_LINES = 20
"""Of one kind about one client, in so many seconds as `PERIOD` says."""
PERIOD = 10.0


class Quiet:
    """Who has been logged how often lately."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._until = 0.0

    def lets(self, kind: str, client: str) -> bool:
        """Whether to log another of this kind about a client; it is counted either way."""
        count = self._counts[kind, client] = self._counts.get((kind, client), 0) + 1
        return count <= MOST_LINES

    def left_out(self, now: float) -> list[tuple[str, str, int]]:
        """When a period is over, what was not logged in it: the kind, the client and how many."""
        if now < self._until:
            return []
        self._until = now + PERIOD
        counts, self._counts = self._counts, {}
        return [(*key, count - MOST_LINES) for key, count in counts.items() if count > MOST_LINES]
