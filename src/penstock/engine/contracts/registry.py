"""Contracts at a node: those of the domain and those that clients have brought, and which of them speak of an event.

A client's contract goes with its events to other nodes: the name of one that the domain has, else all of it.
"""

import math

import msgspec

from penstock.engine.contracts import privacy
from penstock.engine.contracts.state import ContractState, Governed, Private
from penstock.engine.events import publishers, user_properties
from penstock.engine.events.user_properties import AT, CONTRACT, CONTRACT_BYTES
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import UNREADABLE, ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, moment
from penstock.model.topic import matches
from penstock.policy.contracts import release_place
from penstock.policy.contracts.contract import ProducerContract
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.plain_form import plain_producer
from penstock.policy.contracts.release import PRIVACY, RELEASED, read_marks
from penstock.policy.contracts.text_form import read_producer
from penstock.policy.quality.carriage import ATTACHED, read_properties

BROUGHT = "brought:"
"""Before the name of what clients have brought. No contract of the domain has a colon in its name."""


def recorded(now: float) -> float:
    """Round a time to the journal's microseconds, so that a decision by it can be repeated."""
    return int(now * 1_000_000) / 1_000_000


def producing(node: Node, session: Session, topic: str) -> tuple[ProducerContract, ...]:
    """Return the contracts for a client's publications on a topic: the domain's, and its own."""
    assert node.contracts is not None
    given, _ = node.contracts.binding(session.place.entity, topic)
    if not session.declared.produces:
        return given
    return (*given, *(contract for contract in session.declared.produces.values() if matches(contract.filter, topic)))


def is_bound(node: Node, sender: Session | None, event: Event, is_admitted: bool) -> bool:
    """Return True if the publisher's contracts still have to be applied: the event or its cause is from outside."""
    if node.contracts is None or sender is None or sender.neighbour in node.ensemble.nodes:
        return False
    if not is_admitted or (CONTRACT_BYTES not in event.properties and ATTACHED.encode() not in event.properties):
        return True
    known = user_properties.told(event, CONTRACT)
    bound = producing(node, sender, event.topic)
    return any(contract.is_private and named(node.contracts, contract) not in known for contract in bound)


def named(state: ContractState, contract: ProducerContract) -> str:
    """Return a contract as events name it: in full if the domain does not have it."""
    if state.contracts.named(contract.name) is not None:
        return contract.name
    return msgspec.json.encode({"name": contract.name, **plain_producer(contract)}).decode()


def of_origin(node: Node, event: Event) -> tuple[ProducerContract, ...]:
    """Return the present contracts of the publisher of an event at this node."""
    state = node.contracts
    if state is None or not event.origin:
        return ()
    if any(hop in node.ensemble.nodes for hop in event.path):
        publisher = None if user_properties.CONTRACT_BYTES in event.properties else publishers.publisher_of(node, event)
        remote = None if publisher is None else publishers.entry_of(node, publisher)
        return () if remote is None else state.contracts.producing(remote.name, event.topic)
    session = node.sessions.get(event.origin)
    if session is not None:
        return () if session.neighbour in node.ensemble.nodes else producing(node, session, event.topic)
    entry = node.ensemble.publisher(node.name, event.origin, event.user)
    return state.contracts.producing(event.origin if entry is None else entry.name, event.topic)


def governed(node: Node, event: Event, now: float) -> Governed | None:
    """Return the contracts' findings about an event; None if no contract applies."""
    state = node.contracts
    if state is None:
        return None
    # What was retained, or waited at another node, before its producer had a contract is bound by it too.
    bound = of_origin(node, event) if (event.retain or event.path) and state.concerns(event.topic) else ()
    late = tuple(contract for contract in bound if contract.is_private)
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
    is_first = not any(hop in node.ensemble.nodes for hop in event.path)
    try:
        contracts = tuple(contract_of(state.contracts, name) for name in names if not name.startswith(PRIVACY))
        contracts += tuple(contract for contract in late if contract.name not in {each.name for each in contracts})
        inherited = privacy.told(state.contracts, (name for name in names if name.startswith(PRIVACY)))
        policies += tuple(policy for policy in inherited if policy not in policies)
        policies += privacy.of_contracts(contracts, event.topic)
        known, quality = state.last
        if attached != known:
            quality = read_properties(attached, moment(now), ATTACHED)
        enabled = [value for name, value in pairs if name == release_place.ACE]
        is_late = release_place.LATE in enabled or bool(late)
        ace: dict[str, str] = {}
        for text in enabled:
            ace |= release_place.read_ace(text) if text not in release_place.MARKS else {}
        degraded = _degraded(pairs)
        since = _published(pairs)
        if since is None and (late or event.retain or event.path):
            since = LONG_AGO
    except (PolicyError, ContentError) as error:
        return Governed((), NO_QUALITY, content, is_first, {}, policies, str(error))
    about = (contracts, quality, content, is_first, ace, policies)
    more = (since, is_late, release_place.LOCAL in enabled, degraded, producer_of(node, event))
    return Governed(*about, "", (), *more)


def producer_of(node: Node, event: Event) -> str:
    """Return the client id of who published an event, at whichever node; empty if it is not known."""
    publisher = publishers.publisher_of(node, event)
    return "" if publisher is None else publisher.client_id


def _degraded(pairs: tuple[tuple[str, str], ...]) -> dict[str, list[object]]:
    """Return what was done to an event before it left a node; raise `ContentError`."""
    done: dict[str, list[object]] = {}
    for text in (value for name, value in pairs if name == release_place.DEGRADED):
        try:
            done |= msgspec.json.decode(text, type=dict[str, list[object]])
        except UNREADABLE as error:
            raise ContentError(f"not what was degraded: {error}") from None
    return done


LONG_AGO = -math.inf
"""The time of publication of what waits and was not private then: no node has noted it, so a retention is over."""


def _published(pairs: tuple[tuple[str, str], ...]) -> float | None:
    """Return the time of publication as the producer's node recorded it; raise `ContentError`."""
    text = next((value for name, value in pairs if name == AT), None)
    if text is None:
        return None
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise ContentError(f"not a time: `{text:.40}`")
    return at


def _unasked(node: Node, event: Event, released: list[str], policies: tuple[Private, ...]) -> Governed | None:
    """Ask the policies of the new topic about an event that a monitor moved to it after the release to a client."""
    content = node.ensemble.reader.read(event)
    try:
        marks = tuple(mark for text in released for mark in read_marks(text))
    except ContentError as error:
        return Governed((), NO_QUALITY, content, True, {}, policies, str(error))
    left = tuple(policy for policy in policies if policy.policy.name not in {mark.rule for mark in marks})
    return Governed((), NO_QUALITY, content, True, {}, left, marks=marks) if left else None


def contract_of(contracts: Contracts, text: str) -> ProducerContract:
    """Return the contract that an event names or carries; raise `PolicyError`."""
    if not text.startswith("{"):
        known = contracts.named(text)
        if known is None:
            raise PolicyError(f"there is no contract `{text:.80}` here")
        return known
    try:
        document = msgspec.json.decode(text, type=dict)
    except UNREADABLE as error:
        raise PolicyError(f"not a contract: {error}") from None
    return read_producer(str(document.pop("name", "")), document, contracts.catalogue)
