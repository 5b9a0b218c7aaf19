"""Policies that the domain gives to messages of clients and nodes, and what clients may set themselves."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.language.condition import Condition
from penstock.language.statements.statement import Message
from penstock.policy.statements.statement import Policy


class AssignedPolicy(NamedTuple):
    """A policy for messages of some clients, or for an advertisement of some nodes themselves."""

    name: str
    policy: Policy
    to: Message
    clients: frozenset[str] | None
    """None: of any client."""
    nodes: frozenset[str]
    filter: str
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class SettingGrant:
    """That some clients may set policies on some messages, with some elements."""

    clients: frozenset[str] | None
    """None: any client; so of `elements`."""
    carriers: frozenset[Message]
    elements: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Statements:
    """All that a domain says of policy statements."""

    given: tuple[AssignedPolicy, ...] = ()
    grants: tuple[SettingGrant, ...] = ()

    def of(self, client: str, to: Message) -> tuple[AssignedPolicy, ...]:
        """What is given to such messages of a client."""
        return tuple(
            one
            for one in self.given
            if one.to is to and not one.nodes and (one.clients is None or client in one.clients)
        )

    def at(self, node: str) -> tuple[AssignedPolicy, ...]:
        """What is given to advertisements of a node itself."""
        return tuple(one for one in self.given if node in one.nodes)

    def may_set(self, client: str, carrier: Message) -> bool:
        """Return whether a client may set some policy on such a message."""
        return bool(self._granted(client, carrier))

    def none_of(self, client: str, carrier: Message) -> str:
        """What is said to a client that may not."""
        return f"`{client}` may not set policies on {_PLURAL[carrier]}"

    def _granted(self, client: str, carrier: Message) -> list[SettingGrant]:
        granted = [one for one in self.grants if one.clients is None or client in one.clients]
        return [one for one in granted if carrier in one.carriers]

    def why_not(self, client: str, carrier: Message, policy: Policy) -> str:
        """Return why a client may not set this policy on such a message; empty if it may."""
        granted = self._granted(client, carrier)
        if not granted:
            return self.none_of(client, carrier)
        allowed = set(_allowed(granted))
        wrong = [] if None in allowed else sorted(policy.uses() - allowed)
        return f"`{client}` may not use {', '.join(f'`{name}`' for name in wrong)}" if wrong else ""


def _allowed(grants: list[SettingGrant]) -> Iterator[str | None]:
    for grant in grants:
        yield from (None,) if grant.elements is None else grant.elements


_PLURAL = {message: f"{message.lower()}s" for message in Message}
