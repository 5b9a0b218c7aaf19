"""The stages conform and release, asked without effect: what contracts make of an event, and why."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.contracts import link_needs, link_release, registry
from penstock.engine.contracts.quality import attach
from penstock.engine.contracts.release_decision import ContractResult, ReleaseDecision, decide, needed
from penstock.engine.contracts.state import CONSUMER, SITUATION, ContractState, Governed
from penstock.engine.events import user_properties
from penstock.engine.events.plan import Target
from penstock.engine.explain.arrival import Arrival
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import release
from penstock.model.event import Event
from penstock.model.quality import Quality
from penstock.model.verdict import Effect, Verdict
from penstock.policy.contracts import situation
from penstock.policy.contracts.release import RELEASED
from penstock.policy.contracts.release_place import FilterPlace

_PLACES = {
    FilterPlace.SKIP: "not private",
    FilterPlace.EVALUATE: "evaluated here",
    FilterPlace.ENABLED: "enabled by the producer's node",
    FilterPlace.REFUSE: "known to no node",
}


class SupposedSituations:
    """The situations that would be open after the event, at all nodes; undone when the walk ends."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._states = [node.contracts for node in nodes if node.contracts is not None]

    @contextmanager
    def for_a_while(self) -> Iterator[None]:
        before = [state.open for state in self._states]
        try:
            yield
        finally:
            for state, opened in zip(self._states, before, strict=True):
                state.open = opened

    def look(self, came: Arrival, event: Event, now: float) -> None:
        """Look for situations as the node does to which the event comes."""
        state, sender = came.node.contracts, came.session or came.stand_in
        if state is None or sender is None or sender.neighbour in came.node.ensemble.nodes:
            return
        if not state.contracts.situations or not state.concerns(event.topic):
            return
        content = came.node.ensemble.reader.read(event)
        stepped = situation.step(state.contracts.situations, state.open, event.topic, sender.place.entity, content, now)
        if stepped.notices:
            for known in self._states:
                known.open = stepped.open


def conformed(came: Arrival, event: Event, is_admitted: bool, now: float) -> tuple[Event, tuple[Verdict, ...]]:
    """Return the event with its quality and its producer's contracts, if it is as they guarantee."""
    sender = came.session or came.stand_in
    if not registry.is_bound(came.node, sender, event, is_admitted):
        return event, ()
    assert sender is not None
    measured = attach(came.node, sender, event, now)
    if isinstance(measured, Verdict):
        return event, (measured,)
    if measured is event:
        return event, ()
    governed = registry.governed(came.node, measured, now)
    bound = registry.producing(came.node, sender, event.topic)
    names = ", ".join(f"contract {contract.name}" for contract in bound) or "quality"
    quality = governed.quality if governed is not None else Quality(())
    values = ", ".join(f"`{value.key}` {value.value:g}" for value in quality)
    reason = f"its quality is {values}" if values else "it has no quality"
    return measured, (Verdict("conform", Effect.PASS, names, reason),)


def released(
    node: Node, session: Session, event: Event, now: float, target: Target | None = None
) -> tuple[Event | None, tuple[Verdict, ...]]:
    """Return the event as it is released to a session, None if it is not; and why, or why not or not now."""
    state = node.contracts
    if state is None:
        return event, ()
    is_node = session.neighbour is not None and session.neighbour in node.ensemble.nodes
    if event.topic.startswith((SITUATION, CONSUMER)) and not is_node:
        return None, (release.FOR_NODES_ONLY,)
    governed = registry.governed(node, event, now)
    if is_node:
        return _crossing(node, session, event, governed, now, target)
    governed = governed or needed(node, session, event, now)
    if governed is None:
        is_released = bool(user_properties.told(event, RELEASED))  # and that has been told
        return user_properties.for_clients(event) if is_released else event, ()
    decided = decide(node, session, event, governed, now)
    situations = ", ".join(f"`{name}`" for name in sorted(state.open_at(now)))
    verdict = _verdict(decided, governed, event, now)
    if not decided.is_released and any(step.place is FilterPlace.ENABLED for step in decided.steps):
        reasons = (verdict.reason, *_not_enabled(state, session, event, governed, now))
        verdict = verdict._replace(reason="; ".join(reasons))
    if situations:
        verdict = verdict._replace(reason=f"{verdict.reason}; open: {situations}")
    if verdict.effect is Effect.SUPPRESS or decided.event is None:
        return event if decided.is_released else None, (verdict,)
    return user_properties.for_clients(decided.event), (verdict,)


