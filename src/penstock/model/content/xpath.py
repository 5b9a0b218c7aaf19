"""XPath over XML content, by libxml2."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Thread
from typing import Any, NamedTuple

from lxml import etree

from penstock.model.content.bounds import MAX_BYTES, MAX_XPATH_NAMES, MAX_XPATH_TEXT, MAX_XPATH_WORK
from penstock.model.content.xml import Xml
from penstock.model.content.xpath_cost import Cost, cost
from penstock.model.errors import BoundError, ContentError
from penstock.model.values import Value

_BYTES_OF_A_NODE = 32
"""Bytes of text that take as long to go through as a node."""


_STEPS_OF_A_TEXT = 24
"""Steps that making the text of a node takes: one condition can still ask for all nodes of the largest document."""


class CompiledXPath(NamedTuple):
    """A compiled expression, and its cost."""

    evaluate: etree.XPath
    cost: Cost


@lru_cache(maxsize=4096)
def compile_xpath(expression: str) -> CompiledXPath:
    """Compile an XPath 1.0 expression; raises `ContentError` if it is not valid."""
    try:
        # Without EXSLT's regular expressions: they are Python's, whose time is not bounded.
        evaluate = etree.XPath(expression, regexp=False, smart_strings=False)
        compiled = CompiledXPath(evaluate, cost(expression))
        evaluate(_SMALLEST)  # for mistakes that libxml2 finds only now
        return compiled
    except (etree.XPathError, ValueError) as error:
        raise ContentError(f"`{expression}` is not an XPath expression: {_lowered(error)}") from None
    except ContentError as error:
        raise ContentError(f"`{expression}` is not an XPath expression: {error}") from None


@lru_cache(maxsize=4096)
def _compile_test(expression: str) -> CompiledXPath | None:
    """Compile an expression to test whether it finds something or is true; None for a number or a string."""
    compiled = compile_xpath(expression)
    sample = compiled.evaluate(_SMALLEST)  # of what type it is does not depend on the document
    if isinstance(sample, bool):
        return compiled
    if not isinstance(sample, list):
        return None
    # The document itself, which has nothing around it, is not among what `Document.find` finds.
    text = f"boolean(({expression})[parent::node()])"
    return CompiledXPath(etree.XPath(text, regexp=False, smart_strings=False), compiled.cost)


def text_steps(nodes: int) -> int:
    """Return the steps that it takes to make the texts of so many nodes."""
    return nodes * _STEPS_OF_A_TEXT


class Document:
    """An XML payload that expressions can be evaluated on."""

    __slots__ = ("_texts", "root", "size")

    def __init__(self, payload: bytes, xml: Xml) -> None:
        """Parse a payload, of which some facts are known already. Raises `ContentError`."""
        self.root = _parse(payload) if _NAMES.are_known(xml.names) else _parse_apart(payload)
        """The root element; there are no comments and processing instructions in it."""
        self.size = xml.nodes + len(payload) // _BYTES_OF_A_NODE
        """The size that the cost of an expression depends on."""
        self._texts: frozenset[str] | None = None

    @property
    def texts(self) -> frozenset[str]:
        """The texts of all elements, with what is inside, and of all attributes; none longer than an expression."""
        if self._texts is None:
            texts: set[str] = set()
            _gather(self.root, texts)
            self._texts = frozenset(texts)
        return self._texts

    def find(
        self, expression: str, compiled: CompiledXPath, steps: int, pay: Callable[[int], None] | None = None
    ) -> Value:
        """Return a string, a double or a bool; of nodes, the list of their texts. Raises `ContentError`.

        What is relative is so to the root element. `steps`: what it costs on a document of this size. `pay` is called
        with what the texts cost, before they are made.
        """
        _check_steps(expression, steps)
        result = self._evaluated(expression, compiled.evaluate)
        if not isinstance(result, list):
            return result
        if pay is not None:
            pay(text_steps(len(result)))
        return _texts(result, expression)

    def has(self, expression: str, pay: Callable[[int], None]) -> bool:
        """Return whether there is something that an expression finds, or it is true. Raises `ContentError`.

        `pay` is called before with the steps that it takes, if it is not refused for them.
        """
        test = _compile_test(expression)
        if test is None:
            return False
        steps = test.cost.over(self.size)
        _check_steps(expression, steps)
        pay(steps)
        return self._evaluated(expression, test.evaluate) is True

    def _evaluated(self, expression: str, evaluate: etree.XPath) -> Any:
        try:
            return evaluate(self.root)
        except etree.XPathError as error:
            raise ContentError(f"`{expression}` has no value: {_lowered(error)}") from None


def _check_steps(expression: str, steps: int) -> None:
    if steps > MAX_XPATH_WORK:
        raise BoundError(f"`{expression}` would take too long on a document of this size")


def _gather(element: etree._Element, texts: set[str]) -> str | None:
    """Add the texts of an element and of all inside it to `texts`; return its own text, None if that is long."""
    texts.update(element.values())  # type: ignore[arg-type]  # of what is parsed they are texts
    own = element.text or ""
    is_long = False
    for inside in element:
        text = _gather(inside, texts)
        if text is None or len(own) > MAX_XPATH_TEXT:
            is_long = True
        else:
            own += text + (inside.tail or "")
    if is_long or len(own) > MAX_XPATH_TEXT:
        return None
    texts.add(own)
    return own


def _texts(nodes: Sequence[object], expression: str) -> list[str]:
    texts: list[str] = []
    length = 0
    for node in nodes:
        texts.append(_text(node))
        length += len(texts[-1])
        if length > MAX_BYTES:  # elements inside each other have the same text again and again
            raise BoundError(f"`{expression}` finds more than {MAX_BYTES} characters")
    return texts


def _text(node: object) -> str:
    match node:
        case str():
            return node
        case tuple():  # a namespace, with its prefix
            return str(node[1])
        case etree._Element():
            return str(_STRING(node)) if len(node) else node.text or ""
    raise AssertionError(node)


def _lowered(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def tree_parser(**options: Any) -> etree.XMLParser:
    """Return a parser for documents without a document type: the bounded reader refuses it, and the options again."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, **options)


