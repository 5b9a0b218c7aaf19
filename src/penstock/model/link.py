"""A link: one direction of one connection, from an entity to an entity."""

from typing import NamedTuple


class Link(NamedTuple):
    """A directed, typed link. A client has two: one to publish, one to be notified."""

    source: str
    target: str
    type: str = "default"

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"