def _crossing(
    node: Node, session: Session, event: Event, governed: Governed | None, now: float, target: Target | None
) -> tuple[Event | None, tuple[Verdict, ...]]:
    """Return the event as it goes to another node, if somebody beyond may have it, and asks for it."""
    if governed is None or not link_release.is_private(governed):
        unasked = link_needs.why_unasked(node, target, event, governed, now)
        return (None, (Verdict("release", Effect.SUPPRESS, "", unasked),)) if unasked else (event, ())
    made = link_release.crossing(node, session, event, governed, now)
    if made.event is None:
        return None, (Verdict("release", Effect.SUPPRESS, "", made.reason),)
    named = ", ".join(made.enabled[: link_release.MAX_NAMED])
    more = len(made.enabled) - link_release.MAX_NAMED
    reason = f"for {named}{f' and {more} more' if more > 0 else ''} beyond `{session.neighbour}`"
    left = registry.governed(node, made.event, now)
    changes = list(_changes(governed.quality, governed.quality if left is None else left.quality))
    reason += f"; quality {', '.join(changes)}" if changes else ""
    effect = Effect.PASS if made.event.payload == event.payload else Effect.REPLACE
    return made.event, (Verdict("release", effect, "", reason),)


def _not_enabled(state: ContractState, session: Session, event: Event, governed: Governed, now: float) -> Iterator[str]:
    """Return why the producer's node has not enabled access, as far as this node knows."""
    reasons = (
        reason
        for client, consumer, want in state.asking(session, event.topic, now)
        for producer in governed.contracts
        for reason in state.releaser(client, producer, consumer, want)
        .decide(governed.content, governed.quality, state.open_at(now), now, governed.since)
        .reasons
    )
    yield from dict.fromkeys(reasons)


def _verdict(decided: ReleaseDecision, governed: Governed, event: Event, now: float) -> Verdict:
    if not decided.is_released:
        places = [step for step in decided.steps if step.place is FilterPlace.EVALUATE and step.release.reasons]
        here = " (evaluated here)" if places else ""
        return Verdict("release", Effect.SUPPRESS, decided.rule, "; ".join(decided.reasons) + here)
    if decided.aggregate is not None:
        length = decided.aggregate[0].aggregate.seconds
        reason = f"it goes into a mean over {length:g} s; {_said(decided, governed)}"
        return Verdict("release", Effect.SUPPRESS, decided.rule, reason)
    if decided.not_before > now:
        reason = f"it goes out in {decided.not_before - now:g} s; {_said(decided, governed)}"
        return Verdict("release", Effect.SUPPRESS, decided.rule, reason)
    assert decided.event is not None
    effect = Effect.PASS if decided.event.payload == event.payload else Effect.REPLACE
    return Verdict("release", effect, decided.rule, _said(decided, governed))


def _said(decided: ReleaseDecision, governed: Governed) -> str:
    """Return by which contract it is released where, and how its quality changed."""
    texts = [_step(step) for step in decided.steps]
    after = decided.steps[-1].release.quality if decided.steps else governed.quality
    changes = list(_changes(governed.quality, after))
    if changes:
        texts.append(f"quality {', '.join(changes)}")
    return "; ".join(texts) or "not private"


def _step(step: ContractResult) -> str:
    name = step.release.rule
    rule = f", rule `{name}`" if name and not step.contract.endswith(name) else ""
    return f"contract `{step.contract}`{rule}: {_PLACES[step.place]}"


def _changes(before: Quality, after: Quality) -> Iterator[str]:
    left = {item.key: item.value for item in after}
    for value in before:
        if value.key not in left:
            yield f"`{value.key}` {value.value:g} taken away"
        elif left[value.key] != value.value:
            yield f"`{value.key}` {value.value:g} -> {left[value.key]:g}"
