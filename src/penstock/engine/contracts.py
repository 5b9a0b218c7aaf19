"""Contracts at a node: quality that is attached to events, situations that are open, and what clients have brought.

A client's contract goes with its events to other nodes: the name of one that the domain has, else all of it. There is
one place where situations are opened and closed, the node of their source; it tells the others by an event of its own.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.engine import glass, private, travel
from penstock.engine.private import Private
from penstock.engine.session import Session
from penstock.engine.travel import AT, CONTRACT, CONTRACT_BYTES
from penstock.model.content import Content
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy import release_place, situation
from penstock.policy.contract import ConsumerContract, ProducerContract, Subject, Want
from penstock.policy.contract_plain import plain_producer
from penstock.policy.contract_text import read_consumer, read_producer
from penstock.policy.contracts import Contracts, wants_of
from penstock.policy.quality_carry import ATTACHED, CLAIMED, read_properties, read_quality, write_properties
from penstock.policy.quality_collect import Collector, collect
from penstock.policy.quality_need import why_not
from penstock.policy.release import PRIVACY, RELEASED, Mark, Releaser, read_marks
from penstock.policy.situation import NONE_OPEN, Opened, OpenSituations

if TYPE_CHECKING:
    from penstock.engine.node import Node

SITUATION = "$penstock/situation/"
"""Before a situation's name: where the node of its source tells others of it."""
CONSUMER = "$penstock/consumer/"
"""Before a digest: where a node tells others what a client has brought that consumes."""
MOST_RELEASERS = 20_000
BROUGHT = "brought:"
"""Before the name of what clients have brought. No contract of the domain has a colon in its name."""
_NONE: frozenset[str] = frozenset()
MOST_HEARD = 10_000
"""Contracts of consumers at other nodes; of more than that, those who bring them get nothing from here."""


class Told(msgspec.Struct, frozen=True):
    """What a node tells of a situation."""

    since: float
    until: float
    by: str


class Heard(msgspec.Struct, frozen=True):
    """What a node tells of a consumer's contract."""

    client: str
    name: str
    contract: dict[str, object]


class Asking(NamedTuple):
    """A want of a client, with all that the client guarantees."""

    client: str
    contract: ConsumerContract
    want: Want


