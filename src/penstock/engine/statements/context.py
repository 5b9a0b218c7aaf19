"""The context of policies: the node, and sessions as senders and receivers."""

from typing import NamedTuple

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements.facts import Facts
from penstock.engine.trust import groups, publication_proofs
from penstock.model.event import Event
from penstock.policy.statements.judging import Here
from penstock.policy.trust.sealing import NO_KEYS, Sealer


class SessionParty(NamedTuple):
    """A session as somebody whom policies ask about."""

    node: Node
    session: Session
    now: float
    facts: Facts | None = None
    """The facts to note what was asked in; `is_sender` says of whom."""
    is_sender: bool = False
    sent: Event | None = None
    """Of the sender of a publication, the event: it may have to prove itself."""

    @property
    def name(self) -> str:
        return self.session.neighbour or self.session.place.entity

    def is_member(self, group: str) -> bool:
        answer = groups.is_member(self.node, self.session, group, self.now, self.sent)
        if self.facts is not None:
            self.facts.answer(None if self.is_sender else self.name, group, answer)
        return answer

    def why_no_member(self, group: str) -> str:
        if self.sent is None or group not in self.node.ensemble.uncached_groups:
            return ""
        why = publication_proofs.why_unproven(self.node, self.sent, group)
        return f"the publication does not prove trust group `{group}`: {why}" if why else ""


class EntityParty(NamedTuple):
    """A node or client that an event has come by, at whichever node: a member of what the domain says."""

    node: Node
    name: str

    def is_member(self, group: str) -> bool:
        known = self.node.ensemble.trust_groups.get(group)
        return known is not None and (self.name in known.nodes or self.name in known.clients)

    def why_no_member(self, group: str) -> str:
        return ""


def here(node: Node, now: float) -> Here:
    """Return the node as policies see it. The time that a message has been in it is one value for all policies."""
    runtime, seconds = node.runtime, -1.0

    def elapsed() -> float:
        nonlocal seconds
        if seconds < 0.0:
            seconds = max(0.0, runtime.clock() - now)
        return seconds

    sealer = NO_KEYS
    if node.trust.groups.secrets:
        sealer = Sealer(node.trust.groups.secrets, node.trust.groups.earlier, runtime.make_nonce)
    about = (node.limits.max_packet_size, node.ledger.durable, sealer)
    return Here(node.name, runtime.host, runtime.load, elapsed, *about)
