"""Rules of style that a program can check, in the folders that keep them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
FOLDERS = ("analysis", "engine", "language", "model", "policy", "semantics", "wire")
"""Folders that are clean. Add a folder when it is."""

_QUESTIONS = frozenset({"How", "That", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"})
_NO_VERBS = _QUESTIONS | {"A", "All", "An", "As", "Each", "Every", "If", "It", "Raises", "The", "Those"}
_BOUND = re.compile(r"_?(MOST|LONGEST|DEEPEST|LARGEST|WIDEST)(_|$)")
_VAGUE = frozenset({"found", "one", "said", "several", "told"})
"""Names of variables that do not say what the thing is."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for file in sorted((SOURCE / folder).rglob("*.py")):
            yield file.relative_to(SOURCE), ast.parse(file.read_text())


MODULES = list(_modules())
PARAMETERS = [pytest.param(tree, id=str(file)) for file, tree in MODULES]


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def _first_words(tree: ast.Module) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield the first word of each docstring with its owner, and the words that it may not be."""
    for node in (tree, *_definitions(tree)):
        text = ast.get_docstring(node)
        if text:
            is_noun = isinstance(node, ast.Module | ast.ClassDef) or _is_property(node)
            yield getattr(node, "name", "module"), text.split()[0], _QUESTIONS if is_noun else _NO_VERBS
    for body in (node.body for node in (tree, *_definitions(tree))):
        for before, statement in pairwise(body):
            match statement:
                case ast.Expr(ast.Constant(str(text))) if text.split():
                    yield ast.unparse(before).partition("\n")[0], text.split()[0], _QUESTIONS


def _is_property(node: Definition) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


@pytest.mark.parametrize("tree", PARAMETERS)
def test_docstrings_begin_with_a_verb_or_a_noun(tree: ast.Module) -> None:
    assert [(owner, word) for owner, word, forbidden in _first_words(tree) if word in forbidden] == []


@pytest.mark.parametrize("tree", PARAMETERS)
def test_bounds_are_called_max(tree: ast.Module) -> None:
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    assert [name for name in names if name.isupper() and _BOUND.match(name)] == []


@pytest.mark.parametrize("tree", PARAMETERS)
def test_variables_are_called_by_what_they_are(tree: ast.Module) -> None:
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
    assert sorted(_VAGUE.intersection(names)) == []


def test_one_class_name_is_one_class() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file, tree in MODULES:
        for node in _definitions(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file}:{node.lineno}")
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
