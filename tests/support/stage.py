"""Domains written as a file has them, played without sockets."""

from typing import Any

import yaml

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal import Rehearsal

SMART_HOME = """
domain: smart-home
nodes:
  cloud:   {listen: "127.0.0.1:1883"}
  gateway: {listen: "127.0.0.1:1884"}
  locks:   {listen: "127.0.0.1:1885"}
links:
  - {between: [gateway, cloud], type: internet}
  - {between: [gateway, locks], type: door}
clients:
  phone:  {node: cloud,   type: internet}
  motion: {node: gateway, type: sensitive}
  bell:   {node: gateway, type: door}
  lock:   {node: locks,   type: door}
brokering:
  types: [internet, door, sensitive]
  deny:  [{from: sensitive, to: internet}]
monitors:
  no-remote-unlock:
    link: cloud -> gateway
    states: {q0: {DL_unlock: suppress, "*": pass}}
  unlock-after-grant:
    link: gateway -> locks
    states:
      q0: {AC_request: {pass: true, next: asked},   DL_unlock: suppress, "*": pass}
      asked: {AC_grant: {pass: true, next: granted}, AC_deny: {pass: true, next: q0}, DL_unlock: suppress, "*": pass}
      granted: {DL_unlock: {pass: true, next: q0}, "*": pass}
"""
"""The domain of DESIGN §4: the brokering paper's case study, Fig. 2 to 4."""


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
