"""An explanation as it is shown and sent: decisions in plain values, and for each receiver what it gets or why not."""

import json
from base64 import b64encode
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from penstock.domain import Ensemble
from penstock.engine.sparkplug.state import governed
from penstock.model.decision import Decision
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.payload import is_sparkplug
from penstock.model.sparkplug.plain import read_plain
from penstock.model.verdict import Effect


class EventAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event; `payload` is text, or base64 of what is not text."""

    topic: str
    payload: str
    encoding: str
    qos: int
    retain: bool
    metrics: dict[str, Any] | None = None
    """The values of a Sparkplug message."""

    @classmethod
    def of(cls, event: Event) -> "EventAccount":
        try:
            payload, encoding = event.payload.decode(), "utf-8"
        except UnicodeDecodeError:
            payload, encoding = b64encode(event.payload).decode(), "base64"
        return cls(event.topic, payload, encoding, event.qos, event.retain, values_of(event.topic, event.payload))

    def __str__(self) -> str:
        content = self.payload if self.metrics is None else json.dumps(self.metrics, ensure_ascii=False)
        return f"{self.topic} {content:.{40 if self.metrics is None else 400}}".rstrip()


def values_of(topic: str, payload: bytes) -> dict[str, Any] | None:
    """Return the values of the metrics of a Sparkplug message; None if it is none."""
    if not is_sparkplug(governed(topic)):
        return None
    try:
        return read_plain(payload)
    except ContentError:
        return None


class LinkAccount(msgspec.Struct, frozen=True):
    source: str
    target: str
    type: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} ({self.type})"


class VerdictAccount(msgspec.Struct, frozen=True):
    stage: str
    effect: str
    rule: str
    reason: str


class DecisionAccount(msgspec.Struct, frozen=True):
    """The decision of one node towards one link; `goes_by` is None if the event stopped at its own link."""

    node: str
    came_by: LinkAccount
    event: EventAccount
    goes_by: LinkAccount | None
    effect: str
    verdicts: tuple[VerdictAccount, ...]
    outputs: tuple[EventAccount, ...]

    @classmethod
    def of(cls, decision: Decision) -> "DecisionAccount":
        return cls(
            decision.node,
            LinkAccount(*decision.came_by),
            EventAccount.of(decision.event),
            LinkAccount(*decision.goes_by) if decision.goes_by is not None else None,
            decision.effect,
            tuple(VerdictAccount(*verdict) for verdict in decision.verdicts),
            tuple(map(EventAccount.of, decision.outputs)),
        )


class ReceiverAccount(msgspec.Struct, frozen=True):
    """The events that a client or foreign broker gets, in order; if none, the verdicts that stopped them."""

    gets: tuple[EventAccount, ...] = ()
    why_not: tuple[str, ...] = ()


class Account(msgspec.Struct, frozen=True):
    """The whole explanation of one event."""

    source: str
    node: str
    event: EventAccount
    decisions: tuple[DecisionAccount, ...]
    receivers: dict[str, ReceiverAccount]
    assumed: str = ""
    """The assumptions, if the answer is not from a live node."""


def account(
    decisions: tuple[Decision, ...], whole: Ensemble, about: Collection[str], to: Collection[str] = ()
) -> Account:
    """Return the account of decisions, the first of which is at the event's first node.

    `about` are the receivers to speak of besides those that are reached; with `to`, only these and what leads to them.
    """
    first = decisions[0]
    reached = [decision.goes_by.target for decision in decisions if decision.goes_by is not None]
    entities = to or [name for name in dict.fromkeys([*about, *reached]) if name not in whole.nodes]
    source = first.came_by.source
    shown = tuple(DecisionAccount.of(decision) for decision in decisions if _is_telling(decision, source, whole, to))
    receivers = {name: receiver(decisions, name, whole) for name in entities if name != source or name in to}
    return Account(source, first.node, EventAccount.of(first.event), shown, receivers)


def receiver(decisions: Iterable[Decision], entity: str, whole: Ensemble) -> ReceiverAccount:
    """Return the account of one entity: what it gets, or why it gets nothing."""
    towards = [decision for decision in decisions if leads_to(decision, entity, whole)]
    outputs = [output for decision in towards if _goes_to(decision, entity) for output in decision.outputs]
    if outputs:
        return ReceiverAccount(tuple(map(EventAccount.of, outputs)))
    barred = [decision for decision in towards if decision.effect is Effect.SUPPRESS]
    ways = (f" -> {decision.goes_by.target}" if decision.goes_by else "" for decision in barred)
    why = dict.fromkeys(f"{decision.node}{way}: {decision.reason}" for decision, way in zip(barred, ways, strict=True))
    return ReceiverAccount(why_not=tuple(why) or ("no way leads there",))


def leads_to(decision: Decision, entity: str, whole: Ensemble) -> bool:
    """Return True if a decision concerns an entity: the entity is next on the way, or beyond."""
    if decision.goes_by is None or _goes_to(decision, entity):
        return True
    seen, waiting = {decision.node}, [decision.goes_by.target]
    while waiting:
        here = waiting.pop()
        if here in whole.nodes and here not in seen:
            if (here, entity) in whole.links:
                return True
            waiting += [target for source, target in whole.links if source == here]
        seen.add(here)
    return False


def _is_telling(decision: Decision, source: str, whole: Ensemble, to: Collection[str]) -> bool:
    """Return True if the verdict is worth showing; that a publisher does not get its own event back is not."""
    if to:
        return any(leads_to(decision, name, whole) for name in to)
    return not (_goes_to(decision, source) and decision.effect is Effect.SUPPRESS)


def _goes_to(decision: Decision, entity: str) -> bool:
    return decision.goes_by is not None and decision.goes_by.target == entity
