"""Policies that the domain assigns to messages of clients and nodes, and the policies that clients may set."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.language.condition import Condition
from penstock.language.statements.statement import Message
from penstock.model.topic import covers
from penstock.policy.statements.statement import Policy


class AssignedPolicy(NamedTuple):
    """A policy for messages of some clients, or for an advertisement of some nodes themselves."""

    name: str
    policy: Policy
    to: Message
    clients: frozenset[str] | None
    """The clients; None: any client."""
    nodes: frozenset[str]
    filter: str
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class SettingGrant:
    """The grant to some clients to set policies on some messages, with some elements."""

    clients: frozenset[str] | None
    """The clients; None: any client. The same for `elements`."""
    carriers: frozenset[Message]
    elements: frozenset[str] | None
    others: tuple[str, ...] = ()
    """Filters of the topics on which policies of their advertisements concern what others publish and subscribe to."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The policy statements of a domain."""

    given: tuple[AssignedPolicy, ...] = ()
    grants: tuple[SettingGrant, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there may be any: given by the domain, or set by clients."""
        return bool(self.given or self.grants)

    def of(self, client: str, to: Message) -> tuple[AssignedPolicy, ...]:
        """Return the policies that are assigned to such messages of a client."""
        return tuple(
            assigned
            for assigned in self.given
            if assigned.to is to and not assigned.nodes and (assigned.clients is None or client in assigned.clients)
        )

    def at(self, node: str) -> tuple[AssignedPolicy, ...]:
        """Return the policies that are assigned to advertisements of a node itself."""
        return tuple(assigned for assigned in self.given if node in assigned.nodes)

    def may_set(self, client: str, carrier: Message) -> bool:
        """Return whether a client may set some policy on such a message."""
        return bool(self._granted(client, carrier))

    def may_judge_others(self, client: str, filter: str) -> bool:
        """Return whether policies of a client's advertisement concern others than itself."""
        granted = self._granted(client, Message.ADVERTISEMENT)
        return any(covers(others, filter) for grant in granted for others in grant.others)

    def none_of(self, client: str, carrier: Message) -> str:
        """Return the message for a client that may not set policies."""
        return f"`{client}` may not set policies on {_PLURAL[carrier]}"

    def _granted(self, client: str, carrier: Message) -> list[SettingGrant]:
        granted = [grant for grant in self.grants if grant.clients is None or client in grant.clients]
        return [grant for grant in granted if carrier in grant.carriers]

    def why_not(self, client: str, carrier: Message, policy: Policy) -> str:
        """Return why a client may not set this policy on such a message; empty if it may."""
        granted = self._granted(client, carrier)
        if not granted:
            return self.none_of(client, carrier)
        allowed = [grant.elements for grant in granted if grant.elements is not None]
        wrong = sorted(policy.uses().difference(*allowed)) if len(allowed) == len(granted) else []
        return f"`{client}` may not use {', '.join(f'`{name}`' for name in wrong)}" if wrong else ""


_PLURAL = {message: f"{message.lower()}s" for message in Message}
