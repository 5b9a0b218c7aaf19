"""One tree from a domain file, the files it includes and the environment.

Mappings of several files are united, top-level lists (`links`, `assertions`, ...) joined; a key with any other
value stands in one file only. Then variables such as `PENSTOCK_NODES__MAIN__LIMITS__INFLIGHT=10` replace or add
single values.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from collections.abc import Mapping as Variables
from pathlib import Path

from penstock.model.errors import DomainError, Problem
from penstock.model.yaml.document import read_document, scalar, second
from penstock.model.yaml.tree import Entry, Mapping, Node, Place, Scalar, Sequence, Step, child, found_text

PREFIX = "PENSTOCK_"
_INCLUDE = "include"


def assemble(file: Path, problems: list[Problem]) -> Entry:
    """The tree of a file and of all it includes.

    Raises `DomainError` if one of them cannot be read: then nothing can be said about the whole.
    """
    return _Assembly(problems).file(file, None, ())


class _Assembly:
    """The files read so far."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._read = set[str]()

    def file(self, file: Path, cited: Place | None, inside: tuple[Path, ...]) -> Entry:
        """The tree of `file`, named at `cited` by the last of the files `inside`."""
        if cited is not None and not file.is_file():
            raise DomainError(cited.problem((_INCLUDE,), f"found `{file}`, expected a file that exists"))
        identity = os.path.realpath(file)
        if cited is not None and identity in map(os.path.realpath, inside):
            way = " -> ".join(f"`{step}`" for step in (*inside, file))
            raise DomainError(cited.problem((_INCLUDE,), f"found a cycle, {way}, expected none"))
        whole = Entry(Place(str(file), 1, file.parent), Mapping({}))
        if identity in self._read:
            return whole
        self._read.add(identity)
        tree = read_document(file, self._problems)
        if not isinstance(tree.node, Mapping):
            what = f"found {found_text(tree.node)}, expected a mapping with `nodes`"
            raise DomainError(tree.place.problem((), what))
        own = {key: entry for key, entry in tree.node.entries.items() if key != _INCLUDE}
        parts = [Mapping(own)]
        for name in self._names(tree.node.entries.get(_INCLUDE)):
            assert isinstance(name.node, Scalar)
            other = name.place.folder / name.node.text
            part = self.file(other, name.place, (*inside, file)).node
            assert isinstance(part, Mapping)
            parts.append(part)
        return Entry(tree.place, self._united(parts, ()))

    def _names(self, include: Entry | None) -> list[Entry]:
        """The file names of an `include`: one, or a list."""
        if include is None:
            return []
        entries = include.node.items if isinstance(include.node, Sequence) else (include,)
        names = list[Entry]()
        for entry in entries:
            if isinstance(entry.node, Scalar) and isinstance(entry.node.value, str):
                names.append(entry)
            else:
                what = f"found {found_text(entry.node)}, expected a file name or a list of file names"
                self._problems.append(entry.place.problem((_INCLUDE,), what))
        return names

    def _united(self, parts: Collection[Mapping], path: tuple[Step, ...]) -> Mapping:
        entries = dict[str, Entry]()
        for part in parts:
            for key, entry in part.entries.items():
                known = entries.get(key)
                if known is None:
                    entries[key] = entry
                elif isinstance(known.node, Mapping) and isinstance(entry.node, Mapping):
                    entries[key] = Entry(known.place, self._united((known.node, entry.node), (*path, key)))
                elif not path and isinstance(known.node, Sequence) and isinstance(entry.node, Sequence):
                    entries[key] = Entry(known.place, Sequence(known.node.items + entry.node.items))
                else:
                    self._problems.append(second(entry.place, (*path, key), known.place))
        return Mapping(entries)


def override(root: Entry, environ: Variables[str, str], keys: Collection[str], problems: list[Problem]) -> Entry:
    """The tree with the values that variables of the environment set.

    A variable counts if it has a `__` or names one of the top-level `keys`: others with the prefix have other
    uses.
    """
    for variable in sorted(environ):
        steps = variable.removeprefix(PREFIX).split("__")
        if not variable.startswith(PREFIX) or (len(steps) == 1 and steps[0].lower() not in keys):
            continue
        place = Place(variable, 0, Path())
        try:
            node = _with(root.node, steps, Entry(place, scalar(environ[variable])), ())
        except DomainError as error:
            problems.extend(error.problems)
        else:
            root = Entry(root.place, node)
    return root


def _with(node: Node, steps: list[str], value: Entry, path: tuple[Step, ...]) -> Node:
    """`node` with `value` at the end of `steps`."""
    if not steps:
        return value.node
    match node:
        case Scalar(value=None):
            return _with(Mapping({}), steps, value, path)
        case Mapping(entries=entries):
            key = _key_for(steps[0], entries)
            return Mapping({**entries, key: _below(node, key, steps, value, path)})
        case Sequence(items=items) if steps[0].isascii() and steps[0].isdigit() and int(steps[0]) < len(items):
            index = int(steps[0])
            return Sequence((*items[:index], _below(node, index, steps, value, path), *items[index + 1 :]))
        case Sequence(items=items):
            what = f"found `{steps[0]}`, expected an index below {len(items)}"
        case Scalar():
            what = f"found {found_text(node)}, expected a mapping with `{steps[0].lower()}`"
    raise DomainError(value.place.problem(path, what))


def _below(node: Node, step: Step, steps: list[str], value: Entry, path: tuple[Step, ...]) -> Entry:
    if len(steps) == 1:
        return value
    known = child(node, step) or Entry(value.place, Mapping({}))
    return Entry(known.place, _with(known.node, steps[1:], value, (*path, step)))


def _key_for(step: str, keys: Collection[str]) -> str:
    """The key that a part of a variable's name means: these have neither lower case nor `-`."""
    return next((key for key in keys if key.upper().replace("-", "_") == step.upper()), step.lower())
