"""What is told to who may not see payloads. Reasons quote values too, and Python monitors keep what they like."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from penstock.engine.account import Account, DecisionAccount, EventAccount, ReceiverAccount, values_of
from penstock.model.event import Event

HIDDEN = "hidden"
"""In place of an encoding: there is a payload, or none, and it is not told."""
_QUOTED = re.compile(r"`([^`]+)`")
_STRUCTURED = ("{", "[", "(", '"', "'")
"""How a value begins that is no mere word: the state of a monitor, for one."""
_LEAST = 4
"""Characters of a value that is looked for inside of what is quoted; shorter ones must be all of it."""


def without_payloads(told: DecisionAccount, event: Event) -> DecisionAccount:
    """The decision with its verdicts, but no payload."""
    shown = _with_reasons(told, lambda reason: discreet(reason, event))
    return replace(shown, event=_blank(told.event), outputs=tuple(map(_blank, told.outputs)))


def with_own_payload(told: Account) -> Account:
    """The explanation of an event that the asker has made up: its payload is known, what a node makes of it may hold
    something of others' (metrics that were withheld before, what monitors remember).
    """

    def shown(event: EventAccount) -> EventAccount:
        is_own = (event.payload, event.encoding) == (told.event.payload, told.event.encoding)
        return event if is_own else _blank(event)

    decisions = (
        replace(_with_reasons(one, _without_states), event=shown(one.event), outputs=tuple(map(shown, one.outputs)))
        for one in told.decisions
    )
    receivers = {
        name: ReceiverAccount(tuple(map(shown, one.gets)), tuple(map(_without_states, one.why_not)))
        for name, one in told.receivers.items()
    }
    return replace(told, decisions=tuple(decisions), receivers=receivers)


def discreet(reason: str, event: Event) -> str:
    """A reason without what it quotes of the payload, and without states of monitors that are no mere names."""
    if "`" not in reason:
        return reason
    found = _said(event)

    def is_value(text: str) -> bool:
        return text.startswith(_STRUCTURED) or any(text == one or (len(one) >= _LEAST and one in text) for one in found)

    return _QUOTED.sub(lambda quoted: "`…`" if is_value(quoted[1]) else quoted[0], reason)


def _without_states(reason: str) -> str:
    return _QUOTED.sub(lambda quoted: "`…`" if quoted[1].startswith(_STRUCTURED) else quoted[0], reason)


def _with_reasons(told: DecisionAccount, change: Callable[[str], str]) -> DecisionAccount:
    return replace(told, verdicts=tuple(replace(one, reason=change(one.reason)) for one in told.verdicts))


def _said(event: Event) -> set[str]:
    """The values of a payload as texts; of one that is neither JSON nor Sparkplug's, all words of it."""
    content: Any = values_of(event.topic, event.payload)
    if content is None:
        try:
            content = json.loads(event.payload)
        except (ValueError, RecursionError):
            text = event.payload.decode(errors="ignore")
            return {text.strip(), *re.findall(r"[^\s<>\"'&;,]+", text)} - {""}
    return set(_texts(content)) - {""}


def _texts(content: Any) -> Iterator[str]:
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            yield value
        else:
            yield json.dumps(value)


def _blank(event: EventAccount) -> EventAccount:
    return EventAccount(event.topic, "", HIDDEN, event.qos, event.retain)
