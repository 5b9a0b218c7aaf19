"""The scope of a token as OAuth writes it: `publish:home/kitchen subscribe:home/#` (RFC 6749 §3.3).

Characters of a filter that may not stand there (blanks, `"`, `\\`, `%`, all beyond ASCII) are percent-encoded UTF-8.
"""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from penstock.model.errors import PenstockError, TopicError
from penstock.model.topic import covers, parse_filter
from penstock.policy.tokens.errors import show

MAX_FILTERS_ASKED = 100
"""Filters in one scope."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*", re.ASCII)
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"\\%')
_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")


class ScopeError(PenstockError):
    """A scope that is not one, or asks for what is not granted."""


class TokenGrant(NamedTuple):
    """Filters of a token: Fp and Fs."""

    publish: frozenset[str] = frozenset()
    subscribe: frozenset[str] = frozenset()

    @property
    def scope(self) -> str:
        """The grant as OAuth writes it."""
        granted = self._asdict().items()
        return " ".join(f"{what}:{quote(filter, _PLAIN)}" for what, filters in granted for filter in sorted(filters))

    def narrowed(self, scope: str) -> "TokenGrant":
        """Return the grant of the scope, of which each filter must be covered by one of these; raises `ScopeError`."""
        requested = read_scope(scope)
        for what, filters, granted in zip(TokenGrant._fields, requested, self, strict=True):
            for filter in sorted(filters):
                if not any(covers(other, filter) for other in granted):
                    raise ScopeError(f"`{what}:{show(filter)}` is more than what is granted")
        return requested


def read_scope(text: str) -> TokenGrant:
    """Parse the filters of a scope; raises `ScopeError`."""
    if not _SCOPE.fullmatch(text):
        raise ScopeError("expected `publish:FILTER` and `subscribe:FILTER`, with one blank between")
    words = text.split(" ")
    if len(words) > MAX_FILTERS_ASKED:
        raise ScopeError(f"{len(words)} values, more than {MAX_FILTERS_ASKED}")
    filters: dict[str, set[str]] = {name: set() for name in TokenGrant._fields}
    for word in words:
        what, _, filter = word.partition(":")
        if what not in filters:
            raise ScopeError(f"`{show(word)}`: expected `publish:FILTER` or `subscribe:FILTER`")
        filters[what].add(_filter(filter))
    return TokenGrant(*map(frozenset, filters.values()))


def _filter(word: str) -> str:
    try:
        if _ENCODED.search(word):
            raise ScopeError(f"`{show(word)}` has a `%` that encodes nothing")
        parsed = parse_filter(unquote(word, errors="strict"))
    except (UnicodeDecodeError, TopicError) as error:
        raise ScopeError(f"`{show(word)}`: {error}") from None
    if parsed.group is not None:
        raise ScopeError(f"`{show(word)}` is of a shared subscription: ask for what is behind the group")
    return parsed.text
