"""The decision of the stage release for one receiver, without effects."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from penstock.engine.contracts import registry, subscribers
from penstock.engine.contracts.held import WindowKey
from penstock.engine.contracts.quality import claimed
from penstock.engine.contracts.state import ClientWants, ContractState, Governed, Private
from penstock.engine.contracts.subscribers import Receiver
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import PUBLISHER
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.quality import Quality
from penstock.model.verdict import Effect, Verdict
from penstock.policy.contracts import release as rules
from penstock.policy.contracts.aggregate import end_of
from penstock.policy.contracts.contract import ConsumerContract, ProducerContract
from penstock.policy.contracts.contract_set import subscription_id
from penstock.policy.contracts.degrade import Aggregate, degraded_once, leaves_only
from penstock.policy.contracts.privacy import Permitted, ReleaseRequest, write_permitted
from penstock.policy.contracts.release import PRIVACY, RELEASED, Release, ReleaseMark, read_permitted
from penstock.policy.contracts.release_place import Circumstance, FilterPlace, ace_digest, place
from penstock.policy.quality.carriage import CLAIMED, write_properties, write_quality
from penstock.policy.quality.propagation import aged

Asking = ClientWants | None
Consumers = tuple[ConsumerContract, ...]
Marks = Iterable[ReleaseMark]
_PUBLIC = ProducerContract("public", frozenset({"*"}), "#")
_TWICE = "it is aggregated already by another"
_NO_CONTRACT = (
    "it is private, and who would get it has no consumer's contract for this topic: also rules that ask nothing are for"
    " those who have one"
)
_BOTH_LOCAL = "no node knows both the advertisement and the subscription: both are local"
_NOT_ENABLED = "the producer's node has not enabled access for this subscription"
_EXPIRES = "it expires before it may go out"


class ContractResult(NamedTuple):
    """The result of one producer's contract for one want, for `explain`."""

    contract: str
    place: FilterPlace
    release: Release
    ace: tuple[str, str] = ("", "")
    """For a policy in XACML that was asked here, its entry in the ACE set: digest and decision."""


class ReleaseDecision(NamedTuple):
    """The result of the release decision for one receiver."""

    event: Event | None
    """None: nothing, or not now."""
    rule: str = ""
    reasons: tuple[str, ...] = ()
    not_before: float = 0.0
    aggregate: tuple[WindowKey, Content, Quality] | None = None
    """The window that it goes into, and the content and quality to add."""
    steps: tuple[ContractResult, ...] = ()
    is_expired: bool = False
    """It would be released, but not before it expires."""

    @property
    def is_released(self) -> bool:
        return self.event is not None or self.aggregate is not None


def decide(node: Node, session: Session, event: Event, governed: Governed, now: float) -> ReleaseDecision:
    """Decide what a client gets of an event under the contracts."""
    if governed.wrong:
        return ReleaseDecision(None, reasons=(f"what came with it cannot be read: {governed.wrong}",))
    assert node.contracts is not None
    reasons: list[str] = []
    steps: list[ContractResult] = []
    is_expired = False
    asking = node.contracts.asking(session, event.topic, now)
    if not asking and governed.is_private:
        return ReleaseDecision(None, reasons=(_NO_CONTRACT,))
    receiver = subscribers.here(session, now)
    for wants in asking or (None,):
        left = left_for(node.contracts, receiver, event, governed, wants, now)
        decision = left if isinstance(left, ReleaseDecision) else _decided(session, event, left, now)
        if decision.is_released:
            return decision
        reasons += decision.reasons
        steps += decision.steps
        is_expired |= decision.is_expired
    return ReleaseDecision(None, reasons=tuple(dict.fromkeys(reasons)), steps=tuple(steps), is_expired=is_expired)


def needed(node: Node, session: Session, event: Event, now: float) -> Governed | None:
    """Return the quality of an event without a producer's contract, if its consumer asks for more than a topic."""
    state = node.contracts
    if state is None or not state.concerns(event.topic) or user_properties.told(event, RELEASED):
        return None
    if not any(wants.want.asks for wants in state.asking(session, event.topic, now)):
        return None
    content = node.ensemble.reader.read(event)
    return Governed((), claimed(node, event, content, now), content, True, {})


class Left(NamedTuple):
    """The part of an event that contracts have left."""

    content: Content
    quality: Quality
    not_before: float
    marks: tuple[ReleaseMark, ...] = ()
    untils: tuple[float, ...] = ()
    collected: WindowKey | None = None
    """If it goes into a window, which; what is known of it so far."""
    steps: tuple[ContractResult, ...] = ()
    is_bare: bool = False


