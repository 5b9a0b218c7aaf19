"""A session: the state of one client (subscriptions, windows, queues). The rules are in the other modules."""

from collections import deque
from collections.abc import Iterator
from copy import copy
from typing import Any, Protocol

from penstock.domain.compile.ensemble import Ensemble
from penstock.domain.compile.entries import ClientEntry
from penstock.engine.events.link_class import LinkPlans
from penstock.engine.federation.wants import NODE_PREFIX, NOTHING_TOLD, NeighbourOffers
from penstock.engine.journal_rows import Source
from penstock.engine.matching.step_budget import StepBudget
from penstock.engine.mobility.state import Moving
from penstock.engine.monitors import Watch
from penstock.engine.sessions.refusal import RefusedPublish
from penstock.engine.sparkplug.state import Actor, ReadersBeyond
from penstock.engine.trust.state import SessionTrust
from penstock.language.condition import Condition
from penstock.model.event import Event
from penstock.model.subject import Subject
from penstock.policy.access.acl import Rights
from penstock.policy.access.brokering import DEFAULT_TYPE
from penstock.policy.contracts.contract import ConsumerContract, ProducerContract
from penstock.policy.statements.advertisement import AdvertisementSet, ProducerAdvertisement, Scope, claims
from penstock.policy.statements.assignments import AssignedPolicy
from penstock.policy.statements.statement import Policy
from penstock.policy.tokens.rights import TokenRights
from penstock.wire.reason import Reason

NEVER = float("inf")


class Outlet(Protocol):
    """The way out to a connected client. The broker's connections are outlets; so are the tests' lists."""

    def send(self, packets: list[bytes]) -> None:
        """Write the packets out and empty the list, or leave them in it when nothing more can be taken."""

    def disconnect(self, reason: Reason, text: str = "") -> None:
        """Say why (MQTT 5) and close; what is still in the buffer goes out first."""


class StoredEvent:
    """An event in the store, shared by the deliveries that wait for it."""

    __slots__ = ("event", "id", "references")

    def __init__(self, number: int, event: Event) -> None:
        self.id = number
        self.event = event
        self.references = 0


class PolicyRevision:
    """The policies by which a message was judged. A change of what one session may have makes another one as well, so
    revisions are compared by identity.
    """

    __slots__ = ("access", "monitors", "number", "statements")

    def __init__(self, number: int, access: str, statements: str, monitors: str) -> None:
        self.number = number
        """The number under which the store has it."""
        self.access = access
        """The digest of the domain's access policies; of the policy statements that it gives; and of its monitors."""
        self.statements = statements
        self.monitors = monitors

    def next(self, ensemble: Ensemble) -> "PolicyRevision":
        """Return the revision that begins with other policies."""
        digests = ensemble.access_digest, ensemble.statements_digest, ensemble.monitors_digest
        return PolicyRevision(self.number + 1, *digests)


NO_REVISION = PolicyRevision(0, "", "", "")


class Outgoing:
    """A message to one session, from being sent or queued to being acknowledged; `passage.Delivery` makes them."""

    __slots__ = (
        "event",
        "ids",
        "is_timed",
        "kept",
        "packet_id",
        "qos",
        "retain",
        "revision",
        "row",
        "session",
        "state",
    )

    session: "Session"
    event: Event
    qos: int
    retain: bool
    ids: tuple[int, ...]
    state: int
    packet_id: int
    row: int
    kept: StoredEvent | None
    revision: PolicyRevision
    """The policies by which it was judged, once it waits."""
    is_timed: bool
    """The time or a situation has decided too."""

    def is_stale(self) -> bool:
        """Return True if it must be judged again when it leaves."""
        return self.is_timed or self.revision is not self.session.outbox.revision


