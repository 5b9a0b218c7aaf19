"""The privacy filter as a part of routing (contracts §2.2): what nobody beyond a link may have does not cross the link.

Towards a node it is asked who of the subscribers beyond it may have the event, as it would be asked there. If nobody
may, the event stays. Else a copy goes, with the ACE set of just these, and degraded as far as the rules for all of them
have in common: their nodes do the rest.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from penstock.engine.contracts import subscribers
from penstock.engine.contracts.release_decision import Left, ReleaseDecision, left_for
from penstock.engine.contracts.state import ClientWants, ContractState, Governed
from penstock.engine.contracts.subscribers import WHOEVER, Receiver
from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.policy.contracts.contract import ProducerContract
from penstock.policy.contracts.contract_set import subscription_id
from penstock.policy.contracts.degrade import Degradation, Grid, Keep, Step, degraded_once, leaves_only
from penstock.policy.contracts.plain_form import plain_degradation
from penstock.policy.contracts.release import PRIVACY, read_permitted
from penstock.policy.contracts.release_place import ACE, DEGRADED, LOCAL, FilterPlace, ace_digest, write_ace
from penstock.policy.quality.carriage import ATTACHED, write_properties

MAX_NAMED = 5
"""Subscribers that an explanation names."""


class Crossing(NamedTuple):
    """The part of an event that goes over a link."""

    event: Event | None
    """None: it stays."""
    enabled: tuple[str, ...] = ()
    """Those beyond who may have it, for explanations."""
    reason: str = ""


class _Enabled(NamedTuple):
    """A subscriber beyond the link that may have the event, by which rule of each contract."""

    client: str
    asking: ClientWants | None
    left: Left


Memo = dict[tuple[object, ...], Left | ReleaseDecision]
"""The answers for one event, by all that contracts can tell subscribers apart by."""


def is_private(governed: Governed) -> bool:
    """Return True if contracts or policies say who may have an event, or cannot be read."""
    return governed.is_private or bool(governed.private) or bool(governed.wrong)


def crossing(
    node: Node,
    session: Session,
    event: Event,
    governed: Governed,
    now: float,
    only: str = "",
    is_replay: bool = False,
) -> Crossing:
    """Return what of an event goes to a neighbour; `only`: it is retained, and one subscriber beyond is new."""
    state = node.contracts
    assert state is not None
    if not is_private(governed):
        return Crossing(None if only else event)
    if governed.wrong:
        return Crossing(None, reason=f"what came with it cannot be read: {governed.wrong}")
    known = (only,) if only else subscribers.beyond(node, session, event.topic)
    governed = governed._replace(is_late=governed.is_late or is_replay)
    enabled, refused = _enabled(state, event, governed, known, now)
    is_for_whoever = WHOEVER in known and all(contract.scope != "local" for contract in governed.contracts)
    whoever = _whoever(node, session, event, governed, now) if is_for_whoever else ()
    if not enabled and whoever == ():
        reasons = "; ".join(dict.fromkeys(refused[:MAX_NAMED])) or "nobody there has subscribed"
        return Crossing(None, reason=f"nobody beyond `{session.neighbour}` may have it: {reasons}")
    names = tuple(f"`{client}`" for client in dict.fromkeys(each.client for each in enabled))
    names += ("who has subscribed locally",) if whoever != () else ()
    changed = _with_ace(event, governed, enabled, whoever != () or governed.is_for_local)
    everybody = None if whoever is None else [*enabled, *whoever]
    return Crossing(changed if everybody is None else _degraded(state, changed, governed, everybody, now), names)


def _enabled(
    state: ContractState, event: Event, governed: Governed, known: tuple[str, ...], now: float
) -> tuple[list[_Enabled], list[str]]:
    """Return the subscribers that may have the event, and why others may not."""
    memo: Memo = {}
    enabled: list[_Enabled] = []
    refused: list[str] = []
    for text in known:
        receiver = subscribers.read(text) if text != WHOEVER else None
        if receiver is None:
            continue
        asked = state.of_client(*receiver, event.topic)
        for asking in asked or (() if governed.is_private else (None,)):
            left = _asked(state, memo, receiver, event, governed, asking, now)
            if isinstance(left, Left):
                enabled.append(_Enabled(receiver.client, asking, left))
            elif len(refused) < MAX_NAMED:
                refused += (f"`{receiver.client}`: {reason}" for reason in left.reasons)
        if not asked and governed.is_private and len(refused) < MAX_NAMED:
            refused.append(f"`{receiver.client}` has no contract for this topic")
    return enabled, refused


def _asked(
    state: ContractState,
    memo: Memo,
    receiver: Receiver,
    event: Event,
    governed: Governed,
    asking: ClientWants | None,
    now: float,
) -> Left | ReleaseDecision:
    if governed.private or asking is None:  # a policy may ask who it is
        return left_for(state, receiver, event, governed, asking, now)
    key = state.told_apart_by(asking, governed.contracts)
    if not governed.is_first:
        key = (key, *(governed.ace.get(_digest(asking, contract)) for contract in governed.contracts))
    left = memo.get(key)
    if left is None:
        left = memo[key] = left_for(state, receiver, event, governed, asking, now)
    return left


def _digest(asking: ClientWants, contract: ProducerContract) -> str:
    return ace_digest(f"{subscription_id(*asking)} {contract.name}")


def _whoever(node: Node, session: Session, event: Event, governed: Governed, now: float) -> tuple[_Enabled, ...] | None:
    """Return those that may have subscribed locally and may have the event; None: anybody, as only their nodes know."""
    state = node.contracts
    assert state is not None
    if governed.private or state.contracts.bring:
        return None
    neighbour, whole = session.neighbour or "", node.ensemble

    def elsewhere() -> set[str]:
        beyond = set(whole.nodes).intersection(whole.beyond(node.name, neighbour))
        return set(whole.devices).difference(entry.name for place in beyond for entry in whole.listed(place))

    late = governed._replace(is_late=True)
    kinds = state.kinds(event.topic, neighbour, elsewhere)
    asked = ((asking, left_for(state, Receiver(asking.client), event, late, asking, now)) for asking in kinds)
    return tuple(_Enabled("", asking, left) for asking, left in asked if isinstance(left, Left))


def _with_ace(event: Event, governed: Governed, enabled: list[_Enabled], is_for_whoever: bool) -> Event:
    """Return the event with the set of those beyond for which this node has decided, beside what others have."""
    ace = {} if governed.is_first else dict(governed.ace)
    for _, asking, left in enabled:
        if asking is not None and asking.want.scope == "local":
            continue  # its own node decides
        ace |= dict(step.ace for step in left.steps if step.ace[0])
        for contract, step in zip(governed.contracts, left.steps if asking is not None else (), strict=False):
            if step.place is FilterPlace.EVALUATE and asking is not None:
                ace[_digest(asking, contract)] = step.release.rule
    texts = (*write_ace(ace), *((LOCAL,) if is_for_whoever else ()))
    return user_properties.having(event, None, [(ACE, text) for text in texts], without=ACE)


def _degraded(state: ContractState, event: Event, governed: Governed, enabled: list[_Enabled], now: float) -> Event:
    """Return the event, degraded as far as the rules for all of them have in common."""
    done = dict(governed.degraded)
    left: list[Degradation] = []
    for name, lists in _asked_for(governed, enabled):
        common = _common(lists)
        before = done.get(name, [])
        plain: list[object] = [plain_degradation(degradation) for degradation in common]
        if plain[: len(before)] != before:
            break
        left += common[len(before) :]
        done[name] = plain
        if lists != {common}:
            break
    if not left:
        return event
    try:
        payload, quality, _ = degraded_once(left, governed.content, governed.quality, state.contracts.catalogue, now)
    except ContentError:
        return event  # then nobody gets it; their nodes say why
    event = user_properties.bare(event) if leaves_only(left) else event
    pairs = [*write_properties(quality, ATTACHED)]
    event = user_properties.having(event._replace(payload=payload), None, pairs, without=ATTACHED)
    text = msgspec.json.encode({name: plain for name, plain in done.items() if plain}).decode()
    return user_properties.having(event, None, ((DEGRADED, text),), without=DEGRADED)


def _asked_for(governed: Governed, enabled: list[_Enabled]) -> Iterator[tuple[str, set[tuple[Degradation, ...]]]]:
    """Yield by contract, then by policy in XACML, the degradations that those enabled get it with."""
    for at, contract in enumerate(governed.contracts):
        rules = {rule.id: rule.degrade for rule in contract.rules}
        yield contract.name, {rules.get(each.left.steps[at].release.rule, ()) for each in enabled}
    for at, private in enumerate(governed.private, -len(governed.private)):
        permitted = [read_permitted(each.left.steps[at].ace[1]) for each in enabled]
        yield f"{PRIVACY}{private.policy.name}", {() if isinstance(by, str) else by.degrade for by in permitted}


def _common(lists: set[tuple[Degradation, ...]]) -> tuple[Degradation, ...]:
    """Return the beginning that lists of degradations have in common, up to one that takes time."""
    common: list[Degradation] = []
    for each in zip(*lists, strict=False):
        if len(set(each)) > 1 or not isinstance(each[0], Grid | Step | Keep):
            break
        common.append(each[0])
    return tuple(common)
