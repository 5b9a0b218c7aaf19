"""The capsules that a node runs: their sessions, what they remember, and what they have made."""

from collections import deque
from typing import Any

from penstock.engine.ledger import Ledger
from penstock.engine.sessions.session import Session
from penstock.policy.capsules.capsule import MICROSECONDS, Capsule
from penstock.policy.capsules.machine import CapsuleMachine, CapsuleOutcome, Key
from penstock.wire.reason import Reason

DIGEST: Key = ("digest",)
"""The key under which the store has the digest of a capsule's settings: what is remembered is of these."""


class CapsuleOutlet:
    """The outlet of a capsule's session. Events are handed over by the stage emit, so no bytes come here."""

    def send(self, packets: list[bytes]) -> None:
        packets.clear()

    def disconnect(self, reason: Reason, text: str = "") -> None:
        """Do nothing: a capsule has no connection that could end."""


class RunningCapsule:
    """A capsule that runs here, as a session of its client."""

    __slots__ = ("machine", "session")

    def __init__(self, capsule: Capsule, session: Session, ledger: Ledger) -> None:
        self.session = session
        name = capsule.name

        def keep(key: Key, value: Any) -> None:
            ledger.capsule(name, key, value)

        self.machine = CapsuleMachine(capsule, keep)

    @property
    def capsule(self) -> Capsule:
        return self.machine.capsule


class CapsuleState:
    """All capsules of a node."""

    __slots__ = ("clients", "made", "running", "stored")

    def __init__(self) -> None:
        self.running: dict[int, RunningCapsule] = {}
        """By the number of the session."""
        self.clients: dict[str, str] = {}
        """By client that a capsule acts as, the capsule's name."""
        self.made: deque[tuple[RunningCapsule, CapsuleOutcome]] = deque()
        """Results that are still to be published."""
        self.stored: dict[str, dict[Key, Any]] = {}
        """By capsule, what the store has of an earlier run."""

    def advance(self, now: float) -> None:
        """Have capsules find out that time has passed."""
        micros = micros_of(now)
        for running in self.running.values():
            if running.machine.due <= micros:
                self.made.extend((running, outcome) for outcome in running.machine.advance(micros))


def micros_of(now: float) -> int:
    """Return a time in microseconds, as the journal has it."""
    return int(now * MICROSECONDS)
