"""What one model cannot see alone: names that must be known, files that must be there, links that must exist."""

from __future__ import annotations

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
from penstock.domain.finding import Finding, Loc, Mistake
from penstock.domain.patterns.settings import Roles
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.node_settings import NodeSettings
from penstock.domain.units import Address
from penstock.domain.yaml.files import FileRole, files
from penstock.model.errors import DomainError, Problem
from penstock.model.yaml.tree import Entry, found_text, locate, path_text

_CHECKS = (structure, admin, assertions, contents, access, contracts, trust_groups, tokens, statements, capsules)


@dataclass(frozen=True, slots=True)
class Source:
    """A domain as it is written, and the text it comes from, so that what is wrong with it can be shown there."""

    domain: Domain
    root: Entry

    @property
    def folder(self) -> Path:
        """Where the domain file is."""
        return self.root.place.folder

    def problem(self, mistake: Mistake, expansion: Expansion) -> Problem:
        """A mistake in an expansion of the domain, where the reason for it stands in the text."""
        origin = expansion.origin(mistake.loc)
        if origin is not None:
            spot = locate(self.root, origin)
            what = f"makes `{path_text(mistake.loc)}`: {mistake.what}"
            return spot.entry.place.problem(spot.path, what)
        spot = locate(self.root, mistake.loc)
        if not isinstance(mistake, Finding):
            return spot.entry.place.problem(spot.path, mistake.what)
        found = mistake.found if mistake.found is not None else found_text(spot.entry.node)
        path = mistake.loc if found == "nothing" else spot.path
        return spot.entry.place.problem(path, f"found {found}, expected {mistake.expected}")


@dataclass(frozen=True, slots=True)
class Checked:
    """A domain that is right."""

    domain: Domain
    """Without patterns and protocols."""
    warnings: tuple[Problem, ...]
    """What is odd in it."""


def check(source: Source, nodes: Collection[str] | None = None) -> Checked:
    """The domain, if it is right and `nodes` (all, unless named) can run here.

    Raises `DomainError`. A domain serves many machines, and each has only the files of its own nodes.
    """
    expansion, mistakes = _in_itself(source)
    mistakes += _around(source.domain, expansion, nodes)
    if mistakes:
        raise DomainError(*in_order([source.problem(mistake, expansion) for mistake in mistakes]))
    odd = [source.problem(warning, expansion) for warning in warnings(source.domain, expansion, nodes)]
    return Checked(expansion.domain, tuple(in_order(odd)))


def in_order(problems: list[Problem]) -> list[Problem]:
    """File after file, from the top of each to its end."""
    names = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(problems, key=lambda problem: (names.index(problem.file), problem.line))


def _in_itself(source: Source) -> tuple[Expansion, list[Mistake]]:
    """Each step only if the ones before found nothing: what follows from a mistake is not another one."""
    patterns = with_patterns(source.domain)
    if patterns.mistakes:
        return patterns, list(patterns.mistakes)
    found = (one.check(patterns.domain) for one in _CHECKS)
    mistakes: list[Mistake] = [mistake for several in found for mistake in several]
    mistakes += [] if mistakes else tables.check(source.domain, patterns.domain)
    if mistakes:
        return patterns, mistakes
    whole = with_protocols(patterns)
    if whole.mistakes:
        return whole, list(whole.mistakes)
    wrong = monitors.check(whole.domain, graph(whole.domain), source.folder)
    return whole, [*wrong, *tests.check(whole.domain)]


def _around(written: Domain, expansion: Expansion, nodes: Collection[str] | None) -> Iterator[Mistake]:
    domain = expansion.domain
    here = domain.nodes.keys() if nodes is None else nodes
    for name, node in written.nodes.items():
        if name in here:
            yield from _missing_files(files(node, ("nodes", name)))
            yield from _claimed_twice(node, ("nodes", name))
    for index, pattern in enumerate(written.patterns):
        if isinstance(pattern, Roles) and pattern.store != MEMORY and not Path(pattern.store).is_dir():
            yield Finding(("patterns", index, "store"), f"a folder, and there is no folder `{pattern.store}`")
    for index, link in enumerate(domain.links):
        dials, accepts = (end in here for end in link.between)
        named = files(link, ("links", index))
        yield from _missing_files(one for one in named if dials or (accepts and one[0][-1] == "secret_file"))
    for name, group in domain.trust_groups.items():
        if any(member in here for member in group.nodes):
            yield from _missing_files(files(group, ("trust_groups", name)))
    for index, private in enumerate(domain.privacy):
        yield from _missing_files(files(private, ("privacy", index)))
    if domain.admin is not None and here:
        yield from _missing_files(files(domain.admin, ("admin",)))
    if domain.tokens is not None and here:
        yield from _missing_files(files(domain.tokens, ("tokens",)))
    for name, broker in domain.foreign.items():
        if any(link.between[1] == name and link.between[0] in here for link in domain.links):
            yield from _missing_files(files(broker, ("foreign", name)))


def _missing_files(named: Iterable[tuple[Loc, FileRole, object]]) -> Iterator[Finding]:
    for where, role, name in named:
        path = Path(str(name))
        if role is FileRole.STORE and name == MEMORY:
            continue
        if role is FileRole.FOLDER:
            yield from _unusable_folder(where, path)
        elif path.is_dir():
            yield Finding(where, f"a file, and `{path}` is a folder")
        elif role is FileRole.STORE and not path.parent.is_dir():
            yield Finding(where, f"a file in a folder, and there is no folder `{path.parent}`")
        elif role is FileRole.READ and not path.is_file():
            yield Finding(where, f"a file, and there is no file `{path}`")
        elif role is FileRole.READ and not os.access(path, os.R_OK):
            yield Finding(where, f"a file that this process may read, and it may not read `{path}`")


def _unusable_folder(where: Loc, path: Path) -> Iterator[Finding]:
    if path.exists() and not path.is_dir():
        yield Finding(where, f"a folder, and `{path}` is a file")
    elif not path.parent.is_dir():
        yield Finding(where, f"a folder in a folder, and there is no folder `{path.parent}`")


def _claimed_twice(node: NodeSettings, loc: Loc) -> Iterator[Finding]:
    claims: list[tuple[Loc, Address]] = [
        ((*loc, "listen", index, "address"), listener.address) for index, listener in enumerate(node.listeners)
    ]
    if node.admin is not None:
        claims.append(((*loc, "admin"), node.admin))
    if node.console is not None:
        claims.append(((*loc, "console"), node.console))
    seen = set[Address]()
    for where, address in claims:
        if address in seen:
            yield Finding(where, "an address that nothing else of this node listens on")
        elif address.port != 0:
            seen.add(address)
