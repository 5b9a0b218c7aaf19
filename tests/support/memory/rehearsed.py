"""Domains written as a file has them, played without sockets."""

from typing import Any

import yaml

from penstock.domain import Domain, ensemble
from penstock.engine import governing
from penstock.engine.federation import overlay
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle, placement
from penstock.engine.trust import keys
from penstock.policy.access.acl import Acl
from penstock.policy.tokens.revocation import NOTHING, Revoked
from penstock.wire.reason import Reason


def domain(text: str) -> Domain:
    return Domain.model_validate(yaml.safe_load(text))


def stage(text: str, subscribe: str | None = "#", **more: Any) -> Rehearsal:
    """The domain with all its clients connected, but for capsules that run in nodes, and subscribed to the filter
    unless it is None."""
    written = domain(text)
    rehearsal = Rehearsal(written, ensemble(written), **more)
    run = {capsule.client for capsule in written.capsules.values() if capsule.runs == "node"}
    for client in (name for name in written.clients if name not in run):
        rehearsal.connect(client)
        if subscribe is not None:
            rehearsal.subscribe(client, subscribe)
    return rehearsal


def reload(
    rehearsal: Rehearsal,
    text: dict[str, Any],
    acls: dict[str, Acl],
    revoked: Revoked = NOTHING,
    killed: str | None = None,
) -> None:
    """Give all nodes another domain at once, as a reload of each of them does; `killed` starts with it instead."""
    written, assembly = Domain.model_validate(text), rehearsal.assembly
    foreign = assembly.domain.foreign
    rehearsal.ensemble = assembly.ensemble = whole = ensemble(written)
    assembly.domain, assembly.acls, assembly.revoked = written, acls, revoked
    for name, node in rehearsal.nodes.items():
        if node.trust.keys is not None:
            node.trust.keys = node.trust.keys._replace(revoked=revoked)
        if name != killed:
            governing.govern(node, node.limits, None, acls.get(name), whole, rehearsal.now)
            for session in overlay.prepare(node):
                lifecycle.end(node, session, rehearsal.now)
            keys.join(node, rehearsal.now)
    if killed is not None:
        rehearsal.restart(killed)
    for link in whole.connections:
        if foreign.get(link.between[1]) != written.foreign.get(link.between[1]):  # such a link is made again
            assembly.break_off(*link.between)
            assembly.dial(link)
    for node in rehearsal.nodes.values():
        for session in list(node.sessions.values()):
            is_gone = session.neighbour is None and placement.entry_of(node, session.subject) is None
            if is_gone and session.outlet is not None:
                session.outlet.disconnect(Reason.NOT_AUTHORIZED, "the domain no longer lists this client here")
        assembly.turn(node)
    rehearsal.run()


def topics(rehearsal: Rehearsal, entity: str) -> list[str]:
    """The topics of all that an entity has got."""
    return [one.topic for one in rehearsal.deliveries(entity)]


def play(rehearsal: Rehearsal, entity: str, topic: str, payload: bytes = b"", **more: Any) -> dict[str, list[str]]:
    """Publish and let it arrive: the topics that each entity then gets, of those that get any."""
    entities = (*rehearsal.ensemble.devices, *rehearsal.ensemble.foreign)
    before = {name: len(rehearsal.deliveries(name)) for name in entities}
    rehearsal.publish(entity, topic, payload, **more)
    rehearsal.run()
    got = {name: topics(rehearsal, name)[before[name] :] for name in entities}
    return {name: some for name, some in got.items() if some}
