"""Contracts at a node: those of the domain and those that clients have brought, and which of them speak of an event.

A client's contract goes with its events to other nodes: the name of one that the domain has, else all of it.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.engine.contracts import privacy, situation_audit
from penstock.engine.contracts.privacy import Private
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import AT, CONTRACT, CONTRACT_BYTES
from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.topic import matches
from penstock.policy.contracts import release_place
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract, Subject
from penstock.policy.contracts.contract_set import Contracts, wants_of
from penstock.policy.contracts.plain_form import plain_producer
from penstock.policy.contracts.release import PRIVACY, RELEASED, ReleaseMark, Releaser, read_marks
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituations
from penstock.policy.contracts.text_form import read_producer
from penstock.policy.quality.carriage import ATTACHED, read_properties
from penstock.policy.quality.collectors import QualityCollector

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


class Asking(NamedTuple):
    """A want of a client, with all that the client guarantees."""

    client: str
    contract: ConsumerContract
    want: ContextWant


class State:
    """What a node knows of contracts beside the domain's."""

    def __init__(self, contracts: Contracts) -> None:
        self.contracts = contracts
        self.situations = frozenset(one.name for one in contracts.situations)
        self.open: OpenSituations = NONE_OPEN
        self.heard: dict[str, tuple[str, ConsumerContract]] = {}
        """By what they are told on, clients at other nodes and contracts that they have brought."""
        self.last: tuple[tuple[tuple[str, str], ...], Quality] = (), NO_QUALITY
        """The quality that was attached last, as it is carried: mostly it is asked for at once."""
        self.counted: situation_audit.Counted = {}
        """What rules have released that are for a situation which is open."""
        self._filters: Counter[str] = Counter()
        self._releasers: dict[tuple[str, str, str, str], tuple[tuple[object, ...], Releaser]] = {}
        self._concerned: dict[str, bool] = {}
        self._asking: dict[tuple[int, str], tuple[Subject, tuple[Asking, ...]]] = {}
        self._beyond: dict[str, tuple[Asking, ...]] = {}
        self._binding: dict[tuple[str, str], tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]] = {}

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

    def binding(self, client: str, topic: str) -> tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]:
        """The domain's contracts and collectors for what a client publishes on a topic."""
        found = self._binding.get((client, topic))
        if found is None:
            if len(self._binding) >= MOST_RELEASERS:
                self._binding.clear()
            contracts = self.contracts
            found = contracts.producing(client, topic), contracts.collectors(client, topic)
            self._binding[client, topic] = found
        return found

    def releaser(
        self, client: str, producer: ProducerContract, consumer: ConsumerContract, want: ContextWant
    ) -> Releaser:
        """What decides on events of a contract for a want of a client, made once."""
        key = (client, producer.name, consumer.name, want.name)
        about = (producer, consumer, want)
        known = self._releasers.get(key)
        if known is not None and known[0] == about:
            return known[1]
        if len(self._releasers) >= MOST_RELEASERS:
            self._releasers.clear()
        made = Releaser(producer, consumer, want, self.contracts.catalogue, self.situations)
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
    marks: tuple[ReleaseMark, ...] = ()
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
        made.open = {name: one for name, one in before.open.items() if name in made.situations}
        made.heard, made.counted = before.heard, before.counted
    return made


def recorded(now: float) -> float:
    """A time as journals have it, to the microsecond: so what is decided by it can be decided again."""
    return int(now * 1_000_000) / 1_000_000


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
    known = user_properties.told(event, CONTRACT)
    bound = producing(node, sender, event.topic)
    return any(one.is_private and named(node.contracts, one) not in known for one in bound)


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


def governed(node: "Node", event: Event, now: float) -> Governed | None:
    """What contracts say of an event; None if they say nothing of it. What was retained before its producer had a
    contract is bound by it too.
    """
    state = node.contracts
    if state is None:
        return None
    late = of_origin(node, event) if event.retain and state.concerns(event.topic) else ()
    late = tuple(one for one in late if one.is_private)
    policies = privacy.of_topic(state.contracts, event.topic)
    if user_properties.RESERVED_BYTES not in event.properties and not late and not policies:
        return None
    pairs = user_properties.carried(event.properties).user_properties if event.properties else ()
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
        inherited = privacy.told(state.contracts, (one for one in names if one.startswith(PRIVACY)))
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
