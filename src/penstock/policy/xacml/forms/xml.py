"""XML read within bounds, as a tree that is small enough to look at.

A document with a document type is refused (docs/decisions/0017): nothing else in XML makes a reader open or expand
anything. lxml is not used here, as it keeps each name that it has seen for good.
"""

from collections.abc import Iterator, Mapping
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from penstock.policy.xacml.limits import MOST_DEPTH
from penstock.policy.xacml.names import CORE
from penstock.policy.xacml.status import Unsupported, XacmlError

_SEPARATOR = "\n"  # between namespace, local name and prefix: no name has it
_XML = "http://www.w3.org/XML/1998/namespace"


class Element:
    """An element: names as (namespace, local name), the prefixes in scope, and where it stands."""

    __slots__ = ("attributes", "line", "name", "namespace", "parts", "prefixes")

    def __init__(self, name: str, attributes: Mapping[str, str], prefixes: Mapping[str, str], line: int) -> None:
        self.namespace, self.name = _split(name)
        self.attributes = attributes
        self.prefixes = prefixes
        self.line = line
        self.parts: list[Element | str] = []

    @property
    def children(self) -> Iterator["Element"]:
        return (part for part in self.parts if not isinstance(part, str))

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    def get(self, name: str) -> str | None:
        """An attribute without a namespace."""
        return self.attributes.get(name)

    def need(self, name: str) -> str:
        value = self.attributes.get(name)
        if value is None:
            raise self.wrong(f"`{self.name}` has no `{name}`")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean attribute; None if it is not there."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if value.strip() not in _FLAGS:
            raise self.wrong(f"`{name}` is `{value}`, not true or false")
        return _FLAGS[value.strip()]

    def unsupported(self, what: str) -> XacmlError:
        return Unsupported(f"line {self.line}: {what}")

    def wrong(self, what: str) -> XacmlError:
        return XacmlError(f"line {self.line}: {what}")


_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def _split(name: str) -> tuple[str, str]:
    namespace, separator, rest = name.partition(_SEPARATOR)
    return (namespace, rest.partition(_SEPARATOR)[0]) if separator else ("", name)


def read_xml(data: bytes, most_bytes: int, most_nodes: int) -> Element:
    """The root of a document; raises `XacmlError`."""
    if len(data) > most_bytes:
        raise XacmlError(f"more than {most_bytes} bytes of XML")
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    builder = _Builder(parser, most_nodes)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartNamespaceDeclHandler = builder.declare
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        said = expat.ErrorString(error.code)
        raise XacmlError(f"not XML: {said} (line {error.lineno}, column {error.offset + 1})") from None
    except (LookupError, ValueError):
        raise XacmlError("not XML: its encoding is not known") from None
    assert builder.root is not None
    return builder.root


def _refuse(*_: object) -> NoReturn:
    raise XacmlError("XML with a document type is not read, as it could define entities")


class _Builder:
    def __init__(self, parser: expat.XMLParserType, most_nodes: int) -> None:
        self._parser = parser
        self._open: list[Element] = []
        self._declared: dict[str, str] = {}
        self._left = most_nodes
        self._most = most_nodes
        self.root: Element | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._left -= 1 + len(attributes) + len(self._declared)
        if self._left < 0:
            raise XacmlError(f"more than {self._most} XML elements and attributes")
        if len(self._open) >= MOST_DEPTH:
            raise XacmlError(f"more than {MOST_DEPTH} XML elements inside each other")
        prefixes = self._open[-1].prefixes if self._open else {}
        if self._declared:
            # Each level with declarations copies those around it, so they count again.
            self._left -= len(prefixes)
            prefixes = {**prefixes, **self._declared}
            self._declared = {}
        element = Element(name, attributes, prefixes, self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].parts.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, name: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        self._open[-1].parts.append(text)

    def declare(self, prefix: str | None, namespace: str | None) -> None:
        self._declared[prefix or ""] = namespace or ""


def core(element: Element) -> str:
    """The local name of an element of XACML 3.0; raises `XacmlError` for any other."""
    if element.namespace == CORE:
        return element.name
    if element.namespace.startswith("urn:oasis:names:tc:xacml:"):
        raise element.wrong(f"`{element.namespace}` is another version of XACML, expected `{CORE}`")
    raise element.wrong(f"`{element.name}` is not in the namespace of XACML 3.0, `{CORE}`")


def show_xml(element: Element) -> str:
    """The element as a document of its own, with the prefixes that are in scope."""
    return "".join(_shown(element, {}))


def _shown(element: Element, known: Mapping[str, str]) -> Iterator[str]:
    named = _qualified(element.namespace, element.name, element.prefixes)
    if element.prefixes.get("", "") == element.namespace:
        named = element.name
    yield f"<{named}"
    if element.prefixes is not known:
        for prefix, namespace in element.prefixes.items():
            if known.get(prefix, "") != namespace:
                yield f" xmlns{':' if prefix else ''}{prefix}={quoteattr(namespace)}"
    for name, value in element.attributes.items():
        yield f" {_qualified(*_split(name), element.prefixes)}={quoteattr(value)}"
    yield ">"
    for part in element.parts:
        if isinstance(part, str):
            yield escape(part, {"\r": "&#13;"})
        else:
            yield from _shown(part, element.prefixes)
    yield f"</{named}>"


def _qualified(namespace: str, name: str, prefixes: Mapping[str, str]) -> str:
    if not namespace:
        return name
    if namespace == _XML:
        return f"xml:{name}"
    return next((f"{prefix}:{name}" for prefix, found in prefixes.items() if prefix and found == namespace), name)
