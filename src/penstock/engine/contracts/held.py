"""What contracts hold back, as values: events that go out later, and events of which only means do."""

from typing import NamedTuple

import msgspec

from penstock.engine.sessions.session import Session
from penstock.model.event import Event
from penstock.policy.contracts.aggregate import MeanWindow
from penstock.policy.contracts.degrade import Aggregate


class Held(NamedTuple):
    """An event that waits until it may go out."""

    at: float
    session: Session
    event: Event


class Collecting(msgspec.Struct, frozen=True):
    """Whose events are collected for whom, by which rule."""

    topic: str
    producer: str
    """The producer's contract as events name it; empty: a policy in XACML aggregates."""
    consumer: str
    want: str
    rule: str
    aggregate: Aggregate
    marks: str = ""
    """By what it is released."""
    delay: float = 0.0
    retention: float | None = None


class Collected(NamedTuple):
    """What has come of it in one time."""

    session: Session
    about: Collecting
    event: Event
    """The last of them: what means are made of it."""
    window: MeanWindow