class State:
    """What a node knows of contracts beside the domain's."""

    def __init__(self, contracts: Contracts) -> None:
        self.contracts = contracts
        self.open: OpenSituations = NONE_OPEN
        self.heard: dict[str, tuple[str, ConsumerContract]] = {}
        """By what they are told on, clients at other nodes and contracts that they have brought."""
        self.last: tuple[tuple[tuple[str, str], ...], Quality] = (), NO_QUALITY
        """The quality that was attached last, as it is carried: mostly it is asked for at once."""
        self.counted: glass.Counted = {}
        """What rules have released that are for a situation which is open."""
        self._filters: Counter[str] = Counter()
        self._releasers: dict[tuple[str, str, str, str], tuple[tuple[object, ...], Releaser]] = {}
        self._concerned: dict[str, bool] = {}
        self._asking: dict[tuple[int, str], tuple[Subject, tuple[Asking, ...]]] = {}
        self._beyond: dict[str, tuple[Asking, ...]] = {}
        self._binding: dict[tuple[str, str], tuple[tuple[ProducerContract, ...], tuple[Collector, ...]]] = {}

    def forget(self) -> None:
        """What clients have brought has changed."""
        self._concerned.clear()
        self._asking.clear()
        self._beyond.clear()

    def open_at(self, now: float) -> frozenset[str]:
        """The situations that are open, whether or not anybody has noticed that others are over."""
        return frozenset(name for name, one in self.open.items() if one.until > now) if self.open else _NONE

    def brought(self, filter: str, count: int) -> None:
        """Contracts have come or gone by which events on such topics must be looked at."""
        self._filters[filter] += count
        if not self._filters[filter]:
            del self._filters[filter]
        self.forget()

    def concerns(self, topic: str) -> bool:
        """Whether events on a topic must be looked at."""
        found = self._concerned.get(topic)
        if found is None:
            if len(self._concerned) >= MOST_RELEASERS:
                self._concerned.clear()
            found = self._concerned[topic] = (
                topic.startswith((SITUATION, CONSUMER))
                or self.contracts.concerns(topic)
                or any(matches(filter, topic) for filter in self._filters)
                or any(
                    matches(one.filter, topic)
                    for each in self.contracts.situations
                    for one in (each.opens, each.closes)
                    if one is not None
                )
            )
        return found

    def asking(self, session: Session, topic: str, now: float) -> tuple[Asking, ...]:
        """The wants of a client here that are about a topic: the domain's, and those that it has brought."""
        known = shown(session, now)
        key = (session.id, topic)
        found = self._asking.get(key)
        if found is not None and found[0] == known:
            return found[1]
        client, contracts = session.entity, self.contracts
        given = contracts.consuming(client, known)
        made = [Asking(client, one, want) for one in given for want in wants_of(one, topic)]
        for one in session.consumes.values():
            made += [
                Asking(client, contracts.of(client, one, known), want)
                for want in one.wants
                if matches(want.filter, topic)
            ]
        if len(self._asking) >= MOST_RELEASERS:
            self._asking.clear()
        self._asking[key] = known, tuple(made)
        return tuple(made)

    def beyond(self, topic: str) -> tuple[Asking, ...]:
        """The global wants about a topic of all clients whose guarantees are known here, wherever they are."""
        found = self._beyond.get(topic)
        if found is None:
            if len(self._beyond) >= MOST_RELEASERS:
                self._beyond.clear()
            made = [
                Asking(client, self.contracts.of(client, one), want)
                for one in self.contracts.consumers
                for client in sorted(one.consumers)
                for want in wants_of(one, topic)
            ]
            made += [
                Asking(client, one, want)
                for client, one in self.heard.values()
                for want in one.wants
                if matches(want.filter, topic)
            ]
            found = self._beyond[topic] = tuple(one for one in made if one.want.scope == "global")
        return found

    def binding(self, client: str, topic: str) -> tuple[tuple[ProducerContract, ...], tuple[Collector, ...]]:
        """The domain's contracts and collectors for what a client publishes on a topic."""
        found = self._binding.get((client, topic))
        if found is None:
            if len(self._binding) >= MOST_RELEASERS:
                self._binding.clear()
            contracts = self.contracts
            found = contracts.producing(client, topic), contracts.collectors(client, topic)
            self._binding[client, topic] = found
        return found

    def releaser(self, client: str, producer: ProducerContract, consumer: ConsumerContract, want: Want) -> Releaser:
        """What decides on events of a contract for a want of a client, made once."""
        key = (client, producer.name, consumer.name, want.name)
        about = (producer, consumer, want)
        known = self._releasers.get(key)
        if known is not None and known[0] == about:
            return known[1]
        if len(self._releasers) >= MOST_RELEASERS:
            self._releasers.clear()
        made = Releaser(producer, consumer, want, self.contracts.catalogue)
        self._releasers[key] = about, made
        return made


def shown(session: Session, now: float) -> Subject:
    """What is known of a client because it has shown it here: its user, its certificate, who issued its token."""
    found = [("user", session.subject.user), ("certificate", session.subject.certificate)]
    if session.token is not None and session.token.counts(now):
        found.append(("token-issuer", session.token.token.claims.issuer))
    return tuple((name, frozenset({value})) for name, value in found if value is not None)


class Governed(NamedTuple):
    """What contracts say of an event, whoever gets it."""

    contracts: tuple[ProducerContract, ...]
    quality: Quality
    content: Content
    is_first: bool
    """Whether this is its producer's node."""
    ace: dict[str, str]
    """By digest of a subscription, the rule that releases it: as its producer's node has found."""
    private: tuple[Private, ...] = ()
    """Policies in XACML about it."""
    wrong: str = ""
    """Why nobody gets it: what came with it cannot be read."""
    marks: tuple[Mark, ...] = ()
    """By what it is released already."""
    since: float | None = None
    """When it was published, if it says so."""
    is_late: bool = False
    """Whether it is given to who has subscribed after it was published."""

    @property
    def is_private(self) -> bool:
        return any(one.is_private for one in self.contracts)