class Subscribed:
    """One subscription of one session, as the index holds it."""

    __slots__ = (
        "also",
        "asked",
        "condition",
        "filter",
        "identifier",
        "name",
        "no_local",
        "policy",
        "qos",
        "retain_as_published",
        "scope",
        "session",
        "since",
        "target",
        "ways",
    )

    def __init__(
        self,
        session: "Session",
        filter: str,
        qos: int,
        no_local: bool = False,
        retain_as_published: bool = False,
        identifier: int = 0,
        name: str = "",
        asked: str = "",
        scope: Scope | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.session = session
        self.filter = filter
        self.name = name
        """The name among the session's subscriptions with the same filter; empty for the one that MQTT knows."""
        self.asked = asked
        """The condition that its client gave; empty if none."""
        self.scope = scope
        """The nodes that are told of it: all, or no other; None: as the links say."""
        self.policy = policy
        """The subscriber's policy for what goes this way."""
        self.condition: Condition | None = None
        """The condition on content: its client's, and the domain's for the client."""
        self.also: tuple[tuple[str, Condition], ...] = ()
        """The domain's conditions for the client on only some of its topics, by filter."""
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifier = identifier
        self.since = 0.0
        """The time at which it was made or changed."""
        self.ways: tuple[tuple[str, ...], ...] = ()
        """Of a neighbour's: the nodes through which each of those who want it has come to be known here."""
        self.target: object | None = None
        """The plans' target where it is the session's only subscription that matches."""

    @property
    def key(self) -> str:
        """The key in its session. No filter has a U+0000 in it."""
        return key_of(self.filter, self.name)


def key_of(filter: str, name: str = "") -> str:
    """Return the key of a subscription in its session."""
    return f"{filter}\0{name}" if name else filter


class Replay:
    """A walk through the retained messages that a subscription still has to be sent. It takes steps as it is asked
    to, so that one over many topics costs nothing before, and nothing more when it is dropped.
    """

    __slots__ = ("_batches", "begun", "left", "number", "subscribed")

    def __init__(self, subscribed: Subscribed, batches: Iterator[list[str]], number: int, begun: float) -> None:
        self.subscribed = subscribed
        self.begun = begun
        self.number = number
        """The number of the last message that was retained before the subscription: later ones came live."""
        self.left: list[str] = []
        """Topics of the present step that are still to be sent, the next one last."""
        self._batches = batches

    def step(self) -> bool:
        """Find more topics; False if there are none."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.left = sorted(batch, reverse=True)
        return True


_NO_REPLAYS: dict[str, Replay] = {}


class Will:
    """The will of a client: published when it goes without a DISCONNECT."""

    __slots__ = ("delay", "event", "lifetime")

    def __init__(self, event: Event, delay: int, lifetime: int | None) -> None:
        self.event = event
        self.delay = delay
        self.lifetime = lifetime


class EnsemblePlace:
    """A session's place in the ensemble: who it is there, and what its two links are."""

    __slots__ = (
        "actor",
        "beyond",
        "entity",
        "entry",
        "notify_type",
        "policies",
        "publish_type",
        "source",
        "watch_in",
        "watch_out",
        "where",
    )

    def __init__(self, entity: str) -> None:
        self.entity = entity
        self.entry: ClientEntry | None = None
        self.actor: Actor | None = None
        """As a subject of access policies; None until it is asked for."""
        self.beyond: ReadersBeyond | None = None
        """Of a node: those beyond it, as readers of Sparkplug messages; None until it is asked for."""
        self.source: Source | None = None
        """The journal's columns for all its events; None until needed."""
        self.publish_type = DEFAULT_TYPE
        self.notify_type = DEFAULT_TYPE
        self.watch_in: Watch | None = None
        self.watch_out: Watch | None = None
        self.policies: tuple[AssignedPolicy, ...] = ()
        """The domain's policies for all that goes to it."""
        self.where: tuple[tuple[str, Condition], ...] = ()
        """The domain's conditions on content that goes to it, by topic filter, whatever it subscribes to."""


class Declared:
    """A client's declarations: advertisements and contracts."""

    __slots__ = ("advertisements", "consumes", "given", "produces")

    def __init__(self) -> None:
        self.advertisements: dict[str, ProducerAdvertisement] = {}
        """Its advertisements, by name; `given` has those of the domain for it."""
        self.given: tuple[ProducerAdvertisement, ...] = ()
        self.produces: dict[str, ProducerContract] = {}
        """Contracts that it has brought for what it publishes; and in `consumes` for what it gets."""
        self.consumes: dict[str, ConsumerContract] = {}

    @property
    def claims(self) -> tuple[AdvertisementSet, ...]:
        """The claims that bind it when it publishes."""
        return claims(self.advertisements.values(), self.given)


class ConnectionState:
    """The client's wishes from its CONNECT, and the state of its connection."""

    __slots__ = (
        "alias_maximum",
        "aliases_in",
        "aliases_out",
        "backlog",
        "began",
        "blocked",
        "ended",
        "expiry",
        "held",
        "is_bridge",
        "is_stored",
        "maximum_packet_size",
        "moving",
        "overflowing",
        "plain",
        "problem_info",
        "publishing",
        "subscribing",
        "will",
    )

    def __init__(self) -> None:
        self.expiry: float = 0
        """Seconds for which the session stays without a connection."""
        self.began: float = 0
        """The beginning of the last connection, or of this one."""
        self.ended: float = 0
        """The end of the last connection."""
        self.moving: Moving | None = None
        """The other node, while the session goes to it or comes from it."""
        self.will: Will | None = None
        self.is_bridge = False
        """A bridge in MQTT 3.1.1: its subscriptions are made with no local and retain as published, as in Mosquitto."""
        self.plain = True
        """Takes packets as they are: no packet size limit, no topic aliases."""
        self.problem_info = False
        """The client takes reason strings."""
        self.maximum_packet_size = 0
        self.alias_maximum = 0
        self.aliases_in: dict[int, str] | None = None
        self.aliases_out: dict[str, int] | None = None
        self.blocked = False
        """The connection takes no more bytes for now."""
        self.held = 0
        """Packets that wait for the store."""
        self.backlog = 0
        """Bytes in the buffer of a connection that does not take them."""
        self.overflowing = False
        self.is_stored = False
        """The store has the session: it is durable, or has a will that must be published if the process is killed."""
        self.publishing: StepBudget | None = None
        self.subscribing: StepBudget | None = None
        """The steps of conditions on what it publishes, and of those in its subscriptions; None: none so far."""


class Outbox:
    """QoS 1 and 2 messages on their way to a client: in its window, and behind it."""

    __slots__ = (
        "behind",
        "inflight",
        "last_id",
        "queue",
        "queue_limit",
        "queued_bytes",
        "quota",
        "resend",
        "revision",
        "window",
    )

    def __init__(self) -> None:
        self.revision = NO_REVISION
        """The policies by which its messages are judged now."""
        self.window = 0
        """The largest number of unacknowledged QoS 1 and 2 messages; `quota` is how many more may be sent now. It is
        below 0 while an earlier connection has left more than this one's window holds.
        """
        self.quota = 0
        self.resend: deque[Outgoing] | None = None
        """Of `inflight`, what was sent on an earlier connection and waits for the window."""
        self.inflight: dict[int, Outgoing] = {}
        self.queue: deque[Outgoing] | None = None
        self.behind: deque[Outgoing] | None = None
        """Messages behind those that still come from the node where the session was before; None: it is all here."""
        self.queue_limit = 0
        """Messages that may wait for it, if not as many as the node's limit says."""
        self.queued_bytes = 0
        self.last_id = 0

    def next_id(self) -> int:
        """Return a packet identifier that is not in use. The window is smaller than the identifiers are many."""
        number = self.last_id
        while True:
            number = number % 65535 + 1
            # [MQTT-2.2.1-4]
            if number not in self.inflight:
                self.last_id = number
                return number

    def put(self, delivery: Outgoing) -> None:
        """Queue a message behind the window."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(delivery)
        self.queued_bytes += delivery.event.size()

    def begin_revision(self) -> None:
        """Have all that waits judged again when it leaves: what the session may have has changed."""
        self.revision = copy(self.revision)

    def waiting(self) -> int:
        """Return the deliveries queued behind the window."""
        return (len(self.queue) if self.queue else 0) + (len(self.behind) if self.behind else 0)


class Session:
    """A client's state. `outlet` is None while it is offline.

    `open`, `buffer` and `plans` are asked for each message that is passed on, in half a microsecond all in all: so they
    are here, and not in one of the parts.
    """

    __slots__ = (
        "buffer",
        "client_id",
        "connection",
        "declared",
        "denied",
        "durable",
        "edited_plans",
        "federation",
        "gave",
        "id",
        "neighbour",
        "open",
        "outbox",
        "outlet",
        "place",
        "plans",
        "received",
        "refused",
        "replays",
        "rights",
        "since",
        "subject",
        "subscriptions",
        "took",
        "trust",
        "version",
    )

    def __init__(self, number: int, subject: Subject, version: int) -> None:
        self.id = number
        self.client_id = subject.client_id
        self.subject = subject
        self.version = version
        self.rights: Rights | TokenRights | None = None
        self.neighbour: str | None = None
        """The name of the node or foreign broker behind it; None for a client."""
        self.place = EnsemblePlace(subject.client_id)
        self.declared = Declared()
        self.trust = SessionTrust()
        self.federation = NeighbourOffers() if subject.client_id.startswith(NODE_PREFIX) else NOTHING_TOLD
        self.plans: LinkPlans[Any] | None = None
        self.edited_plans: LinkPlans[Any] | None = None
        """For what the monitors on its link make."""
        self.since = 0.0
        """Since when its rights, its contracts and the domain have been what they are; see `release_wait.is_whole`."""
        self.durable = False
        """It outlives the process."""
        self.subscriptions: dict[str, Subscribed] = {}
        self.replays = _NO_REPLAYS
        """Replays by the key of their subscription, the next one first."""
        self.outlet: Outlet | None = None
        self.buffer: list[bytes] = []
        self.open = False
        """Online, not blocked, and with nothing that waits for the store: bytes may go straight to the buffer."""
        self.connection = ConnectionState()
        self.outbox = Outbox()
        self.received: set[int] | None = None
        """Identifiers of QoS 2 messages from it that are not released yet."""
        self.refused: dict[int, RefusedPublish] | None = None
        """By identifier, QoS 2 messages from it that were refused, the latest last. If it sends one again because it
        has not seen the answer, it gets the answer again.
        """
        # counters for the status: packets from it and to it since the node began; its refusals, and events that the
        # brokering table withholds from it
        self.took = 0
        self.gave = 0
        self.denied = 0

    def block(self) -> None:
        """Stop sending to a connection that takes no more bytes for now."""
        self.connection.blocked = True
        self.open = False

    def unblock(self) -> None:
        """Resume sending to a connection that takes bytes again."""
        connection = self.connection
        connection.blocked = connection.overflowing = False
        connection.backlog = 0
        self.open = self.outlet is not None and not connection.held
