"""A node's state about Sparkplug: edge nodes and devices, the last message decoded, and readers."""

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from penstock.engine.events.user_properties import born_by
from penstock.model.content.json_members import check_members
from penstock.model.errors import AmbiguityError, ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.message import SparkplugMessage, parse
from penstock.model.sparkplug.metric import Record
from penstock.model.sparkplug.topic import (
    COMMANDS,
    DEATHS,
    LIVES,
    REPORTS,
    STATE,
    MessageTopic,
    SparkplugSource,
    in_namespace,
    is_birth,
    message_topic,
    topics_of,
)
from penstock.model.values import Timestamp
from penstock.policy.sparkplug.edge_nodes import MAX_SOURCES, Plant, PlantReader
from penstock.policy.sparkplug.policies import EVERYBODY, Access, AccessPolicy, Grants, Privilege
from penstock.policy.sparkplug.reach import NOTHING_GRANTED, ReachGrants, asked_by
from penstock.policy.sparkplug.views import ViewRequest

CERTIFICATES = "$sparkplug/certificates/"
"""Before the topics of births that are kept for those who come later (norm, section 10)."""
MAX_GRANTS = 10_000
"""Topics that a subject's grants are kept for."""


def governed(topic: str) -> str:
    """Return the Sparkplug topic of a topic: itself, or that of a certificate; empty if none."""
    inner = topic.removeprefix(CERTIFICATES)
    return inner if in_namespace(inner) else ""


class Read(NamedTuple):
    """An event as a Sparkplug message."""

    topic: MessageTopic
    message: SparkplugMessage
    state: Record
    """The content of a STATE message."""


class Actor:
    """A session as a subject of access policies, and what it has had as a reader."""

    __slots__ = ("_grants", "edge", "ids", "reader", "record")

    def __init__(self, ids: tuple[str, ...], record: Record, edge: str) -> None:
        self.ids = ids
        """Its names in policies."""
        self.record = record
        """Its attributes for conditions."""
        self.edge = edge
        self.reader = PlantReader()
        self._grants: dict[tuple[str, Privilege], Grants] = {}

    def grants(self, access: Access, topic: str, privilege: Privilege) -> Grants:
        """Return the policies that may grant it access."""
        key = topic, privilege
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) >= MAX_GRANTS:
                self._grants.clear()
            grants = self._grants[key] = access.grants(self.ids, topic, privilege)
        return grants


class ReadersBeyond(Actor):
    """A neighbour node as a reader, for all who may be beyond it: it has what some of them may ever read.

    `readers` are the names in policies of each of them; None: it is not known who sees what there, and everything goes
    there as it is.
    """

    __slots__ = ("_edges", "_reach", "_readers", "_with", "access", "before")

    def __init__(self, neighbour: str, access: Access, readers: Iterable[frozenset[str]] | None) -> None:
        super().__init__((), {"client": neighbour}, "")
        self.access = access
        self._readers = None if readers is None else tuple(dict.fromkeys(readers))
        self._with: dict[str, list[int]] = {}
        """By name in policies, the readers that have it."""
        for number, names in enumerate(self._readers or ()):
            for name in names:
                self._with.setdefault(name, []).append(number)
        self._reach: dict[str, ReachGrants] = {}
        self._edges: set[SparkplugSource] = set()
        """The edge nodes with devices of which something goes there."""
        self.before: ReadersBeyond | None = None
        """Those of the domain as it was, until certificates are told again."""

    @property
    def is_unknown(self) -> bool:
        """True if everything goes there as it is."""
        return self._readers is None

    def grants(self, access: Access, topic: str, privilege: Privilege) -> Grants:
        """Return the grant of what some of them may ever read of a topic.

        Births, reports and deaths are of one piece, with what commands say: a metric that somebody may read in one of
        them is known there by its birth. The birth and the death of an edge node go where its devices are known.
        """
        place = message_topic(topic)
        source = place.source
        is_one_piece = source is not None and place.type not in COMMANDS
        key = str(source) if is_one_piece else topic
        grants = self._reach.get(key)
        if grants is None:
            if len(self._reach) >= MAX_GRANTS:
                self._reach.clear()
            topics = topics_of(source) if is_one_piece and source is not None else (topic,)
            grants = self._reach[key] = self._make(access, topics)
        if grants.is_for_nobody:
            return grants if place.type in _OF_EDGE_NODES and source in self._edges else NOTHING_GRANTED
        if source is not None and source.device:
            self._edges.add(source.node)
        return grants

    def _make(self, access: Access, topics: Collection[str]) -> ReachGrants:
        readers: dict[tuple[AccessPolicy, ...], None] = {}
        asking: list[AccessPolicy] = []
        for topic in topics:
            readers |= dict.fromkeys(self._policies(access, topic))
            if topic.split("/")[2] not in COMMANDS or len(topics) == 1:
                asking += access.about(topic, "write")  # they are asked there about what waits
        asking += (policy for policies in readers for policy in policies)
        return ReachGrants(readers, asked_by(asking))

    def _policies(self, access: Access, topic: str) -> Iterator[tuple[AccessPolicy, ...]]:
        """Yield the policies about a topic of each reader that has any."""
        about = access.about(topic, "read")
        everybody = [policy for policy in about if policy.subject == EVERYBODY]
        of_reader: dict[int, list[AccessPolicy]] = {}
        for policy in about:
            for number in self._with.get(policy.subject, ()):
                of_reader.setdefault(number, []).append(policy)
        yield from (tuple(policies + everybody) for policies in of_reader.values())
        if everybody and len(of_reader) < len(self._readers or ()):
            yield tuple(everybody)


