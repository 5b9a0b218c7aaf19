"""Expansion of patterns and protocols into nodes, links, clients, tables and monitors."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.domain.patterns import hierarchy, interface, levels, protocols, roles
from penstock.domain.patterns.settings import Hierarchy, Interface, Levels, Pattern, Roles
from penstock.domain.problems import Loc, Mistake, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.model.errors import DomainError, PolicyError, Problem
from penstock.model.yaml.tree import path_text

_MODULES = {Hierarchy: hierarchy, Levels: levels, Interface: interface, Roles: roles}


@dataclass(frozen=True, slots=True)
class Expansion:
    """The expansion of a domain."""

    domain: Domain
    """If there are mistakes, only the valid patterns and protocols are expanded."""
    mistakes: tuple[Mistake, ...] = ()
    """Mistakes in patterns and protocols."""
    origins: dict[Loc, Loc] = field(default_factory=dict)
    """For each value that a pattern or protocol made, the location of that pattern or protocol."""

    def origin(self, loc: Loc) -> Loc | None:
        """Return the location of the pattern or protocol that made the value at `loc`; None if it stands in the
        file."""
        return self.origins.get(loc[:2])


def expand(domain: Domain) -> Domain:
    """Return the domain without patterns and protocols; raise `DomainError` if one of them is wrong."""
    expansion = with_protocols(with_patterns(domain))
    if expansion.mistakes:
        raise DomainError(*(Problem("", 0, path_text(mistake.loc), mistake.what) for mistake in expansion.mistakes))
    return expansion.domain


def with_patterns(domain: Domain) -> Expansion:
    """Return the domain with its patterns expanded."""
    current, mistakes, origins = domain, list[Mistake](), dict[Loc, Loc]()
    for index, pattern in _in_order(domain):
        loc: Loc = ("patterns", index)
        module: Any = _MODULES[type(pattern)]
        # The conditions of `levels` on the whole domain are checked when everything else is expanded.
        own = () if module is levels else module.check(current, pattern, loc)
        wrong = [*_repeated(domain, index, pattern), *own]
        mistakes += wrong
        if not wrong:
            before, current = current, module.expand(current, pattern)
            mistakes += _clashes(before, current, loc)
            origins.update(dict.fromkeys(_added(before, current), loc))
    for pattern in domain.patterns:
        if isinstance(pattern, Levels) and not mistakes:
            mistakes += levels.check(current, pattern)
    return Expansion(current.model_copy(update={"patterns": ()}), tuple(mistakes), origins)


def with_protocols(patterns: Expansion) -> Expansion:
    """Return the domain of an expansion with its protocols expanded as well."""
    current, mistakes, origins = patterns.domain, list(patterns.mistakes), dict(patterns.origins)
    for name in patterns.domain.protocols:
        loc: Loc = ("protocols", name)
        try:
            before, current = current, protocols.expand(current, name)
        except PolicyError as error:
            mistakes.append(protocols.mistake(name, error))
        else:
            mistakes += _clashes(before, current, loc)
            origins.update(dict.fromkeys(_added(before, current), loc))
    return Expansion(current.model_copy(update={"protocols": {}}), tuple(mistakes), origins)


def _in_order(domain: Domain) -> Iterator[tuple[int, Pattern]]:
    """Return the patterns with their indexes; interfaces last, because they are about links that others may make."""
    numbered = list(enumerate(domain.patterns))
    yield from sorted(numbered, key=lambda item: isinstance(item[1], Interface))


def _repeated(domain: Domain, index: int, pattern: Pattern) -> Iterator[WrongValue]:
    """Find a second pattern where a domain can only have one: there is one order of labels, one relation of parents."""
    if not isinstance(pattern, Hierarchy | Levels):
        return
    first = next(at for at, other in enumerate(domain.patterns) if type(other) is type(pattern))
    if first != index:
        kind = pattern.pattern
        yield WrongValue(
            ("patterns", index, "pattern"), f"only one `{kind}`, the one at `patterns[{first}]`", f"a second `{kind}`"
        )


def _clashes(before: Domain, after: Domain, loc: Loc) -> Iterator[WrongValue]:
    """Find monitors of the file whose name an expanded monitor takes."""
    for name, monitor in before.monitors.items():
        if after.monitors[name] != monitor:
            yield WrongValue(
                loc, f"no other monitor with the name `{name}`, which this one makes", f"the monitor `{name}`"
            )


def _added(before: Domain, after: Domain) -> Iterator[Loc]:
    for index in range(len(before.links), len(after.links)):
        yield "links", index
    for key in ("nodes", "clients", "monitors"):
        old = getattr(before, key)
        for name in getattr(after, key):
            if name not in old:
                yield key, name
