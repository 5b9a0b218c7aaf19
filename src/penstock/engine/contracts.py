"""Contracts at a node: quality that is attached to events, situations that are open, and what clients have brought.

A client's contract goes with its events to other nodes: the name of one that the domain has, else all of it. There is
one place where situations are opened and closed, the node of their source; it tells the others by an event of its own.
"""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.engine import travel
from penstock.engine.session import Session
from penstock.model.content import Content
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy import release_place, situation
from penstock.policy.contract import ConsumerContract, ProducerContract, Want
from penstock.policy.contract_plain import plain_producer
from penstock.policy.contract_text import read_producer
from penstock.policy.contracts import Contracts
from penstock.policy.privacy import PrivacyPolicy
from penstock.policy.quality_carry import ATTACHED, CLAIMED, read_properties, read_quality, write_properties
from penstock.policy.quality_collect import collect
from penstock.policy.quality_need import why_not
from penstock.policy.release import Releaser
from penstock.policy.situation import NONE_OPEN, Opened, OpenSituations

if TYPE_CHECKING:
    from penstock.engine.node import Node

CONTRACT = "penstock-contract"
"""The user property with the producer's contracts of an event: names of those that the domain has, or all of one."""
SITUATION = "$penstock/situation/"
"""Before a situation's name: where the node of its source tells others of it."""
MOST_RELEASERS = 20_000


class Told(msgspec.Struct, frozen=True):
    """What a node tells of a situation."""

    since: float
    until: float
    by: str


class State:
    """What a node knows of contracts beside the domain's."""

    def __init__(self, contracts: Contracts) -> None:
        self.contracts = contracts
        self.open: OpenSituations = NONE_OPEN
        self._releasers: dict[tuple[str, str, str, str], tuple[tuple[object, ...], Releaser]] = {}
        self._concerned: dict[str, bool] = {}

    def concerns(self, topic: str) -> bool:
        """Whether events on a topic must be looked at."""
        found = self._concerned.get(topic)
        if found is None:
            if len(self._concerned) >= MOST_RELEASERS:
                self._concerned.clear()
            found = self._concerned[topic] = (
                topic.startswith(SITUATION)
                or self.contracts.concerns(topic)
                or any(
                    matches(one.filter, topic)
                    for each in self.contracts.situations
                    for one in (each.opens, each.closes)
                    if one is not None
                )
            )
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


class Governed(NamedTuple):
    """What contracts say of an event, whoever gets it."""

    contracts: tuple[ProducerContract, ...]
    quality: Quality
    content: Content
    is_first: bool
    """Whether this is its producer's node."""
    ace: dict[str, str]
    """By digest of a subscription, the rule that releases it: as its producer's node has found."""
    private: tuple[PrivacyPolicy, ...] = ()
    """Policies in XACML about it."""
    wrong: str = ""
    """Why nobody gets it: what came with it cannot be read."""

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
    return made


def restore(node: "Node", now: float) -> None:
    """Situations that were open before a restart are, if their time is not over: what was told of them is retained."""
    if node.contracts is not None:
        for topic, event in node.retained.match(f"{SITUATION}+"):
            _hear(node.contracts, topic.removeprefix(SITUATION), event.payload, now)


# --- what producers say


def producing(node: "Node", session: Session, topic: str) -> tuple[ProducerContract, ...]:
    """The contracts that bind what a client publishes on a topic: the domain's, and those that it has brought."""
    assert node.contracts is not None
    brought = (one for one in session.produces.values() if matches(one.filter, topic))
    return (*node.contracts.contracts.producing(session.entity, topic), *brought)