def _parser() -> etree.XMLParser:
    return tree_parser(remove_comments=True, remove_pis=True, collect_ids=False)


def _parse(payload: bytes, parser: etree.XMLParser | None = None) -> etree._Element:
    try:
        return etree.fromstring(payload, parser or _PARSER)
    except etree.XMLSyntaxError as error:
        raise ContentError(f"not XML: {_lowered(error)}") from None


def _parse_apart(payload: bytes) -> etree._Element:
    """Parse in a separate thread, which is 40 times slower: libxml2 forgets the names when the thread ends."""
    parsed: list[etree._Element | ContentError] = []

    def run() -> None:
        try:
            parsed.append(_parse(payload, _parser()))
        except ContentError as error:
            parsed.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(parsed[0], ContentError):
        raise parsed[0]
    return parsed[0]


class _Names:
    """The names that lxml may remember.

    It keeps each name that it has parsed in a thread until the thread ends, so that a client that makes up names would
    fill the memory. The first to come along are known, while there is room; others do not become so.
    """

    def __init__(self, room: int = MAX_XPATH_NAMES) -> None:
        self._known: set[str] = set()
        self._room = room

    def are_known(self, names: frozenset[str]) -> bool:
        if names <= self._known:
            return True
        new = names - self._known
        room = self._room - sum(map(len, new)) - len(new) * _BYTES_OF_A_NODE
        if room < 0:
            return False
        self._room = room
        self._known |= new
        return True


_STRING = etree.XPath("string()", regexp=False, smart_strings=False)
_PARSER = _parser()
_SMALLEST = etree.fromstring(b"<a/>", _PARSER)
_NAMES = _Names()
