"""A domain with patterns and protocols to one without: all in terms of nodes, links, clients, tables and monitors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.domain.finding import Finding, Loc, Mistake
from penstock.domain.patterns import hierarchy, interface, levels, protocols, roles
from penstock.domain.patterns.settings import Hierarchy, Interface, Levels, Pattern, Roles
from penstock.domain.schema.domain import Domain
from penstock.model.errors import DomainError, PolicyError, Problem
from penstock.model.yaml.tree import path_text


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a domain expands to."""

    domain: Domain
    """Only as far as patterns and protocols are right, if there are mistakes."""
    mistakes: tuple[Mistake, ...] = ()
    """What is wrong with patterns and protocols."""
    origins: dict[Loc, Loc] = field(default_factory=dict)
    """For each value that a pattern or protocol made, where that stands."""

    def origin(self, loc: Loc) -> Loc | None:
        """Where the pattern or protocol stands that made what is at `loc`; None if the file says it itself."""
        return self.origins.get(loc[:2])


def expand(domain: Domain) -> Domain:
    """The domain without patterns and protocols; raises `DomainError` if one of them is wrong."""
    whole = with_protocols(with_patterns(domain))
    if whole.mistakes:
        raise DomainError(*(Problem("", 0, path_text(one.loc), one.what) for one in whole.mistakes))
    return whole.domain


def with_patterns(domain: Domain) -> Expansion:
    """The domain with its patterns expanded."""
    current, mistakes, origins = domain, list[Mistake](), dict[Loc, Loc]()
    for index, pattern in _in_order(domain):
        loc: Loc = ("patterns", index)
        wrong = [*_again(domain, index, pattern), *_check(current, pattern, loc)]
        mistakes += wrong
        if not wrong:
            before, current = current, _expand(current, pattern)
            mistakes += _clashes(before, current, loc)
            origins.update(dict.fromkeys(_made(before, current), loc))
    for pattern in domain.patterns:
        if isinstance(pattern, Levels) and not mistakes:
            mistakes += levels.check(current, pattern)
    return Expansion(current.model_copy(update={"patterns": ()}), tuple(mistakes), origins)


def with_protocols(patterns: Expansion) -> Expansion:
    """The domain of an expansion with its protocols expanded as well."""
    current, mistakes, origins = patterns.domain, list(patterns.mistakes), dict(patterns.origins)
    for name in patterns.domain.protocols:
        loc: Loc = ("protocols", name)
        try:
            before, current = current, protocols.expand(current, name)
        except PolicyError as error:
            mistakes.append(protocols.mistake(name, error))
        else:
            mistakes += _clashes(before, current, loc)
            origins.update(dict.fromkeys(_made(before, current), loc))
    return Expansion(current.model_copy(update={"protocols": {}}), tuple(mistakes), origins)


def _in_order(domain: Domain) -> Iterator[tuple[int, Pattern]]:
    """The patterns with their places; interfaces last, as they are about links that others may make."""
    numbered = list(enumerate(domain.patterns))
    yield from sorted(numbered, key=lambda item: isinstance(item[1], Interface))


def _check(domain: Domain, pattern: Pattern, loc: Loc) -> Iterator[Finding]:
    match pattern:
        case Hierarchy():
            yield from hierarchy.check(domain, pattern, loc)
        case Interface():
            yield from interface.check(domain, pattern, loc)
        case Roles():
            yield from roles.check(domain, pattern, loc)
        case Levels():
            pass  # what it asks of the whole is checked when all else is expanded


def _expand(domain: Domain, pattern: Pattern) -> Domain:
    match pattern:
        case Hierarchy():
            return hierarchy.expand(domain, pattern)
        case Levels():
            return levels.expand(domain, pattern)
        case Interface():
            return interface.expand(domain, pattern)
        case Roles():
            return roles.expand(domain, pattern)


def _again(domain: Domain, index: int, pattern: Pattern) -> Iterator[Finding]:
    """A second pattern where a domain can only have one: there is one order of labels, one relation of parents."""
    if not isinstance(pattern, Hierarchy | Levels):
        return
    first = next(at for at, other in enumerate(domain.patterns) if type(other) is type(pattern))
    if first != index:
        kind = pattern.pattern
        yield Finding(
            ("patterns", index, "pattern"), f"only one `{kind}`, the one at `patterns[{first}]`", f"a second `{kind}`"
        )


def _clashes(before: Domain, after: Domain, loc: Loc) -> Iterator[Finding]:
    """Monitors of the file that would be lost because of the name that a monitor gets."""
    for name, monitor in before.monitors.items():
        if after.monitors[name] != monitor:
            yield Finding(
                loc, f"no other monitor with the name `{name}`, which this one makes", f"the monitor `{name}`"
            )


def _made(before: Domain, after: Domain) -> Iterator[Loc]:
    for index in range(len(before.links), len(after.links)):
        yield "links", index
    for key in ("nodes", "clients", "monitors"):
        old = getattr(before, key)
        for name in getattr(after, key):
            if name not in old:
                yield key, name