def attach(node: "Node", session: Session, event: Event, now: float) -> Event | Verdict:
    """Stage conform, for an event of a client: measure its quality, hold its producer to its guarantees, and put both
    to the event.
    """
    state = node.contracts
    assert state is not None
    bound = producing(node, session, event.topic)
    collectors = state.contracts.collectors(session.entity, event.topic)
    if not bound and not collectors:
        return event
    content = node.ensemble.reader.read(event)
    try:
        quality = _claimed(event, content, now)
    except ContentError as error:
        return Verdict("conform", Effect.SUPPRESS, "quality", f"its quality cannot be read: {error}")
    catalogue = state.contracts.catalogue
    collected = collect(collectors, catalogue, content, now)
    quality = collected.beside(quality, catalogue)
    for contract in bound:
        missed = why_not(contract.guarantees, quality, content)
        if missed:
            reason = f"not as its producer guarantees: {'; '.join(missed)}"
            return Verdict("conform", Effect.SUPPRESS, f"contract {contract.name}", reason)
    known = {one.name for one in state.contracts.producers}
    told = [(CONTRACT, one.name if one.name in known else _plain(one)) for one in bound if one.is_private]
    return travel.having(event, None, (*write_properties(quality), *told), without=CLAIMED)


def _claimed(event: Event, content: Content, now: float) -> Quality:
    """What an event says of its own quality: in its content, and in properties, which count more."""
    received = moment(now)
    try:
        inside = read_quality(content, received)
    except ContentError:
        inside = NO_QUALITY  # it need not speak of quality, nor be readable
    properties = travel.carried(event.properties).user_properties if event.properties else ()
    return inside.with_(read_properties(properties, received, CLAIMED))


def _plain(contract: ProducerContract) -> str:
    return msgspec.json.encode({"name": contract.name, **plain_producer(contract)}).decode()


def governed(node: "Node", event: Event, now: float) -> Governed | None:
    """What contracts say of an event; None if they say nothing of it."""
    state = node.contracts
    if state is None:
        return None
    private = state.contracts.private(event.topic)
    if not private and travel.RESERVED_BYTES not in event.properties:
        return None
    pairs = travel.carried(event.properties).user_properties if event.properties else ()
    names = [value for name, value in pairs if name == CONTRACT]
    is_measured = any(name == ATTACHED for name, _ in pairs)
    if not names and not is_measured and not private:
        return None
    content = node.ensemble.reader.read(event)
    is_first = not any(one in node.ensemble.nodes for one in event.path)
    try:
        found = tuple(_contract(state.contracts, one) for one in names)
        quality = read_properties(pairs, moment(now), ATTACHED)
        ace = release_place.read_ace(next((value for name, value in pairs if name == release_place.ACE), "{}"))
    except (PolicyError, ContentError) as error:
        return Governed((), NO_QUALITY, content, is_first, {}, private, str(error))
    return Governed(found, quality, content, is_first, ace, private)


def _contract(contracts: Contracts, told: str) -> ProducerContract:
    """The contract that an event names, or has with it; raises `PolicyError`."""
    if not told.startswith("{"):
        known = contracts.named(told)
        if known is None:
            raise PolicyError(f"there is no contract `{told:.80}` here")
        return known
    said = msgspec.json.decode(told, type=dict)
    return read_producer(str(said.pop("name", "")), said, contracts.catalogue)


# --- situations


def look(node: "Node", event: Event, sender: Session | None, now: float) -> Event | None:
    """Whether an event opens or closes a situation; what other nodes are to be told of it."""
    state = node.contracts
    if state is None or not state.contracts.situations:
        return None
    if event.topic.startswith(SITUATION):
        if sender is not None and sender.neighbour is not None:
            _hear(state, event.topic.removeprefix(SITUATION), event.payload, now)
        return None
    if sender is None or sender.neighbour is not None:
        return None
    content = node.ensemble.reader.read(event)
    stepped = situation.step(state.contracts.situations, state.open, event.topic, sender.entity, content, now)
    state.open = stepped.open
    told = None
    for one in stepped.notices:
        by = f" by `{one.by}`" if one.by else ""
        node.notice("situation", sender, event.topic, f"`{one.situation}` {one.change}{by} {one.reason}".rstrip())
        if one.change is not situation.Change.REFUSED:
            told = tell(state, one.situation)
    return told


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
    for one in notices:
        node.notice("situation", None, "", f"`{one.situation}` {one.change}")


# --- what consumers say


def consuming(node: "Node", session: Session) -> tuple[ConsumerContract, ...]:
    """The contracts of a client that consumes: those that it has brought, and the domain's."""
    assert node.contracts is not None
    contracts = node.contracts.contracts
    brought = (contracts.of(session.entity, one) for one in session.consumes.values())
    return (*contracts.consuming(session.entity), *brought)
