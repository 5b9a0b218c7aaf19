"""Checks across models: names that must be known, files that must exist, links that must exist."""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.domain.checks import (
    access,
    admin,
    assertions,
    capsules,
    contents,
    contracts,
    monitors,
    statements,
    structure,
    tables,
    tests,
    tokens,
    trust_groups,
)
from penstock.domain.checks.warnings import warnings
from penstock.domain.compile.expand import Expansion, with_patterns, with_protocols
from penstock.domain.compile.graph import graph
from penstock.domain.patterns.settings import Roles
from penstock.domain.problems import Loc, Mistake, WrongValue
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.node_settings import NodeSettings
from penstock.domain.units import Address
from penstock.domain.yaml.files import FileRole, files
from penstock.model.errors import DomainError, Problem
from penstock.model.yaml.tree import YamlEntry, found_text, locate, path_text

_CHECKS = (structure, admin, assertions, contents, access, contracts, trust_groups, tokens, statements, capsules)


@dataclass(frozen=True, slots=True)
class DomainSource:
    """A domain as written, with the text it comes from, so that a problem can be reported at its place in the text."""

    domain: Domain
    root: YamlEntry

    @property
    def folder(self) -> Path:
        """Return the folder of the domain file."""
        return self.root.place.folder

    def problem(self, mistake: Mistake, expansion: Expansion) -> Problem:
        """Return the problem for a mistake in an expansion of the domain, at the place in the text that caused it."""
        origin = expansion.origin(mistake.loc)
        if origin is not None:
            spot = locate(self.root, origin)
            what = f"makes `{path_text(mistake.loc)}`: {mistake.what}"
            return spot.entry.place.problem(spot.path, what)
        spot = locate(self.root, mistake.loc)
        if not isinstance(mistake, WrongValue):
            return spot.entry.place.problem(spot.path, mistake.what)
        actual = mistake.found if mistake.found is not None else found_text(spot.entry.node)
        path = mistake.loc if actual == "nothing" else spot.path
        return spot.entry.place.problem(path, f"found {actual}, expected {mistake.expected}")


@dataclass(frozen=True, slots=True)
class CheckedDomain:
    """A domain without mistakes."""

    domain: Domain
    """The domain without patterns and protocols."""
    warnings: tuple[Problem, ...]
    """Problems that do not stop the domain from being used."""


def check(source: DomainSource, nodes: Collection[str] | None = None) -> CheckedDomain:
    """Check a domain and the files that `nodes` (default: all) need on this machine.

    Raises `DomainError`. A domain serves many machines, and each has only the files of its own nodes.
    """
    expansion, mistakes = _check_domain(source)
    mistakes += _check_surroundings(source.domain, expansion, nodes)
    if mistakes:
        raise DomainError(*sorted_problems([source.problem(mistake, expansion) for mistake in mistakes]))
    odd = [source.problem(warning, expansion) for warning in warnings(source.domain, expansion, nodes)]
    return CheckedDomain(expansion.domain, tuple(sorted_problems(odd)))


def sorted_problems(problems: list[Problem]) -> list[Problem]:
    """Return problems sorted by file and line."""
    names = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(problems, key=lambda problem: (names.index(problem.file), problem.line))


def _check_domain(source: DomainSource) -> tuple[Expansion, list[Mistake]]:
    """Expand the domain and find its mistakes. Each step runs only if the steps before found nothing, so that
    consequences of a mistake are not reported too."""
    patterns = with_patterns(source.domain)
    if patterns.mistakes:
        return patterns, list(patterns.mistakes)
    by_check = (module.check(patterns.domain) for module in _CHECKS)
    mistakes: list[Mistake] = [mistake for mistakes_found in by_check for mistake in mistakes_found]
    mistakes += [] if mistakes else tables.check(source.domain, patterns.domain)
    if mistakes:
        return patterns, mistakes
    expanded = with_protocols(patterns)
    if expanded.mistakes:
        return expanded, list(expanded.mistakes)
    wrong = monitors.check(expanded.domain, graph(expanded.domain), source.folder)
    return expanded, [*wrong, *tests.check(expanded.domain)]


def _check_surroundings(written: Domain, expansion: Expansion, nodes: Collection[str] | None) -> Iterator[Mistake]:
    domain = expansion.domain
    here = domain.nodes.keys() if nodes is None else nodes
    for name, node in written.nodes.items():
        if name in here:
            yield from _missing_files(files(node, ("nodes", name)))
            yield from _claimed_twice(node, ("nodes", name))
    for index, pattern in enumerate(written.patterns):
        if isinstance(pattern, Roles) and pattern.store != MEMORY and not Path(pattern.store).is_dir():
            yield WrongValue(("patterns", index, "store"), f"a folder, and there is no folder `{pattern.store}`")
    for index, link in enumerate(domain.links):
        dials, accepts = (end in here for end in link.between)
        named = files(link, ("links", index))
        yield from _missing_files(item for item in named if dials or (accepts and item[0][-1] == "secret_file"))
    for name, group in domain.trust_groups.items():
        if any(member in here for member in group.nodes):
            yield from _missing_files(files(group, ("trust_groups", name)))
    for index, private in enumerate(domain.privacy):
        yield from _missing_files(files(private, ("privacy", index)))
    for key, settings in (("admin", domain.admin), ("tokens", domain.tokens)):
        if settings is not None and here:
            yield from _missing_files(files(settings, (key,)))
    for name, broker in domain.foreign.items():
        if any(link.between[1] == name and link.between[0] in here for link in domain.links):
            yield from _missing_files(files(broker, ("foreign", name)))


def _missing_files(named: Iterable[tuple[Loc, FileRole, object]]) -> Iterator[WrongValue]:
    for where, role, name in named:
        path = Path(str(name))
        if role is FileRole.STORE and name == MEMORY:
            continue
        if role is FileRole.FOLDER:
            yield from _unusable_folder(where, path)
        elif path.is_dir():
            yield WrongValue(where, f"a file, and `{path}` is a folder")
        elif role is FileRole.STORE and not path.parent.is_dir():
            yield WrongValue(where, f"a file in a folder, and there is no folder `{path.parent}`")
        elif role is FileRole.READ and not path.is_file():
            yield WrongValue(where, f"a file, and there is no file `{path}`")
        elif role is FileRole.READ and not os.access(path, os.R_OK):
            yield WrongValue(where, f"a file that this process may read, and it may not read `{path}`")


def _unusable_folder(where: Loc, path: Path) -> Iterator[WrongValue]:
    if path.exists() and not path.is_dir():
        yield WrongValue(where, f"a folder, and `{path}` is a file")
    elif not path.parent.is_dir():
        yield WrongValue(where, f"a folder in a folder, and there is no folder `{path.parent}`")


def _claimed_twice(node: NodeSettings, loc: Loc) -> Iterator[WrongValue]:
    claims: list[tuple[Loc, Address | None]] = [
        *(((*loc, "listen", index, "address"), listener.address) for index, listener in enumerate(node.listeners)),
        *(((*loc, key), address) for key, address in (("admin", node.admin), ("console", node.console))),
    ]
    seen = set[Address]()
    for where, address in claims:
        if address in seen:
            yield WrongValue(where, "an address that nothing else of this node listens on")
        elif address is not None and address.port != 0:
            seen.add(address)
