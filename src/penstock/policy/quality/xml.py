"""Quality in XML content, as the paper's Listing 3 looks for it. The rest of a document is kept byte for byte."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from lxml import etree

from penstock.language.evaluators.times import timestamp_to_string
from penstock.model.content.xml_reader import XmlReader
from penstock.model.errors import ContentError
from penstock.model.quality import MetricValue, Quality
from penstock.model.values import Value

INDICATOR, CRITERION = "qocindicator", "qocriterion"
DEFINITION, VALUE = "qocmetricdefinition", "qocmetricvalue"
CREATED, MODIFIED = "creationdate", "modificationdate"

_NUMBER = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?", re.ASCII)
_BLANK = " \t\r\n"
_SEPARATOR = " "
_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_END = b"</"
_NOT_UTF8 = "XML that is not in UTF-8 cannot be given quality"
_NOTHING_ELSE = f"the root of the content is a `{INDICATOR}`"
_UTF8 = frozenset({None, "utf-8", "us-ascii"})


class XmlIndicator(NamedTuple):
    """One quality indicator of a document; only its number is checked."""

    ids: tuple[Value, Value, Value]
    value: float
    created: Value
    modified: Value


def find_indicators(value: Value) -> Iterator[Value]:
    """Yield the quality indicators among the attributes of XML content, wherever they are."""
    waiting = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting.extend(at)
        elif isinstance(at, dict):
            for name, inside in at.items():
                if name == INDICATOR:
                    yield from inside if isinstance(inside, list) else [inside]
                else:
                    waiting.append(inside)


def read_indicator(indicator: Value) -> XmlIndicator:
    """Read an indicator; raises `ContentError`."""
    criterion = _only(indicator, CRITERION)
    definition = _only(criterion, DEFINITION)
    value = _only(indicator, VALUE)
    text = str(value.get("@value")).strip(_BLANK)
    if not _NUMBER.fullmatch(text):
        raise ContentError(f"a `{VALUE}` has the value `{text[:80]}`, which is not a number")
    ids = (indicator.get("@id"), criterion.get("@id"), definition.get("@id"))
    return XmlIndicator(ids, float(text), value.get(f"@{CREATED}"), value.get(f"@{MODIFIED}"))


def _only(around: Value, name: str) -> dict[str, Value]:
    """Return the element of a name, which must be unique: else it is not clear which value belongs to which metric."""
    element = around.get(name) if isinstance(around, dict) else None
    if not isinstance(element, dict):
        raise ContentError(f"a quality indicator has {'several' if isinstance(element, list) else 'no'} `{name}`")
    return element


def with_indicators(payload: bytes, quality: Quality) -> bytes:
    """Return a document that was read before, with these indicators at its end in place of its own.

    Raises `ContentError` if it is not in UTF-8, or is nothing but an indicator.
    """
    places = _Places(payload)
    text = "".join(_element(value, places.has_namespace) for value in quality).encode()
    parts: list[bytes] = []
    done = 0
    for start, end in places.indicators:
        parts.append(payload[done:start])
        done = end
    start, end = places.root
    if payload[start : start + 2] == _END:
        parts += [payload[done:start], text, payload[start:]]
    elif text:  # an empty element: `<a/>`
        tag = payload[start:end]
        name = re.split(rb"[\s/]", tag[1:], maxsplit=1)[0]
        parts += [payload[done:start], tag[:-2], b">", text, _END, name, b">", payload[end:]]
    else:
        parts.append(payload[done:])
    return b"".join(parts)


def put_indicators(root: etree._Element, quality: Quality) -> None:
    """Put indicators into a parsed document; raises `ContentError` if it is nothing but an indicator."""
    if etree.QName(root).localname == INDICATOR:
        raise ContentError(_NOTHING_ELSE)
    around = {element.getparent() for element in root.iter(f"{{*}}{INDICATOR}")}
    if around:
        etree.strip_elements(root, f"{{*}}{INDICATOR}", with_tail=False)
        for parent in around:
            _join_texts(parent)
    for value in quality:
        indicator = etree.SubElement(root, INDICATOR, id=value.key.indicator)
        criterion = etree.SubElement(indicator, CRITERION, id=value.key.criterion)
        etree.SubElement(criterion, DEFINITION, id=value.key.definition)
        etree.SubElement(indicator, VALUE, _value_attributes(value))


def check_utf8(root: etree._Element, payload: bytes) -> None:
    """Raise `ContentError` if a document is not in UTF-8."""
    encoding = root.getroottree().docinfo.encoding
    if (encoding or "utf-8").lower() not in _UTF8 or b"\0" in payload:
        raise ContentError(_NOT_UTF8)


def _join_texts(element: etree._Element | None) -> None:
    """Join the texts around a removed element, as a parser would read them."""
    if element is not None:
        element.text = element.text
        for inside in element:
            inside.tail = inside.tail


class _Places(XmlReader):
    """The positions of the indicators in a payload, and of the tag that ends its root."""

    separator = _SEPARATOR

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.indicators: list[tuple[int, int]] = []
        self.root = (0, 0)
        self.has_namespace = False
        """True if names without a prefix are in one, so that it must be said that ours are not."""
        self._payload = payload
        self._depth = 0
        self._began = 0
        self._inside: tuple[int, int] | None = None
        """Depth and start of the indicator that it is in."""
        self._encoding: str | None = None
        self.read(payload)
        if self._encoding not in _UTF8 or b"\0" in payload:
            raise ContentError(_NOT_UTF8)

    def begin(self, version: str, encoding: str | None, standalone: int) -> None:
        self._encoding = None if encoding is None else encoding.lower()

    def declare(self, prefix: str | None, namespace: str | None) -> None:
        # The parser reports it before its element starts: at depth 0, it is the root's.
        if self._depth == 0 and prefix is None and namespace:
            self.has_namespace = True

    def start(self, name: str, attributes: object) -> None:
        if self._depth == 0:
            self._began = self.parser.CurrentByteIndex
        if name.rpartition(_SEPARATOR)[2] == INDICATOR and self._inside is None:
            if self._depth == 0:
                raise ContentError(_NOTHING_ELSE)
            self._inside = (self._depth, self.parser.CurrentByteIndex)
        self._depth += 1

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.root = self._last_tag(self._began)
        elif self._inside is not None and self._inside[0] == self._depth:
            start = self._inside[1]
            self.indicators.append((start, self._last_tag(start)[1]))
            self._inside = None

    def _last_tag(self, start: int) -> tuple[int, int]:
        """Return the start and end of the tag that ends the element which begins there."""
        begins = self._tag(start)
        if begins[0].endswith(b"/>"):
            return begins.span()  # the parser is behind it already
        return self._tag(self.parser.CurrentByteIndex).span()

    def _tag(self, at: int) -> re.Match[bytes]:
        tag = _TAG.match(self._payload, at)
        if tag is None:
            raise ContentError(_NOT_UTF8)
        return tag


def _element(value: MetricValue, has_namespace: bool) -> str:
    own = ' xmlns=""' if has_namespace else ""
    # Nothing is escaped: ids, numbers and times have nothing that must be.
    attributes = "".join(f' {name}="{text}"' for name, text in _value_attributes(value).items())
    return (
        f'<{INDICATOR}{own} id="{value.key.indicator}"><{CRITERION} id="{value.key.criterion}">'
        f'<{DEFINITION} id="{value.key.definition}"/></{CRITERION}>'
        f"<{VALUE}{attributes}/></{INDICATOR}>"
    )


def _value_attributes(value: MetricValue) -> dict[str, str]:
    # XPath's numbers have no exponents.
    attributes = {"value": f"{Decimal(repr(value.value)):f}", CREATED: timestamp_to_string(value.created)}
    if value.modified is not None:
        attributes[MODIFIED] = timestamp_to_string(value.modified)
    return attributes
