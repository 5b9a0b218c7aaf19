"""XPath on the content of a request, with prefixes and nodes; within the same bounds as conditions."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from lxml import etree

from penstock.language.limits import MAX_XPATH
from penstock.model.content.bounds import MAX_BYTES, MAX_XPATH_WORK
from penstock.model.content.xml import read_xml
from penstock.model.content.xpath import Document
from penstock.model.content.xpath_cost import ENDS, FUNCTIONS, OPERATOR_NAMES, Cost, XPathToken, cost, tokens_of
from penstock.model.errors import ContentError
from penstock.policy.xacml.names import SYNTAX_ERROR
from penstock.policy.xacml.status import Indeterminate, Status, XacmlError, malformed, unprocessable

Prefixes = tuple[tuple[str, str], ...]
Node = Any
"""An element, or a text or attribute that knows its element."""

_MAX_ALL_WORK = 5 * MAX_XPATH_WORK
"""Steps of all expressions of one decision."""


class _Path(NamedTuple):
    of_document: etree.XPath
    of_node: etree.XPath
    cost: Cost


@lru_cache(maxsize=1024)
def compile_path(path: str, prefixes: Prefixes) -> _Path:
    """Compile an expression; raises `XacmlError` if it is invalid."""
    try:
        if len(path) > MAX_XPATH:
            raise ContentError(f"it has more than {MAX_XPATH} characters")
        estimate = cost(path, frozenset(prefix for prefix, _ in prefixes))
        namespaces = dict(prefixes)
        # Without EXSLT's regular expressions: they are Python's, whose time is not bounded.
        whole = etree.XPath(_absolute(path), namespaces=namespaces, regexp=False, smart_strings=True)
        part = etree.XPath(path, namespaces=namespaces, regexp=False, smart_strings=True)
        whole(_SMALLEST)  # for mistakes that libxml2 finds only now
        return _Path(whole, part, estimate)
    except (etree.XPathError, ValueError, ContentError) as error:
        raise XacmlError(f"`{path[:200]}` is not an XPath expression: {error}") from None


_SMALLEST = etree.fromstring(b"<a/>")


def _absolute(path: str) -> str:
    """Return the same expression, with paths from the context node beginning at the document (7.3.7).

    lxml has no way to begin at the document node. What stands in predicates begins at other nodes anyway.
    """
    tokens = list(tokens_of(path))
    parts: list[str] = []
    level = 0
    is_after_operand = False
    before = ""
    for at, token in enumerate(tokens):
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        is_operator = is_after_operand and (token.text == "*" or token.text in OPERATOR_NAMES)
        begins = not is_operator and not is_after_operand and before not in ("/", "//", "::", "@", ":")
        if level == 0 and begins and _is_step(token, after):
            parts.append("/")
        # Names with a prefix are one word.
        parts.append(token.text if ":" in (token.text, before) or after == ":" else f" {token.text} ")
        level += (token.text == "[") - (token.text == "]")
        is_after_operand = not is_operator and (token.kind != "sign" or token.text in ENDS)
        before = token.text
    return "".join(parts)


def _is_step(token: XPathToken, after: str) -> bool:
    if token.kind == "name":
        return not (after == "(" and token.text in FUNCTIONS)
    return token.text in (".", "..", "@", "*")


class RequestContent:
    """The content of a category: one document, parsed when it is first used."""

    __slots__ = ("_document", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._document: Document | XacmlError | None = None

    def __repr__(self) -> str:
        return f"Content({self.data!r})"

    def select(self, path: str, prefixes: Prefixes, work: "Work", context: Node | None = None) -> list[Node]:
        """Return the nodes that an expression finds; raises `Indeterminate`."""
        document = self._parsed()
        try:
            compiled = compile_path(path, prefixes)
        except XacmlError as error:
            raise Indeterminate(error.status) from None
        work.charge(compiled.cost.over(document.size), path)
        try:
            nodes = compiled.of_document(document.root) if context is None else compiled.of_node(context)
        except etree.XPathError as error:
            raise unprocessable(f"`{path}` has no value: {error}") from None
        if not isinstance(nodes, list):
            raise malformed(f"`{path}` finds no nodes, but a value")
        return nodes

    def _parsed(self) -> Document:
        if self._document is None:
            try:
                self._document = Document(self.data, read_xml(self.data))
            except ContentError as error:
                self._document = XacmlError(str(error))
        if isinstance(self._document, XacmlError):
            raise Indeterminate(Status(SYNTAX_ERROR, str(self._document)))
        return self._document


class Work:
    """The steps of XPath in one decision."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    def charge(self, steps: int, path: str) -> None:
        self._spent += steps
        if steps > MAX_XPATH_WORK or self._spent > _MAX_ALL_WORK:
            raise unprocessable(f"`{path}` would take too long on a document of this size")


def text_of(nodes: list[Node], path: str) -> Iterator[str]:
    """Yield the text of each node; raises `Indeterminate`."""
    length = 0
    for node in nodes:
        text = "".join(map(str, node.itertext())) if isinstance(node, etree._Element) else _plain(node)
        length += len(text)
        if length > MAX_BYTES:  # elements inside each other have the same text again and again
            raise unprocessable(f"`{path}` finds more than {MAX_BYTES} characters")
        yield text


def _plain(node: Node) -> str:
    return str(node[1]) if isinstance(node, tuple) else str(node)


def key_of(node: Node) -> tuple[Any, str]:
    """Return a key of a node in the document: its element, and the part of it."""
    if isinstance(node, etree._Element):
        return node, ""
    if isinstance(node, tuple):
        raise malformed("namespaces are not compared as nodes")
    parent = node.getparent()
    if node.is_attribute:
        return parent, f"@{node.attrname}"
    return parent, "text" if node.is_text else "tail"


def is_at_or_below(node: Node, keys: set[tuple[Any, str]]) -> bool:
    """Return whether a node, or an element around it, is among these."""
    key = key_of(node)
    if key in keys:
        return True
    element, part = key
    if part == "tail" or not part:
        element = element.getparent()
    while element is not None:
        if (element, "") in keys:
            return True
        element = element.getparent()
    return False
