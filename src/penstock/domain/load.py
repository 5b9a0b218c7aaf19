"""Loading a domain file: a `Domain`, or every mistake in it."""

import os
from collections.abc import Mapping as Variables
from pathlib import Path

from pydantic import ValidationError

from penstock.domain.check import DomainSource, check, sorted_problems
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain, DomainFile
from penstock.domain.yaml.files import FileName, FileRole, map_files
from penstock.model.errors import DomainError, Problem
from penstock.model.yaml import tree


def load(path: Path, environ: Variables[str, str] = os.environ) -> Domain:
    """Load a domain file: check it, and expand its patterns and protocols.

    Raises `DomainError` with every problem found.
    """
    return check(read(path, environ)).domain


def read(path: Path, environ: Variables[str, str] = os.environ) -> DomainSource:
    """Read a domain file and validate the models; `check` then looks at names and files."""
    # Imported here, with PyYAML: a node that runs without a domain file does not have to load them.
    from penstock.domain.yaml.assemble import assemble, override
    from penstock.domain.yaml.mistakes import problems_of

    problems = list[Problem]()
    try:
        root = assemble(path, problems)
    except DomainError as error:
        raise DomainError(*problems, *error.problems) from None
    root = _with_stores(override(root, environ, Domain.model_fields, problems), path)
    try:
        domain = Domain.model_validate(tree.plain(root.node))
    except ValidationError as error:
        problems += problems_of(error, DomainFile, root)
    if problems:
        raise DomainError(*sorted_problems(problems))
    return DomainSource(_beside(domain, root), root)


def _with_stores(root: tree.YamlEntry, path: Path) -> tree.YamlEntry:
    """Return the tree with a store for each node that names none, `<node>.db` beside the domain file.

    Nodes that a pattern will make get theirs there too.
    """
    assert isinstance(root.node, tree.YamlMapping)
    entries = dict(root.node.entries)
    nodes, patterns = entries.get("nodes"), entries.get("patterns")
    if nodes is not None and isinstance(nodes.node, tree.YamlMapping):
        complete = {name: _with_store(entry, f"{name}.db", path) for name, entry in nodes.node.entries.items()}
        entries["nodes"] = tree.YamlEntry(nodes.place, tree.YamlMapping(complete))
    if patterns is not None and isinstance(patterns.node, tree.YamlSequence):
        items = (_with_store(item, ".", path) if _makes_nodes(item.node) else item for item in patterns.node.items)
        entries["patterns"] = tree.YamlEntry(patterns.place, tree.YamlSequence(tuple(items)))
    return tree.YamlEntry(root.place, tree.YamlMapping(entries))


def _makes_nodes(pattern: tree.YamlNode) -> bool:
    kind = tree.child(pattern, "pattern")
    return kind is not None and isinstance(kind.node, tree.YamlScalar) and kind.node.value == "roles"


def _with_store(owner: tree.YamlEntry, name: str, path: Path) -> tree.YamlEntry:
    """Return a node with its store file, or a pattern with the folder for the stores of its nodes."""
    if not isinstance(owner.node, tree.YamlMapping) or "store" in owner.node.entries:
        return owner
    store = tree.YamlEntry(
        tree.SourcePlace(owner.place.file, owner.place.line, path.parent), tree.YamlScalar(name, name)
    )
    return tree.YamlEntry(owner.place, tree.YamlMapping({**owner.node.entries, "store": store}))


def _beside(domain: Domain, root: tree.YamlEntry) -> Domain:
    """Return the domain with each relative file name made relative to the file that contains it."""

    def placed(loc: tuple[tree.Step, ...], role: FileRole, name: FileName) -> FileName:
        if role is FileRole.STORE and name == MEMORY:
            return name
        return type(name)(tree.locate(root, loc).entry.place.folder / name)

    return map_files(domain, (), placed)
