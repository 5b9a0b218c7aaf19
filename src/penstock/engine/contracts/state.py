"""The contracts that a node knows: the domain's, those that clients have brought, and open situations."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content
from penstock.model.errors import UNREADABLE, PolicyError
from penstock.model.quality import NO_QUALITY, Quality
from penstock.model.topic import matches
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract, Subject
from penstock.policy.contracts.contract_set import Contracts, subscription_id, wants_of
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.release import ReleaseMark, Releaser
from penstock.policy.contracts.release_place import ace_digest
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituations
from penstock.policy.contracts.text_form import read_consumer
from penstock.policy.quality.collectors import QualityCollector

SITUATION = "$penstock/situation/"
"""Before a situation's name: where the node of its source tells others of it."""
CONSUMER = "$penstock/consumer/"
"""Before a digest: where a node tells others what a client has brought that consumes."""
MAX_RELEASERS = 20_000
_NONE: frozenset[str] = frozenset()
_NOTHING_DONE: Mapping[str, list[object]] = MappingProxyType({})
Counted = dict[str, Counter[str]]
"""By situation and client, how many events a rule has released that is for that situation."""


class Private(NamedTuple):
    """A policy, and the topic of the event that it is asked about."""

    policy: PrivacyPolicy
    topic: str
    contract: str = ""
    """The contract that it came with; empty: the domain has it for topics."""
    is_local: bool = False
    """True if only the producer's node knows the advertisement (la)."""
    is_asked_here: bool = False
    """True if it is asked wherever the event is: where events are only worked out, no node has decided before."""

    def key(self, subscription: str) -> str:
        """Return the entry of a subscription in the ACE set, by its id."""
        topic = "" if self.contract else f"#{self.topic}"
        return ace_digest(f"{subscription} privacy:{self.policy.name}{topic}")


class ClientWants(NamedTuple):
    """A want of a client, with all that the client guarantees."""

    client: str
    contract: ConsumerContract
    want: ContextWant


