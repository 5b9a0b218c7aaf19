"""Stage 8, release: do the consumer's purpose and attributes satisfy the producer's privacy policy, and the event's
quality the consumer's needs? (contracts §2.2, §2.3)

It is asked for each receiver when an event is delivered, so that there is no way around it. The producer's node decides
for all whose guarantees it knows, and tells the other nodes by the event's ACE set (`policy/release_place.py`).
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine import contracts, travel
from penstock.engine.contracts import Governed
from penstock.engine.plan import Draft
from penstock.engine.render import Forms
from penstock.model.content import Content
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.quality import Quality
from penstock.policy.aggregate import Window, absorb, due
from penstock.policy.contract import ConsumerContract, ProducerContract, Want
from penstock.policy.contracts import subscription_id, wants_of
from penstock.policy.degrade import Aggregate, degrade
from penstock.policy.privacy import Asked
from penstock.policy.quality_carry import CLAIMED, write_properties
from penstock.policy.release import Release, retain_property
from penstock.policy.release_place import ACE, Circumstance, Place, ace_digest, place, write_ace

if TYPE_CHECKING:
    from penstock.engine.node import Node
    from penstock.engine.session import Session


def plan(draft: Draft) -> None:
    """Each delivery must be looked at, so no packet's own bytes are passed on."""
    if concerns(draft.node, draft.topic):
        draft.is_projected = True


def concerns(node: "Node", topic: str) -> bool:
    """Whether contracts may say something of events on this topic."""
    return node.contracts is not None and node.contracts.concerns(topic)


class Decided(NamedTuple):
    """What one receiver gets of an event."""

    event: Event | None
    """None: nothing, or not now."""
    rule: str = ""
    reasons: tuple[str, ...] = ()
    not_before: float = 0.0
    aggregate: tuple[str, Aggregate, Quality] | None = None
    """What it goes into: named by contract, client and rule."""


def decide(node: "Node", session: "Session", event: Event, found: Governed, now: float) -> Decided:
    """What a client gets of an event that contracts speak of."""
    if found.wrong:
        return Decided(None, reasons=(f"what came with it cannot be read: {found.wrong}",))
    reasons: list[str] = []
    consumers = contracts.consuming(node, session)
    if not consumers:
        if found.is_private:
            return Decided(None, reasons=("it is private, and who would get it guarantees nothing",))
        return _by_policies(node, session, event, found, (), _Left(found.content, found.quality, now), now)
    for consumer in consumers:
        for want in wants_of(consumer, event.topic):
            made = _by_want(node, session, event, found, consumer, want, now)
            if made.event is not None or made.aggregate is not None:
                return made
            reasons += made.reasons
    return Decided(None, reasons=tuple(dict.fromkeys(reasons)))


def _by_want(
    node: "Node",
    session: "Session",
    event: Event,
    found: Governed,
    consumer: ConsumerContract,
    want: Want,
    now: float,
) -> Decided:
    """All contracts of the event must release it: each degrades what the one before has left."""
    state = node.contracts
    assert state is not None
    client, content, quality = session.entity, found.content, found.quality
    made = Release(True, "", event.payload, quality, now)
    rules: list[str] = []
    untils: list[float] = []
    not_before = now
    for producer in found.contracts or (_PUBLIC,):
        ace = found.ace.get(ace_digest(f"{subscription_id(client, consumer, want)} {producer.name}"))
        where = place(_circumstance(producer, want, found.is_first))
        if where is Place.REFUSE:
            reason = "no node knows both the advertisement and the subscription: both are local"
            return Decided(None, reasons=(f"contract `{producer.name}`: {reason}",))
        if where is Place.ENABLED and ace is None:
            reason = "the producer's node has not enabled access for this subscription"
            return Decided(None, reasons=(f"contract `{producer.name}`: {reason}",))
        releaser = state.releaser(client, producer, consumer, want)
        if where is Place.ENABLED and ace is not None:
            made = releaser.apply(ace, content, quality, now)
        else:
            made = releaser.decide(content, quality, state.open, now)
        if not made.is_released:
            about = f"contract `{producer.name}`: " if producer is not _PUBLIC else ""
            return Decided(None, reasons=tuple(f"{about}{reason}" for reason in made.reasons))
        rules += [f"{producer.name}.{made.rule}"] if made.rule else []
        untils += [made.retain_until] if made.retain_until is not None else []
        not_before = max(not_before, made.not_before)
        quality, content = (
            made.quality,
            content if made.payload is content.payload else Content(made.payload, content.format),
        )
        if made.aggregate is not None:
            name = f"{producer.name}/{client}/{made.rule}/{event.topic}"
            return Decided(None, ", ".join(rules), (), now, (name, made.aggregate, quality))
    left = _Left(content, quality, not_before, tuple(rules), tuple(untils))
    return _by_policies(node, session, event, found, (consumer,), left, now)


class _Left(NamedTuple):
    """What contracts have left of an event."""

    content: Content
    quality: Quality
    not_before: float
    rules: tuple[str, ...] = ()
    untils: tuple[float, ...] = ()


