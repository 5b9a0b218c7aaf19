"""The domain file, from the models that validate it."""

import types
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from penstock.domain.schema.base import keys
from penstock.domain.schema.domain import DomainFile
from scripts.reference.markdown import heading
from scripts.settings_table import table

_INTRODUCTION = """\
Each key, where it stands, its default and its meaning. `NAME` stands for a name that you give, `[]` for each of a list.
[The domain file](../domain.md) explains with examples; `penstock schema` prints the same as JSON schema, for editors.

"""


def page() -> str:
    listed = list(models(DomainFile, ""))
    places = Counter(path for path, _ in listed)
    parts = [
        f"## {_title(path, model, alone=places[path] == 1)}\n\n{model.__doc__ or ''}\n\n{table(model)}"
        for path, model in listed
    ]
    return heading("Every key of the domain file", "the models in `penstock.domain`") + _INTRODUCTION + "\n".join(parts)


def _title(path: str, model: type[BaseModel], alone: bool) -> str:
    return (path or "The whole") if alone else f"{path}, {model.__name__.lower()}"


def models(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Each model below this one with the path of its place; a model that has itself inside is gone through once."""
    seen: set[type[BaseModel]] = set()

    def walk(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
        if model in seen:
            return
        seen.add(model)
        yield path, model
        for key, _, field in keys(model):
            for suffix, inner in _inside(field.annotation):
                yield from walk(inner, f"{path}.{key}{suffix}".removeprefix("."))

    return walk(model, path)


def _inside(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models that a type is made of, each with how one gets to it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _inside(parts[0])
    elif origin in (Union, types.UnionType):
        for part in parts:
            yield from _inside(part)
    elif origin is dict:
        yield from ((f".NAME{suffix}", model) for suffix, model in _inside(parts[1]))
    elif origin in (tuple, list):
        yield from ((f"[]{suffix}", model) for suffix, model in _inside(parts[0]))
