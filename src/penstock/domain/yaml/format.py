"""A domain file in its canonical form, with its comments, its conditions and its policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.domain.schema.contents import Expression
from penstock.domain.schema.domain import DomainFile
from penstock.domain.yaml.comments import notes_of
from penstock.domain.yaml.layout import layout
from penstock.domain.yaml.mistakes import kinds_below
from penstock.language.errors import ConditionError, StatementError
from penstock.language.lexer import has_comment
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.printer import show_statement
from penstock.language.statements.statement import Statement
from penstock.model.errors import DomainError, Problem
from penstock.model.yaml.document import compose, text_of_file
from penstock.model.yaml.tree import Entry, Mapping, Node, Scalar, Sequence, found_text, plain


def formatted(file: Path) -> tuple[str, str]:
    """The text of a file, and its canonical form; raises `DomainError`.

    What the text means is read again from the canonical form, so that a mistake of ours cannot change a policy.
    """
    text = text_of_file(file)
    root = _read(text, file)
    if not isinstance(root.node, Mapping):
        raise DomainError(root.place.problem((), f"found {found_text(root.node)}, expected a mapping"))
    wanted = _with_conditions(root.node, [DomainFile])
    canonical = layout(wanted, notes_of(text, root))
    again = _read(canonical, file)
    same = plain(wanted) == plain(again.node) and layout(again.node, notes_of(canonical, again)) == canonical
    if not same:
        raise DomainError(Problem(str(file), 0, "", "cannot be formatted: its canonical form would not mean the same"))
    return text, canonical


def _with_conditions(node: Node, kinds: list[Any]) -> Node:
    """A value that may be of these types, with each condition and each policy in it in canonical form."""
    match node:
        case Mapping(entries=entries):
            return Mapping({key: _entry(entry, kinds_below(kinds, key)) for key, entry in entries.items()})
        case Sequence(items=items):
            return Sequence(tuple(_entry(item, kinds_below(kinds, index)) for index, item in enumerate(items)))
        case Scalar(value=str(value)) if Expression in kinds:
            text = _condition(value)
            return Scalar(text, text)
        case Scalar(value=str(value)) if Statement in kinds:
            text = _statement(value)
            return Scalar(text, text)
        case _:
            return node


def _entry(entry: Entry, kinds: list[Any]) -> Entry:
    return Entry(entry.place, _with_conditions(entry.node, kinds))


def _condition(text: str) -> str:
    """The canonical form of a condition. One that is wrong stays as it is, and so does one with a comment in it."""
    try:
        tree = parse(text)
        canonical = show(tree)
        return canonical if not has_comment(text) and parse(canonical) == tree else text
    except ConditionError:
        return text


def _statement(text: str) -> str:
    """The canonical form of a policy, line by line; one that is wrong or has a comment stays as it is too."""
    try:
        canonical = show_statement(parse_statement(text))
    except StatementError:
        return text
    return canonical if text.count(_COMMENT) == canonical.count(_COMMENT) else text  # a text in it may have it too


_COMMENT = "//"


def _read(text: str, file: Path) -> Entry:
    problems = list[Problem]()
    root = compose(text, str(file), file.parent, problems)
    if problems:
        raise DomainError(*problems)
    return root
