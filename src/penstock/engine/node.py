"""One node: its name, its settings, and the owners of its state. No sockets, no clock, no files, and no rules.

Time comes in as an argument. What goes out: bytes in the buffers of the sessions listed in `dirty`, changes to make
durable in `ledger`, and what an operator should know in `notices`. The rules are functions above this module that take
the node, or just the owner that they need.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.domain import LimitSettings
from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.capsules.state import CapsuleState
from penstock.engine.contracts.delayed import Later
from penstock.engine.contracts.state import renewed_contracts
from penstock.engine.events.plan import Target
from penstock.engine.events.state import Dedup, PlanCache, Retained
from penstock.engine.federation.state import FederationState
from penstock.engine.ledger import Ledger
from penstock.engine.matching.step_budget import at_once
from penstock.engine.recorder import Recorder
from penstock.engine.sessions.session import NO_REVISION, Session
from penstock.engine.sessions.state import Monitors, Sessions, Subscriptions
from penstock.engine.settings import Admission, Runtime, alone
from penstock.engine.sparkplug.state import renewed
from penstock.engine.statements.state import StatementState
from penstock.engine.stats import Stats
from penstock.engine.trust.state import NodeTrustState
from penstock.model.event import Event
from penstock.model.verdict import Verdict
from penstock.policy.access.acl import Acl
from penstock.policy.access.passwords import Passwords

Onlooker = Callable[[Session, Event, Verdict, float, Target | None], None]
"""Takes the sender, the event, why it goes no further, when, and whom it does not reach; None: nobody."""


class Notice(NamedTuple):
    """Something that an operator should know."""

    kind: str
    client_id: str
    user: str | None
    topic: str
    reason: str


class Node:
    """A broker without its input and output."""

    def __init__(
        self,
        name: str,
        limits: LimitSettings,
        make_id: Callable[[], str],
        durable: bool = False,
        passwords: Passwords | None = None,
        acl: Acl | None = None,
        ensemble: Ensemble | None = None,
        make_nonce: Callable[[], bytes] | None = None,
    ) -> None:
        self.name = name
        self.ensemble = alone(name) if ensemble is None else ensemble
        self.table = self.ensemble.table(name)
        self.limits = limits
        self.ensemble.reader.max_steps = at_once(limits.condition_steps)
        self.admission = Admission(passwords, acl)
        self.runtime = Runtime(make_id, make_nonce)
        self.sessions = Sessions()
        self.subscriptions = Subscriptions()
        self.monitors = Monitors()
        self.plans = PlanCache()
        self.retained = Retained()
        self.once = Dedup()
        self.federation = FederationState()
        self.trust = NodeTrustState()
        self.statements = StatementState()
        self.contracts = renewed_contracts(None, self.ensemble.contracts)
        """The contracts, if the domain has any; `later` has the events that they delay."""
        self.sparkplug = renewed(None, self.ensemble.access)
        """The state of edge nodes, if there are access policies."""
        self.ledger = Ledger(durable)
        self.later = Later(self.ledger)
        self.capsules = CapsuleState()
        self.revision = NO_REVISION.next(self.ensemble)
        """The policies by which events are judged now."""
        self.recorder: Recorder | None = None
        """Gathers what the journal keeps, if there is one."""
        self.onlooker: Onlooker | None = None
        """Is told of what is refused, as it happens, if somebody looks on."""
        self.stats = Stats()
        self.notices: list[Notice] = []
        self.dirty: list[Session] = []
        """Sessions with bytes in their buffers. Here and not in `sessions`: each message that is passed on asks."""

    def notice(self, kind: str, session: Session | None, topic: str, reason: str) -> None:
        """Note something that an operator should know."""
        client_id, user = (session.client_id, session.subject.user) if session else (self.name, None)
        self.notices.append(Notice(kind, client_id, user, topic, reason))

    def deny(self, kind: str, session: Session | None, topic: str, reason: str) -> None:
        """Count a refused publication or subscription."""
        self.stats.denied += 1
        if session is not None:
            session.denied += 1
        self.notice(kind, session, topic, reason)
