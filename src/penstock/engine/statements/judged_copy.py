"""The copy of an event that goes to one session while policies judge it, and questions about what they took out."""

from collections.abc import Callable
from typing import Protocol

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements.context import SessionParty
from penstock.engine.statements.facts import Facts
from penstock.language.condition import Condition
from penstock.language.tree import XPath, walk
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.policy.statements.copies import Copy, PublicationCopy, paths_read
from penstock.policy.statements.judging import Bound, Here, Judgement, MessageParty
from penstock.policy.statements.statement import Policy, blinded

Satisfies = Callable[[Node, Event, Subscribed, float], bool]
"""Tells whether an event satisfies a subscription, of what its subscriber may see."""


def satisfies_as_it_is(node: Node, event: Event, subscribed: Subscribed, now: float) -> bool:
    """Return True if an event that its subscriber may see as it is satisfies a subscription."""
    return subscribed.condition is None or subscribed.condition.holds(node.ensemble.reader.read(event)) is True


class JudgedEvent(Protocol):
    """The event that copies are of, at the node that judges it."""

    node: Node
    event: Event
    content: Content
    sender: Session | None
    now: float
    facts: Facts | None

    @property
    def here(self) -> Here:
        """The node, as policies see it."""


class JudgedCopy(Judgement):
    """A copy that goes to a session. Facts that few policies ask for are computed on demand."""

    event: Event
    """The event that it is a copy of: as it came; as rules before matching left it for this way; of a private one, the
    part that the session is shown, which is what its own policies are asked about.
    """

    def __init__(self, judging: JudgedEvent, session: Session | None) -> None:
        self.event = judging.event
        self.copy = PublicationCopy(judging.event, judging.content)
        self._judging = judging
        self._session = session

    @property
    def here(self) -> Here:  # type: ignore[override]
        return self._judging.here

    @property
    def sender(self) -> MessageParty | None:  # type: ignore[override]
        on = self._judging
        return None if on.sender is None else SessionParty(on.node, on.sender, on.now, on.facts, True, on.event)

    @property
    def receiver(self) -> MessageParty | None:  # type: ignore[override]
        on = self._judging
        return None if self._session is None else SessionParty(on.node, self._session, on.now, on.facts)


def blind(bound: Bound, attached: frozenset[Policy]) -> Bound:
    """Return a policy as it may be asked about a private event that its setter may not see."""
    # Attached ones were asked where it was published, where everybody has only policies for its own.
    policy = blinded(bound.policy, attached)
    name = bound.name if policy == bound.policy else f"{bound.name}, which asks for private content"
    return bound._replace(policy=policy, name=name)


def is_kept_beyond(event: Event, session: Session) -> bool:
    """Return True if a neighbour retains it for all its subscribers: no single one of them may change it."""
    return event.retain and session.neighbour is not None


def asks_hidden(bound: Bound, copy: Copy) -> bool:
    return bound.condition is not None and is_hidden(bound.condition, copy)


def is_about_hidden(subscribed: Subscribed, copy: Copy) -> bool:
    """Return True if a subscription asks for what was taken out: if it counted, it would reveal it."""
    return subscribed.condition is not None and is_hidden(subscribed.condition, copy)


def has_own_first(subscribed: Subscribed) -> bool:
    """Return True if its own policy has rules that come before its condition is asked."""
    return subscribed.policy is not None and subscribed.policy.precedes_matching


def is_hidden(condition: Condition, copy: Copy) -> bool:
    """Return True if a condition asks, or may ask, for something that was taken out."""
    if not copy.hidden:
        return False
    if any(isinstance(node, XPath) for node, _ in walk(condition.tree)):
        return True
    return any(map(copy.hidden.has, paths_read(condition.tree)))
