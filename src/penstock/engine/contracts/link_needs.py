"""Quality requirements as filters (contracts §2.3): an event whose quality nobody beyond a link asks for stays.

What the contracts of a subscriber ask of events travels with the want for its topics, from node to node. Subscribers
that ask the same have one want together. About private events it is asked who subscribes (`link_release.py`); retained
ones go by their topic alone, as the node beyond must not go on with an older one.
"""

from functools import lru_cache

import msgspec

from penstock.engine.contracts.quality import claimed
from penstock.engine.contracts.state import Governed
from penstock.engine.contracts.subscribers import GLOBAL
from penstock.engine.events.plan import Target
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.model.errors import UNREADABLE, PolicyError
from penstock.model.event import Event
from penstock.model.topic import covers, matches, overlaps
from penstock.policy.contracts.contract import MAX_RULES, ContextWant
from penstock.policy.contracts.contract_set import effective_wants
from penstock.policy.contracts.plain_form import plain_want
from penstock.policy.contracts.text_form import read_want
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.propagation import aged
from penstock.policy.statements.assignments import Statements

_NEEDS = "\3"
"""Before the needs in the name of what is kept of a neighbour's want."""
MAX_TEXT = 8_192
"""Characters of needs that travel; if there are more, the subscriber's own node asks alone."""
MAX_REASONS = 5
_CATALOGUE = make_catalogue(())
"""Needs travel with their metrics named in full and levels as numbers: no domain's catalogue is asked."""


def of_client(node: Node, session: Session, filter: str) -> str:
    """Return what the contracts of a client ask of events of a subscription, as its want carries it; empty: nothing.

    Policy statements may change an event on its way, and with it its quality. So in domains that have any, the
    subscriber's own node asks alone.
    """
    state = node.contracts
    if state is None or node.ensemble.statements != Statements():
        return ""
    given = (effective_wants(contract) for contract in state.contracts.consuming(session.place.entity))
    brought = (contract.wants for contract in session.declared.consumes.values())
    about = [want for wants in (*given, *brought) for want in wants if overlaps(want.filter, filter)]
    asking = [want for want in about if want.asks and want.scope != "local"]
    free = {want.filter for want in about if want not in asking}
    if not asking or len(about) > MAX_RULES or any(covers(topics, filter) for topics in free):
        return ""
    plain = [{**plain_want(want), "scope": None} for want in asking] + [{"filter": topics} for topics in free]
    text = f"[{','.join(sorted({msgspec.json.encode(want, order='sorted').decode() for want in plain}))}]"
    return text if len(text) <= MAX_TEXT else ""


def with_needs(name: str, needs: str) -> str:
    """Return the name, among what a neighbour has told, of a want with needs."""
    return f"{name}{_NEEDS}{needs}" if needs else name


def needs_in(subscribed: Subscribed) -> str:
    """Return the needs that a neighbour has told with a want; empty: it takes every event."""
    _, separator, needs = subscribed.name.rpartition(_NEEDS)
    return needs.removesuffix(GLOBAL) if separator else ""


@lru_cache(maxsize=4_096)
def _read(text: str) -> tuple[ContextWant, ...]:
    """Return the wants that needs consist of; what cannot be read is asked by the subscriber's own node alone."""
    try:
        wants = msgspec.json.decode(text, type=list[dict[str, object]])
        return tuple(read_want("want", want, _CATALOGUE) for want in wants)
    except (*UNREADABLE, PolicyError):
        return ()


def why_unasked(node: Node, target: Target | None, event: Event, governed: Governed | None, now: float) -> str:
    """Return why nobody beyond a target, a node, asks for a public event; empty if somebody does."""
    if target is None or event.retain or node.contracts is None:
        return ""
    texts = [needs_in(subscribed) for subscribed in target.subscriptions]
    if "" in texts:
        return ""
    alternatives = [[want for want in _read(text) if matches(want.filter, event.topic)] for text in texts]
    if [] in alternatives:
        return ""
    content = node.ensemble.reader.read(event)
    measured = claimed(node, event, content, now) if governed is None else governed.quality
    quality = aged(measured, node.contracts.contracts.catalogue, now)
    reasons: dict[str, None] = {}
    for want in {want: None for wants in alternatives for want in wants}:
        missed = [*why_not(want.needs, quality, content), *filter(None, (want.unmet(content),))]
        if not missed:
            return ""
        reasons.update(dict.fromkeys(missed))
    return f"nobody beyond `{target.session.neighbour}` asks for it: {'; '.join([*reasons][:MAX_REASONS])}"
