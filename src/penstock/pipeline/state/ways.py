"""Events that came to a node by several ways: which copy was the first."""

import hashlib

import msgspec

from penstock.engine.events.state import MAX_REMEMBERED
from penstock.pipeline.state.rows import Fields

_DIGEST = 12


def is_first(seen: dict[str, int], row: Fields, payload: bytes) -> bool:
    """Return whether an event has not come by an earlier arrival; `seen` has the latest events and their arrivals."""
    if row["id"] is None:
        return True
    described = msgspec.json.encode((row["id"], row["topic"], bytes(payload)))
    digest = hashlib.blake2b(described, digest_size=_DIGEST).hexdigest()
    if digest not in seen and len(seen) >= MAX_REMEMBERED:
        del seen[next(iter(seen))]
    arrival: int = row["arrival"]
    return seen.setdefault(digest, arrival) == arrival
