"""A domain file as it may be shown: marks in place of its secrets, which are replaced when the file comes back.

Secrets are those of links; all others are in files of their own. Comments, which may contain old secrets, are shown
only to callers that may write drafts, and attributes of clients to callers that may read content. A text that cannot
be parsed or masked is not shown.

It is run as a program too (`processes.run_masks`): a long or deep text takes its time there, and not the node's.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from penstock.model.errors import PenstockError
from penstock.model.yaml.document import MAX_DEPTH, yaml_loader

HIDDEN = "<hidden>"
_MARK = re.compile(r"<kept secret (\d{1,4})>")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_ITEM = None
"""In a path: any item of a sequence."""
Path = tuple[str | None, ...]


class MaskError(PenstockError):
    """A text whose secrets cannot be recognised."""


class MaskedText(NamedTuple):
    """A domain file for each right."""

    change: str
    """The full text, with marks."""
    content: str
    """Without comments."""
    read: str
    """Also without values of attributes; empty if they cannot be recognised."""


def mask_for_rights(text: str) -> MaskedText:
    """Return the text for each right; raise `MaskError`."""
    marked = mask_secrets(text)
    try:
        hidden = _emitted(marked, is_hidden=True)
    except MaskError:
        hidden = ""
    return MaskedText(marked, _emitted(marked, is_hidden=False), hidden)


def mask_secrets(text: str) -> str:
    """Return the text with each secret replaced by its mark; raise `MaskError`."""
    for number, (begin, end) in reversed(list(enumerate(_secrets(text)))):
        rest = text[begin:end]
        line = rest[len(rest.rstrip()) :]  # of a block, which ends where the next line begins
        text = f'{text[:begin]}"<kept secret {number}>"{line}{text[end:]}'
    if not all(_MARK.fullmatch(event.value) for path, event in _scalars(text) if _is_secret(path)):
        raise MaskError("its secrets cannot be recognised")
    return text


def restore_secrets(draft: str, original: str) -> str:
    """Return the draft with its marks replaced by the secrets of the original; raise `MaskError`."""
    secrets = [original[begin:end] for begin, end in _secrets(original)] if has_marks(draft) else []
    for begin, end in reversed(list(_secrets(draft))):
        mark = _MARK.search(draft[begin:end])
        if mark is not None:
            number = int(mark[1])
            if number >= len(secrets):
                raise MaskError(f"`{mark[0]}` stands for no secret of the present file")
            draft = draft[:begin] + secrets[number] + draft[end:]
    remaining = _MARK.search(draft)
    if remaining is not None:
        raise MaskError(f"`{remaining[0]}` stands where no secret of a link does")
    return draft


def included_files(text: str) -> set[str]:
    """Return the files that a domain file includes, as it names them."""
    return {event.value for path, event in _scalars(text) if path in (("include",), ("include", _ITEM))}


def has_marks(draft: str) -> bool:
    return _MARK.search(draft) is not None


def _secrets(text: str) -> list[tuple[int, int]]:
    """Return the positions of the secrets of links, in order; raise `MaskError` if the text cannot be parsed."""
    secrets = [value for path, value in _scalars(text) if _is_secret(path)]
    return [(value.start_mark.index, value.end_mark.index) for value in secrets if value.start_mark and value.end_mark]


def _is_secret(path: Path) -> bool:
    return path == ("links", _ITEM, "secret")


def _emitted(text: str, is_hidden: bool) -> str:
    """Return the text without comments, and if `is_hidden` without values of attributes."""

    def events() -> Iterator[yaml.Event]:
        for path, event in _walked(text):
            if is_hidden and path[:1] == ("clients",):
                if isinstance(event, yaml.AliasEvent):
                    raise MaskError("what is in `clients` stands elsewhere")
                if isinstance(event, yaml.ScalarEvent) and path[2:3] == ("attributes",) and len(path) > 3:
                    yield yaml.ScalarEvent(event.anchor, None, (False, True), HIDDEN, style='"')
                    continue
            yield event

    text_: str = yaml.emit(events(), Dumper=_DUMPER, allow_unicode=True, width=120)
    return text_


def _scalars(text: str) -> Iterator[tuple[Path, yaml.ScalarEvent]]:
    """Yield the values of a text with their paths; raise `MaskError`."""
    for path, event in _walked(text):
        if isinstance(event, yaml.ScalarEvent) and path is not _KEY:
            yield path, event


_KEY: Path = ("",)
"""In place of the path of a key."""
_CLOSED = ("links", "include")
"""Keys below which no alias to another place is allowed."""


def _walked(text: str) -> Iterator[tuple[Path, yaml.Event]]:
    """Yield the parser's events with the path of each value."""
    path: list[str | None] = []
    kinds: list[bool] = []  # of each open collection: is it a mapping?
    is_key, anchors, documents = False, set[str](), 0
    for event in _parsed(text):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise MaskError("it cannot be read: it is more than one document")
        if isinstance(event, yaml.CollectionEndEvent):
            kinds.pop()
            path.pop()
            yield tuple(path), event
        elif isinstance(event, yaml.NodeEvent):
            is_alias = isinstance(event, yaml.AliasEvent)
            if is_alias and event.anchor not in anchors:
                raise MaskError("it cannot be read as YAML: something stands for what is not there")
            if event.anchor and not is_alias:
                anchors.add(event.anchor)
            if is_key:
                if not isinstance(event, yaml.ScalarEvent):
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
            if isinstance(event, yaml.CollectionStartEvent):
                if len(path) >= MAX_DEPTH:
                    raise MaskError(f"it cannot be read: it is more than {MAX_DEPTH} levels deep")
                kinds.append(isinstance(event, yaml.MappingStartEvent))
                path.append(_ITEM)
        else:
            yield (), event
            continue
        is_key = bool(kinds) and kinds[-1]


def _parsed(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=yaml_loader())
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # the message itself would show the line, with its secret
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise MaskError(f"it cannot be read as YAML{where}") from None


# --- as a program: a request on standard input, the answer on standard output


def answer(question: dict[str, str]) -> dict[str, Any]:
    """Answer a request. `text`: as it may be shown; `draft` and `now`: the draft with its secrets, and whether it
    includes others."""
    try:
        if "text" in question:
            return dict(mask_for_rights(question["text"])._asdict())
        text = restore_secrets(question["draft"], question["now"])
        return {"text": text, "is_other": included_files(text) != included_files(question["now"])}
    except MaskError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
