"""Validation errors in terms of the file: place, key, what was found, what was expected."""

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.domain.schema.base import keys
from penstock.language.words import nearest
from penstock.model.errors import Problem
from penstock.model.yaml import tree

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "mistake": "{expected}",
    "model_attributes_type": "a mapping",
    "model_type": "a mapping",
    "path_type": "a file name",
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text that is not empty",
    "string_type": "a text (a number or `true` as a text stands in quotes)",
    "too_short": "at least {min_length} entry",
    "tuple_type": "a list",
    "union_tag_invalid": "one of {expected_tags}",
    "union_tag_not_found": "{discriminator}",
}


def problems_of(error: ValidationError, model: type[BaseModel], root: tree.YamlEntry) -> list[Problem]:
    """Return the problems of validating `root` as a `model`."""
    problems, meant = list[Problem](), set[str]()
    errors = error.errors(include_url=False)
    for details in (details for details in errors if details["type"] == "extra_forbidden"):
        problem, path = _unknown(details["loc"], model, root)
        problems.append(problem)
        meant.add(path)
    for details in (details for details in errors if not _follows(details, errors)):
        problem = _problem(details, model, root)
        # A key that is only misspelt is not also missing.
        if details["type"] != "missing" or problem.path not in meant:
            problems.append(problem)
    return problems


def _follows(details: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Return whether an error is reported elsewhere, or only follows from others: a list with wrong items is not too
    short."""
    if details["type"] == "extra_forbidden":
        return True
    loc = details["loc"]
    return details["type"] == "too_short" and any(loc == other["loc"][: len(loc)] != other["loc"] for other in errors)


def _unknown(loc: Sequence[tree.Step], model: type[BaseModel], root: tree.YamlEntry) -> tuple[Problem, str]:
    """Return the problem of an unknown key, and the path that was probably meant."""
    spot = tree.locate(root, loc)
    key, owners = str(loc[-1]), models_at(model, loc[:-1])
    meant = _meant(key, owners)
    if meant:
        what = f"found the unknown key `{tree.shown(key)}`, did you mean `{meant}`?"
    else:
        names = ", ".join(f"`{name}`" for owner in owners for name, _, _ in keys(owner))
        what = f"found the unknown key `{tree.shown(key)}`, expected one of {names}"
    return spot.entry.place.problem(spot.path, what), tree.path_text((*spot.path[:-1], meant))


def _meant(key: str, owners: Iterable[type[BaseModel]]) -> str:
    """Return the key that was probably meant: one of the level below, or a similar one; empty if there is none."""
    annotations = {name: field.annotation for owner in owners for name, _, field in keys(owner)}
    for name, annotation in annotations.items():
        inner = filter(_is_model, _branches(annotation))
        if any(key == name for model in inner for name, _, _ in keys(model)):
            return f"{name}.{key}"
    return nearest(key.lower().replace("-", "_"), annotations)


def _problem(details: ErrorDetails, model: type[BaseModel], root: tree.YamlEntry) -> Problem:
    loc = details["loc"]
    spot = tree.locate(root, loc)
    if details["type"] in ("condition", "statement"):  # its own message shows the place inside the text
        return spot.entry.place.problem(spot.path, details["msg"])
    path, entry, expected = spot.path, spot.entry, _expected(details)
    if details["type"] == "missing":
        expected = f"`{loc[-1]}`{_description(model, loc)}"
        path, entry = (*path, loc[-1]), tree.YamlEntry(entry.place, tree.NOTHING)
    elif loc[-1:] == ("[key]",):
        entry = tree.YamlEntry(entry.place, tree.YamlScalar(str(path[-1]), str(path[-1])))
    elif key := details.get("ctx", {}).get("key") or _tag(details):
        path, entry = (*path, key), tree.child(entry.node, key) or tree.YamlEntry(entry.place, tree.NOTHING)
    return entry.place.problem(path, f"found {_found(path, entry.node)}, expected {expected}")


def _found(path: Sequence[tree.Step], node: tree.YamlNode) -> str:
    """Return what was found; without its text if it may be a secret, which must not appear in a log."""
    is_told = path[-1:] != ("secret",) or not isinstance(node, tree.YamlScalar) or not node.text
    return tree.found_text(node) if is_told else "a text"


def _tag(details: ErrorDetails) -> str:
    """Return the key that decides the kind of a value, if that is what is wrong."""
    tagged = details["type"] in ("union_tag_invalid", "union_tag_not_found")
    return str(details.get("ctx", {})["discriminator"]).strip("'") if tagged else ""


def _expected(details: ErrorDetails) -> str:
    context = {name: _whole(value) for name, value in details.get("ctx", {}).items()}
    if details["type"] in ("literal_error", "enum"):
        return str(context["expected"]).replace("'", "`")
    if _tag(details):
        context = {name: str(value).replace("'", "`") for name, value in context.items()}
    form = _EXPECTED.get(details["type"])
    # Pydantic's own words, if a model uses a check that has no words of ours yet.
    return form.format(**context) if form else details["msg"].removeprefix("Input should be ")


def _whole(value: object) -> object:
    """Return a bound as it would be written: 0 and not 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _description(model: type[BaseModel], loc: Sequence[tree.Step]) -> str:
    for owner in models_at(model, loc[:-1]):
        for key, _, field in keys(owner):
            if key == loc[-1] and field.description:
                return f" ({field.description})"
    return ""


def models_at(model: type[BaseModel], loc: Sequence[tree.Step]) -> list[type[BaseModel]]:
    """Return the models that a value at `loc` below `model` may be."""
    kinds: list[Any] = [model]
    for step in loc:
        kinds = kinds_below(kinds, step)
    # One item in place of a list of it is a short form.
    single = [element for kind in kinds if get_origin(kind) is tuple for element in _branches(get_args(kind)[0])]
    return [kind for kind in (*kinds, *single) if _is_model(kind)]


def kinds_below(kinds: list[Any], step: tree.Step) -> list[Any]:
    """Return the types of a value one step below a value of these types."""
    # A step that no type knows is Pydantic's name for a branch of a union: it leads nowhere.
    return [below for kind in kinds for below in _below(kind, step)] or _tagged(kinds, step)


def _tagged(kinds: list[Any], step: tree.Step) -> list[Any]:
    """Return the models that the name of a branch means; all, if it is the name of something else."""
    meant = [
        kind
        for kind in kinds
        if _is_model(kind) and any(get_args(field.annotation)[:1] == (step,) for _, _, field in keys(kind))
    ]
    return meant or kinds


def _below(kind: Any, step: tree.Step) -> Iterator[Any]:
    if _is_model(kind):
        for key, _, field in keys(kind):
            if key == step:
                yield from _branches(field.annotation)
            elif isinstance(step, int):  # a list in place of the mapping that has it is a short form
                lists = (branch for branch in _branches(field.annotation) if get_origin(branch) is tuple)
                yield from (below for kind_ in lists for below in _below(kind_, step))
    elif get_origin(kind) is dict and isinstance(step, str):
        yield from _branches(get_args(kind)[1])
    elif get_origin(kind) in (list, tuple):
        for element in _branches(get_args(kind)[0]):
            # One item in place of a list of it is a short form.
            yield from [element] if isinstance(step, int) else _below(element, step)


def _branches(annotation: Any) -> Iterator[Any]:
    """Return the types that an annotation allows, without mere annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _branches(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for branch in get_args(annotation):
            yield from _branches(branch)
    else:
        yield annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
