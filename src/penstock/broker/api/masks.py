"""A domain file as it may be shown: in place of its secrets, marks that stand for them when it comes back."""

import re
from collections.abc import Iterator

import yaml

from penstock.model.errors import PenstockError

_SECRET = ("secret", "password")
_MARK = re.compile(r"<kept secret (\d{1,4})>")


def masked(text: str) -> str:
    """The text, with each secret in it replaced by its mark."""
    for number, (begin, end) in reversed(list(enumerate(_secrets(text)))):
        rest = text[begin:end]
        line = rest[len(rest.rstrip()) :]  # of a block, which ends where the next line begins
        text = f'{text[:begin]}"<kept secret {number}>"{line}{text[end:]}'
    return text


def unmasked(draft: str, original: str) -> str:
    """The draft with the secrets that its marks stand for in the original; raises `PenstockError`."""
    kept = [original[begin:end] for begin, end in _secrets(original)]
    for begin, end in reversed(list(_secrets(draft))):
        found = _MARK.search(draft[begin:end])
        if found is not None:
            number = int(found[1])
            if number >= len(kept):
                raise PenstockError(f"`{found[0]}` stands for no secret of the present file")
            draft = draft[:begin] + kept[number] + draft[end:]
    return draft


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Where the values of secrets are, in order; nowhere in what is no YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    found = list[tuple[int, int]]()
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:  # an anchor's node is there as often as it is named
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                is_secret = isinstance(key, yaml.ScalarNode) and key.value in _SECRET
                if is_secret and isinstance(value, yaml.ScalarNode):
                    found.append((value.start_mark.index, value.end_mark.index))
                else:
                    waiting += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    yield from sorted(found)
