"""Automata written as the domain file writes them, what they make of sequences of topics, and their reference."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.language.condition import make_condition
from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.policy.monitors.action import Action, parse_action
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor

Written = Mapping[str, Mapping[str, object]]

M1: Written = {"q0": {"DL_unlock": "suppress", "*": "pass"}}
"""Brokering Fig. 3."""

M2: Written = {
    "q0": {"AC_request": {"pass": True, "next": "asked"}, "DL_unlock": "suppress", "*": "pass"},
    "asked": {
        "AC_grant": {"pass": True, "next": "granted"},
        "AC_deny": {"pass": True, "next": "q0"},
        "DL_unlock": "suppress",
        "*": "pass",
    },
    "granted": {"DL_unlock": {"pass": True, "next": "q0"}, "*": "pass"},
}
"""Brokering Fig. 4."""


def automaton(states: Written, name: str = "m") -> Automaton:
    return Automaton.of_states(
        name, {state: {edge: _actions(edge, does) for edge, does in edges.items()} for state, edges in states.items()}
    )


def _actions(edge: str, does: object) -> tuple[Action, ...]:
    return tuple(_action(edge, one) for one in (does if isinstance(does, list) else [does]))


def _action(edge: str, does: object) -> Action:
    if not isinstance(does, Mapping) or "when" not in does:
        return parse_action(edge, does)
    return parse_action(edge, {key: does[key] for key in does if key != "when"}, make_condition(does["when"]))


def run(monitor: Monitor, events: Iterable[Event | str]) -> list[Event]:
    """What comes out when these go in; a text is an event of that topic."""
    state = monitor.start()
    out: list[Event] = []
    for event in events:
        state, made = monitor.step(state, Event(event, b"x") if isinstance(event, str) else event, 0.0)
        out += made
    return out


def topics(monitor: Monitor, words: str) -> str:
    """The topics that come out when these go in, all parted by spaces."""
    return " ".join(event.topic for event in run(monitor, words.split()))


# --- Convention 1, as short and as slow as can be


def attributes(payload: bytes) -> dict[str, Any]:
    """What a payload says: the members of a JSON object, and of anything else nothing."""
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def captured(filter: str, topic: str) -> list[str | None]:
    """The wildcards' part in a topic, by regular expression."""
    pattern = re.escape(filter).replace(r"\+", "([^/]*)").replace("/\\#", "(?:/(.*))?").replace(r"\#", "(.*)")
    found = re.fullmatch(pattern, topic)
    assert found is not None
    return list(found.groups())


def filled(template: str, edge: str, topic: str) -> str | None:
    """The topic of a template; None if it cannot be one."""
    text = template.replace("{{", "\1")
    for number, value in enumerate([] if edge == "*" else captured(edge, topic), 1):
        hole = "{" + str(number) + "}"
        while value is None and hole in text:
            at = text.index(hole)
            before, after = text[:at], text[at + len(hole) :]
            text = (before.removesuffix("/") if before else "") + (after if before else after.removeprefix("/"))
        text = text.replace(hole, value or "")
    text = text.replace("{topic}", topic).replace("\1", "{")
    begins = topic.split("/")[0] if template.startswith("{topic}") else template.split("/")[0]
    if not text or (text.startswith("$") and text.split("/")[0] != begins):
        return None
    return text


def edges_for(edges: Mapping[str, object], topic: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What may be taken on a topic, one after the other."""
    named = [edge for edge in edges if edge != "*" and matches(edge, topic)]
    for edge in [*named, *(["*"] if "*" in edges else [])]:  # (2), (5)
        several = edges[edge]
        for action in several if isinstance(several, list) else [several]:
            yield edge, action if isinstance(action, Mapping) else {str(action): True}


def is_taken(action: Mapping[str, Any], payload: bytes) -> bool:
    if "when" not in action:
        return True
    outcome = decide(parse(action["when"]), attributes(payload))
    return outcome is True or (outcome is not False and ("suppress" in action or action.get("emit") == []))


def reference(states: Written, state: str, event: Event) -> tuple[str, tuple[Event, ...]] | None:
    """Convention 1, rule by rule; None where a topic cannot be made."""
    taken = (one for one in edges_for(states[state], event.topic) if is_taken(one[1], event.payload))
    rest: tuple[str, Mapping[str, Any]] = ("*", {"suppress": True})  # (6)
    edge, action = next(taken, rest)
    following = str(action.get("next", state))
    if "pass" in action:  # (3)
        return following, (event,)
    if "suppress" in action:  # (4)
        return following, ()
    if "rename" in action:
        topic = filled(action["rename"], edge, event.topic)
        return None if topic is None else (following, (event._replace(topic=topic),))
    made = []
    for output in action["emit"]:
        template, said = (output["topic"], output.get("payload")) if isinstance(output, Mapping) else (output, None)
        topic = filled(template, edge, event.topic)
        if topic is None:
            return None
        new = event._replace(topic=topic, retain=event.retain and template in ("{topic}", edge))
        payload = None if said is None else said.encode().replace(b"{payload}", event.payload)
        made.append(new if payload is None else new._replace(payload=payload, properties=b""))
    return following, tuple(made)
