"""What one model cannot see alone: files that must be there, addresses that two listeners claim."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.domain.files import FileRole, files
from penstock.domain.schema import MEMORY, Domain, NodeSettings
from penstock.domain.tree import Entry, Step, found_text, locate
from penstock.domain.units import Address
from penstock.model.errors import DomainError, Problem


@dataclass(frozen=True, slots=True)
class Source:
    """A domain and the text it comes from, so that what is wrong with it can be shown there."""

    domain: Domain
    root: Entry

    def problem(self, loc: tuple[Step, ...], expected: str) -> Problem:
        """What was found at `loc` is not what was expected."""
        spot = locate(self.root, loc)
        return spot.entry.place.problem(spot.path, f"found {found_text(spot.entry.node)}, expected {expected}")


def check(source: Source, nodes: Collection[str] | None = None) -> None:
    """Raise `DomainError` if `nodes` (all, unless named) cannot run here as the domain says.

    A domain serves many machines, and each has only the files of its own nodes.
    """
    problems = list[Problem]()
    for name, node in source.domain.nodes.items():
        if nodes is None or name in nodes:
            problems += _missing_files(source, node, ("nodes", name))
            problems += _claimed_twice(source, node, ("nodes", name))
    if problems:
        raise DomainError(*problems)


def _missing_files(source: Source, node: NodeSettings, loc: tuple[Step, ...]) -> Iterator[Problem]:
    for where, role, name in files(node, loc):
        path = Path(name)
        if role is FileRole.STORE and name == MEMORY:
            continue
        if path.is_dir():
            yield source.problem(where, f"a file, and `{path}` is a folder")
        elif role is FileRole.STORE and not path.parent.is_dir():
            yield source.problem(where, f"a file in a folder, and there is no folder `{path.parent}`")
        elif role is FileRole.READ and not path.is_file():
            yield source.problem(where, f"a file, and there is no file `{path}`")
        elif role is FileRole.READ and not os.access(path, os.R_OK):
            yield source.problem(where, f"a file that this process may read, and it may not read `{path}`")


def _claimed_twice(source: Source, node: NodeSettings, loc: tuple[Step, ...]) -> Iterator[Problem]:
    claims: list[tuple[tuple[Step, ...], Address]] = [
        ((*loc, "listen", index, "address"), listener.address) for index, listener in enumerate(node.listeners)
    ]
    if node.admin is not None:
        claims.append(((*loc, "admin"), node.admin))
    seen = set[Address]()
    for where, address in claims:
        if address in seen:
            yield source.problem(where, "an address that nothing else of this node listens on")
        elif address.port != 0:
            seen.add(address)
