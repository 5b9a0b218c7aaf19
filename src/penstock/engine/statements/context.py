"""The context of policies: the node, and sessions as senders and receivers."""

from typing import NamedTuple

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements.facts import Facts
from penstock.engine.trust import groups
from penstock.policy.statements.judging import Here


class Known(NamedTuple):
    """A session as somebody whom policies ask about."""

    node: Node
    session: Session
    now: float
    facts: Facts | None = None
    """The facts to note what was asked in; `is_sender` says of whom."""
    is_sender: bool = False

    @property
    def name(self) -> str:
        return self.session.neighbour or self.session.place.entity

    def is_member(self, group: str) -> bool:
        answer = groups.is_member(self.node, self.session, group, self.now)
        if self.facts is not None:
            self.facts.answer(None if self.is_sender else self.name, group, answer)
        return answer


class _Elapsed:
    """The time that the message has been in the node: one value for all policies."""

    __slots__ = ("_found", "_node", "_since")

    def __init__(self, node: Node, since: float) -> None:
        self._node = node
        self._since = since
        self._found: float | None = None

    def __call__(self) -> float:
        if self._found is None:
            self._found = max(0.0, self._node.runtime.clock() - self._since)
        return self._found


def here(node: Node, now: float) -> Here:
    """Return the node as policies see it."""
    return Here(
        node.name,
        node.runtime.host,
        node.runtime.load,
        _Elapsed(node, now),
        node.limits.max_packet_size,
        node.ledger.durable,
    )
