"""The canonical layout of a domain file: line breaks, quotes, order of keys."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from penstock.domain.problems import Loc
from penstock.domain.schema.base import keys
from penstock.domain.schema.domain import DomainFile
from penstock.domain.yaml.mistakes import models_at
from penstock.model.yaml.document import scalar
from penstock.model.yaml.tree import Step, YamlEntry, YamlNode, YamlScalar, YamlSequence
from penstock.model.yaml.tree import YamlMapping as Keys

WIDTH = 100
_INDENT = "  "
# Keys that readers look for first; the others follow in the order of the models.
_FIRST = ("domain", "include", "types")
# A plain word of YAML without quotes, in flow style and in block style; `scalar` decides whether it is a text.
_PLAIN = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`=<~](?:[^\s,\[\]{}:#?]|:(?=[^\s,\[\]{}])|(?<=\S)#| (?=[^\s#]))*")


# A text of several lines that YAML returns unchanged when it is written line by line (`|`).
_LINES = re.compile(r"\S(?:.*\S)?(?:\n\n?[^\n]*\S)+\n?")
_END = "\n"

# Other tools read YAML 1.1, where `no` is false and `1:30` is 90.
_IN_YAML_1_1 = Resolver()
_TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Notes:
    """Comments by the entries they belong to. An empty line is an empty comment."""

    header: tuple[str, ...] = ()
    before: Mapping[Loc, tuple[str, ...]] = field(default_factory=dict)
    behind: Mapping[Loc, str] = field(default_factory=dict)
    footer: tuple[str, ...] = ()

    def inside(self, loc: Loc) -> bool:
        """Return whether an entry below `loc` has a comment."""
        return any(other[: len(loc)] == loc and other != loc for other in (*self.before, *self.behind))


def layout(root: YamlNode, notes: Notes | None = None) -> str:
    """Return the text of a domain file with these values (and comments)."""
    about = notes or Notes()
    lines = [*about.header, *_Writer(about).block(root, (), 0), *about.footer]
    return "\n".join(_without_needless(lines)) + "\n"


class _Writer:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def block(self, node: YamlNode, loc: Loc, depth: int) -> Iterator[str]:
        """Yield the lines of a mapping or list, one entry after the other."""
        for step, entry in _entries(node, loc):
            where = (*loc, step)
            yield from (f"{_INDENT * depth}{line}".rstrip() for line in self._notes.before.get(where, ()))
            lead = f"{_INDENT * depth}-" if isinstance(step, int) else f"{_INDENT * depth}{_key(step)}:"
            yield from self._entry(lead, entry.node, where, depth)

    def _entry(self, lead: str, node: YamlNode, loc: Loc, depth: int) -> Iterator[str]:
        note = self._notes.behind.get(loc, "")
        behind = f"  {note}" if note else ""
        if isinstance(node, YamlScalar) and _has_lines(node):
            text = str(node.value)
            yield f"{lead} {'|' if text.endswith(_END) else '|-'}{behind}"
            yield from (f"{_INDENT * (depth + 1)}{line}".rstrip() for line in text.removesuffix(_END).split(_END))
            return
        line = f"{lead} {flow(node, loc)}"
        if isinstance(node, YamlScalar) or not _entries(node, loc) or self._fits(line, node, loc, depth):
            yield line + behind
        elif lead.endswith("-") and self._begins_beside(node, loc):
            first, *rest = self.block(node, loc, depth + 1)
            yield f"{lead} {first.lstrip()}{behind}"
            yield from rest
        else:
            yield lead + behind
            yield from self.block(node, loc, depth + 1)

    def _begins_beside(self, node: YamlNode, loc: Loc) -> bool:
        """Return whether the contents of a list item can begin on its line: no comment is between, and there is only
        one."""
        first = (*loc, _entries(node, loc)[0][0])
        has_two = loc in self._notes.behind and any(other[: len(first)] == first for other in self._notes.behind)
        return not self._notes.before.get(first) and not has_two

    def _fits(self, line: str, node: YamlNode, loc: Loc, depth: int) -> bool:
        """Return whether a mapping or list fits on one line; those with names of entities never do."""
        is_simple = isinstance(node, YamlSequence) and all(isinstance(item.node, YamlScalar) for item in node.items)
        is_short = len(line) <= WIDTH and not _has_lines(node)
        return (depth > 0 or is_simple) and is_short and not self._notes.inside(loc)


def _has_lines(node: YamlNode) -> bool:
    """Return whether it is or contains a text that is best written line by line."""
    if not isinstance(node, YamlScalar):
        inner = node.items if isinstance(node, YamlSequence) else node.entries.values()
        return any(_has_lines(entry.node) for entry in inner)
    if not isinstance(node.value, str) or _LINES.fullmatch(node.value) is None:
        return False
    return all(line.isprintable() for line in node.value.split(_END))


def _entries(node: YamlNode, loc: Loc) -> list[tuple[Step, YamlEntry]]:
    """Return the entries of a mapping or list in canonical order: that of the model; for names, that of the file."""
    if isinstance(node, YamlSequence):
        return list(enumerate(node.items))
    assert isinstance(node, Keys)
    order = _order(loc)
    return sorted(node.entries.items(), key=lambda item: order.get(str(item[0]), len(order)))


def _order(loc: Loc) -> dict[str, int]:
    names = [key for model in models_at(DomainFile, loc) for key, _, _ in keys(model)]
    first = [name for name in _FIRST if name in names]
    return {name: index for index, name in enumerate(dict.fromkeys([*first, *names]))}


def flow(node: YamlNode, loc: Loc = ()) -> str:
    """Return a value on one line."""
    if isinstance(node, YamlScalar):
        return _scalar(node)
    parts = [(step, flow(entry.node, (*loc, step))) for step, entry in _entries(node, loc)]
    if isinstance(node, YamlSequence):
        return f"[{', '.join(text for _, text in parts)}]"
    return f"{{{', '.join(f'{_key(str(step))}: {text}' for step, text in parts)}}}"


def _scalar(node: YamlScalar) -> str:
    if isinstance(node.value, str):
        return text_of(node.value)
    if node.value is None:
        return "null"
    return str(node.value).lower() if isinstance(node.value, bool) else node.text


def _key(name: str) -> str:
    # `on` is a text in YAML 1.2 and here; quotes around it would only confuse.
    return name if name == "on" else text_of(name)


def text_of(value: str) -> str:
    """Return a text, in quotes only if it could be read as something else."""
    in_yaml_1_1 = _IN_YAML_1_1.resolve(ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    is_text = isinstance(scalar(value).value, str) and in_yaml_1_1 == _TEXT
    if _PLAIN.fullmatch(value) and value.isprintable() and is_text:
        return value
    if value.isprintable() and "'" not in value and ('"' in value or "\\" in value):
        return f"'{value}'"  # JSON and patterns, without many backslashes
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return {"\n": "\\n", "\t": "\\t"}.get(character) or (f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}")


def _without_needless(lines: list[str]) -> Iterator[str]:
    """Yield the lines with at most one empty line at a time, and none at the ends."""
    last = ""
    waiting = False
    for line in lines:
        if line:
            if waiting and last:
                yield ""
            yield line
            last, waiting = line, False
        else:
            waiting = True
