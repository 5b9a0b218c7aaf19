"""The canonical form of a domain file, with its comments, conditions and policies."""

from pathlib import Path
from typing import Any

from penstock.domain.schema.contents import WrittenCondition
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
from penstock.model.yaml.tree import YamlEntry, YamlMapping, YamlNode, YamlScalar, YamlSequence, found_text, plain


def formatted(file: Path) -> tuple[str, str]:
    """Return the text of a file, and its canonical form; raise `DomainError`.

    The canonical form is read again and compared, so that a bug in the formatter cannot change a policy.
    """
    text = text_of_file(file)
    root = _read(text, file)
    if not isinstance(root.node, YamlMapping):
        raise DomainError(root.place.problem((), f"found {found_text(root.node)}, expected a mapping"))
    expected = _with_conditions(root.node, [DomainFile])
    canonical = layout(expected, notes_of(text, root))
    again = _read(canonical, file)
    same = plain(expected) == plain(again.node) and layout(again.node, notes_of(canonical, again)) == canonical
    if not same:
        raise DomainError(Problem(str(file), 0, "", "cannot be formatted: its canonical form would not mean the same"))
    return text, canonical


def _with_conditions(node: YamlNode, kinds: list[Any]) -> YamlNode:
    """Return a value of one of these types with each condition and policy in canonical form."""
    match node:
        case YamlMapping(entries=entries):
            return YamlMapping({key: _entry(entry, kinds_below(kinds, key)) for key, entry in entries.items()})
        case YamlSequence(items=items):
            return YamlSequence(tuple(_entry(item, kinds_below(kinds, index)) for index, item in enumerate(items)))
        case YamlScalar(value=str(value)) if WrittenCondition in kinds:
            text = _condition(value)
            return YamlScalar(text, text)
        case YamlScalar(value=str(value)) if Statement in kinds:
            text = _statement(value)
            return YamlScalar(text, text)
        case _:
            return node


def _entry(entry: YamlEntry, kinds: list[Any]) -> YamlEntry:
    return YamlEntry(entry.place, _with_conditions(entry.node, kinds))


def _condition(text: str) -> str:
    """Return the canonical form of a condition. An invalid one, or one with a comment, stays as it is."""
    try:
        tree = parse(text)
        canonical = show(tree)
        return canonical if not has_comment(text) and parse(canonical) == tree else text
    except ConditionError:
        return text


def _statement(text: str) -> str:
    """Return the canonical form of a policy, line by line; an invalid one, or one with a comment, stays as it is."""
    try:
        canonical = show_statement(parse_statement(text))
    except StatementError:
        return text
    return canonical if text.count(_COMMENT) == canonical.count(_COMMENT) else text  # a text in it may contain it too


_COMMENT = "//"


def _read(text: str, file: Path) -> YamlEntry:
    problems = list[Problem]()
    root = compose(text, str(file), file.parent, problems)
    if problems:
        raise DomainError(*problems)
    return root