class ContractState:
    """The contracts of clients, beside the domain's."""

    def __init__(self, contracts: Contracts) -> None:
        self.contracts = contracts
        self.situations = frozenset(known.name for known in contracts.situations)
        self.open: OpenSituations = NONE_OPEN
        self.heard: dict[str, tuple[str, ConsumerContract]] = {}
        """By what they are told on, clients at other nodes and contracts that they have brought."""
        self.last: tuple[tuple[tuple[str, str], ...], Quality] = (), NO_QUALITY
        """The quality that was attached last, as it is carried: mostly it is asked for at once."""
        self.counted: Counted = {}
        """Releases by rules for a situation that is open."""
        self._filters: Counter[str] = Counter()
        self._releasers: dict[tuple[str, str, str, str], tuple[tuple[object, ...], Releaser]] = {}
        self._concerned: dict[str, bool] = {}
        self._asking: dict[tuple[int, str], tuple[Subject, tuple[ClientWants, ...]]] = {}
        self._of_client: dict[tuple[str, Subject, str], tuple[ClientWants, ...]] = {}
        self._apart: dict[tuple[str, ...], tuple[ClientWants, tuple[ProducerContract, ...], tuple[object, ...]]] = {}
        self._interned: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._heard_by: dict[str, list[ConsumerContract]] | None = None
        self._kinds: dict[tuple[str, str], tuple[ClientWants, ...]] = {}
        self.subscribers: dict[tuple[int, str], tuple[str, ...]] = {}
        """By neighbour and topic, who subscribes beyond (`subscribers.beyond`)."""
        self.crossed: dict[tuple[int, str], tuple[str, ...]] = {}
        """By neighbour and topic, when the private event was published that it retains: it must hear when that is no
        longer so.
        """
        self._binding: dict[tuple[str, str], tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]] = {}

    def forget(self) -> None:
        """Forget what was derived from clients' contracts, which have changed."""
        self._concerned.clear()
        self._asking.clear()
        self._of_client.clear()
        self._heard_by = None
        self._kinds.clear()
        self._apart.clear()
        self._interned.clear()

    def forget_beyond(self) -> None:
        """Forget who subscribes beyond links, which has changed."""
        self.subscribers.clear()

    def open_at(self, now: float) -> frozenset[str]:
        """Return the open situations, even if the end of others has not been noticed yet."""
        return frozenset(name for name, opened in self.open.items() if opened.until > now) if self.open else _NONE

    def brought(self, filter: str, count: int) -> None:
        """Count contracts that have come or gone, by which events on such topics must be inspected."""
        self._filters[filter] += count
        if not self._filters[filter]:
            del self._filters[filter]
        self.forget()

    def concerns(self, topic: str) -> bool:
        """Return True if events on a topic must be looked at."""
        is_concerned = self._concerned.get(topic)
        if is_concerned is None:
            if len(self._concerned) >= MAX_RELEASERS:
                self._concerned.clear()
            situations = self.contracts.situations
            ends = (end for situation in situations for end in (situation.opens, situation.closes) if end is not None)
            is_concerned = self._concerned[topic] = (
                topic.startswith((SITUATION, CONSUMER))
                or self.contracts.concerns(topic)
                or any(matches(filter, topic) for filter in self._filters)
                or any(matches(end.filter, topic) for end in ends)
            )
        return is_concerned

    def asking(self, session: Session, topic: str, now: float) -> tuple[ClientWants, ...]:
        """Return the wants of a client here that are about a topic: the domain's, and its own."""
        known = shown_by(session, now)
        key = (session.id, topic)
        wants = self._asking.get(key)
        if wants is not None and wants[0] == known:
            return wants[1]
        client, contracts = session.place.entity, self.contracts
        given = contracts.consuming(client, known)
        asked = [ClientWants(client, consumer, want) for consumer in given for want in wants_of(consumer, topic)]
        for contract in session.declared.consumes.values():
            wanted = [want for want in contract.wants if matches(want.filter, topic)]
            asked += [ClientWants(client, contracts.of(client, contract, known), want) for want in wanted]
        if len(self._asking) >= MAX_RELEASERS:
            self._asking.clear()
        self._asking[key] = known, tuple(asked)
        return tuple(asked)

    def of_client(self, client: str, shown: Subject, topic: str) -> tuple[ClientWants, ...]:
        """Return the wants about a topic of a client at another node, which has shown this there: the domain's, and
        what it has brought, as far as that was told.
        """
        key = (client, shown, topic)
        wants = self._of_client.get(key)
        if wants is None:
            if len(self._of_client) >= MAX_RELEASERS:
                self._of_client.clear()
            given = (*self.contracts.consuming(client, shown), *self._heard_of(client))
            wants = tuple(
                ClientWants(client, contract, want) for contract in given for want in wants_of(contract, topic)
            )
            self._of_client[key] = wants
        return wants

    def _heard_of(self, client: str) -> list[ConsumerContract]:
        """Return what a client at another node has brought; what wants nothing is about no topic."""
        if self._heard_by is None:
            self._heard_by = {}
            for whose, contract in self.heard.values():
                if contract.wants:
                    self._heard_by.setdefault(whose, []).append(contract)
        return self._heard_by.get(client, [])

    def kinds(self, topic: str, neighbour: str, elsewhere: Callable[[], set[str]]) -> tuple[ClientWants, ...]:
        """Return the wants about a topic of all clients but those that the domain has `elsewhere` than beyond a
        neighbour, one of each kind: what contracts cannot tell apart gets the same.
        """
        wants = self._kinds.get((topic, neighbour))
        if wants is None:
            if len(self._kinds) >= MAX_RELEASERS:
                self._kinds.clear()
            not_there = elsewhere()
            asked = [
                ClientWants(client, self.contracts.of(client, contract), want)
                for contract in self.contracts.consumers
                for client in sorted(contract.consumers - not_there)
                for want in wants_of(contract, topic)
            ]
            wants = self._kinds[topic, neighbour] = tuple({_kind(asking): asking for asking in asked}.values())
        return wants

    def told_apart_by(self, asking: ClientWants, contracts: tuple[ProducerContract, ...]) -> tuple[object, ...]:
        """Return all by which contracts can tell a want from others: those with the same get the same of an event."""
        key = (subscription_id(*asking), *(contract.name for contract in contracts))
        known = self._apart.get(key)
        if known is not None and known[0] is asking and known[1] == contracts:
            return known[2]
        if len(self._apart) >= MAX_RELEASERS:
            self._apart.clear()
        client, consumer, want = asking
        permitting = tuple(self.releaser(client, contract, consumer, want).permitting for contract in contracts)
        kind = (permitting, consumer.retention, want.needs, want.condition, want.scope)
        apart = self._interned.setdefault(kind, (len(self._interned),))
        self._apart[key] = asking, contracts, apart
        return apart

    def binding(self, client: str, topic: str) -> tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]:
        """Return the domain's contracts and collectors for what a client publishes on a topic."""
        bound = self._binding.get((client, topic))
        if bound is None:
            if len(self._binding) >= MAX_RELEASERS:
                self._binding.clear()
            contracts = self.contracts
            bound = contracts.producing(client, topic), contracts.collectors(client, topic)
            self._binding[client, topic] = bound
        return bound

    def releaser(
        self, client: str, producer: ProducerContract, consumer: ConsumerContract, want: ContextWant
    ) -> Releaser:
        """Return the releaser of a contract for a want of a client, made once."""
        key = (client, producer.name, consumer.name, want.name)
        about = (producer, consumer, want)
        known = self._releasers.get(key)
        if known is not None and known[0] == about:
            return known[1]
        if len(self._releasers) >= MAX_RELEASERS:
            self._releasers.clear()
        releaser = Releaser(producer, consumer, want, self.contracts.catalogue, self.situations)
        self._releasers[key] = about, releaser
        return releaser


