"""A domain file in its canonical form, with its comments."""

from __future__ import annotations

from pathlib import Path

from penstock.domain.comments import notes_of
from penstock.domain.document import compose, text_of_file
from penstock.domain.layout import layout
from penstock.domain.tree import Entry, Mapping, found_text, plain
from penstock.model.errors import DomainError, Problem


def formatted(file: Path) -> tuple[str, str]:
    """The text of a file, and its canonical form; raises `DomainError`.

    What the text means is read again from the canonical form, so that a mistake of ours cannot change a policy.
    """
    text = text_of_file(file)
    root = _read(text, file)
    if not isinstance(root.node, Mapping):
        raise DomainError(root.place.problem((), f"found {found_text(root.node)}, expected a mapping"))
    canonical = layout(root.node, notes_of(text, root))
    again = _read(canonical, file)
    same = plain(root.node) == plain(again.node) and layout(again.node, notes_of(canonical, again)) == canonical
    if not same:
        raise DomainError(Problem(str(file), 0, "", "cannot be formatted: its canonical form would not mean the same"))
    return text, canonical


def _read(text: str, file: Path) -> Entry:
    problems = list[Problem]()
    root = compose(text, str(file), file.parent, problems)
    if problems:
        raise DomainError(*problems)
    return root
