"""Values for events that contracts hold back: delayed events and windows."""

from typing import NamedTuple

import msgspec

from penstock.engine.sessions.session import PolicyRevision, Session
from penstock.model.event import Event
from penstock.policy.contracts.aggregate import MeanWindow
from penstock.policy.contracts.degrade import Aggregate


class HeldEvent(NamedTuple):
    """An event that waits until it may go out."""

    at: float
    session: Session
    event: Event
    revision: PolicyRevision
    """The policies by which it was judged."""


class WindowKey(msgspec.Struct, frozen=True):
    """The publisher, receiver and rule for which a window collects events."""

    topic: str
    producer: str
    """The producer's contract as events name it; empty: a policy in XACML aggregates."""
    consumer: str
    want: str
    rule: str
    aggregate: Aggregate
    marks: str = ""
    """The marks of the rules that release it."""
    delay: float = 0.0
    retention: float | None = None


class CollectedWindow(NamedTuple):
    """The events collected in one window."""

    session: Session
    about: WindowKey
    event: Event
    """The last of them: what means are made of it."""
    window: MeanWindow
