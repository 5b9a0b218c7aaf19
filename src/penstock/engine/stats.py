"""Counters of one node, for $SYS and for Prometheus."""


class Stats:
    """Counts since the start. Plain attributes: the hot path adds to them once a chunk, not once a message."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "connections_refused",
        "connections_total",
        "denied",
        "dropped",
        "expired",
        "monitor_errors",
        "packets_received",
        "packets_sent",
        "received",
        "sent",
        "tokens_refused",
    )

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.packets_sent = 0
        self.received = 0
        """Publications received."""
        self.sent = 0
        """Publications sent."""
        self.dropped = 0
        """Publications not delivered because a queue or a slow connection was full."""
        self.expired = 0
        self.denied = 0
        self.monitor_errors = 0
        self.connections_total = 0
        self.connections_refused = 0
        self.tokens_refused = 0
        """Shown by clients, or passed on by neighbours."""
