"""One tree from a domain file, the files it includes and the environment.

Mappings of several files are united, top-level lists (`links`, `assertions`, ...) joined; a key with any other value
may stand in one file only. Then variables such as `PENSTOCK_NODES__MAIN__LIMITS__INFLIGHT=10` replace or add single
values.
"""

import os
from collections.abc import Collection
from collections.abc import Mapping as Variables
from pathlib import Path

from penstock.model.errors import DomainError, Problem
from penstock.model.yaml import tree
from penstock.model.yaml.document import read_document, repeated_key, scalar

PREFIX = "PENSTOCK_"
_INCLUDE = "include"


def assemble(file: Path, problems: list[Problem]) -> tree.YamlEntry:
    """Return the tree of a file and of all it includes.

    Raises `DomainError` if one of them cannot be read: then nothing can be said about the whole.
    """
    return _Assembly(problems).file(file, None, ())


class _Assembly:
    """The files read so far."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._read = set[str]()

    def file(self, file: Path, cited: tree.SourcePlace | None, inside: tuple[Path, ...]) -> tree.YamlEntry:
        """Return the tree of `file`, named at `cited` by the last of the files `inside`."""
        if cited is not None and not file.is_file():
            raise DomainError(cited.problem((_INCLUDE,), f"found `{file}`, expected a file that exists"))
        identity = os.path.realpath(file)
        if cited is not None and identity in map(os.path.realpath, inside):
            way = " -> ".join(f"`{step}`" for step in (*inside, file))
            raise DomainError(cited.problem((_INCLUDE,), f"found a cycle, {way}, expected none"))
        empty = tree.YamlEntry(tree.SourcePlace(str(file), 1, file.parent), tree.YamlMapping({}))
        if identity in self._read:
            return empty
        self._read.add(identity)
        whole = read_document(file, self._problems)
        if not isinstance(whole.node, tree.YamlMapping):
            what = f"found {tree.found_text(whole.node)}, expected a mapping with `nodes`"
            raise DomainError(whole.place.problem((), what))
        own = {key: entry for key, entry in whole.node.entries.items() if key != _INCLUDE}
        parts = [tree.YamlMapping(own)]
        for name in self._names(whole.node.entries.get(_INCLUDE)):
            assert isinstance(name.node, tree.YamlScalar)
            other = name.place.folder / name.node.text
            part = self.file(other, name.place, (*inside, file)).node
            assert isinstance(part, tree.YamlMapping)
            parts.append(part)
        return tree.YamlEntry(whole.place, self._united(parts, ()))

    def _names(self, include: tree.YamlEntry | None) -> list[tree.YamlEntry]:
        """Return the file names of an `include`: one, or a list."""
        if include is None:
            return []
        entries = include.node.items if isinstance(include.node, tree.YamlSequence) else (include,)
        names = list[tree.YamlEntry]()
        for entry in entries:
            if isinstance(entry.node, tree.YamlScalar) and isinstance(entry.node.value, str):
                names.append(entry)
            else:
                what = f"found {tree.found_text(entry.node)}, expected a file name or a list of file names"
                self._problems.append(entry.place.problem((_INCLUDE,), what))
        return names

    def _united(self, parts: Collection[tree.YamlMapping], path: tuple[tree.Step, ...]) -> tree.YamlMapping:
        entries = dict[str, tree.YamlEntry]()
        for part in parts:
            for key, entry in part.entries.items():
                earlier = entries.get(key)
                if earlier is None:
                    entries[key] = entry
                elif isinstance(earlier.node, tree.YamlMapping) and isinstance(entry.node, tree.YamlMapping):
                    entries[key] = tree.YamlEntry(earlier.place, self._united((earlier.node, entry.node), (*path, key)))
                elif (
                    not path
                    and isinstance(earlier.node, tree.YamlSequence)
                    and isinstance(entry.node, tree.YamlSequence)
                ):
                    entries[key] = tree.YamlEntry(
                        earlier.place, tree.YamlSequence(earlier.node.items + entry.node.items)
                    )
                else:
                    self._problems.append(repeated_key(entry.place, (*path, key), earlier.place))
        return tree.YamlMapping(entries)


def override(
    root: tree.YamlEntry, environ: Variables[str, str], keys: Collection[str], problems: list[Problem]
) -> tree.YamlEntry:
    """Return the tree with the values that environment variables set.

    A variable counts if it has a `__` or names one of the top-level `keys`: others with the prefix have other uses.
    """
    for variable in sorted(environ):
        steps = variable.removeprefix(PREFIX).split("__")
        if not variable.startswith(PREFIX) or (len(steps) == 1 and steps[0].lower() not in keys):
            continue
        place = tree.SourcePlace(variable, 0, Path())
        try:
            node = _with(root.node, steps, tree.YamlEntry(place, scalar(environ[variable])), ())
        except DomainError as error:
            problems.extend(error.problems)
        else:
            root = tree.YamlEntry(root.place, node)
    return root


def _with(node: tree.YamlNode, steps: list[str], value: tree.YamlEntry, path: tuple[tree.Step, ...]) -> tree.YamlNode:
    """Return `node` with `value` at the end of `steps`."""
    if not steps:
        return value.node
    match node:
        case tree.YamlScalar(value=None):
            return _with(tree.YamlMapping({}), steps, value, path)
        case tree.YamlMapping(entries=entries):
            key = _key_for(steps[0], entries)
            return tree.YamlMapping({**entries, key: _below(node, key, steps, value, path)})
        case tree.YamlSequence(items=items) if steps[0].isascii() and steps[0].isdigit() and int(steps[0]) < len(items):
            index = int(steps[0])
            return tree.YamlSequence((*items[:index], _below(node, index, steps, value, path), *items[index + 1 :]))
        case tree.YamlSequence(items=items):
            what = f"found `{steps[0]}`, expected an index below {len(items)}"
        case tree.YamlScalar():
            what = f"found {tree.found_text(node)}, expected a mapping with `{steps[0].lower()}`"
    raise DomainError(value.place.problem(path, what))


def _below(
    node: tree.YamlNode, step: tree.Step, steps: list[str], value: tree.YamlEntry, path: tuple[tree.Step, ...]
) -> tree.YamlEntry:
    if len(steps) == 1:
        return value
    current = tree.child(node, step) or tree.YamlEntry(value.place, tree.YamlMapping({}))
    return tree.YamlEntry(current.place, _with(current.node, steps[1:], value, (*path, step)))


def _key_for(step: str, keys: Collection[str]) -> str:
    """Return the key that a part of a variable's name means: variables have neither lower case nor `-`."""
    return next((key for key in keys if key.upper().replace("-", "_") == step.upper()), step.lower())
