"""Contracts that clients bring: for what they publish, and for what they get.

A consumer says with a subscription what it guarantees (the user property `contract`), so that the contract is as long
as the subscription is; or either says it on a control topic, which also MQTT 3.1.1 can. A contract's name in the
ensemble has a digest of what it says, so that what was decided by one never counts for another. What a consumer
guarantees for a global subscription is told to the other nodes, so that the producer's node decides (contracts §2.2).
"""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.domain.problems import suggestion
from penstock.engine.contracts import subscribers
from penstock.engine.contracts.registry import BROUGHT
from penstock.engine.contracts.state import CONSUMER, ContractAnnouncement, ContractState, shown_by
from penstock.engine.events import own_events
from penstock.engine.node import Node
from penstock.engine.sessions import advertise
from penstock.engine.sessions.refusal import Outcome
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements import filter_policies
from penstock.model.errors import UNREADABLE, PolicyError
from penstock.model.topic import Filter
from penstock.policy.contracts import text_form
from penstock.policy.contracts.contract import ConsumerContract, PrivacyRule, ProducerContract, advertisement
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.plain_form import plain_consumer, plain_producer
from penstock.policy.contracts.privacy import roots_of
from penstock.policy.contracts.privacy_types import wrong_types
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.statements.advertisement import Scope
from penstock.wire.reason import Reason

TOPIC = "$penstock/contract"
TOPICS = frozenset({TOPIC})
MAX_CONTRACTS = 64
"""Contracts that one session may bring; and in `MAX_BYTES` how long they may be together."""
MAX_BYTES = 65_536
_MAX_CONTRACT_BYTES = 32_768
"""A producer's contract goes with its events, in a user property."""
_MAX_NAME_LENGTH = 32
_OF_SUBSCRIPTION = "\0"
"""Before the key of a subscription: what a session knows the contract by that came with it."""


Contract = ConsumerContract | ProducerContract


class Stored(msgspec.Struct, frozen=True):
    """A contract as the store has it."""

    is_consumer: bool
    contract: dict[str, object]
    name: str


