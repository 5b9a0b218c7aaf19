"""XML read within bounds, as a tree that is small enough to look at."""

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from penstock.model.content.xml_reader import XmlReader
from penstock.model.errors import ContentError
from penstock.policy.xacml.limits import MAX_DEPTH
from penstock.policy.xacml.names import CORE
from penstock.policy.xacml.status import Unsupported, XacmlError

_SEPARATOR = "\n"  # between namespace, local name and prefix: no name has it
_XML = "http://www.w3.org/XML/1998/namespace"


class XmlElement:
    """An element: names as (namespace, local name), the prefixes in scope, and where it stands."""

    __slots__ = ("attributes", "line", "name", "namespace", "parts", "prefixes")

    def __init__(self, name: str, attributes: Mapping[str, str], prefixes: Mapping[str, str], line: int) -> None:
        self.namespace, self.name = _split(name)
        self.attributes = attributes
        self.prefixes = prefixes
        self.line = line
        self.parts: list[XmlElement | str] = []

    @property
    def children(self) -> Iterator["XmlElement"]:
        return (part for part in self.parts if not isinstance(part, str))

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    def get(self, name: str) -> str | None:
        """Return an attribute without a namespace."""
        return self.attributes.get(name)

    def need(self, name: str) -> str:
        value = self.attributes.get(name)
        if value is None:
            raise self.wrong(f"`{self.name}` has no `{name}`")
        return value

    def flag(self, name: str) -> bool | None:
        """Return a boolean attribute; None if it is not there."""
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


def read_xml(data: bytes, max_bytes: int, max_nodes: int) -> XmlElement:
    """Return the root of a document; raises `XacmlError`."""
    if len(data) > max_bytes:
        raise XacmlError(f"more than {max_bytes} bytes of XML")
    builder = _XmlBuilder(max_nodes, MAX_DEPTH)
    try:
        builder.read(data)
    except ContentError as error:
        raise XacmlError(str(error)) from None
    assert builder.root is not None
    return builder.root


class _XmlBuilder(XmlReader):
    separator = _SEPARATOR

    def __init__(self, max_nodes: int, max_depth: int) -> None:
        super().__init__(max_nodes, max_depth)
        self._open: list[XmlElement] = []
        self._declared: dict[str, str] = {}
        self.root: XmlElement | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.count(1 + len(attributes) + len(self._declared), len(self._open) + 1)
        prefixes = self._open[-1].prefixes if self._open else {}
        if self._declared:
            # Each level with declarations copies those around it, so they count again.
            self.nodes += len(prefixes)
            prefixes = {**prefixes, **self._declared}
            self._declared = {}
        element = XmlElement(name, attributes, prefixes, self.parser.CurrentLineNumber)
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


def core(element: XmlElement) -> str:
    """Return the local name of an element of XACML 3.0; raises `XacmlError` for any other."""
    if element.namespace == CORE:
        return element.name
    if element.namespace.startswith("urn:oasis:names:tc:xacml:"):
        raise element.wrong(f"`{element.namespace}` is another version of XACML, expected `{CORE}`")
    raise element.wrong(f"`{element.name}` is not in the namespace of XACML 3.0, `{CORE}`")


def show_xml(element: XmlElement) -> str:
    """Return the element as a document of its own, with the prefixes that are in scope."""
    return "".join(_shown(element, {}))


def _shown(element: XmlElement, known: Mapping[str, str]) -> Iterator[str]:
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
    return next((f"{prefix}:{name}" for prefix, uri in prefixes.items() if prefix and uri == namespace), name)