def renewed(before: State | None, contracts: Contracts | None) -> State | None:
    """The state with other contracts of the domain."""
    if contracts is None:
        return None
    made = State(contracts)
    if before is not None:
        names = {one.name for one in contracts.situations}
        made.open = {name: one for name, one in before.open.items() if name in names}
        made.heard, made.counted = before.heard, before.counted
    return made


def restore(node: "Node", now: float) -> None:
    """Situations that were open before a restart are, if their time is not over: what was told of them is retained."""
    if node.contracts is not None:
        for topic, event in node.retained.match(f"{SITUATION}+"):
            _hear(node.contracts, topic.removeprefix(SITUATION), event.payload, now)
        for topic, event in node.retained.match(f"{CONSUMER}+"):
            _hear_consumer(node.contracts, topic, event.payload)


def recorded(now: float) -> float:
    """A time as journals have it, to the microsecond: so what is decided by it can be decided again."""
    return int(now * 1_000_000) / 1_000_000


# --- what producers say


def producing(node: "Node", session: Session, topic: str) -> tuple[ProducerContract, ...]:
    """The contracts that bind what a client publishes on a topic: the domain's, and those that it has brought."""
    assert node.contracts is not None
    given, _ = node.contracts.binding(session.entity, topic)
    if not session.produces:
        return given
    return (*given, *(one for one in session.produces.values() if matches(one.filter, topic)))


def is_bound(node: "Node", sender: Session | None, event: Event, is_admitted: bool) -> bool:
    """Whether the contracts of who publishes are still to be held against an event: it comes from outside, or monitors
    have made it of what did.
    """
    if node.contracts is None or sender is None or sender.neighbour in node.ensemble.nodes:
        return False
    if not is_admitted or (CONTRACT_BYTES not in event.properties and ATTACHED.encode() not in event.properties):
        return True
    known = travel.told(event, CONTRACT)
    bound = producing(node, sender, event.topic)
    return any(one.is_private and named(node.contracts, one) not in known for one in bound)


def attach(node: "Node", session: Session, event: Event, now: float) -> Event | Verdict:
    """Stage conform, for an event of a client: measure its quality, hold its producer to its guarantees, and put both
    to the event.
    """
    state = node.contracts
    assert state is not None
    bound = producing(node, session, event.topic)
    _, collectors = state.binding(session.entity, event.topic)
    is_private = any(one.is_private for one in bound) or bool(state.contracts.private(event.topic))
    at = [(AT, f"{recorded(now):.6f}")] if is_private and not travel.told(event, AT) else []
    if not bound and not collectors:
        return travel.having(event, None, at) if at else event
    content, now = node.ensemble.reader.read(event), recorded(now)
    known = travel.told(event, CONTRACT)
    measured = tuple((ATTACHED, value) for value in travel.told(event, ATTACHED))
    catalogue = state.contracts.catalogue
    try:
        if measured:  # before a monitor put it on this topic
            quality = read_properties(measured, moment(now), ATTACHED)
        else:
            quality = collect(collectors, catalogue, content, now).beside(_claimed(event, content, now), catalogue)
    except ContentError as error:
        return Verdict("conform", Effect.SUPPRESS, "quality", f"its quality cannot be read: {error}")
    for contract in bound:
        missed = why_not(contract.guarantees, quality, content)
        if missed:
            reason = f"not as its producer guarantees: {'; '.join(missed)}"
            return Verdict("conform", Effect.SUPPRESS, f"contract {contract.name}", reason)
    told = [(CONTRACT, name) for name in (named(state, one) for one in bound if one.is_private) if name not in known]
    attached = () if measured else write_properties(quality, ATTACHED)
    state.last = measured or attached, quality
    made = travel.having(event, None, (*attached, *told, *at), without=CLAIMED)
    return node.ensemble.reader.known(made, content)


