"""A protocol as each participant sees it: what it sends and gets in which order, and the ways of these events.

From the ways follow link types and a brokering table (brokering §4.1, §9) under which nothing goes from a participant
to anybody but those who get an event of it.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.policy.monitors.protocol import Ends, Protocol, Surroundings
from penstock.policy.monitors.protocol_machine import successions
from penstock.policy.monitors.protocol_text import EventChoice, EventRepeat, EventSequence, ProtocolEvent, Tree

Turn = tuple[Ends, Ends]
"""Two links, one after the other at the node between them."""


class ProtocolTable(NamedTuple):
    """The link types and the brokering table that follow from a protocol."""

    types: dict[Ends, str]
    allow: frozenset[tuple[str, str]]


def local_view(protocol: Protocol, participant: str) -> str:
    """Return what a participant sends and gets, in order, with all that it does not see left out."""

    def phrase(event: str) -> str:
        does = "sends" if protocol.may_send(participant, event) else ""
        seen = "gets" if protocol.may_get(participant, event) else ""
        verb = " or ".join(filter(None, (does, seen)))
        return verb and f"{verb} {event}"

    tree = _projected(protocol.tree, phrase)
    return "nothing" if tree is None else _text(tree)


def unaware(protocol: Protocol) -> list[tuple[str, str, str]]:
    """Return who sends an event after another one that it neither sends nor gets: it cannot know its turn."""
    return [
        (sender, after, before)
        for before, after in sorted(successions(protocol.tree))
        for sender in protocol.senders.get(after, ())
        if sender not in protocol.senders.get(before, ()) and not protocol.may_get(sender, before)
    ]


def _projected(tree: Tree, phrase: Callable[[str], str]) -> Tree | None:
    """Return the tree with each event in words; None if nothing is left of it."""
    match tree:
        case ProtocolEvent(filter):
            text = phrase(filter)
            return ProtocolEvent(text) if text else None
        case EventRepeat(item, operator):
            inner = _projected(item, phrase)
            return inner and (_optional(inner) if operator == "?" else EventRepeat(inner, operator))
        case EventSequence(items):
            parts = [part for item in items if (part := _projected(item, phrase)) is not None]
            return None if not parts else parts[0] if len(parts) == 1 else EventSequence(tuple(parts))
        case EventChoice(items):
            projected = [_projected(item, phrase) for item in items]
            ways = list(dict.fromkeys(way for way in projected if way is not None))
            if not ways:
                return None
            kept = ways[0] if len(ways) == 1 else EventChoice(tuple(ways))
            return _optional(kept) if None in projected else kept


def _optional(tree: Tree) -> Tree:
    return tree if isinstance(tree, EventRepeat) and tree.operator in "?*" else EventRepeat(tree, "?")


def _text(tree: Tree) -> str:
    match tree:
        case ProtocolEvent(words):
            return words
        case EventRepeat(item, operator):
            return f"({_text(item)}){operator}"
        case EventChoice(items):
            return " | ".join(map(_text, items))
        case EventSequence(items):
            return ", ".join(f"({_text(item)})" if isinstance(item, EventChoice) else _text(item) for item in items)


def turns(protocol: Protocol, around: Surroundings, participants: Collection[str]) -> frozenset[Turn]:
    """Return the turns on the ways of all events that come from these participants or go to them.

    What an entity that is protected does not get itself must come as far as the monitor that protects it.
    """
    flows = {
        (sender, hearer)
        for event in protocol.events
        for sender in protocol.senders.get(event, ())
        for hearer in protocol.participants
        if hearer in protocol.protects or (hearer != sender and protocol.may_get(hearer, event))
    }
    return frozenset(
        turn for ends in sorted(flows) if set(ends) & set(participants) for turn in _turns_between(around, *ends)
    )


def _turns_between(around: Surroundings, sender: str, hearer: str) -> set[Turn]:
    """Return the turns on all ways between two entities that do not go straight back."""
    last = {(node, hearer) for node in around.homes.get(hearer, ())}
    last |= {link for link in around.joined if link[1] == hearer}
    after: dict[Ends, list[Ends]] = {}
    waiting = [(sender, node) for node in around.homes[sender]]
    while waiting:
        link = waiting.pop()
        if link not in after:
            onward = [on for on in around.joined if on[0] == link[1] and on[1] != link[0]]
            after[link] = [] if link in last else [*onward, *(on for on in last if on[0] == link[1])]
            waiting += after[link]
    leads, before = set(last & after.keys()), set[Ends]()
    while leads != before:
        before = set(leads)
        leads |= {link for link, onward in after.items() if leads.intersection(onward)}
    return {(link, on) for link in leads for on in after[link] if on in leads}


def table_of(protocol: Protocol, around: Surroundings) -> ProtocolTable:
    """Return the link types and the table of a protocol that has links of its own; raise `PolicyError`."""
    for key, named in (("senders", protocol.senders), ("receivers", protocol.receivers)):
        missing = [event for event in protocol.events if event not in named]
        if missing:
            raise PolicyError(f"`table`: it needs the {key} of each event, and `{missing[0]}` has none under `{key}`")
    types: dict[Ends, str] = {}
    for near, far in sorted(around.joined):
        types[near, far] = f"{protocol.name}-{near}-{far}"
    for entity in protocol.participants:
        for node in around.homes.get(entity, ()):
            types[entity, node] = f"{protocol.name}-from-{entity}"
            types[node, entity] = f"{protocol.name}-to-{entity}"
    every = turns(protocol, around, protocol.participants)
    return ProtocolTable(types, frozenset((types[link], types[on]) for link, on in every))