def left_for(
    state: ContractState, receiver: Receiver, event: Event, governed: Governed, asking: Asking, now: float
) -> Left | ReleaseDecision:
    """Return what is left for a want of a receiver, here or beyond a link, or the refusal: each contract degrades what
    the one before has left, then policies in XACML are asked.
    """
    left = Left(governed.content, governed.quality, now, governed.marks)
    if asking is None:
        return _by_policies(state, receiver, event, governed, None, left, now)
    _, consumer, want = asking
    for producer in governed.contracts or (_PUBLIC,):
        where, release = _released(state, producer, asking, governed, left, now)
        if release.aggregate is not None and left.collected is not None:
            release = Release(False, reasons=(_TWICE,))
        left = left._replace(steps=(*left.steps, ContractResult(producer.name, where, release)))
        if not release.is_released:
            which = f"contract `{producer.name}`: " if producer is not _PUBLIC else ""
            reasons = tuple(f"{which}{reason}" for reason in release.reasons)
            return ReleaseDecision(None, reasons=reasons, steps=left.steps)
        collected = left.collected
        if release.aggregate is not None:
            named = registry.named(state, producer)
            collected = WindowKey(event.topic, named, consumer.name, want.name, release.rule, release.aggregate)
        left = left._replace(
            content=left.content.changed(release.payload),
            quality=release.quality,
            not_before=max(left.not_before, release.not_before),
            marks=(*left.marks, rules.mark_of(producer, release.rule)) if release.rule else left.marks,
            untils=left.untils if release.retain_until is None else (*left.untils, release.retain_until),
            collected=collected,
            is_bare=left.is_bare or release.is_bare,
        )
    return _by_policies(state, receiver, event, governed, asking, left, now)


def asked_of(
    state: ContractState,
    receiver: Receiver,
    consumers: Consumers,
    topic: str,
    producer: str,
    quality: Quality,
    now: float,
) -> ReleaseRequest:
    """Return the request for the XACML policies."""
    client, shown = receiver
    given = dict((*shown, *state.contracts.known.get(client, ())))
    values = state.contracts.values.get(client, ())
    current = aged(quality, state.contracts.catalogue, now)
    return ReleaseRequest(client, tuple(given.items()), consumers, topic, producer, state.open_at(now), values, current)


def _by_policies(
    state: ContractState, receiver: Receiver, event: Event, governed: Governed, asking: Asking, left: Left, now: float
) -> Left | ReleaseDecision:
    """Apply the XACML policies to what the contracts have left, if the client wants that."""
    for private in governed.private:
        policy, topic = private.policy, private.topic
        where, permitted = _permitted(state, receiver, event, governed, private, asking, left, now)
        if isinstance(permitted, str):
            return ReleaseDecision(None, reasons=(permitted,), steps=left.steps)
        aggregate = next((degradation for degradation in permitted.degrade if isinstance(degradation, Aggregate)), None)
        if aggregate is not None and left.collected is not None:
            return ReleaseDecision(None, reasons=(f"privacy policy `{policy.name}`: {_TWICE}",), steps=left.steps)
        before = left.content, left.quality
        try:
            todo = rules.left_to_do(permitted.degrade, governed.degraded.get(f"{PRIVACY}{policy.name}", ()))
            payload, quality, later = degraded_once(todo, *before, state.contracts.catalogue, now)
        except ContentError as error:
            reason = f"privacy policy `{policy.name}`: it cannot be degraded: {error}"
            return ReleaseDecision(None, reasons=(reason,), steps=left.steps)
        until = None if permitted.retain is None else rules.keep_until(permitted.retain, later, now, governed.since)
        if until is not None and until <= now:
            return ReleaseDecision(None, reasons=(f"privacy policy `{policy.name}`: {rules.OVER}",), steps=left.steps)
        collected = left.collected
        if aggregate is not None:
            names = ("", "") if asking is None else (asking.contract.name, asking.want.name)
            collected = WindowKey(event.topic, "", *names, policy.name, aggregate)
        release = Release(True, policy.name, payload, quality, later, aggregate=aggregate)
        left = left._replace(
            content=left.content.changed(payload),
            quality=quality,
            not_before=max(left.not_before, later),
            marks=(*left.marks, rules.mark_of_policy(policy.name, topic, permitted)),
            untils=left.untils if until is None else (*left.untils, until),
            collected=collected,
            is_bare=left.is_bare or leaves_only(permitted.degrade),
            steps=(
                *left.steps,
                ContractResult(
                    f"{PRIVACY}{policy.name}",
                    where,
                    release,
                    (private.key(_subscription(receiver, asking)), write_permitted(permitted)),
                ),
            ),
        )
    unmet = "" if asking is None or left.collected is not None else asking.want.unmet(left.content)
    if unmet:
        return ReleaseDecision(None, reasons=(unmet,), steps=left.steps)
    return left


def _subscription(receiver: Receiver, asking: Asking) -> str:
    return f"{receiver.client}//" if asking is None else subscription_id(*asking)


