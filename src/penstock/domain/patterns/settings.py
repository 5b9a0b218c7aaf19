"""The usage patterns of brokering §6 in the domain file."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from penstock.domain.schema.base import MEMORY, Name, OneOrMany, Settings, StorePath, TopicFilter, without_default
from penstock.domain.schema.contents import ConditionText
from penstock.domain.units import HostPort, mistake

_RELATION = re.compile(r"\s*[A-Za-z0-9_-]{1,64}\s*(?:<\s*[A-Za-z0-9_-]{1,64}\s*)*", re.ASCII)
_ORDER_FORM = "labels from the lowest to the highest, or relations such as `public < secret`"

SomeNames = Annotated[tuple[Name, ...], OneOrMany()]
SomeFilters = Annotated[tuple[TopicFilter, ...], OneOrMany()]


class Hierarchy(Settings):
    """Scopes within scopes: an event goes up, and then down, never up again. (§6.1.2)"""

    pattern: Literal["hierarchy"] = Field(description="the usage pattern: `hierarchy`")
    parents: dict[Name, SomeNames] = Field(
        {},
        description="for each node or client its parent, or a list of parents; in addition, where `links`"
        " states no type, a node is a child of the node it dials, and a client is a child of its node",
    )


class Levels(Settings):
    """Labels in an order: an event goes from a link to one whose label is as high or higher. (§6.1.1)"""

    pattern: Literal["levels"] = Field(description="the usage pattern: `levels`")
    order: Annotated[tuple[str, ...], OneOrMany(_ORDER_FORM)] = Field(
        description="the labels from the lowest to the highest, or a list of relations such as `public < secret`"
    )

    @model_validator(mode="after")
    def _is_an_order(self) -> Levels:
        for text in self.order:
            if not _RELATION.fullmatch(text):
                raise mistake(f"{_ORDER_FORM}, and `{text[:80]}` is neither", "order")
        if not self._relations and len(set(self.order)) < len(self.order):
            twice = next(label for label in self.order if self.order.count(label) > 1)
            raise mistake(f"every label once, and `{twice}` is there twice", "order")
        for low, high in sorted(self.below):
            if low != high and (high, low) in self.below:
                raise mistake(f"an order, and `{low}` is both below and above `{high}`", "order")
            if (low, low) in self._steps:
                raise mistake(f"an order, and `{low}` is below itself", "order")
        return self

    @property
    def _relations(self) -> bool:
        return any("<" in text for text in self.order)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels in the order of the file."""
        return tuple(dict.fromkeys(label.strip() for text in self.order for label in text.split("<")))

    @property
    def _steps(self) -> set[tuple[str, str]]:
        if not self._relations:
            return set(pairwise(self.order))
        return {(low.strip(), high.strip()) for text in self.order for low, high in pairwise(text.split("<"))}

    @property
    def below(self) -> frozenset[tuple[str, str]]:
        """Return every pair (low, high) of the order: the reflexive and transitive closure of what is written."""
        above = {label: {label} for label in self.labels}
        for low, high in self._steps:
            above[low].add(high)
        for middle in self.labels:
            for label in self.labels:
                if middle in above[label]:
                    above[label] |= above[middle]
        return frozenset((low, high) for low, all_ in above.items() for high in all_)


class Interface(Settings):
    """The imports of a node from its parents, and its exports to them. (§6.2.1)"""

    pattern: Literal["interface"] = Field(description="the usage pattern: `interface`")
    node: Name = Field(description="the node whose interface it is")
    parent: SomeNames | None = Field(
        None, description="the parent of the interface, or a list of parents; unset: all parents of the node"
    )
    import_: SomeFilters = Field(
        alias="import",
        description="topic filters of the events that the node accepts from the parent; others are suppressed",
    )
    export: SomeFilters = Field(
        description="topic filters of the events that the node sends to the parent; others are suppressed"
    )


class MembersByCondition(Settings):
    """The members of a role, by their attributes."""

    when: ConditionText = Field(
        description="condition on `subject.name`, `subject.groups` and `subject.attributes` of each client that"
        " `clients` lists: those that satisfy it have the role; one that it fails on has not"
    )


class Role(Settings):
    """The topics that members of a role may publish and subscribe to."""

    publish: SomeFilters = Field((), description="topic filters of the events that members can publish")
    subscribe: SomeFilters = Field((), description="topic filters of the events that members are notified of")
    inherits: SomeNames = Field((), description="junior roles: members have all rights of their members")
    members: SomeNames | MembersByCondition = Field(
        (), description="the clients that have the role: a name, a list of these, or `when` with a condition"
    )


class Roles(Settings):
    """Roles as protection domains: for each a node to publish to and one to subscribe at, joined by a bus. (§6.2.3)"""

    pattern: Literal["roles"] = Field(description="the usage pattern: `roles`")
    bus: Name = Field("bus", description="name of the node that joins the others; made if `nodes` has none")
    listen: HostPort | None = Field(
        None,
        description="`host:port` of the first node that is made; the next ones have the next ports, or with port 0"
        " all have any free one. Required unless `nodes` has all of them",
    )
    store: StorePath = Field(
        MEMORY,
        description="folder for the stores of the nodes that are made, or `memory`; unset in a domain file: beside it",
        json_schema_extra=without_default,
    )
    nested: bool = Field(
        False,
        description="whether the nodes of a senior role are joined to those of the roles that it inherits from, and"
        " have their events by them; otherwise its own filters have the filters of these too",
    )
    roles: dict[Name, Role] = Field(
        min_length=1, description="the roles by name; of role `r` come the nodes `r-pub` and `r-sub`"
    )


Pattern = Annotated[Hierarchy | Levels | Interface | Roles, Field(discriminator="pattern")]
