"""The comments of a domain file, and the entries they belong to."""

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from penstock.domain.problems import Loc
from penstock.domain.yaml.layout import Notes
from penstock.model.yaml.document import yaml_loader
from penstock.model.yaml.tree import YamlEntry, YamlMapping, YamlSequence


class _Comment(NamedTuple):
    line: int
    text: str
    """From the `#` on; empty for an empty line."""
    alone: bool
    """True if nothing else stands on its line."""


def notes_of(text: str, root: YamlEntry) -> Notes:
    """Return the comments of a YAML text that has been read as `root`.

    A comment on a line of its own belongs to what follows it, a trailing comment to what begins on its line.
    """
    places = list(_places(root, ()))
    before, behind = dict[Loc, list[str]](), dict[Loc, str]()
    header, footer = list[str](), list[str]()
    start = min((line for line, _ in places), default=0)
    for comment in _comments(text):
        here = next((loc for line, loc in places if line == comment.line), None)
        following = next((loc for line, loc in places if line > comment.line), None)
        if comment.alone and comment.line < start:
            header.append(comment.text)
        elif comment.alone and following is None:
            footer.append(comment.text)
        elif comment.alone and following is not None:
            before.setdefault(following, []).append(comment.text)
        else:
            about = here or max((item for item in places if item[0] < comment.line), default=(0, ()))[1]
            behind[about] = f"{behind[about]} {comment.text}" if about in behind else comment.text
    # Comments at the top belong to the file up to an empty line, and then to the first key.
    end = len(header) - header[::-1].index("") if "" in header else 0
    if places and header[end:]:
        before[places[0][1]] = header[end:]
    return Notes(tuple(header[:end]), {loc: tuple(lines) for loc, lines in before.items()}, behind, tuple(footer))


def _places(entry: YamlEntry, loc: Loc) -> Iterator[tuple[int, Loc]]:
    """Yield every key and item with its line, from the top of the file to its end."""
    below: list[tuple[int | str, YamlEntry]] = []
    if isinstance(entry.node, YamlMapping):
        below = list(entry.node.entries.items())
    elif isinstance(entry.node, YamlSequence):
        below = list(enumerate(entry.node.items))
    for step, value in below:
        yield value.place.line, (*loc, step)
        yield from _places(value, (*loc, step))


def _comments(text: str) -> Iterator[_Comment]:
    """Yield comments and empty lines: they are between the tokens of a text."""
    end = 0
    for token in yaml.scan(text, Loader=yaml_loader()):
        if token.start_mark.index > end:
            yield from _in_gap(text, end, token.start_mark.index)
        end = max(end, token.end_mark.index)


def _in_gap(text: str, start: int, end: int) -> Iterator[_Comment]:
    line = text.count("\n", 0, start) + 1
    at = start
    for part in text[start:end].splitlines(keepends=True):
        content = part.strip()
        alone = not text[text.rfind("\n", 0, at) + 1 : at].strip()
        if content.startswith("#") or (alone and not content and part.endswith("\n")):
            yield _Comment(line, content, alone)
        at += len(part)
        line += 1
