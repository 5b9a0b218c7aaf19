"""Texts that a document must have somewhere for an XPath expression to find anything in it.

Of `//observable[uri='#pollution' and entity[uri='paris://45/']]` these are `#pollution` and `paris://45/`: each must be
what an element, with all inside it, or an attribute says. So of very many expressions that differ in such texts, few
are left to be evaluated for a document (`engine/matching/predicates.py`).
"""

from functools import lru_cache

from penstock.model.content.bounds import MAX_XPATH_TEXT
from penstock.model.content.xpath_cost import XPathToken, tokens_of
from penstock.model.errors import ContentError

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_END = XPathToken("", "")


class _OtherwiseError(Exception):
    """An expression that is not of a form that is understood here."""


@lru_cache(maxsize=4096)
def texts_of(expression: str) -> frozenset[str]:
    """Return the texts without which an expression finds no node; none if it is not understood, or is no location path.

    Understood are steps down by name, `*` and `@name`, with predicates of such paths, alone or compared with a text or
    a number, joined by `and`.
    """
    if len(expression) > MAX_XPATH_TEXT:
        return frozenset()
    try:
        reader = _PathReader(list(tokens_of(expression)))
        reader.path()
        return frozenset(reader.texts) if reader.at_end else frozenset()
    except (_OtherwiseError, ContentError):
        return frozenset()


class _PathReader:
    """A reader that goes through an expression once."""

    def __init__(self, tokens: list[XPathToken]) -> None:
        self._tokens = tokens
        self._at = 0
        self.texts: set[str] = set()

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    @property
    def _token(self) -> XPathToken:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, *signs: str) -> bool:
        """Advance if one of these signs is next; return whether it is."""
        is_here = self._token.kind == "sign" and self._token.text in signs
        self._at += is_here
        return is_here

    def path(self) -> None:
        self._take("/", "//")
        self._step()
        while self._take("/", "//"):
            self._step()

    def _step(self) -> None:
        if not self._take(".", "*"):
            self._take("@")
            if self._token.kind != "name" and self._token.text != "*":
                raise _OtherwiseError
            self._at += 1
        while self._take("["):
            self._predicate()
            while self._token == XPathToken("name", "and"):
                self._at += 1
                self._predicate()
            if not self._take("]"):
                raise _OtherwiseError

    def _predicate(self) -> None:
        """Read a path, or a path that is compared with a text or a number."""
        self.path()
        relation = self._token.text
        if self._token.kind != "sign" or relation not in _COMPARISONS:
            return
        self._at += 1
        kind, text = self._token
        if kind not in ("literal", "number"):
            raise _OtherwiseError
        self._at += 1
        if kind == "literal" and relation == "=":
            self.texts.add(text[1:-1])
