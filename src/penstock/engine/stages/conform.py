"""Stage 3, conform: does the event keep its producer's advertisements?

A producer that has advertised anything may publish just what one of its advertisements says (contracts §2.1); one that
has not may publish anything. The domain can advertise for it: then what it publishes must be as one of the domain's
advertisements says too, whatever it advertises itself.
"""

from functools import partial
from typing import NamedTuple

from penstock.engine.contracts import quality, registry
from penstock.engine.events import publishers
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.node import Node
from penstock.engine.stages.draft import Draft
from penstock.language.condition import Condition
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.advertisement import OWN, AdvertisementSet, claims


class Demand(NamedTuple):
    """The conditions on content by which an event is as its producer advertised, one for each claim."""

    rule: str
    conditions: tuple[Condition, ...]
    """One of these must hold; without any, nothing is advertised on the topic."""


def plan(draft: Draft) -> None:
    """Decide by topic where that is enough; else the conditions of the advertisements are left to be asked."""
    if draft.waits is not None:
        draft.for_each_delivery(ask_again)
        return
    if not draft.link.is_admitted and draft.link.claims:
        asked = demands(draft.link.claims, draft.topic)
        if asked and not asked[0].conditions:
            draft.suppress(_nothing(asked[0].rule, draft.topic))
            return
        if asked:
            draft.for_each_event(partial(keep_word, asked))
            draft.is_open = True
    if draft.node.contracts is not None and draft.node.contracts.concerns(draft.topic):
        draft.for_each_event(bind)


def demands(binding: tuple[AdvertisementSet, ...], topic: str) -> tuple[Demand, ...]:
    """Return what is left to ask of events on a topic; the first has no conditions if nothing on it is advertised."""
    asked = (_demand(claim, topic) for claim in binding)
    return tuple(demand for demand in asked if demand is not None)


def _demand(claim: AdvertisementSet, topic: str) -> Demand | None:
    advertised = [claimed.condition for claimed in claim.advertisements if matches(claimed.filter, topic)]
    conditions = tuple(condition for condition in advertised if condition is not None)
    return None if len(conditions) < len(advertised) else Demand(claim.rule, conditions)


def keep_word(asked: tuple[Demand, ...], passage: Passage) -> Verdict | None:
    """Hold an event against the conditions of its producer's advertisements."""
    event = passage.event
    if takes_back(event):
        return None
    verdict = judge(asked, event.topic, passage.node.ensemble.reader.read(event))
    return verdict if verdict.effect is Effect.SUPPRESS else None


def bind(passage: Passage) -> Verdict | None:
    """Measure the quality of an event and hold its producer to its contracts: as it comes, and as monitors leave it."""
    node, sender, event = passage.node, passage.sender, passage.event
    if not registry.is_bound(node, sender, event, passage.plans.key.is_admitted):
        return None
    assert sender is not None
    bound = quality.attach(node, sender, event, passage.now)
    if isinstance(bound, Verdict):
        return bound
    passage.replace(bound)
    return None


def ask_again(delivery: Delivery) -> Verdict | None:
    """Hold an event that has waited against what the domain advertises for its publisher now. What the publisher itself
    advertises is left out: that says what it will publish from now on.
    """
    passage, event = delivery.passage, delivery.event
    node = passage.node
    publisher = publishers.publisher_of(node, event)
    entry = None if publisher is None else publishers.entry_of(node, publisher)
    if entry is None or publishers.cause_of(event) is not None:
        return None
    verdicts = judged(node, claims((), entry.advertises), event)
    return next((verdict for verdict in verdicts if verdict.effect is Effect.SUPPRESS), None)


def judged(node: Node, binding: tuple[AdvertisementSet, ...], event: Event) -> tuple[Verdict, ...]:
    """Return what the advertisements say of one event; nothing if nothing is advertised."""
    if not binding:
        return ()
    asked = demands(binding, event.topic)
    if asked and not asked[0].conditions:
        return (_nothing(asked[0].rule, event.topic),)
    if asked and not takes_back(event):
        return (judge(asked, event.topic, node.ensemble.reader.read(event)),)
    return (Verdict("conform", Effect.PASS, "advertisement"),)


def takes_back(event: Event) -> bool:
    """Return True if it clears a retained message: it has no content to check, and its topic is advertised."""
    return event.retain and not event.payload


def judge(demands: tuple[Demand, ...], topic: str, content: Content) -> Verdict:
    """Return True if content is as one of the advertisements of each demand says; an error is not."""
    kept = []
    for rule, conditions in demands:
        failures = []
        for condition in conditions:
            outcome = condition.holds(content)
            if outcome is True:
                kept.append(condition.text)
                break
            failures.append(f"`{condition.text}` is false" if outcome is False else f"`{condition.text}`: {outcome}")
        else:
            if not conditions:
                return _nothing(rule, topic)
            whose = "its publisher advertises" if rule == OWN else "the domain advertises for its publisher"
            return Verdict("conform", Effect.SUPPRESS, rule, f"not as {whose}: {'; '.join(failures)}")
    return Verdict("conform", Effect.PASS, ", ".join(kept))


def _nothing(rule: str, topic: str) -> Verdict:
    if rule == OWN:
        return Verdict("conform", Effect.SUPPRESS, rule, f"its publisher advertises nothing on `{topic}`")
    return Verdict("conform", Effect.SUPPRESS, rule, f"the domain advertises nothing on `{topic}` for its publisher")
