"""XML as attributes."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.model.content.xml_reader import XmlReader
from penstock.model.values import Value

_BLANK = " \t\r\n"
_SEPARATOR = " "  # between a namespace and a local name


class Xml(NamedTuple):
    """The attributes of an XML payload."""

    attributes: dict[str, Value]
    """The root element, by its local name."""
    names: frozenset[str]
    """All names in it: of elements, attributes, namespaces and processing instructions."""
    nodes: int
    """The number of elements, attributes and declared namespaces."""


def read_xml(payload: bytes) -> Xml:
    """Return the attributes of an XML payload. Raises `ContentError`.

    An element is its text if it has neither attributes nor elements inside; else a map of the elements inside by local
    name (a list, of several with one name), of its attributes, as `@name`, and of its own text, if any, as `#text`.
    """
    builder = _ContentBuilder()
    builder.read(payload)
    return Xml(builder.root, frozenset(builder.names), builder.nodes)


class _ContentBuilder(XmlReader):
    """A builder that makes the value of each element when it ends, and puts it into the element around it."""

    separator = _SEPARATOR

    def __init__(self) -> None:
        super().__init__()
        self._maps: list[dict[str, Value]] = [{}]
        self._texts: list[list[str]] = []  # in pieces: comments may cut a long text into very many
        self.names: set[str] = set()

    @property
    def root(self) -> dict[str, Value]:
        return self._maps[0]

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.names.add(name)
        self.count(1 + len(attributes), len(self._maps))
        inside: dict[str, Value] = {}
        if attributes:
            self.names.update(attributes)
            for attribute, value in attributes.items():
                inside[f"@{_local(attribute) if _SEPARATOR in attribute else attribute}"] = value
        self._maps.append(inside)
        self._texts.append([])

    def text(self, text: str) -> None:
        self._texts[-1].append(text)

    def end(self, name: str) -> None:
        inside = self._maps.pop()
        texts = self._texts.pop()
        text = "".join(texts).strip(_BLANK) if texts else ""
        if inside and text:
            inside["#text"] = text
        _add(self._maps[-1], _local(name) if _SEPARATOR in name else name, inside or text)

    def declare(self, prefix: str | None, namespace: str | None) -> None:
        self.names.update((prefix or "", namespace or ""))
        self.count(1)

    def instruct(self, target: str, data: str) -> None:
        self.names.add(target)


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]


def _add(around: dict[str, Value], name: str, value: Value) -> None:
    if name not in around:
        around[name] = value
    elif type(around[name]) is list:
        around[name].append(value)
    else:
        around[name] = [around[name], value]
