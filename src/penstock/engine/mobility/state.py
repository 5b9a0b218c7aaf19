"""A node's state about sessions that change their node: those that are looked for, come, or leave.

A client that the domain lists with `roams: true` has one session, at the node that it connected to last. When it
connects to another of its nodes, that node asks for the session (`search.py`), the node that has it hands it over
(`departure.py`), and the asking node takes it (`arrival.py`). `turn.py` says in which order.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from penstock.model.subject import Subject

TOPIC = "$penstock/move"
"""The control topic on which nodes tell each other about sessions that change their node."""
MAX_REMEMBERED = 10_000
"""Clients of which a node remembers who has asked for them."""


class Ask(msgspec.Struct, frozen=True, tag="ask", omit_defaults=True):
    """A node asks for the session of a client that has connected to it."""

    client: str
    entity: str
    user: str | None
    at: float
    """The time of the CONNECT."""
    proven: tuple[str, ...] = ()
    """The trust groups that the client has proven to be in."""


class Newest(msgspec.Struct, frozen=True, tag="newest", omit_defaults=True):
    """The last CONNECT of a client, as far as is known: all its other sessions go to where it was."""

    client: str
    entity: str
    user: str | None
    at: float
    """The time of the CONNECT; later than all that this node knew of."""
    node: str
    proven: tuple[str, ...] = ()
    cleaned: float = 0.0
    """The last time that the client wanted nothing of earlier sessions: those end."""


class Absent(msgspec.Struct, frozen=True, tag="absent", omit_defaults=True):
    """The answer that there is no session here, nor at a node beyond."""

    client: str
    is_elsewhere: bool = False
    """The client has connected to another node since: whoever asked need not wait, nor serve it."""


class HandedSubscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subscription, as it is handed over."""

    filter: str
    qos: int
    name: str = ""
    where: str = ""
    scope: Literal["global", "local"] | None = None
    policy: str = ""
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    is_replaying: bool = False
    """It is still to be sent retained messages."""


class HandedAdvertisement(msgspec.Struct, frozen=True, omit_defaults=True):
    """An advertisement, as it is handed over."""

    name: str
    filter: str
    where: str = ""
    scope: Literal["global", "local"] | None = None
    policy: str = ""


class HandedContract(msgspec.Struct, frozen=True):
    """A contract that a client has brought, as it is handed over."""

    name: str
    stored: msgspec.Raw


class Handed(msgspec.Struct, frozen=True, tag="handed", omit_defaults=True):
    """A session is handed over, in one or several parts; the messages that wait for it follow later."""

    client: str
    entity: str
    user: str | None
    version: int
    expiry: float
    """Seconds; below 0: for ever."""
    at: float
    """The time of the CONNECT for which it was asked for."""
    began: float
    """The time of the last CONNECT for which it was used."""
    last_id: int = 0
    bound: tuple[str, ...] = ()
    """The trust groups that its client must prove to be in."""
    released: tuple[int, ...] = ()
    """Identifiers of QoS 2 messages that its client has, and of which only the PUBREL is to be repeated."""
    received: tuple[int, ...] = ()
    """Identifiers of QoS 2 messages from its client that it has not released."""
    monitors_in: dict[str, msgspec.Raw] = {}
    """The states of the monitors on the link from its client; and in `monitors_out` of those to it."""
    monitors_out: dict[str, msgspec.Raw] = {}
    subscriptions: tuple[HandedSubscription, ...] = ()
    advertisements: tuple[HandedAdvertisement, ...] = ()
    contracts: tuple[HandedContract, ...] = ()
    is_first: bool = True
    is_last: bool = True


class Moving(msgspec.Struct, omit_defaults=True):
    """A session between two nodes, as each of them keeps it."""

    neighbour: str
    """The node that it goes to, or comes from."""
    is_arriving: bool
    is_taken: bool = False
    """Of one that leaves: the other node gives its client what reaches it directly."""
    is_ready: bool = False
    """Of one that leaves: the other node has told what its client wants of this one."""
    is_new: bool = False
    """Of one that comes: it is all that its client has here, so what it gets of the other node comes with it."""
    pending: list[tuple[str, Handed]] = []
    """Parts of further sessions of the client that other nodes hand over, with their names: taken after this one."""

    @property
    def skips(self) -> str:
        """Return the neighbour of which the session gets nothing now, as the other node gives it that; or empty."""
        return self.neighbour if self.is_new or self.is_taken else ""


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """The session is taken. What comes behind this from the same node has been given to the client already."""

    client: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """All that the client of the session wants has been told."""

    client: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """All that waited has been sent. What comes behind this from the same node is for the client."""

    client: str


class Leaving(msgspec.Struct, frozen=True, tag="leaving"):
    """A session waits here to be taken: said when the link is up again."""

    client: str


Message = Ask | Absent | Newest | Handed | Taken | Ready | Done | Leaving


class MovedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user property of a message that waited for a session that is handed over."""

    client: str
    qos: int
    retain: bool = False
    ids: tuple[int, ...] = ()
    packet_id: int = 0
    """Of a message that its client was sent and has not acknowledged."""
    due: float = 0.0
    """The time until which a contract holds it back."""
    is_back: bool = False
    """It has come from the node that it goes to."""


class Search:
    """A session that is looked for at other nodes."""

    __slots__ = ("abandon", "ask", "asker", "conclude", "is_found", "since", "subject", "waiting")

    def __init__(self, ask: Ask, asker: str | None, waiting: set[str], since: float) -> None:
        self.ask = ask
        self.asker = asker
        """The neighbour that asks; None: a CONNECT to this node."""
        self.waiting = waiting
        """The neighbours that have not answered."""
        self.since = since
        self.subject: Subject | None = None
        self.is_found = False
        self.conclude: Callable[[], None] | None = None
        """Goes on with the CONNECT."""
        self.abandon: Callable[[], None] | None = None
        """Ends the connection of the CONNECT: its client has made another."""


class MoveState:
    """Sessions that are under way, and what is said about them."""

    __slots__ = ("askers", "cleaned", "here", "inbox", "leaving", "links", "newest", "ready", "searches")

    def __init__(self) -> None:
        self.inbox: list[tuple[str, Ask | Absent | Newest | Handed | Leaving]] = []
        """Messages of neighbours that the next turn handles."""
        self.links: list[tuple[str, bool]] = []
        """Links between nodes that have come up (True) or gone down since the last turn."""
        self.searches: dict[str, Search] = {}
        self.askers: dict[str, tuple[str, Ask]] = {}
        """By client, the neighbour that gets its session as soon as it is here."""
        self.here: list[str] = []
        """Clients whose sessions may go further now, to whoever has asked for them or to where the clients are."""
        self.cleaned: dict[str, float] = {}
        """By client, when it last began a session anew here: nothing of an earlier one is taken."""
        self.newest: dict[str, tuple[str, Newest]] = {}
        """By client, its last CONNECT, and the neighbour on the way to where it was; empty: it was here."""
        self.leaving: set[str] = set()
        """Clients whose sessions are being handed over to another node."""
        self.ready: dict[str, dict[str, None]] = {}
        """By neighbour, the clients of which it is to be told that all that they want has been told."""

    def __bool__(self) -> bool:
        return bool(self.inbox or self.links or self.searches or self.here or self.leaving or self.ready)
