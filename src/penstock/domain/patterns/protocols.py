"""Protocols to monitors, and mistakes in their text or names."""

import re

from penstock.domain.problems import Remark
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import MonitorSettings
from penstock.model.errors import PolicyError
from penstock.policy.monitors.protocol import Protocol, Surroundings, compile_protocol, enforced_where

_KEY = re.compile(r"`(senders|protects|guard)`:? ")


def surroundings(domain: Domain) -> Surroundings:
    """Return the entities and links of a domain without patterns."""
    homes = {name: tuple(client.node) for name, client in domain.clients.items()}
    for name in domain.foreign:
        homes[name] = tuple(link.between[0] for link in domain.links if link.between[1] == name)
    joined = {link.between for link in domain.links if set(link.between) <= set(domain.nodes)}
    return Surroundings(
        nodes=frozenset(domain.nodes),
        homes=homes,
        joined=frozenset(joined | {(second, first) for first, second in joined}),
        open_nodes=frozenset(name for name in domain.nodes if domain.admits_unlisted(name)),
    )


def expand(domain: Domain, name: str) -> Domain:
    """Return the domain with the monitors of one of its protocols; raise `PolicyError`."""
    settings = domain.protocols[name]
    protocol = Protocol(name, settings.protocol, settings.protects, settings.senders, settings.guard)
    around = surroundings(domain)
    for entity in settings.protects:
        if around.homes.get(entity) == ():
            raise PolicyError(f"`protects`: `{entity}` has no link with a node")
    monitors = {
        definition.name: MonitorSettings.model_validate(definition.plain())
        for definition in compile_protocol(protocol, around)
    }
    return domain.model_copy(update={"monitors": {**domain.monitors, **monitors}})


def enforced(written: Domain, expanded: Domain) -> list[str]:
    """Return for each step of each protocol, in words, the links that enforce it."""
    lines = []
    for name, settings in written.protocols.items():
        protocol = Protocol(name, settings.protocol, settings.protects, settings.senders, settings.guard)
        steps = enforced_where(protocol, compile_protocol(protocol, surroundings(expanded)))
        lines += [f"protocol {name}: {step}" for step in steps]
    return lines


def mistake(name: str, error: PolicyError) -> Remark:
    """Return the mistake in a protocol, at the key that it concerns."""
    text = str(error).partition("\n")[0]  # the caret line below the text repeats the position
    key = _KEY.match(text)
    return Remark(("protocols", name, key[1] if key else "protocol"), text[key.end() :] if key else text)