def _by_policies(
    node: "Node",
    session: "Session",
    event: Event,
    found: Governed,
    consumers: tuple[ConsumerContract, ...],
    left: _Left,
    now: float,
) -> Decided:
    """What the policies in XACML let a client have of what contracts have left."""
    state = node.contracts
    assert state is not None
    content, quality, not_before, rules, untils = left
    known = state.contracts.known.get(session.entity, ())
    producer = event.origin if found.is_first else ""
    asked = Asked(session.entity, known, consumers, event.topic, producer, state.open)
    for policy in found.private:
        permitted = policy.decide(asked, found.content, now)
        if isinstance(permitted, str):
            return Decided(None, reasons=(permitted,))
        rules = (*rules, policy.name)
        if permitted.retain is not None:
            untils = (*untils, now + permitted.retain)
        aggregate = next((one for one in permitted.degrade if isinstance(one, Aggregate)), None)
        try:
            payload, quality, later = degrade(permitted.degrade, content, quality, state.contracts.catalogue, now)
        except ContentError as error:
            return Decided(None, reasons=(f"privacy policy `{policy.name}`: it cannot be degraded: {error}",))
        content = content if payload is content.payload else Content(payload, content.format)
        not_before = max(not_before, later)
        if aggregate is not None:
            name = f"{policy.name}/{session.entity}//{event.topic}"
            return Decided(None, ", ".join(rules), (), now, (name, aggregate, quality))
    shown = _shown(event, content.payload, quality, min(untils) if untils else None)
    return Decided(shown, ", ".join(rules), (), not_before)


_PUBLIC = ProducerContract("public", frozenset({"*"}), "#")


def _circumstance(producer: ProducerContract, want: Want, is_first: bool) -> Circumstance:
    return Circumstance(producer.is_private, producer.scope == "local", want.scope == "local", is_first)


def _shown(event: Event, payload: bytes, quality: Quality, until: float | None) -> Event:
    """The event as a consumer sees it: with its quality, and with when it is to be deleted."""
    told = (*write_properties(quality, CLAIMED), *((retain_property(until),) if until is not None else ()))
    return travel.having(event._replace(payload=payload), None, told, without=CLAIMED)


# --- in an engine


def show(node: "Node", session: "Session", forms: Forms, qos: int) -> Forms | None:
    """The event as a session may have it; None if it may not, or not now."""
    is_node = session.neighbour is not None and session.neighbour in node.ensemble.nodes
    if forms.event.topic.startswith(contracts.SITUATION) and not is_node:
        return None  # what situation somebody is in is not for everybody
    found = _governed(node, forms)
    if found is None:
        return forms
    if is_node:
        return _for_nodes(node, forms, found)
    decided = decide(node, session, forms.event, found, forms.now)
    if decided.aggregate is not None:
        _absorb(node, session, forms.event._replace(qos=qos), found, decided.aggregate, forms.now)
        return None
    if decided.event is None:
        return None
    if decided.not_before > forms.now:
        node.later.put(decided.not_before, session, travel.for_clients(decided.event._replace(qos=qos)))
        return None
    return forms.view_of(decided.event)


def preview(node: "Node", session: "Session", event: Event, now: float | None) -> Event | None:
    """The event as a client may see it, without consequences: conditions are asked of that."""
    if node.contracts is None or (session.neighbour is not None and session.neighbour in node.ensemble.nodes):
        return event
    at = node.clock() if now is None else now
    found = contracts.governed(node, event, at)
    if found is None:
        return event
    decided = decide(node, session, event, found, at)
    return event._replace(payload=b"") if decided.aggregate is not None else decided.event


def _governed(node: "Node", forms: Forms) -> Governed | None:
    if not forms.is_asked:
        forms.is_asked = True
        forms.governed = contracts.governed(node, forms.event, forms.now)
    return forms.governed


def _for_nodes(node: "Node", forms: Forms, found: Governed) -> Forms:
    """The event for another node: at its producer's node, with the ACE set of all whose guarantees are known here."""
    if not found.is_first or not found.is_private or found.wrong:
        return forms
    state = node.contracts
    assert state is not None
    enabled: dict[str, str] = {}
    for consumer in state.contracts.consumers:
        for client in consumer.consumers:
            mine = state.contracts.of(client, consumer)
            for want in wants_of(mine, forms.event.topic):
                for producer in found.contracts:
                    released = state.releaser(client, producer, mine, want).decide(
                        found.content, found.quality, state.open, forms.now
                    )
                    if released.is_released:
                        key = ace_digest(f"{subscription_id(client, mine, want)} {producer.name}")
                        enabled[key] = released.rule
    event = travel.having(forms.event, None, ((ACE, write_ace(enabled)),), without=ACE)
    return forms.view_of(event)


# --- what goes out later


class Later:
    """Events that wait until they may go out, and windows of which means go out."""

    __slots__ = ("_count", "_heap", "windows")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Session, Event]] = []
        self._count = 0
        self.windows: dict[str, tuple[Session, Event, Aggregate, Window]] = {}

    def put(self, at: float, session: "Session", event: Event) -> None:
        self._count += 1
        heappush(self._heap, (at, self._count, session, event))

    def take(self, now: float) -> list[tuple["Session", Event]]:
        """What may go out by now."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, _, session, event = heappop(self._heap)
            found.append((session, event))
        return found


def _absorb(
    node: "Node",
    session: "Session",
    event: Event,
    found: Governed,
    into: tuple[str, Aggregate, Quality],
    now: float,
) -> None:
    name, aggregate, quality = into
    state = node.contracts
    assert state is not None
    known = node.later.windows.get(name)
    window = known[3] if known is not None else None
    window, mean = absorb(aggregate, window, found.content, quality, state.contracts.catalogue, now)
    node.later.windows[name] = session, event, aggregate, window
    if mean is not None:
        node.later.put(now, session, travel.for_clients(_shown(event, mean.payload, mean.quality, None)))


def tick(node: "Node", now: float) -> None:
    """Close windows that are over, and hand out what may go out now."""
    state = node.contracts
    assert state is not None
    for name, (session, event, aggregate, window) in list(node.later.windows.items()):
        left, mean = due(aggregate, window, state.contracts.catalogue, now)
        if left is None:
            del node.later.windows[name]
        if mean is not None:
            node.later.put(now, session, travel.for_clients(_shown(event, mean.payload, mean.quality, None)))
