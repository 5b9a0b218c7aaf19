"""Authorisation tokens: whose keys count, who is granted what, and which nodes may have what of each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OneOrMany, OptionalReadFile, ReadFile, Settings, TopicFilter
from penstock.domain.units import Seconds

Filters = Annotated[tuple[TopicFilter, ...], OneOrMany()]


class GrantSettings(Settings):
    """What a node's authorisation endpoint gives to some clients."""

    clients: Annotated[tuple[Name | Literal["*"], ...], OneOrMany("the clients it is for, or `*` for any")] = Field(
        description="clients by name as `clients` lists them, or, if it does not, by user name; `*`: any"
    )
    publish: Filters = Field(default=(), description="filters of the topics that they may publish to")
    subscribe: Filters = Field(default=(), description="filters that cover what they may subscribe to")


class NeighbourSettings(Settings):
    """What a node's token lets a neighbour subscribe to."""

    node: Name = Field(description="the neighbour that holds the token")
    at: Name = Field(description="the node that gives it")
    subscribe: Filters = Field(description="filters of the topics of which events go to the neighbour")


class TokenSettings(Settings):
    """Tokens that clients show and that travel with what they publish."""

    keys: ReadFile = Field(description="file with the public keys of nodes, as `penstock token key` writes it")
    revoked: OptionalReadFile = Field(
        default=None, description="file with tokens and keys that no longer count, as `penstock token revoke` writes it"
    )
    required: bool = Field(
        default=True,
        description="whether a client must show a token; if not, one without has the rights that it has without"
        " tokens, and its node vouches for what it publishes",
    )
    lifetime: Seconds = Field(
        default=3600.0, ge=10, le=86400 * 3660, description="seconds for which tokens count that nodes issue"
    )
    issuers: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        default=(), description="nodes whose tokens clients may show at every node; unset: each node takes its own"
    )
    grants: tuple[GrantSettings, ...] = Field(
        default=(), description="what nodes issue tokens for to whom; all that name a client count together"
    )
    neighbours: tuple[NeighbourSettings, ...] = Field(
        default=(), description="what nodes may have of their neighbours; of one that is not named: everything"
    )

    def granted(self, client: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """What a client is given a token for, to publish and to subscribe; None if nothing names it."""
        found = [one for one in self.grants if client in one.clients or "*" in one.clients]
        if not found:
            return None
        publish = frozenset(filter for one in found for filter in one.publish)
        return publish, frozenset(filter for one in found for filter in one.subscribe)

    def shared(self, at: str, neighbour: str) -> frozenset[str]:
        """What a neighbour is given a token for at a node."""
        found = [one for one in self.neighbours if (one.at, one.node) == (at, neighbour)]
        return frozenset(filter for one in found for filter in one.subscribe) if found else frozenset({"#"})