def _claimed(event: Event, content: Content, now: float) -> Quality:
    """What an event says of its own quality: in its content, and in properties, which count more."""
    received = moment(now)
    try:
        inside = read_quality(content, received)
    except ContentError:
        inside = NO_QUALITY  # it need not speak of quality, nor be readable
    properties = travel.carried(event.properties).user_properties if event.properties else ()
    return inside.with_(read_properties(properties, received, CLAIMED))


def claimed(node: "Node", event: Event, content: Content, now: float) -> Quality:
    """The quality of an event that no node has measured: its producer's word, as far as metrics can be so."""
    assert node.contracts is not None
    catalogue = node.contracts.contracts.catalogue
    try:
        return collect((), catalogue, content, now).beside(_claimed(event, content, now), catalogue)
    except ContentError:
        return NO_QUALITY


def named(state: State, contract: ProducerContract) -> str:
    """A contract as events name it: all of one that the domain does not have."""
    if state.contracts.named(contract.name) is not None:
        return contract.name
    return msgspec.json.encode({"name": contract.name, **plain_producer(contract)}).decode()


def of_origin(node: "Node", event: Event) -> tuple[ProducerContract, ...]:
    """The contracts that bind who has published an event at this node, as they are now."""
    state = node.contracts
    if state is None or not event.origin or any(one in node.ensemble.nodes for one in event.path):
        return ()
    session = node.sessions.get(event.origin)
    if session is not None:
        return () if session.neighbour in node.ensemble.nodes else producing(node, session, event.topic)
    entry = node.ensemble.publisher(node.name, event.origin, event.user)
    return state.contracts.producing(event.origin if entry is None else entry.name, event.topic)


def needed(node: "Node", session: Session, event: Event, now: float) -> Governed | None:
    """What is known of an event that no contract of a producer speaks of, if its consumer asks for more than
    a topic.
    """
    state = node.contracts
    if state is None or not state.concerns(event.topic) or travel.told(event, RELEASED):
        return None
    if not any(one.want.asks for one in state.asking(session, event.topic, now)):
        return None
    content = node.ensemble.reader.read(event)
    return Governed((), claimed(node, event, content, now), content, True, {})


def governed(node: "Node", event: Event, now: float) -> Governed | None:
    """What contracts say of an event; None if they say nothing of it. What was retained before its producer had a
    contract is bound by it too.
    """
    state = node.contracts
    if state is None:
        return None
    late = of_origin(node, event) if event.retain and state.concerns(event.topic) else ()
    late = tuple(one for one in late if one.is_private)
    policies = private.of_topic(state.contracts, event.topic)
    if travel.RESERVED_BYTES not in event.properties and not late and not policies:
        return None
    pairs = travel.carried(event.properties).user_properties if event.properties else ()
    released = [value for name, value in pairs if name == RELEASED]
    if released:
        return _unasked(node, event, released, policies)
    names = [value for name, value in pairs if name == CONTRACT]
    attached = tuple(pair for pair in pairs if pair[0] == ATTACHED)
    if not (names or attached or late or policies):
        return None
    content = node.ensemble.reader.read(event)
    is_first = not any(one in node.ensemble.nodes for one in event.path)
    try:
        found = tuple(contract_of(state.contracts, one) for one in names if not one.startswith(PRIVACY))
        found += tuple(one for one in late if one.name not in {each.name for each in found})
        inherited = private.told(state.contracts, (one for one in names if one.startswith(PRIVACY)))
        policies += tuple(one for one in inherited if one not in policies)
        known, quality = state.last
        if attached != known:
            quality = read_properties(attached, moment(now), ATTACHED)
        enabled = [value for name, value in pairs if name == release_place.ACE]
        is_late = release_place.LATE in enabled
        ace = release_place.read_ace(next((value for value in enabled if value != release_place.LATE), "{}"))
        since = _published(pairs)
    except (PolicyError, ContentError) as error:
        return Governed((), NO_QUALITY, content, is_first, {}, policies, str(error))
    return Governed(found, quality, content, is_first, ace, policies, since=since, is_late=is_late)


def _published(pairs: tuple[tuple[str, str], ...]) -> float | None:
    """When an event was published, as its producer's node has said; raises `ContentError`."""
    said = next((value for name, value in pairs if name == AT), None)
    if said is None:
        return None
    try:
        at = float(said)
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise ContentError(f"not a time: `{said:.40}`")
    return at