def _permitted(
    state: ContractState,
    receiver: Receiver,
    event: Event,
    governed: Governed,
    private: Private,
    asking: Asking,
    left: Left,
    now: float,
) -> tuple[FilterPlace, Permitted | str]:
    """Return what a policy in XACML decides, and where that is decided (Algorithm 1)."""
    is_local = asking is not None and asking.want.scope == "local"
    where = place(Circumstance(True, private.is_local, is_local, governed.is_first))
    ace = governed.ace.get(private.key(_subscription(receiver, asking)))
    is_unknown = governed.is_late or (governed.is_for_local and ace is None) or private.topic != event.topic
    if private.is_asked_here or (where is FilterPlace.ENABLED and is_unknown and not private.is_local):
        where = FilterPlace.EVALUATE
    if where is FilterPlace.REFUSE:
        return where, _BOTH_LOCAL
    if where is FilterPlace.ENABLED:
        return where, f"privacy policy `{private.policy.name}`: {_NOT_ENABLED}" if ace is None else read_permitted(ace)
    consumers = () if asking is None else (asking.contract,)
    origin = governed.producer or (event.origin if governed.is_first else "")
    request = asked_of(state, receiver, consumers, private.topic, origin, left.quality, now)
    return where, private.policy.decide(request, governed.content, now)


def _decided(session: Session, event: Event, left: Left, now: float) -> ReleaseDecision:
    names = ", ".join(mark.named for mark in left.marks)
    delay = left.not_before - now
    goes = left.not_before if left.collected is None else end_of(left.collected.aggregate, now) + delay
    if event.expires is not None and now < goes and event.expires <= goes:  # [MQTT-3.3.2-5]
        return ReleaseDecision(None, names, (_EXPIRES,), steps=left.steps, is_expired=True)
    until = min(left.untils) if left.untils else None
    if left.collected is not None:
        retention = None if until is None else round(until - left.not_before, 3)
        marks, delay = rules.write_marks(left.marks), round(delay, 3)
        about = structs.replace(left.collected, marks=marks, delay=delay, retention=retention)
        return ReleaseDecision(None, names, (), left.not_before, (about, left.content, left.quality), left.steps)
    event = user_properties.bare(event) if left.is_bare else event
    shown_event = shown(session, event, left.content, left.quality, until, left.marks)
    return ReleaseDecision(shown_event, names, (), left.not_before, steps=left.steps)


def _released(
    state: ContractState, producer: ProducerContract, asking: ClientWants, governed: Governed, left: Left, now: float
) -> tuple[FilterPlace, Release]:
    """Return what one contract releases to one want, and where that is decided (Algorithm 1)."""
    client, consumer, want = asking
    local = (producer.scope == "local", want.scope == "local")
    where = place(Circumstance(producer.is_private, *local, governed.is_first))
    ace = governed.ace.get(ace_digest(f"{subscription_id(client, consumer, want)} {producer.name}"))
    if where is FilterPlace.ENABLED and (governed.is_late or (governed.is_for_local and ace is None)) and not local[0]:
        # The producer's node could not know of the subscription, nor of the situations of now.
        where = FilterPlace.EVALUATE
    if where is FilterPlace.REFUSE:
        return where, Release(False, reasons=(_BOTH_LOCAL,))
    releaser, situations = state.releaser(client, producer, consumer, want), state.open_at(now)
    done = governed.degraded.get(producer.name, ())
    if where is not FilterPlace.ENABLED:
        return where, releaser.decide(left.content, left.quality, situations, now, governed.since, done)
    if ace is None:
        return where, Release(False, reasons=(_NOT_ENABLED,))
    return where, releaser.apply(ace, left.content, left.quality, situations, now, governed.since, done)


def shown(
    session: Session, event: Event, content: Content, quality: Quality, until: float | None, marks: Marks
) -> Event:
    """Return the event as a consumer sees it: with its quality, time of deletion, and the rules that released it."""
    payload = content.payload
    if session.version == 4 and quality:  # MQTT 3.1.1 has no properties: the content carries the quality, if it can
        try:
            payload = write_quality(content, quality)
        except ContentError:
            payload = content.payload
    properties = [*write_properties(quality, CLAIMED)]
    properties += [rules.retain_property(until)] if until is not None else []
    properties += [(RELEASED, text) for text in [rules.write_marks(marks)] if text != rules.NO_MARKS]
    if properties and properties[-1][0] == RELEASED:  # all stages are asked again about it when it leaves
        properties += [(PUBLISHER, text) for text in user_properties.told(event, PUBLISHER)[-1:]]
    plain = user_properties.for_clients(event._replace(payload=payload))
    return user_properties.having(plain, None, properties, without=CLAIMED)


_CANNOT_ASK = "it is released later, or in a mean: what policies of its subscription would ask is not known yet"


def at_once(node: Node, session: Session, event: Event, now: float) -> tuple[Event | None, Verdict]:
    """Return the event as a client is shown it now, marked as released so that the stage passes it on; and why."""
    at = registry.recorded(now)
    governed = registry.governed(node, event, at) or needed(node, session, event, at)
    if governed is None:
        return event, Verdict("release", Effect.PASS, "", "not private")
    decided = decide(node, session, event, governed, at)
    if decided.event is not None and decided.not_before <= at:
        effect = Effect.PASS if decided.event.payload == event.payload else Effect.REPLACE
        return decided.event, Verdict("release", effect, decided.rule, "before the subscriber's own policies are asked")
    reasons = decided.reasons if not decided.is_released else (_CANNOT_ASK,)
    return None, Verdict("release", Effect.SUPPRESS, decided.rule, "; ".join(reasons))
