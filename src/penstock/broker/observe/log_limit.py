"""A limit for repeated log lines: the first of a kind are logged, then the number of others."""

MAX_LINES = 20
"""Lines of one kind about one client in a period."""
PERIOD = 10.0


class LogLimit:
    """Counts log lines by kind and client."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._until = 0.0

    def allows(self, kind: str, client: str) -> bool:
        """Return whether to log another line of this kind about a client; it is counted either way."""
        count = self._counts[kind, client] = self._counts.get((kind, client), 0) + 1
        return count <= MAX_LINES

    def left_out(self, now: float) -> list[tuple[str, str, int]]:
        """Return what was not logged when a period has ended: the kind, the client and the number."""
        if now < self._until:
            return []
        self._until = now + PERIOD
        counts, self._counts = self._counts, {}
        return [(*key, count - MAX_LINES) for key, count in counts.items() if count > MAX_LINES]
