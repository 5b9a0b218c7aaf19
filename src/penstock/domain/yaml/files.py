"""The files that a domain names."""

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel

from penstock.model.yaml.tree import Step

Model = TypeVar("Model", bound=BaseModel)
FileName = Any
"""A `Path` or a `str`, depending on the field."""


class FileRole(Enum):
    """The purpose of a file name; an annotation of the field."""

    READ = "read"
    """The node reads it: it must exist."""
    STORE = "store"
    """The node makes it: its folder must exist."""
    FOLDER = "folder"
    """A folder that the node makes: its parent must exist."""


def files(model: BaseModel, loc: tuple[Step, ...]) -> list[tuple[tuple[Step, ...], FileRole, FileName]]:
    """Return every file that a model at `loc` and the models below it name: location, role and name."""
    named_files = list[tuple[tuple[Step, ...], FileRole, FileName]]()

    def note(where: tuple[Step, ...], role: FileRole, name: FileName) -> FileName:
        named_files.append((where, role, name))
        return name

    map_files(model, loc, note)
    return named_files


def map_files(
    model: Model, loc: tuple[Step, ...], change: Callable[[tuple[Step, ...], FileRole, FileName], FileName]
) -> Model:
    """Return the model with every file name below it replaced by the result of `change`."""
    updates = dict[str, Any]()
    for name, field in type(model).model_fields.items():
        value, where = getattr(model, name), (*loc, field.alias or name)
        role = next((note for note in field.metadata if isinstance(note, FileRole)), None)
        if role is None:
            updates[name] = _map_value(value, where, change)
        elif isinstance(value, tuple):
            updates[name] = tuple(change((*where, number), role, item) for number, item in enumerate(value))
        elif value is not None:
            updates[name] = change(where, role, value)
    return model.model_copy(update=updates)


def _map_value(value: Any, loc: tuple[Step, ...], change: Callable[..., FileName]) -> Any:
    if isinstance(value, BaseModel):
        return map_files(value, loc, change)
    if isinstance(value, dict):
        return {key: _map_value(item, (*loc, key), change) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_map_value(item, (*loc, index), change) for index, item in enumerate(value))
    return value


def external_names(domain: BaseModel) -> frozenset[tuple[str, str]]:
    """Return everything that a domain names outside itself, with its kind: files that are read or made, and Python
    code.

    A file that is allowed as one kind is not as another: an error message about it could show its contents.
    """
    names = {(_kind(where), str(name)) for where, _, name in files(domain, ())}
    waiting: list[Any] = [domain.model_dump(exclude_none=True)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            names |= {(key, value[key]) for key in _CODE if isinstance(value.get(key), str)}
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return frozenset(names)


def _kind(where: tuple[Step, ...]) -> str:
    """Return the kind of a file, such as `nodes … acl`: the same for all nodes."""
    return f"{where[0]} … {next(step for step in reversed(where) if isinstance(step, str))}"


_CODE = ("python", "evaluate")
"""Keys whose values name code."""
