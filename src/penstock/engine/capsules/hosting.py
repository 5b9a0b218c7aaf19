"""A node begins and ends to run capsules: each is a session of its client, with subscriptions and without a wire."""

from penstock.engine.capsules.state import DIGEST, CapsuleOutlet, RunningCapsule
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle, placement, session_rights, subscribe
from penstock.engine.sessions.session import NEVER, Session, Subscribed
from penstock.model.topic import parse_filter
from penstock.policy.capsules.capsule import Capsule
from penstock.policy.capsules.machine import Key

_VERSION = 5


def prepare(node: Node, now: float) -> None:
    """Run the capsules that the domain has at this node, from what is remembered of them; end those that it has not."""
    states = node.capsules
    wanted = {capsule.name: capsule for capsule in node.ensemble.capsules.get(node.name, ())}
    for running in list(states.running.values()):
        known = wanted.get(running.capsule.name)
        if known is not None and known.digest == running.capsule.digest and _is_here(node, running.session):
            running.machine.capsule = wanted.pop(known.name)
        else:
            _end(node, running, now)
    for name, capsule in wanted.items():
        _begin(node, capsule, states.stored.pop(name, {}), now)
    for name, entries in states.stored.items():
        _forget(node, name, entries)
    states.stored = {}


def _is_here(node: Node, session: Session) -> bool:
    entry = placement.entry_of(node, session.subject)
    return entry is not None and entry.name == session.place.entity


def _begin(node: Node, capsule: Capsule, stored: dict[Key, object], now: float) -> None:
    subject = node.ensemble.shown(node.name, capsule.client)
    if subject is None:
        return  # the checks of a domain do not let it come to that
    other = node.sessions.get(subject.client_id)
    if other is not None:  # a client of this name was here before the capsule was
        lifecycle.end(node, other, now)
    node.sessions.last_id += 1
    session = node.sessions[subject.client_id] = Session(node.sessions.last_id, subject, _VERSION)
    session.connection.expiry = NEVER
    session.connection.plain = False  # it takes events, not bytes
    session.outlet, session.open, session.since = CapsuleOutlet(), True, now
    placement.settle_in(node, session)
    session.rights = session_rights.rights_for(node, session)
    running = node.capsules.running[session.id] = RunningCapsule(capsule, session, node.ledger)
    node.capsules.clients[capsule.client] = capsule.name
    if stored.pop(DIGEST, capsule.digest) != capsule.digest:
        node.notice("capsule", session, "", f"`{capsule.name}` begins anew: its settings have changed")
        _forget(node, capsule.name, stored)
        stored = {}
    for key, value in stored.items():
        running.machine.restore(key, value)
    node.ledger.capsule(capsule.name, DIGEST, capsule.digest)
    for text in capsule.topics:
        if session.rights is not None and not session.rights.may_subscribe(text):
            node.deny("subscribe denied", session, text, session.rights.why_subscribe(text))
            continue
        filter = parse_filter(text)
        subscribed = Subscribed(session, text, 1, no_local=True)
        subscribed.condition, subscribed.since = subscribe.condition_of(node, session, filter, ""), now
        subscribe.add(node, subscribed, filter)


def _end(node: Node, running: RunningCapsule, now: float) -> None:
    capsule, session = running.capsule, running.session
    _forget(node, capsule.name, {**running.machine.entries, DIGEST: None})
    del node.capsules.running[session.id]
    node.capsules.clients.pop(capsule.client, None)
    session.outlet, session.open = None, False
    lifecycle.end(node, session, now)
    node.plans.forget_all()


def _forget(node: Node, name: str, entries: dict[Key, object]) -> None:
    for key in entries:
        node.ledger.capsule(name, key, None)