_OF_EDGE_NODES = frozenset({"NBIRTH", "NDEATH"})

Reader = TypeVar("Reader")


class Windows(Generic[Reader]):
    """Messages that another time may show to readers: the last of edge nodes, devices and hosts, by these (`speaker`);
    and when which reader is to be asked about.
    """

    def __init__(self) -> None:
        self.lives: dict[str, Event] = {}
        """The last birth, death or STATE message."""
        self.reports: dict[str, Event] = {}
        """The last report since the birth, without its content."""
        self.judged: dict[str, str] = {}
        """The digest of the access policies by which the last message was admitted."""
        self._devices: dict[str, set[str]] = {}
        self._next: dict[tuple[int, str], tuple[float, Reader]] = {}
        self._heap: list[tuple[float, int, str]] = []

    def note(self, topic: MessageTopic, event: Event, access: str = "") -> None:
        """Keep a message that may be shown later, with the digest of the policies by which it was admitted."""
        speaker, is_known = topic.speaker, topic.speaker in self.lives
        if topic.type in REPORTS:
            if is_known:
                self.reports[speaker] = event._replace(payload=b"")
                if self.judged.get(speaker) != access:
                    self.judged[speaker] = ""  # what it says was admitted by several
        elif topic.type in LIVES and (is_known or (topic.type not in DEATHS and len(self.lives) < MAX_SOURCES)):
            self.lives[speaker], self.judged[speaker] = event._replace(retain=False), access
            self.reports.pop(speaker, None)
            if topic.source is not None and topic.source.device:
                self._devices.setdefault(str(topic.source.node), set()).add(speaker)
            for device in self._devices.pop(speaker, ()):  # they are to be born again
                self.lives.pop(device, None)
                self.reports.pop(device, None)
                self.judged.pop(device, None)

    def complete(self, topic: MessageTopic, generation: str, payload: bytes) -> None:
        """Take in more of a birth that is kept."""
        life = self.lives.get(topic.speaker)
        if life is not None and is_birth(life.topic) and born_by(life) == generation:
            self.lives[topic.speaker] = life._replace(payload=payload)

    def ask(self, at: float | None, number: int, reader: Reader, speaker: str) -> None:
        """Have a reader asked about at a time, or before."""
        known = self._next.get((number, speaker))
        if at is None or (known is not None and known[0] <= at):
            return
        self._next[number, speaker] = at, reader
        heappush(self._heap, (at, number, speaker))

    def due(self, now: float) -> list[tuple[Reader, str]]:
        """Take out the readers whose time has come: edge nodes come before their devices."""
        due = list[tuple[int, str, Reader]]()
        while self._heap and self._heap[0][0] <= now:
            at, number, speaker = heappop(self._heap)
            known = self._next.get((number, speaker))
            if known is not None and known[0] == at:
                del self._next[number, speaker]
                due.append((number, speaker, known[1]))
        return [(reader, speaker) for _, speaker, reader in sorted(due, key=lambda each: each[:2])]


class Sparkplug:
    """The Sparkplug side of a node whose domain has access policies."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.plant = Plant()
        self.windows: Windows[Any] = Windows()
        self._last: tuple[str, bytes, Read] | None = None

    def read(self, topic: str, payload: bytes) -> Read:
        """Decode a message by its Sparkplug topic, remembering the last one; raise `ContentError`."""
        last = self._last
        if last is not None and last[0] == topic and last[1] is payload:
            return last[2]
        place = message_topic(topic)
        if place.type == STATE:  # an empty one takes a retained one back
            read = Read(place, SparkplugMessage(payload, (), None, None), _state(payload) if payload else {})
        else:
            read = Read(place, parse(payload), {})
        self._last = topic, payload, read
        return read


def renewed(sparkplug: Sparkplug | None, access: Access | None) -> Sparkplug | None:
    """Return the state with other policies; what is known of edge nodes stays."""
    if access is None:
        return None
    state = Sparkplug(access)
    if sparkplug is not None:
        state.plant, state.windows = sparkplug.plant, sparkplug.windows
    return state


class _State(msgspec.Struct, forbid_unknown_fields=False):
    online: bool
    timestamp: int


_decode_state = msgspec.json.Decoder(_State).decode


def _state(payload: bytes) -> Record:
    """norm, section 6.4.25: `{"online": true, "timestamp": 1668114759262}`"""
    try:
        payload.decode()
        state = _decode_state(payload)
        check_members(payload, msgspec.json.decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, AmbiguityError) as error:
        raise ContentError(f"not a STATE message: {error}") from None
    except RecursionError:
        raise ContentError("not a STATE message: too many values inside each other") from None
    return {"online": state.online, "timestamp": Timestamp(state.timestamp * 1_000_000)}


class ReadRequest(NamedTuple):
    """An event as all its readers ask for it."""

    topic: str
    """The Sparkplug topic; empty: this is no Sparkplug, and goes out as it is."""
    request: ViewRequest | None = None
    edge: SparkplugSource | None = None
    """None also for a certificate: it tells of the past, and is no part of what readers are told in order."""
    is_by_birth: bool = False
    """A command whose aliases were read by a birth where its writer's rights were checked."""

    @property
    def is_outdated(self) -> bool:
        """True for a command whose aliases meant something else there, as far as is known here: it may go to other
        nodes, but to no client.
        """
        return self.is_by_birth and self.request is not None and self.request.known.is_ended

    @property
    def is_of_the_past(self) -> bool:
        """True if it is a certificate."""
        return self.edge is None and self.request is not None and self.request.topic.source is not None
