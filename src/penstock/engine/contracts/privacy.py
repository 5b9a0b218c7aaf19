"""Privacy policies in XACML with events: those of its topic, and those of what it was made of.

What monitors and policy statements make of a private event is as private, whatever its topic. The policies go with it
to other nodes as contracts do, each with the topic that it is about: `privacy:NAME#TOPIC`.
"""

from collections.abc import Iterable

from penstock.engine.contracts.state import Private
from penstock.engine.events import publishers, user_properties
from penstock.engine.events.user_properties import AT, CONTRACT, CONTRACT_BYTES
from penstock.engine.node import Node
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.contracts.contract import ProducerContract
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.privacy import policy_in
from penstock.policy.contracts.release import PRIVACY, RELEASED, RETAIN_UNTIL
from penstock.policy.contracts.release_place import ACE, DEGRADED, MARKS, read_ace, write_ace

_INHERITED = (CONTRACT, ACE, RELEASED, AT, RETAIN_UNTIL)


def is_private(node: Node, event: Event) -> bool:
    """Return True if a contract or a policy may withhold the event, or a part of it, from somebody."""
    state = node.contracts
    return state is not None and (CONTRACT_BYTES in event.properties or bool(state.contracts.private(event.topic)))


def of_topic(contracts: Contracts, topic: str) -> tuple[Private, ...]:
    """Return the policies about events on a topic."""
    return tuple(Private(policy, topic) for policy in contracts.private(topic))


def of_contracts(contracts: Iterable[ProducerContract], topic: str) -> tuple[Private, ...]:
    """Return the policies that contracts about an event have."""
    asked = ((contract, policy_in(contract)) for contract in contracts)
    return tuple(
        Private(policy, topic, contract.name, contract.scope == "local")
        for contract, policy in asked
        if policy is not None
    )


def told(contracts: Contracts, texts: Iterable[str]) -> tuple[Private, ...]:
    """Return the policies that came with an event; raise `PolicyError`."""
    policies = []
    for text in texts:
        name, _, topic = text.removeprefix(PRIVACY).rpartition("#")  # a topic has no `#`
        policy = next((candidate for candidate in contracts.privacy if candidate.name == name), None)
        if policy is None:
            raise PolicyError(f"there is no privacy policy `{name:.80}` here")
        policies.append(Private(policy, topic))
    return tuple(policies)


def is_again(node: Node, kept: Event, event: Event) -> bool:
    """Return True if a private event is the publication that is retained already, for other subscribers."""
    at, before = user_properties.told(event, AT), user_properties.told(kept, AT)
    if not at or not event.payload:
        return False
    if before or not at[0].startswith(_LATE):
        return at == before
    return kept.payload == event.payload and _publisher(node, kept) == _publisher(node, event)


_LATE = "-"
"""Begins the time of an event that was retained before it was private: before all times, and one of its own."""


def dated(node: Node, event: Event, now: float) -> Event:
    """Return a retained event that was not private when it was published, with something by which other nodes know it
    again: its time of publication is not known, so it gets one at which every retention is over.
    """
    event = user_properties.having(event, None, ((AT, f"{-now:.6f}"),))
    kept = node.retained.get(event.topic)
    if kept is not None and not user_properties.told(kept, AT):
        node.retained.amend(user_properties.having(kept, None, ((AT, f"{-now:.6f}"),)))
        node.ledger.retained(event.topic, node.retained.get(event.topic))
    return event


def _publisher(node: Node, event: Event) -> tuple[object, ...]:
    publisher = publishers.publisher_of(node, event)
    return () if publisher is None else publisher[:3]


def is_for_nobody_new(node: Node, kept: Event, event: Event) -> bool:
    """Return True if an event that a neighbour sends again is retained here, and who comes gets it from here."""
    state = node.contracts
    if state is None or not is_again(node, kept, event) or _degradations(kept) > _degradations(event):
        return False
    named = (state.contracts.named(name) for name in user_properties.told(event, CONTRACT))
    return all(contract is not None and contract.scope != "local" for contract in named)


def kept_with(kept: Event, event: Event) -> Event:
    """Return a publication that is retained, as it is kept when it comes again: for all for whom it has come, and as
    little degraded as it has.
    """
    texts = dict.fromkeys(text for each in (kept, event) for text in user_properties.told(each, ACE))
    marks = [text for text in texts if text in MARKS]
    enabled = {digest: rule for text in texts if text not in MARKS for digest, rule in read_ace(text).items()}
    best = min(event, kept, key=_degradations)
    return user_properties.having(best, None, [(ACE, text) for text in (*write_ace(enabled), *marks)], without=ACE)


def _degradations(event: Event) -> int:
    """Return how much was done to an event before it left a node."""
    return sum(map(len, user_properties.told(event, DEGRADED)))


def inheriting(node: Node, cause: Event, output: Event) -> Event:
    """Return an event made from a private one, with the contracts, policies and ACE set of its cause."""
    state = node.contracts
    if state is None or output is cause:
        return output
    policies = state.contracts.private(cause.topic) if output.topic != cause.topic else ()
    if not policies and user_properties.RESERVED_BYTES not in cause.properties:
        return output
    pairs = user_properties.carried(cause.properties).user_properties if cause.properties else ()
    here = user_properties.carried(output.properties).user_properties if output.properties else ()
    given = [pair for pair in pairs if pair[0] in _INHERITED]
    if not any(name == RELEASED for name, _ in given):  # else these have been asked
        given += [(CONTRACT, f"{PRIVACY}{policy.name}#{cause.topic}") for policy in policies]
    add = [pair for pair in dict.fromkeys(given) if pair not in here]
    return user_properties.having(output, None, add) if add else output
