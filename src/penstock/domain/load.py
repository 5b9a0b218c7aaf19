"""A domain file to a `Domain`, or to every mistake in it."""

from __future__ import annotations

import os
from collections.abc import Mapping as Variables
from pathlib import Path

from pydantic import ValidationError

from penstock.domain.check import Source, check
from penstock.domain.files import FileName, FileRole, map_files
from penstock.domain.schema import MEMORY, Domain, DomainFile
from penstock.domain.tree import Entry, Mapping, Place, Scalar, Step, child, locate, plain
from penstock.model.errors import DomainError, Problem


def load(path: Path, environ: Variables[str, str] = os.environ) -> Domain:
    """The domain that a file describes, checked; raises `DomainError` with every problem found."""
    source = read(path, environ)
    check(source)
    return source.domain


def read(path: Path, environ: Variables[str, str] = os.environ) -> Source:
    """The domain that a file describes, valid in itself; `check` then looks at what is around it."""
    # Imported here, with PyYAML: a node that runs without a domain file does not wait for them.
    from penstock.domain.assemble import assemble, override
    from penstock.domain.mistakes import problems_of

    problems = list[Problem]()
    try:
        root = assemble(path, problems)
    except DomainError as error:
        raise DomainError(*problems, *error.problems) from None
    root = _with_stores(override(root, environ, Domain.model_fields, problems), path)
    try:
        domain = Domain.model_validate(plain(root.node))
    except ValidationError as error:
        problems += problems_of(error, DomainFile, root)
    if problems:
        raise DomainError(*_in_order(problems))
    return Source(_beside(domain, root), root)


def _with_stores(root: Entry, path: Path) -> Entry:
    """The tree with a store for each node that names none: `<node>.db` beside the domain file."""
    nodes = child(root.node, "nodes")
    if nodes is None or not isinstance(nodes.node, Mapping):
        return root
    complete = {name: _with_store(name, entry, path) for name, entry in nodes.node.entries.items()}
    assert isinstance(root.node, Mapping)
    return Entry(root.place, Mapping({**root.node.entries, "nodes": Entry(nodes.place, Mapping(complete))}))


def _with_store(name: str, node: Entry, path: Path) -> Entry:
    if not isinstance(node.node, Mapping) or "store" in node.node.entries:
        return node
    file = f"{name}.db"
    store = Entry(Place(node.place.file, node.place.line, path.parent), Scalar(file, file))
    return Entry(node.place, Mapping({**node.node.entries, "store": store}))


def _beside(domain: Domain, root: Entry) -> Domain:
    """The domain with each relative file name made relative to the file that it stands in."""

    def placed(loc: tuple[Step, ...], role: FileRole, name: FileName) -> FileName:
        if role is FileRole.STORE and name == MEMORY:
            return name
        return type(name)(locate(root, loc).entry.place.folder / name)

    return map_files(domain, (), placed)


def _in_order(problems: list[Problem]) -> list[Problem]:
    """File after file, from the top of each to its end."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(problems, key=lambda problem: (files.index(problem.file), problem.line))
