"""Authorisation tokens in the domain file: keys, grants to clients, and grants between nodes."""

from typing import Annotated, Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OneOrMany, OptionalReadFile, ReadFile, Settings, TopicFilter
from penstock.domain.units import Seconds

Filters = Annotated[tuple[TopicFilter, ...], OneOrMany()]


class TokenGrantSettings(Settings):
    """The tokens that a node's authorisation endpoint issues to some clients."""

    clients: Annotated[tuple[Name | Literal["*"], ...], OneOrMany("the clients it is for, or `*` for any")] = Field(
        description="clients by name as `clients` lists them, or, if it does not, by user name; `*`: any"
    )
    publish: Filters = Field((), description="filters of the topics that they may publish to")
    subscribe: Filters = Field((), description="filters that cover what they may subscribe to")


class NeighbourSettings(Settings):
    """The topics that a node's token lets a neighbour subscribe to."""

    node: Name = Field(description="the neighbour that holds the token")
    at: Name = Field(description="the node that gives it")
    subscribe: Filters = Field(description="filters of the topics whose events go to the neighbour")


class TokenSettings(Settings):
    """Tokens that clients show and that travel with what they publish."""

    keys: ReadFile = Field(description="file with the public keys of nodes, as `penstock token key` writes it")
    revoked: OptionalReadFile = Field(
        None, description="file with tokens and keys that no longer count, as `penstock token revoke` writes it"
    )
    required: bool = Field(
        True,
        description="whether a client must show a token; if not, a client without one keeps its other rights,"
        " and its node vouches for what it publishes",
    )
    lifetime: Seconds = Field(
        3600.0, ge=10, le=86400 * 3660, description="lifetime in seconds of tokens that nodes issue"
    )
    issuers: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        (), description="nodes whose tokens clients may show at every node; unset: each node accepts only its own"
    )
    grants: tuple[TokenGrantSettings, ...] = Field(
        (), description="grants for tokens that nodes issue; all grants that name a client count together"
    )
    neighbours: tuple[NeighbourSettings, ...] = Field(
        (), description="what neighbours may receive from nodes; a neighbour that is not named: everything"
    )

    def granted(self, client: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the filters that a client is granted, to publish and to subscribe; None if no grant names it."""
        grants = [grant for grant in self.grants if client in grant.clients or "*" in grant.clients]
        if not grants:
            return None
        publish = frozenset(filter for grant in grants for filter in grant.publish)
        return publish, frozenset(filter for grant in grants for filter in grant.subscribe)

    def shared(self, at: str, neighbour: str) -> frozenset[str]:
        """Return the filters that a neighbour is granted at a node."""
        grants = [settings for settings in self.neighbours if (settings.at, settings.node) == (at, neighbour)]
        return frozenset(filter for settings in grants for filter in settings.subscribe) if grants else frozenset({"#"})
