"""A domain file as it may be shown: in place of its secrets, marks that stand for them when it comes back.

Secrets are those of links; all others are in files of their own. Comments, which may hold old ones, are shown only to
who writes drafts, and attributes of clients to who may see content. What cannot be read, or marked, is not shown.

It is run as a program too (`processes.run_masks`): a long or deep text takes its time there, and not a node's.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from penstock.model.errors import PenstockError
from penstock.model.yaml.document import MAX_DEPTH, yaml_loader

HIDDEN = "<hidden>"
_MARK = re.compile(r"<kept secret (\d{1,4})>")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_ITEM = None
"""Stands in a path for any item of a sequence."""
Path = tuple[str | None, ...]


class MaskError(PenstockError):
    """A text whose secrets cannot be told from the rest."""


class Shown(NamedTuple):
    """A domain file, for who may do what."""

    change: str
    """As it is, with marks."""
    content: str
    """Without comments."""
    read: str
    """And without values of attributes; empty if they cannot be told from the rest."""


def shown(text: str) -> Shown:
    """The text as it may be seen; raises `MaskError`."""
    marked = masked(text)
    try:
        hidden = _emitted(marked, is_hidden=True)
    except MaskError:
        hidden = ""
    return Shown(marked, _emitted(marked, is_hidden=False), hidden)


def masked(text: str) -> str:
    """The text, with each secret in it replaced by its mark; raises `MaskError`."""
    for number, (begin, end) in reversed(list(enumerate(_secrets(text)))):
        rest = text[begin:end]
        line = rest[len(rest.rstrip()) :]  # of a block, which ends where the next line begins
        text = f'{text[:begin]}"<kept secret {number}>"{line}{text[end:]}'
    if not all(_MARK.fullmatch(event.value) for path, event in _scalars(text) if _is_secret(path)):
        raise MaskError("its secrets cannot be told from the rest")
    return text


def unmasked(draft: str, original: str) -> str:
    """The draft with the secrets that its marks stand for in the original; raises `MaskError`."""
    kept = [original[begin:end] for begin, end in _secrets(original)] if has_marks(draft) else []
    for begin, end in reversed(list(_secrets(draft))):
        found = _MARK.search(draft[begin:end])
        if found is not None:
            number = int(found[1])
            if number >= len(kept):
                raise MaskError(f"`{found[0]}` stands for no secret of the present file")
            draft = draft[:begin] + kept[number] + draft[end:]
    left = _MARK.search(draft)
    if left is not None:
        raise MaskError(f"`{left[0]}` stands where no secret of a link does")
    return draft


def included(text: str) -> set[str]:
    """The files that a domain file includes, as it names them."""
    return {event.value for path, event in _scalars(text) if path in (("include",), ("include", _ITEM))}


def has_marks(draft: str) -> bool:
    return _MARK.search(draft) is not None


def _secrets(text: str) -> list[tuple[int, int]]:
    """Where the secrets of links are, in order; raises `MaskError` for what cannot be read."""
    found = [one for path, one in _scalars(text) if _is_secret(path)]
    return [(one.start_mark.index, one.end_mark.index) for one in found if one.start_mark and one.end_mark]


def _is_secret(path: Path) -> bool:
    return path == ("links", _ITEM, "secret")


def _emitted(text: str, is_hidden: bool) -> str:
    """The same without comments, and if `is_hidden` without values of attributes."""

    def events() -> Iterator[Event]:
        for path, event in _walked(text):
            if is_hidden and path[:1] == ("clients",):
                if isinstance(event, AliasEvent):
                    raise MaskError("what is in `clients` stands elsewhere")
                if isinstance(event, ScalarEvent) and path[2:3] == ("attributes",) and len(path) > 3:
                    yield ScalarEvent(event.anchor, None, (False, True), HIDDEN, style='"')
                    continue
            yield event

    said: str = yaml.emit(events(), Dumper=_DUMPER, allow_unicode=True, width=120)
    return said


def _scalars(text: str) -> Iterator[tuple[Path, ScalarEvent]]:
    """The values of a text, and where in it they are; raises `MaskError`."""
    for path, event in _walked(text):
        if isinstance(event, ScalarEvent) and path is not _KEY:
            yield path, event


_KEY: Path = ("",)
"""In place of the path of a key."""
_CLOSED = ("links", "include")
"""In which nothing may stand for something elsewhere."""


def _walked(text: str) -> Iterator[tuple[Path, Event]]:
    """What the parser finds, and the path of each value."""
    path: list[str | None] = []
    kinds: list[bool] = []  # of what is open: is it a mapping?
    is_key, anchors, documents = False, set[str](), 0
    for event in _parsed(text):
        documents += isinstance(event, DocumentStartEvent)
        if documents > 1:
            raise MaskError("it cannot be read: it is more than one document")
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            kinds.pop()
            path.pop()
            yield tuple(path), event
        elif isinstance(event, ScalarEvent | AliasEvent | MappingStartEvent | SequenceStartEvent):
            is_alias = isinstance(event, AliasEvent)
            if is_alias and event.anchor not in anchors:
                raise MaskError("it cannot be read as YAML: something stands for what is not there")
            if event.anchor and not is_alias:
                anchors.add(event.anchor)
            if is_key:
                if not isinstance(event, ScalarEvent):
                    raise MaskError("a key in it is not a word")
                if event.value == "<<" and (len(path) == 1 or path[0] in _CLOSED):
                    raise MaskError("mappings are merged in it with `<<`")
                path[-1] = event.value
                yield _KEY, event
                is_key = False
                continue
            if event.anchor and path and path[0] in _CLOSED:
                raise MaskError(f"in `{path[0]}` something stands for what is elsewhere")
            yield tuple(path), event
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                if len(path) >= MAX_DEPTH:
                    raise MaskError(f"it cannot be read: it is more than {MAX_DEPTH} levels deep")
                kinds.append(isinstance(event, MappingStartEvent))
                path.append(_ITEM)
        else:
            yield (), event
            continue
        is_key = bool(kinds) and kinds[-1]


def _parsed(text: str) -> Iterator[Event]:
    try:
        yield from yaml.parse(text, Loader=yaml_loader())
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # the message itself would show the line, and what is secret in it
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise MaskError(f"it cannot be read as YAML{where}") from None


# --- as a program: a question on standard input, the answer on standard output


def answer(question: dict[str, str]) -> dict[str, Any]:
    """`text`: as it may be shown; `draft` and `now`: the draft with its secrets, and whether it includes others."""
    try:
        if "text" in question:
            return dict(shown(question["text"])._asdict())
        text = unmasked(question["draft"], question["now"])
        return {"text": text, "is_other": included(text) != included(question["now"])}
    except MaskError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
