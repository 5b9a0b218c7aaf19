"""Comparison of a policy test's expectations with the results, and both in words."""

import json
from collections.abc import Callable, Iterable
from itertools import zip_longest

from penstock.domain.schema.tests import Expected, ExpectedMessage, ExpectedVerdict
from penstock.engine.explain.report import values_of
from penstock.engine.rehearsal.peer import Delivered
from penstock.model.decision import Decision
from penstock.model.sparkplug.message import parse
from penstock.model.verdict import Verdict


def is_met(expected: Expected, got: tuple[Delivered, ...]) -> bool:
    """Return True if an entity got what was expected, and nothing else."""
    if expected.in_order is not None:
        return all(_fits(wanted, message) for wanted, message in zip_longest(expected.in_order, got))
    return _all_matched(expected.any_order or (), got)


def _fits(wanted: ExpectedMessage | None, got: Delivered | None) -> bool:
    if wanted is None or got is None:
        return False
    return (
        wanted.topic == got.topic
        and (wanted.payload is None or wanted.payload.encode() == got.payload)
        and wanted.qos in (None, got.qos)
        and wanted.retain in (None, got.retain)
        and wanted.at in (None, got.node)
        and _has_metrics(wanted, got)
    )


def _has_metrics(wanted: ExpectedMessage, got: Delivered) -> bool:
    if wanted.metrics is None and not wanted.without and wanted.seq is None:
        return True
    values = values_of(got.topic, got.payload)
    if values is None:
        return False
    return (
        wanted.metrics in (None, values)
        and not any(name in values for name in wanted.without)
        and wanted.seq in (None, _seq(got))
    )


def _all_matched(wanted: tuple[ExpectedMessage, ...], got: tuple[Delivered, ...]) -> bool:
    """Return True if the two sides can be paired completely, by augmenting paths."""
    if len(wanted) != len(got):
        return False
    taken: dict[int, int] = {}  # what came, and for which wish it is

    def place(wish: int, tried: set[int]) -> bool:
        for at, message in enumerate(got):
            if at not in tried and _fits(wanted[wish], message):
                tried.add(at)
                if at not in taken or place(taken[at], tried):
                    taken[at] = wish
                    return True
        return False

    return all(place(wish, set()) for wish in range(len(wanted)))


def is_about(wanted: ExpectedVerdict, decision: Decision) -> bool:
    """Return True if a verdict is expected of this decision."""
    target = decision.goes_by.target if decision.goes_by is not None else None
    return (
        wanted.at == decision.node
        and wanted.from_ in (None, decision.came_by.source)
        and (wanted.to is None or wanted.to == target)
    )


def is_so(wanted: ExpectedVerdict, verdict: Verdict) -> bool:
    return (
        (wanted.stage in (None, verdict.stage) or (wanted.stage, verdict.stage) == ("emit", "shape"))
        and wanted.effect in (None, verdict.effect)
        and wanted.rule in (None, verdict.rule)
    )


def telling(decision: Decision) -> str:
    """Return why something was let through: the brokering table's rule, and the monitors' effects."""
    verdicts = [
        verdict
        for verdict in decision.verdicts
        if verdict.stage in ("edit", "route", "shape") or verdict.effect != "pass"
    ]
    return "; ".join(map(str, verdicts or decision.verdicts[-1:]))


def towards(decision: Decision) -> str:
    target = f" -> {decision.goes_by.target}" if decision.goes_by is not None else ""
    return f"{decision.came_by.source} -> {decision.node}{target}"


def verdict_text(wanted: ExpectedVerdict) -> str:
    way = " -> ".join(name for name in (wanted.from_, wanted.at, wanted.to) if name is not None)
    text = f"{wanted.stage or 'some stage'}: {wanted.effect or 'anything'}"
    return f"{way}: {text}{f' by {wanted.rule}' if wanted.rule is not None else ''}"


def texts(messages: Iterable[Delivered], expected: Expected) -> tuple[str, ...]:
    """Return the results, in as much detail as the expectations."""
    wanted = expected.in_order or expected.any_order or ()
    asked = [key for key in _DETAILS if any(getattr(message, key) is not None for message in wanted)]
    texts = (f"{_said(message)}{_in_brackets({key: _DETAILS[key](message) for key in asked})}" for message in messages)
    return tuple(texts) or ("nothing",)


def _said(message: Delivered) -> str:
    """Topic and payload; of a Sparkplug message the values of its metrics."""
    values = values_of(message.topic, message.payload)
    return str(message) if values is None else f"{message.topic} {json.dumps(values, ensure_ascii=False)}"


def _seq(message: Delivered) -> int | None:
    return None if values_of(message.topic, message.payload) is None else parse(message.payload).seq


_DETAILS: dict[str, Callable[[Delivered], object]] = {
    "seq": _seq,
    "qos": lambda message: message.qos,
    "retain": lambda message: message.retain,
    "at": lambda message: message.node,
}


def expected_texts(expected: Expected) -> tuple[str, ...]:
    if expected.in_order is not None:
        return tuple(map(_message_text, expected.in_order)) or ("nothing",)
    return (*map(_message_text, expected.any_order or ()), "(in any order)")


def _message_text(message: ExpectedMessage) -> str:
    payload = f" {message.payload}" if message.payload else ""
    metrics = "" if message.metrics is None else f" {json.dumps(message.metrics, ensure_ascii=False, default=str)}"
    without = f" without {', '.join(message.without)}" if message.without else ""
    details = _in_brackets({key: getattr(message, key) for key in _DETAILS})
    return f"{message.topic}{payload}{metrics}{without}{details}"


def _in_brackets(details: dict[str, object]) -> str:
    text = ", ".join(f"{key} {str(value).lower()}" for key, value in details.items() if value is not None)
    return f" ({text})" if text else ""
