"""A domain file as it may be shown: in place of its secrets, marks that stand for them when it comes back.

Secrets are those of links; all others are in files of their own. What cannot be read, or not be marked, is not shown.
"""

import re
from collections.abc import Iterator

import yaml

from penstock.model.errors import PenstockError

_MARK = re.compile(r"<kept secret (\d{1,4})>")


class MaskError(PenstockError):
    """A text whose secrets cannot be told from the rest."""


def masked(text: str) -> str:
    """The text, with each secret in it replaced by its mark; raises `MaskError`."""
    for number, (begin, end) in reversed(list(enumerate(_secrets(text)))):
        rest = text[begin:end]
        line = rest[len(rest.rstrip()) :]  # of a block, which ends where the next line begins
        text = f'{text[:begin]}"<kept secret {number}>"{line}{text[end:]}'
    _compose(text)  # a secret with an anchor may be named elsewhere
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
    found = set[str]()
    for key, value in _items(_compose(text)):
        if key == "include":
            several = value.value if isinstance(value, yaml.SequenceNode) else [value]
            found |= {str(one.value) for one in several}
    return found


def has_marks(draft: str) -> bool:
    return _MARK.search(draft) is not None


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Where the secrets of links are, in order; raises `MaskError` for what cannot be read."""
    found = set[tuple[int, int]]()
    for key, links in _items(_compose(text)):
        if key == "links" and isinstance(links, yaml.SequenceNode):
            for link in links.value:
                for name, value in _items(link):
                    if name == "secret" and isinstance(value, yaml.ScalarNode):
                        found.add((value.start_mark.index, value.end_mark.index))
    yield from sorted(found)


def _items(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value == "<<":  # what is merged in may have anything, and is not looked into
                    raise MaskError("mappings are merged in it with `<<`")
                yield key.value, value


def _compose(text: str) -> yaml.Node | None:
    try:
        found: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        return found
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # the message itself would show the line, and what is secret in it
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise MaskError(f"it cannot be read as YAML{where}") from None
