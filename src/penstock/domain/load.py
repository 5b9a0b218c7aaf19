"""A domain file to a `Domain`, or to every mistake in it."""

from __future__ import annotations

import os
from collections.abc import Mapping as Variables
from pathlib import Path

from pydantic import ValidationError

from penstock.domain.check import Source, check, in_order
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain, DomainFile
from penstock.domain.yaml.files import FileName, FileRole, map_files
from penstock.model.errors import DomainError, Problem
from penstock.model.yaml.tree import Entry, Mapping, Node, Place, Scalar, Sequence, Step, child, locate, plain


def load(path: Path, environ: Variables[str, str] = os.environ) -> Domain:
    """The domain that a file describes, checked, its patterns and protocols expanded.

    Raises `DomainError` with every problem found.
    """
    return check(read(path, environ)).domain


def read(path: Path, environ: Variables[str, str] = os.environ) -> Source:
    """The domain that a file describes, valid in itself; `check` then looks at what is around it."""
    # Imported here, with PyYAML: a node that runs without a domain file does not wait for them.
    from penstock.domain.yaml.assemble import assemble, override
    from penstock.domain.yaml.mistakes import problems_of

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
        raise DomainError(*in_order(problems))
    return Source(_beside(domain, root), root)


def _with_stores(root: Entry, path: Path) -> Entry:
    """The tree with a store for each node that names none, `<node>.db` beside the domain file.

    Nodes that a pattern will make get theirs there too.
    """
    assert isinstance(root.node, Mapping)
    entries = dict(root.node.entries)
    nodes, patterns = entries.get("nodes"), entries.get("patterns")
    if nodes is not None and isinstance(nodes.node, Mapping):
        complete = {name: _with_store(entry, f"{name}.db", path) for name, entry in nodes.node.entries.items()}
        entries["nodes"] = Entry(nodes.place, Mapping(complete))
    if patterns is not None and isinstance(patterns.node, Sequence):
        items = (_with_store(item, ".", path) if _makes_nodes(item.node) else item for item in patterns.node.items)
        entries["patterns"] = Entry(patterns.place, Sequence(tuple(items)))
    return Entry(root.place, Mapping(entries))


def _makes_nodes(pattern: Node) -> bool:
    kind = child(pattern, "pattern")
    return kind is not None and isinstance(kind.node, Scalar) and kind.node.value == "roles"


def _with_store(owner: Entry, name: str, path: Path) -> Entry:
    """A node with its file, or a pattern with the folder for the files of its nodes."""
    if not isinstance(owner.node, Mapping) or "store" in owner.node.entries:
        return owner
    store = Entry(Place(owner.place.file, owner.place.line, path.parent), Scalar(name, name))
    return Entry(owner.place, Mapping({**owner.node.entries, "store": store}))


def _beside(domain: Domain, root: Entry) -> Domain:
    """The domain with each relative file name made relative to the file that it stands in."""

    def placed(loc: tuple[Step, ...], role: FileRole, name: FileName) -> FileName:
        if role is FileRole.STORE and name == MEMORY:
            return name
        return type(name)(locate(root, loc).entry.place.folder / name)

    return map_files(domain, (), placed)