def _unasked(node: "Node", event: Event, released: list[str], policies: tuple[Private, ...]) -> Governed | None:
    """What has been released to a client, and a monitor on its link has put on another topic: that topic's policies
    are asked of it.
    """
    content = node.ensemble.reader.read(event)
    try:
        marks = tuple(mark for text in released for mark in read_marks(text))
    except ContentError as error:
        return Governed((), NO_QUALITY, content, True, {}, policies, str(error))
    left = tuple(one for one in policies if one.policy.name not in {mark.rule for mark in marks})
    return Governed((), NO_QUALITY, content, True, {}, left, marks=marks) if left else None


def contract_of(contracts: Contracts, told: str) -> ProducerContract:
    """The contract that an event names, or has with it; raises `PolicyError`."""
    if not told.startswith("{"):
        known = contracts.named(told)
        if known is None:
            raise PolicyError(f"there is no contract `{told:.80}` here")
        return known
    try:
        said = msgspec.json.decode(told, type=dict)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PolicyError(f"not a contract: {error}") from None
    return read_producer(str(said.pop("name", "")), said, contracts.catalogue)


# --- situations


def look(node: "Node", event: Event, sender: Session | None, now: float) -> tuple[Event, ...]:
    """Whether an event opens or closes situations; what other nodes are to be told of them."""
    state = node.contracts
    if state is None:
        return ()
    if event.topic.startswith((SITUATION, CONSUMER)):
        if sender is not None and sender.neighbour in node.ensemble.nodes:
            if event.topic.startswith(SITUATION):
                name, before = event.topic.removeprefix(SITUATION), state.open
                _hear(state, name, event.payload, now)
                glass.heard(node, sender, name, before, now)
            else:
                _hear_consumer(state, event.topic, event.payload)
        return ()
    if not state.contracts.situations:
        return ()
    if sender is None or sender.neighbour is not None:
        return ()
    content, now = node.ensemble.reader.read(event), recorded(now)
    stepped = situation.step(state.contracts.situations, state.open, event.topic, sender.entity, content, now)
    state.open = stepped.open
    glass.tell(node, sender, event.topic, stepped.notices, now)
    changed = dict.fromkeys(one.situation for one in stepped.notices if one.change is not situation.Change.REFUSED)
    return tuple(tell(state, name) for name in changed)


def tell(state: State, name: str) -> Event:
    """What other nodes are told of a situation. It is retained, so that those who come later know it too."""
    opened = state.open.get(name)
    payload = b"" if opened is None else msgspec.json.encode(Told(*opened))
    return Event(SITUATION + name, payload or b"null", 1, True)


def _hear(state: State, name: str, payload: bytes, now: float) -> None:
    """Another node, or this one before it was restarted, tells of a situation."""
    try:
        told = msgspec.json.decode(payload, type=Told | None)
    except msgspec.MsgspecError:
        return
    if name not in {one.name for one in state.contracts.situations}:
        return
    left = {other: one for other, one in state.open.items() if other != name}
    state.open = {**left, name: Opened(told.since, told.until, told.by)} if told and told.until > now else left


def expire(node: "Node", now: float) -> None:
    """Situations come to their end."""
    state = node.contracts
    assert state is not None
    left, notices = situation.current(state.open, now)
    state.open = left
    glass.tell(node, None, "", notices, now)


# --- what consumers at other nodes say


def _hear_consumer(state: State, topic: str, payload: bytes) -> None:
    """Another node tells what a client has brought, or that it has not any more. What cannot be read enables nobody."""
    before = state.heard.pop(topic, None)
    if payload and len(state.heard) < MOST_HEARD:
        try:
            told = msgspec.json.decode(payload, type=Heard)
            contract = read_consumer(told.name, told.contract, state.contracts.catalogue)
        except (msgspec.MsgspecError, PolicyError, RecursionError):
            pass
        else:
            state.heard[topic] = told.client, contract
    if before is not None or topic in state.heard:
        state.forget()
