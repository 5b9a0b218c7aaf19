"""Domains written as a file has them, played without sockets."""

from typing import Any

import yaml

from penstock.domain import Domain, ensemble
from penstock.engine import governing
from penstock.engine.federation import overlay
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from penstock.policy.access.acl import Acl


def domain(text: str) -> Domain:
    return Domain.model_validate(yaml.safe_load(text))


def stage(text: str, subscribe: str | None = "#", **more: Any) -> Rehearsal:
    """The domain with all its clients connected, and subscribed to the filter unless it is None."""
    written = domain(text)
    rehearsal = Rehearsal(written, ensemble(written), **more)
    for client in written.clients:
        rehearsal.connect(client)
        if subscribe is not None:
            rehearsal.subscribe(client, subscribe)
    return rehearsal


def reload(rehearsal: Rehearsal, text: dict[str, Any], acls: dict[str, Acl]) -> None:
    """Give all nodes another domain at once, as a reload of each of them does."""
    written = Domain.model_validate(text)
    rehearsal.ensemble = rehearsal.assembly.ensemble = whole = ensemble(written)
    rehearsal.assembly.domain, rehearsal.assembly.acls = written, acls
    for name, node in rehearsal.nodes.items():
        governing.govern(node, node.limits, None, acls.get(name), whole, rehearsal.now)
        for session in overlay.prepare(node):
            lifecycle.end(node, session, rehearsal.now)
    for (entity, at), peer in rehearsal.assembly.peers.items():
        if peer.is_open and whole.publisher(at, entity, entity) is None:
            rehearsal.disconnect(entity, at)
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
