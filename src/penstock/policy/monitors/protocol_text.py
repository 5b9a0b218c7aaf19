"""The text of a protocol: which events follow which.

    AC_request (AC_grant DL_unlock? | AC_deny)

Events stand one after the other; `|` is either, `?` none or one, `*` any number, `+` at least one; parentheses group.
An event is a topic or a topic filter, in quotes if it has one of `()|?*+"'` or a space in it.
"""

import re
from dataclasses import dataclass

from penstock.model.errors import PolicyError
from penstock.model.width import columns
from penstock.policy.monitors.template import check_edge


@dataclass(frozen=True, slots=True)
class ProtocolEvent:
    """One event, by topic filter."""

    filter: str


@dataclass(frozen=True, slots=True)
class EventSequence:
    """Parts one after the other."""

    items: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class EventChoice:
    """One of several parts."""

    items: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class EventRepeat:
    """A part with `?`, `*` or `+`."""

    item: "Tree"
    operator: str


Tree = ProtocolEvent | EventSequence | EventChoice | EventRepeat

MAX_DEPTH = 50
"""Parentheses inside parentheses."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"[^"]*"|'[^']*')
      | (?P<word>[^\s()|?*+"']+)
      | (?P<mark>[()|?*+])
      | (?P<bad>\S)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int
    end: int


def parse_protocol(text: str) -> Tree:
    """Return the tree of a protocol; raises `PolicyError`, which shows the place with a caret."""
    parser = _ProtocolParser(text)
    tree = parser.choice(0)
    parser.expect_end()
    return tree


def events_of(tree: Tree) -> tuple[str, ...]:
    """Return the events of a protocol, each once, in the order in which they stand."""
    match tree:
        case ProtocolEvent(filter):
            return (filter,)
        case EventRepeat(item, _):
            return events_of(item)
        case _:
            return tuple(dict.fromkeys(event for item in tree.items for event in events_of(item)))


class _ProtocolParser:
    """Recursive descent, one method for each level of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0

    def choice(self, depth: int) -> Tree:
        items = [self._sequence(depth)]
        while self._take("|"):
            items.append(self._sequence(depth))
        return items[0] if len(items) == 1 else EventChoice(tuple(items))

    def expect_end(self) -> None:
        token = self._peek()
        if token is not None:  # only `)` ends a choice early
            raise _problem(self._text, token.at, "this closes nothing")

    def _sequence(self, depth: int) -> Tree:
        items = []
        while (token := self._peek()) is not None and token.text not in ("|", ")"):
            items.append(self._repeated(depth))
        if not items:
            raise _problem(self._text, self._at(), "expected an event here")
        return items[0] if len(items) == 1 else EventSequence(tuple(items))

    def _repeated(self, depth: int) -> Tree:
        item = self._single(depth)
        while (token := self._peek()) is not None and token.kind == "mark" and token.text in "?*+":
            self._next += 1
            item = EventRepeat(item, token.text)
        return item

    def _single(self, depth: int) -> Tree:
        token = self._tokens[self._next]
        self._next += 1
        if token.text == "(":
            if depth == MAX_DEPTH:
                raise _problem(self._text, token.at, f"more than {MAX_DEPTH} parentheses inside each other")
            inner = self.choice(depth + 1)
            if not self._take(")"):
                raise _problem(self._text, token.at, "this is not closed")
            return inner
        if token.kind == "mark":
            raise _problem(self._text, token.at, f"expected an event before `{token.text}`")
        text = token.text[1:-1] if token.kind == "quoted" else token.text
        if text == "*":
            raise _problem(self._text, token.at, "`*` is not an event; write `#` for any topic")
        try:
            return ProtocolEvent(check_edge(text))
        except PolicyError as error:
            raise _problem(self._text, token.at, str(error)) from None

    def _take(self, mark: str) -> bool:
        token = self._peek()
        if token is None or token.kind != "mark" or token.text != mark:
            return False
        self._next += 1
        return True

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _at(self) -> int:
        token = self._peek()
        return len(self._text) if token is None else token.at


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token = _Token(kind, match[kind], match.start(kind), match.end(kind))
        if kind == "bad":
            raise _problem(text, token.at, "this quotation does not end")
        if tokens and token.at == tokens[-1].end and _is_unquoted_filter(tokens[-1], token):
            raise _problem(text, token.at, "put a topic filter with wildcards in quotes")
        tokens.append(token)
    return tokens


def _is_unquoted_filter(before: _Token, token: _Token) -> bool:
    """Return whether two adjacent tokens look like a filter (`home/+/x`), which would be parsed differently."""
    if before.kind == "word":
        return token.text == "+" and before.text.endswith("/")
    return before.kind == "mark" and before.text in "?*+" and token.kind in ("word", "quoted")


def _problem(text: str, at: int, what: str) -> PolicyError:
    shown = re.sub(r"\s", " ", text)
    return PolicyError(f"{what}, at character {at + 1}\n  {shown}\n  {' ' * columns(shown[:at])}^")