class _ContractMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/contract`. With neither of the two, the contract of that name is taken back."""

    name: str
    produces: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    consumes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class BroughtContract(NamedTuple):
    """A contract that is brought, and how long it is."""

    contract: Contract
    size: int


def why_not(node: Node, session: Session) -> str:
    """Return the reason why a client may not bring contracts; empty if it may."""
    if node.contracts is None or not node.contracts.contracts.may_bring(session.place.entity):
        return f"contract: the domain does not let `{session.place.entity}` bring contracts"
    return ""


# --- on the control topic


def receive(node: Node, session: Session, payload: bytes, now: float) -> Outcome:
    """Take or withdraw a contract that a client sends."""
    outcome = _receive(node, session, payload, now)
    if outcome.reason >= 0x80:
        node.deny("contract denied", session, TOPIC, outcome.text)
    return outcome


def _receive(node: Node, session: Session, payload: bytes, now: float) -> Outcome:
    try:
        message = msgspec.json.decode(payload, type=_ContractMessage)
    except UNREADABLE as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"not a contract: {error}")
    if message.produces is msgspec.UNSET and message.consumes is msgspec.UNSET:
        return _take_back(node, session, message.name, now)
    refused = why_not(node, session)
    if refused:
        return Outcome(Reason.NOT_AUTHORIZED, refused)
    if message.produces is not msgspec.UNSET and message.consumes is not msgspec.UNSET:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, "expected one of `produces` and `consumes`")
    try:
        if isinstance(message.produces, msgspec.Raw):
            return _produces(node, session, message.name, bytes(message.produces), now)
        assert isinstance(message.consumes, msgspec.Raw)
        brought = _read_contract(node, session, message.name, bytes(message.consumes).decode(), is_consumer=True)
        _check_room(session, message.name, brought)
    except (PolicyError, UnicodeDecodeError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"contract `{message.name:.80}`: {error}")
    assert isinstance(brought.contract, ConsumerContract)
    put_consumer(node, session, message.name, brought.contract, now)
    return Outcome(Reason.SUCCESS)


def _produces(node: Node, session: Session, name: str, text: bytes, now: float) -> Outcome:
    """Take a producer's contract, which is an advertisement too, as one of the domain is."""
    brought = _read_contract(node, session, name, text.decode(), is_consumer=False)
    _check_room(session, name, brought)
    contract = brought.contract
    assert isinstance(contract, ProducerContract)
    if contract.filter.count("/") >= node.limits.topic_levels:
        raise PolicyError(f"filter has more than {node.limits.topic_levels} levels")
    offered = advertisement(contract)
    key = _advertised(name)
    advertisements = session.declared.advertisements
    if len(advertisements) >= advertise.MAX_ADVERTISEMENTS and key not in advertisements:
        return Outcome(Reason.QUOTA_EXCEEDED, f"session has {advertise.MAX_ADVERTISEMENTS} advertisements already")
    problem = filter_policies.insert_advertisement(node, session, offered.filter, offered.condition, None, now)
    if problem:
        return Outcome(Reason.NOT_AUTHORIZED, f"contract `{name}`: {problem}")
    advertisements[key] = offered = replace(offered, name=key)
    node.ledger.advertisement(session, key, offered)
    put_producer(node, session, name, contract)
    advertise.changed(node, session, key)
    return Outcome(Reason.SUCCESS)


def _take_back(node: Node, session: Session, name: str, now: float) -> Outcome:
    if name not in session.declared.produces and name not in session.declared.consumes:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"session has no contract `{name:.80}`")
    if name in session.declared.produces:
        put_producer(node, session, name, None)
        if session.declared.advertisements.pop(_advertised(name), None) is not None:
            node.ledger.advertisement(session, _advertised(name), None)
            advertise.changed(node, session, _advertised(name))
    put_consumer(node, session, name, None, now)
    return Outcome(Reason.SUCCESS)


# --- with a subscription


def with_subscription(
    node: Node, session: Session, filter: Filter, key: str, document: str, scope: Scope | None
) -> BroughtContract:
    """Return the guarantees of a client for a subscription; raise `PolicyError`."""
    state = node.contracts
    assert state is not None  # who may bring was asked before
    client, catalogue = session.place.entity, state.contracts.catalogue
    contract = text_form.bring_wanting("new", client, filter.filter, scope, document, catalogue)
    _check_situations(state, contract)
    plain = msgspec.json.encode(plain_consumer(contract))
    brought = BroughtContract(replace(contract, name=_name("", client, key.encode() + plain)), len(plain))
    _check_room(session, _OF_SUBSCRIPTION + key, brought)
    return brought


def subscribed(node: Node, subscription: Subscribed, brought: BroughtContract | None, now: float) -> None:
    """Note a new subscription, with a contract or without."""
    contract = None if brought is None else brought.contract
    assert not isinstance(contract, ProducerContract)
    put_consumer(node, subscription.session, _OF_SUBSCRIPTION + subscription.key, contract, now)


def unsubscribed(node: Node, session: Session, key: str) -> None:
    """Remove the contract of a subscription that has ended."""
    if session.declared.consumes:
        put_consumer(node, session, _OF_SUBSCRIPTION + key, None, None)


# --- contracts of sessions


def put_producer(node: Node, session: Session, name: str, contract: ProducerContract | None) -> None:
    """Set or remove a session's producer contract of a name: its publications are checked by it."""
    state = node.contracts
    for producer in (session.declared.produces.pop(name, None), contract):
        if producer is not None and state is not None:
            state.brought(producer.filter, 1 if producer is contract else -1)
    if contract is not None:
        session.declared.produces[name] = contract
    node.plans.forget_all()
    node.ledger.brought(session, name, _stored(contract))


def put_consumer(
    node: Node,
    session: Session,
    name: str,
    contract: ConsumerContract | None,
    now: float | None,
    is_moved: bool = False,
) -> None:
    """Set or remove a session's consumer contract of a name, and announce it to other nodes. `is_moved`: it goes on at
    another node, which has announced it.
    """
    before = session.declared.consumes.pop(name, None)
    if contract is not None:
        session.declared.consumes[name] = contract
    if before == contract:
        return
    node.later.begin_anew(session, node.runtime.clock() if now is None else now)
    state = node.contracts
    for consumer in (before, contract):
        if state is not None and consumer is not None:
            _needing(state, consumer, 1 if consumer is contract else -1)
    if any(want.asks for version in (before, contract) if version is not None for want in version.wants):
        node.plans.forget_all()
    node.ledger.brought(session, name, _stored(contract))
    subscribers.tell_again(node, session)
    for consumer in () if is_moved else (before, contract):
        if consumer is not None and (consumer is contract or session.neighbour is None):
            _tell(node, session, consumer, consumer is contract, node.runtime.clock() if now is None else now)


def _needing(state: ContractState, contract: ConsumerContract, count: int) -> None:
    """Have events inspected of which a consumer asks some quality or content."""
    state.forget()
    for want in contract.wants:
        if want.asks:
            state.brought(want.filter, count)


def _tell(node: Node, session: Session, contract: ConsumerContract, is_there: bool, now: float) -> None:
    """Tell the other nodes what is wanted globally, with all that is known of the client."""
    wants = tuple(want for want in contract.wants if want.scope != "local")
    if node.contracts is None or not wants or len(node.ensemble.nodes) < 2:
        return
    payload = b""
    if is_there:
        known = node.contracts.contracts.of(session.place.entity, contract, shown_by(session, now))
        plain = plain_consumer(replace(known, wants=wants))
        payload = msgspec.json.encode(ContractAnnouncement(session.place.entity, contract.name, plain))
    own_events.say(node, CONSUMER + contract.name.rpartition(":")[2], payload, now)


def forget(node: Node, session: Session, now: float, is_moved: bool = False) -> None:
    """Remove the contracts of a session that ends, or goes on at another node."""
    for name in list(session.declared.consumes):
        put_consumer(node, session, name, None, now, is_moved)
    for name in list(session.declared.produces):
        put_producer(node, session, name, None)


def review(node: Node, now: float) -> None:
    """Review clients' contracts after a domain change: a guarantee ends if its client may no longer give it."""
    # A producer's demand stays until it is withdrawn: more would be released without it.
    for session in list(node.sessions.values()):
        for producer in session.declared.produces.values():
            state = _need_state(node)
            state.brought(producer.filter, 1)
            for wrong in _wrong_types(state.contracts, producer):
                node.notice("policy failed", session, producer.filter, f"contract `{producer.name}`: xacml: {wrong}")
        for mine in session.declared.consumes.values():
            _needing(_need_state(node), mine, 1)
        if session.declared.consumes and why_not(node, session):
            for name in list(session.declared.consumes):
                put_consumer(node, session, name, None, now)
            node.notice("contract dropped", session, "", why_not(node, session))


def restore(node: Node, session: Session, name: str, stored: Stored, now: float) -> None:
    """Give a session back what it had brought before a restart."""
    state = _need_state(node)
    catalogue = state.contracts.catalogue
    try:
        if stored.is_consumer:
            session.declared.consumes[name] = mine = text_form.read_consumer(stored.name, stored.contract, catalogue)
            _needing(state, mine, 1)
            return
        contract = text_form.read_producer(stored.name, stored.contract, catalogue)
    except PolicyError as error:
        node.notice("contract dropped", session, "", f"contract `{name.strip(_OF_SUBSCRIPTION)}`: {error}")
        if stored.is_consumer:
            node.ledger.brought(session, name, None)
            return
        nobody = PrivacyRule("unreadable", visibility=(("nobody", frozenset({"nobody"})),))
        filter = str(stored.contract.get("filter", "#"))
        contract = ProducerContract(stored.name, frozenset({session.place.entity}), filter, rules=(nobody,))
    session.declared.produces[name] = contract
    state.brought(contract.filter, 1)


def stored(session: Session) -> Iterator[tuple[str, Stored]]:
    """Yield what a session has brought, by name."""
    brought: list[tuple[str, Contract]] = [*session.declared.consumes.items(), *session.declared.produces.items()]
    for name, contract in brought:
        kept = _stored(contract)
        assert kept is not None
        yield name, kept


def take_over(node: Node, session: Session, name: str, brought: Stored, now: float) -> None:
    """Give a session that comes from another node what it had brought there; what it has brought here counts."""
    if name in session.declared.consumes or name in session.declared.produces:
        return
    restore(node, session, name, brought, now)
    producer, consumer = session.declared.produces.get(name), session.declared.consumes.get(name)
    node.plans.forget_all()
    node.later.begin_anew(session, now)
    if producer is not None:
        node.ledger.brought(session, name, _stored(producer))
    if consumer is not None:
        node.ledger.brought(session, name, _stored(consumer))
        subscribers.tell_again(node, session)
        _tell(node, session, consumer, True, now)


def _need_state(node: Node) -> ContractState:
    """Return the node's contracts, even if the domain has none (any more): producers have brought some."""
    if node.contracts is None:
        node.contracts = ContractState(Contracts(make_catalogue(())))
    return node.contracts


# --- values


def _read_contract(node: Node, session: Session, name: str, text: str, is_consumer: bool) -> BroughtContract:
    assert node.contracts is not None
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        raise PolicyError(f"a contract's name has 1 to {_MAX_NAME_LENGTH} characters")
    bring = text_form.bring_consumer if is_consumer else text_form.bring_producer
    contract = bring(name, session.place.entity, text, node.contracts.contracts.catalogue)
    plain = msgspec.json.encode(_plain(contract))
    _check_situations(node.contracts, contract)
    if isinstance(contract, ProducerContract):
        for wrong in _wrong_types(node.contracts.contracts, contract):
            raise PolicyError(f"xacml: {wrong}")
    return BroughtContract(replace(contract, name=_name(name, session.place.entity, plain)), len(plain))


def _check_situations(state: ContractState, contract: Contract) -> None:
    """Raise `PolicyError` for a situation that the domain does not have: a misspelt one would never be open."""
    if isinstance(contract, ConsumerContract):
        named = contract.situations
    else:
        named = frozenset(name for rule in contract.rules for name in rule.during | rule.outside)
    for name in sorted(named - state.situations):
        near = suggestion(name, state.situations)
        raise PolicyError(f"situation: there is no situation `{name:.80}`; {near}".rstrip("; "))


def _wrong_types(contracts: Contracts, contract: ProducerContract) -> Iterator[str]:
    """Yield what a producer's policy in XACML asks for in another type than it gets: it could not be decided."""
    yield from wrong_types(roots_of(contract), contracts.attribute_types)


def _name(name: str, client: str, plain: bytes) -> str:
    """Return a contract's name in the whole ensemble. No contract of the domain has a colon in its name."""
    digest = blake2b(client.encode() + b"\0" + name.encode() + b"\0" + plain, digest_size=12).hexdigest()
    return f"{BROUGHT}{name}:{digest}" if name else f"{BROUGHT}{digest}"


def _advertised(name: str) -> str:
    return f"contract {name}"


def _check_room(session: Session, name: str, brought: BroughtContract) -> None:
    others: dict[tuple[bool, str], Contract] = {
        **{(True, key): contract for key, contract in session.declared.consumes.items()},
        **{(False, key): contract for key, contract in session.declared.produces.items()},
    }
    others.pop((isinstance(brought.contract, ConsumerContract), name), None)
    if len(others) >= MAX_CONTRACTS:
        raise PolicyError(f"session has {MAX_CONTRACTS} contracts already")
    together = brought.size + sum(len(msgspec.json.encode(_plain(contract))) for contract in others.values())
    if brought.size > _MAX_CONTRACT_BYTES or together > MAX_BYTES:
        limits = f"{_MAX_CONTRACT_BYTES} bytes, all of a session {MAX_BYTES}"
        raise PolicyError(f"a contract has at most {limits}, not {brought.size} and {together}")


def _plain(contract: Contract) -> dict[str, object]:
    return plain_consumer(contract) if isinstance(contract, ConsumerContract) else plain_producer(contract)


def _stored(contract: Contract | None) -> Stored | None:
    is_consumer = isinstance(contract, ConsumerContract)
    return None if contract is None else Stored(is_consumer, _plain(contract), contract.name)