def _kind(asking: ClientWants) -> tuple[object, ...]:
    contract, want = asking.contract, asking.want
    promised = (contract.purposes, contract.situations, contract.retention, contract.attributes)
    return (*promised, want.condition, want.needs, want.scope)


def shown_by(session: Session, now: float) -> Subject:
    """Return the attributes that a client has proven here: its user, its certificate, the issuer of its token."""
    attributes = [("user", session.subject.user), ("certificate", session.subject.certificate)]
    if session.trust.token is not None and session.trust.token.counts(now):
        attributes.append(("token-issuer", session.trust.token.token.claims.issuer))
    return tuple((name, frozenset({value})) for name, value in attributes if value is not None)


class Governed(NamedTuple):
    """The findings of contracts about an event, independent of the receiver."""

    contracts: tuple[ProducerContract, ...]
    quality: Quality
    content: Content
    is_first: bool
    """True at its producer's node."""
    ace: dict[str, str]
    """By digest of a subscription, the rule that releases it: as its producer's node has found."""
    private: tuple[Private, ...] = ()
    """Policies in XACML about it."""
    wrong: str = ""
    """The reason why nobody gets it: a property of it cannot be read."""
    marks: tuple[ReleaseMark, ...] = ()
    """The marks of the rules that have released it already."""
    since: float | None = None
    """The time of publication, if the event has it."""
    is_late: bool = False
    """True for a client that has subscribed after it was published."""
    is_for_local: bool = False
    """True if it is also for clients whose local subscriptions only their own nodes know."""
    degraded: Mapping[str, list[object]] = _NOTHING_DONE
    """By contract, the degradations that were done before it left a node, in their plain form."""
    producer: str = ""
    """The client id of who published it; empty: it is not known."""

    @property
    def is_private(self) -> bool:
        return any(contract.is_private for contract in self.contracts)


def renewed_contracts(before: ContractState | None, contracts: Contracts | None) -> ContractState | None:
    """Return the state with other contracts of the domain."""
    if contracts is None:
        return None
    state = ContractState(contracts)
    if before is not None:
        state.open = {name: opened for name, opened in before.open.items() if name in state.situations}
        state.heard, state.counted, state.crossed = before.heard, before.counted, before.crossed
    return state


MAX_ANNOUNCED = 10_000
"""Contracts of consumers at other nodes; of more than that, those who bring them get nothing from here."""


class ContractAnnouncement(msgspec.Struct, frozen=True):
    """A node's announcement of a consumer's contract."""

    client: str
    name: str
    contract: dict[str, object]


def hear(state: ContractState, topic: str, payload: bytes) -> None:
    """Take another node's announcement of a client's contract. One that cannot be read enables nobody."""
    before = state.heard.pop(topic, None)
    if payload and len(state.heard) < MAX_ANNOUNCED:
        try:
            announcement = msgspec.json.decode(payload, type=ContractAnnouncement)
            contract = read_consumer(announcement.name, announcement.contract, state.contracts.catalogue)
        except (*UNREADABLE, PolicyError):
            pass
        else:
            state.heard[topic] = announcement.client, contract
    if before is not None or topic in state.heard:
        state.forget()
