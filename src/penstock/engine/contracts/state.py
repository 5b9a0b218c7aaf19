"""The contracts that a node knows: the domain's, those that clients have brought, and open situations."""

from collections import Counter
from typing import NamedTuple

import msgspec

from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.model.quality import NO_QUALITY, Quality
from penstock.model.topic import matches
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract, Subject
from penstock.policy.contracts.contract_set import Contracts, wants_of
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.release import ReleaseMark, Releaser
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituations
from penstock.policy.contracts.text_form import read_consumer
from penstock.policy.quality.collectors import QualityCollector

SITUATION = "$penstock/situation/"
"""Before a situation's name: where the node of its source tells others of it."""
CONSUMER = "$penstock/consumer/"
"""Before a digest: where a node tells others what a client has brought that consumes."""
MAX_RELEASERS = 20_000
_NONE: frozenset[str] = frozenset()
Counted = dict[str, Counter[str]]
"""By situation and client, how many events a rule has released that is for that situation."""


class Private(NamedTuple):
    """A policy, and the topic of the event that it is asked about."""

    policy: PrivacyPolicy
    topic: str


class ClientWants(NamedTuple):
    """A want of a client, with all that the client guarantees."""

    client: str
    contract: ConsumerContract
    want: ContextWant


class ContractState:
    """The contracts of clients, beside the domain's."""

    def __init__(self, contracts: Contracts) -> None:
        self.contracts = contracts
        self.situations = frozenset(one.name for one in contracts.situations)
        self.open: OpenSituations = NONE_OPEN
        self.heard: dict[str, tuple[str, ConsumerContract]] = {}
        """By what they are told on, clients at other nodes and contracts that they have brought."""
        self.last: tuple[tuple[tuple[str, str], ...], Quality] = (), NO_QUALITY
        """The quality that was attached last, as it is carried: mostly it is asked for at once."""
        self.counted: Counted = {}
        """What rules have released that are for a situation which is open."""
        self._filters: Counter[str] = Counter()
        self._releasers: dict[tuple[str, str, str, str], tuple[tuple[object, ...], Releaser]] = {}
        self._concerned: dict[str, bool] = {}
        self._asking: dict[tuple[int, str], tuple[Subject, tuple[ClientWants, ...]]] = {}
        self._beyond: dict[str, tuple[ClientWants, ...]] = {}
        self._binding: dict[tuple[str, str], tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]] = {}

    def forget(self) -> None:
        """Forget what was derived from clients' contracts, which have changed."""
        self._concerned.clear()
        self._asking.clear()
        self._beyond.clear()

    def open_at(self, now: float) -> frozenset[str]:
        """Return the open situations, even if the end of others has not been noticed yet."""
        return frozenset(name for name, one in self.open.items() if one.until > now) if self.open else _NONE

    def brought(self, filter: str, count: int) -> None:
        """Count contracts that have come or gone, by which events on such topics must be inspected."""
        self._filters[filter] += count
        if not self._filters[filter]:
            del self._filters[filter]
        self.forget()

    def concerns(self, topic: str) -> bool:
        """Return True if events on a topic must be looked at."""
        found = self._concerned.get(topic)
        if found is None:
            if len(self._concerned) >= MAX_RELEASERS:
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

    def asking(self, session: Session, topic: str, now: float) -> tuple[ClientWants, ...]:
        """Return the wants of a client here that are about a topic: the domain's, and its own."""
        known = shown_by(session, now)
        key = (session.id, topic)
        found = self._asking.get(key)
        if found is not None and found[0] == known:
            return found[1]
        client, contracts = session.place.entity, self.contracts
        given = contracts.consuming(client, known)
        made = [ClientWants(client, one, want) for one in given for want in wants_of(one, topic)]
        for one in session.declared.consumes.values():
            made += [
                ClientWants(client, contracts.of(client, one, known), want)
                for want in one.wants
                if matches(want.filter, topic)
            ]
        if len(self._asking) >= MAX_RELEASERS:
            self._asking.clear()
        self._asking[key] = known, tuple(made)
        return tuple(made)

    def beyond(self, topic: str) -> tuple[ClientWants, ...]:
        """Return the global wants about a topic of all clients whose guarantees are known here, wherever they are."""
        found = self._beyond.get(topic)
        if found is None:
            if len(self._beyond) >= MAX_RELEASERS:
                self._beyond.clear()
            made = [
                ClientWants(client, self.contracts.of(client, one), want)
                for one in self.contracts.consumers
                for client in sorted(one.consumers)
                for want in wants_of(one, topic)
            ]
            made += [
                ClientWants(client, one, want)
                for client, one in self.heard.values()
                for want in one.wants
                if matches(want.filter, topic)
            ]
            found = self._beyond[topic] = tuple(one for one in made if one.want.scope == "global")
        return found

    def binding(self, client: str, topic: str) -> tuple[tuple[ProducerContract, ...], tuple[QualityCollector, ...]]:
        """Return the domain's contracts and collectors for what a client publishes on a topic."""
        found = self._binding.get((client, topic))
        if found is None:
            if len(self._binding) >= MAX_RELEASERS:
                self._binding.clear()
            contracts = self.contracts
            found = contracts.producing(client, topic), contracts.collectors(client, topic)
            self._binding[client, topic] = found
        return found

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
        made = Releaser(producer, consumer, want, self.contracts.catalogue, self.situations)
        self._releasers[key] = about, made
        return made


def shown_by(session: Session, now: float) -> Subject:
    """Return the attributes that a client has proven here: its user, its certificate, the issuer of its token."""
    found = [("user", session.subject.user), ("certificate", session.subject.certificate)]
    if session.trust.token is not None and session.trust.token.counts(now):
        found.append(("token-issuer", session.trust.token.token.claims.issuer))
    return tuple((name, frozenset({value})) for name, value in found if value is not None)


class Governed(NamedTuple):
    """The findings of contracts about an event, independent of the receiver."""

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


def renewed_contracts(before: ContractState | None, contracts: Contracts | None) -> ContractState | None:
    """Return the state with other contracts of the domain."""
    if contracts is None:
        return None
    made = ContractState(contracts)
    if before is not None:
        made.open = {name: one for name, one in before.open.items() if name in made.situations}
        made.heard, made.counted = before.heard, before.counted
    return made


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
            told = msgspec.json.decode(payload, type=ContractAnnouncement)
            contract = read_consumer(told.name, told.contract, state.contracts.catalogue)
        except (msgspec.MsgspecError, PolicyError, RecursionError):
            pass
        else:
            state.heard[topic] = told.client, contract
    if before is not None or topic in state.heard:
        state.forget()
