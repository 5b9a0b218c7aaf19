"""How much content is decoded. Payloads come from clients, so each bound is also a defence."""

MOST_BYTES = 1 << 20
"""Bytes of a payload."""

MOST_DEPTH = 64
"""Values inside each other."""

MOST_NODES = 100_000
"""Values of one content: members, elements, metrics."""
