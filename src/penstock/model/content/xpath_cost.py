"""A check of what an XPath expression may ask, and how its cost grows with the document.

Expressions come from clients, and nothing stops one that is being evaluated. So its cost is estimated before, rather
too high than too low: it grows with a power of the document's size, by the way that libxml2 evaluates it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.errors import ContentError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<literal> "[^"]*" | '[^']*' )
    | (?P<number> \d+(?:\.\d*)? | \.\d+ )
    | (?P<name> [^\W\d][\w.\-\u00b7]* )
    | (?P<sign> // | :: | \.\. | != | <= | >= | [/.:@()\[\],|+\-=<>*$] )
    )""",
    re.VERBOSE,
)

FUNCTIONS = frozenset(
    {
        *("last", "position", "count", "id", "local-name", "namespace-uri", "name"),
        *("string", "concat", "starts-with", "contains", "substring-before", "substring-after", "substring"),
        *("string-length", "normalize-space", "translate"),
        *("boolean", "not", "true", "false", "lang"),
        *("number", "sum", "floor", "ceiling", "round"),
    }
)
_NODE_TESTS = frozenset({"comment", "text", "processing-instruction", "node"})
OPERATOR_NAMES = frozenset({"and", "or", "div", "mod"})
ENDS = frozenset({")", "]", ".", "..", "*"})
"""Signs that an operand may end with."""
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})

_AXES = {
    **dict.fromkeys(("parent", "ancestor", "ancestor-or-self", "descendant", "descendant-or-self"), 1),
    **dict.fromkeys(("following", "following-sibling", "preceding", "preceding-sibling", "namespace"), 2),
}
"""Axes that lead from many nodes to many nodes, and the power that this adds: what they find is united, slowly."""

_SEARCHES = frozenset({"contains", "substring-before", "substring-after"})


class Cost(NamedTuple):
    """An upper bound on the cost of an expression: for each of its steps, a power of the document's size."""

    steps: int
    power: int

    def over(self, size: int) -> int:
        return self.steps * int(size**self.power)


class XPathToken(NamedTuple):
    """A word or sign of an expression: literal, number, name or sign."""

    kind: str
    text: str


_NONE = XPathToken("", "")
_CONCAT = XPathToken("name", "concat")


def cost(expression: str, prefixes: frozenset[str] = frozenset()) -> Cost:
    """Return the cost of an XPath expression.

    Raises `ContentError` for functions that XPath 1.0 has not, and for variables and other prefixes than these, which
    mean nothing here.
    """
    tokens = list(tokens_of(expression))
    powers = _Estimate(tokens, prefixes | {"xml"}).powers()
    pieces = sum(token.text == "," for token in tokens) if _CONCAT in tokens else 1  # libxml2 copies all for each
    return Cost(len(tokens) * pieces, 1 + sum(powers))


def tokens_of(expression: str) -> Iterator[XPathToken]:
    """Yield the words and signs of an expression; raises `ContentError`."""
    at, end = 0, len(expression.rstrip())
    while at < end:
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ContentError(f"there is nothing in XPath that begins with `{expression[at]}`")
        kind = match.lastgroup or ""
        yield XPathToken(kind, match[kind])
        at = match.end()


class _Estimate:
    """Goes through an expression once, and finds the power that each level of predicates adds.

    What stands in a predicate is evaluated for each node that it is about. So the powers of predicates inside each
    other add up; of what is beside each other the largest counts. A predicate that only looks further down adds
    nothing: all subtrees of a document together are the document, as often as it is deep.
    """

    def __init__(self, tokens: list[XPathToken], prefixes: frozenset[str]) -> None:
        self._tokens = tokens
        self._prefixes = prefixes
        self._powers = [0]
        self._level = 0
        self._calls: list[str] = []

    def powers(self) -> list[int]:
        after_operand = False
        for at, token in enumerate(self._tokens):
            is_operator = after_operand and (token.text == "*" or token.text in OPERATOR_NAMES)
            if not is_operator and token.kind == "name":
                self._name(at)
            elif not is_operator and token.kind == "sign":
                self._sign(at, after_operand)
            after_operand = not is_operator and (token.kind != "sign" or token.text in ENDS)
        return self._powers

    def _at(self, at: int) -> XPathToken:
        return self._tokens[at] if 0 <= at < len(self._tokens) else _NONE

    def _add(self, power: int) -> None:
        self._powers[self._level] = max(self._powers[self._level], power)

    def _name(self, at: int) -> None:
        name, after = self._at(at).text, self._at(at + 1).text
        if self._at(at - 1).text == "$":
            raise ContentError(f"`${name}`: there are no variables here")
        if after == ":" and name not in self._prefixes:
            what = "this prefix is not declared" if len(self._prefixes) > 1 else "there are no prefixes here"
            raise ContentError(f"`{name}:`: {what}, compare `local-name()` instead")
        if after == "(" and name not in FUNCTIONS and name not in _NODE_TESTS:
            raise ContentError(f"`{name}` is not a function of XPath 1.0")
        if after == "::":
            self._add(_AXES.get(name, 0))

    def _sign(self, at: int, after_operand: bool) -> None:
        sign, before, after = self._at(at).text, self._at(at - 1), self._at(at + 1)
        is_in_predicate = self._level > 0
        if sign == "[":
            self._level += 1
            self._powers += [0] * (self._level + 1 - len(self._powers))
        elif sign == "]":
            self._level = max(0, self._level - 1)
        elif sign == "(":
            self._calls.append(before.text if before.kind == "name" else "")
        elif sign == ")":
            self._call_ends(at)
        elif sign in ("..", "|"):
            self._add(1)
        elif sign == "//":
            is_from_here = before.text == "." and self._at(at - 2).text not in ("/", "//")
            self._add(0 if is_from_here else int(after_operand or is_in_predicate))
        elif sign == "/":
            self._add(int(is_in_predicate and not after_operand))  # the whole document, for each node
        elif sign in _COMPARISONS:
            self._add(0 if {before.kind, after.kind} & {"literal", "number"} else 1)

    def _call_ends(self, at: int) -> None:
        """Add the cost of a call: searching a text of the document for another takes the product of their lengths."""
        function = self._calls.pop() if self._calls else ""
        is_for_literal = self._at(at - 1).kind == "literal"
        if function in _SEARCHES and not is_for_literal:
            self._add(2)
        elif function == "translate":
            self._add(1 if is_for_literal and self._at(at - 3).kind == "literal" else 2)
