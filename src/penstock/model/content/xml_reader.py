"""A reader of XML within bounds.

Documents with a document type are refused (docs/decisions/0017): it is where entities come from, and with them files,
networks and laughs by the billion. Nothing else in XML makes a reader open or expand anything.

lxml is not used here, as it keeps each name that it has seen for good. Where XPath or a tree is needed, it reads what
has been read here before (`penstock.model.content.xpath.tree_parser`).
"""

from typing import ClassVar, NoReturn
from xml.parsers import expat

from penstock.model.content.bounds import MAX_DEPTH, MAX_NODES
from penstock.model.errors import BoundError, ContentError

_EVENTS = {
    "start": "StartElementHandler",
    "end": "EndElementHandler",
    "text": "CharacterDataHandler",
    "declare": "StartNamespaceDeclHandler",
    "instruct": "ProcessingInstructionHandler",
    "begin": "XmlDeclHandler",
    "document_type": "StartDoctypeDeclHandler",
}
"""The methods that a reader may have, and what calls them."""


class XmlError(ContentError):
    """A document that is not XML."""

    reason = ""
    line = 1
    column = 0
    """From 1 on; 0: the document as a whole."""


class XmlReader:
    """A reader of one document. A subclass has the methods of `_EVENTS` that it needs."""

    _events: ClassVar[list[tuple[str, str]]]
    separator: str | None = None
    """The separator of a namespace and a local name; None: there are no namespaces."""
    parser: expat.XMLParserType
    """It is there while the document is read, to say where it is."""

    def __init_subclass__(cls) -> None:
        cls._events = [(name, event) for name, event in _EVENTS.items() if hasattr(cls, name)]

    def __init__(self, max_nodes: int = MAX_NODES, max_depth: int = MAX_DEPTH) -> None:
        self.nodes = 0
        """Elements, attributes and declared namespaces so far."""
        self._max_nodes = max_nodes
        self._max_depth = max_depth

    def read(self, data: bytes) -> None:
        """Read the document; raises `ContentError`, and what methods of the subclass raise."""
        self.parser = parser = expat.ParserCreate(namespace_separator=self.separator, intern={})
        parser.buffer_text = True
        for name, event in self._events:
            setattr(parser, event, getattr(self, name))
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise _not_xml(expat.ErrorString(error.code), error.lineno, error.offset + 1) from None
        except (LookupError, ValueError):
            raise _not_xml("its encoding is not known") from None
        finally:
            del self.parser  # it has our methods, and would keep us

    def count(self, nodes: int, depth: int = 0) -> None:
        """Count nodes; raises `BoundError` if there are too many, or too many inside each other."""
        self.nodes += nodes
        if self.nodes > self._max_nodes:
            raise BoundError(f"more than {self._max_nodes} XML elements and attributes")
        if depth > self._max_depth:
            raise BoundError(f"more than {self._max_depth} XML elements inside each other")

    def document_type(self, *_: object) -> NoReturn:
        """Refuse a document type."""
        raise BoundError("XML with a document type is not read, as it could define entities")


def _not_xml(reason: str, line: int = 1, column: int = 0) -> XmlError:
    error = XmlError(f"not XML: {reason} (line {line}, column {column})" if column else f"not XML: {reason}")
    error.reason, error.line, error.column = reason, line, column
    return error
