"""The parser of conditions: recursive descent by hand, for errors that say what was meant (docs/decisions/0015)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.language import tree as ast
from penstock.language.errors import ConditionError
from penstock.language.lexer import LexerToken, tokens
from penstock.language.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT
from penstock.language.values import MAX_INT, TYPE_NAMES

LITERAL_WORDS: dict[str, tuple[str, bool | None]] = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": ("null_type", None),
}

KEYWORDS = frozenset({*LITERAL_WORDS, "in"})
"""Words that are never names."""

RESERVED = frozenset(
    re.findall(
        r"\w+", "as break const continue else for function if import let loop package namespace return var void while"
    )
)
"""Words that CEL keeps for languages around it: they name fields and methods, but no attribute."""

_LEVELS = {
    symbol: level
    for level, symbols in enumerate((("||",), ("&&",), ast.RELATIONS, ast.ADDITIVE, ast.MULTIPLICATIVE))
    for symbol in symbols
}
_JOINING: dict[str, type[ast.And] | type[ast.Or]] = {"&&": ast.And, "||": ast.Or}
_IN_WORDS = {"and": "&&", "or": "||", "not": "!"}
_LITERALS = ("int", "uint", "double", "string", "bytes")


def parse(text: str) -> ast.Tree:
    """Parse a condition; raises `ConditionError`, which shows the place with a caret."""
    if len(text) > MAX_TEXT:
        raise ConditionError(f"a condition has at most {MAX_TEXT} characters, this has {len(text)}", text, MAX_TEXT)
    return parse_words(text, tokens(text))


def parse_words(text: str, words: list[LexerToken]) -> ast.Tree:
    """Parse a condition inside a text from its words and an `end`; raises `ConditionError`."""
    return _ConditionParser(text, words).whole()


class _ConditionParser:
    """A parser with a method for each level of CEL's grammar, from the loosest binding to the tightest."""

    def __init__(self, text: str, words: list[LexerToken]) -> None:
        self._text = text
        self._tokens = words
        self._next = 0
        self._depth = 0
        self._variables: list[str] = []

    def whole(self) -> ast.Tree:
        if self._peek().kind == "end":
            raise self._problem("expected a condition, there is nothing")
        tree = self._expression()
        if self._peek().kind != "end":
            raise self._trailing()
        self._check_size(tree)
        return tree

    def _trailing(self) -> ConditionError:
        for token in self._tokens[self._next - 1 : self._next + 1]:
            if token.text in _IN_WORDS:
                return self._problem(f"`{token.text}` is not an operator; write `{_IN_WORDS[token.text]}`", token.at)
        return self._unexpected("the end")

    def _check_size(self, tree: ast.Tree) -> None:
        for count, (node, depth) in enumerate(ast.walk(tree), 1):
            if depth > MAX_DEPTH:
                raise self._too_deep(node.at)
            if count > MAX_NODES:
                raise self._problem(f"a condition has at most {MAX_NODES} parts", node.at)

    def _expression(self) -> ast.Tree:
        with self._deeper():
            condition = self._operation(0)
            if not (question := self._take("?")):
                return condition
            yes = self._operation(0)
            self._expect(":", "between the two values of `?`")
            return ast.Conditional(condition, yes, self._expression(), at=question.at)

    def _operation(self, loosest: int) -> ast.Tree:
        """Parse operands with operators between them that bind at least so tightly, from the left."""
        tree = self._unary()
        while (token := self._peek()).kind in ("mark", "name") and _LEVELS.get(token.text, -1) >= loosest:
            self._next += 1
            with self._deeper():
                others = [self._operation(_LEVELS[token.text] + 1)]
                while token.text in _JOINING and self._take(token.text):
                    others.append(self._operation(_LEVELS[token.text] + 1))
            tree = _operation(token, tree, others)
        return tree

    def _unary(self) -> ast.Tree:
        token = self._peek()
        if token.kind != "mark" or token.text not in ("!", "-"):
            return self._member()
        if token.text == "-" and self._tokens[self._next + 1].kind in ("int", "double"):
            return self._member()
        self._next += 1
        following = self._peek()
        with self._deeper():
            if following.kind == "mark" and following.text == token.text:
                return ast.Unary(token.text, self._unary(), at=token.at)
            return ast.Unary(token.text, self._member(), at=token.at)

    def _member(self) -> ast.Tree:
        tree = self._primary()
        while True:
            if self._take("."):
                tree = self._selected(tree)
            elif bracket := self._take("["):
                index = self._expression()
                self._close("]", bracket)
                tree = ast.IndexAccess(tree, index, at=bracket.at)
            elif self._peek().text == "{" and isinstance(tree, ast.Attribute | ast.Select | ast.TypeLiteral):
                raise self._problem("a condition cannot make messages; `{` after a name has no meaning")
            else:
                return tree

    def _selected(self, operand: ast.Tree) -> ast.Tree:
        token = self._take_kind("name", "quoted name")
        if token is None or token.text in KEYWORDS:
            raise self._unexpected("a name after `.`", token)
        opening = self._take("(") if token.kind == "name" else None
        if opening is None:
            return _type_or_select(operand, _name_of(token), token.at)
        if token.text in ast.MACROS:
            return self._macro(operand, token, opening)
        return ast.Call(token.text, operand, self._arguments(opening, ")"), at=token.at)

    def _macro(self, operand: ast.Tree, name: LexerToken, opening: LexerToken) -> ast.Tree:
        variable = self._take_kind("name")
        if variable is None or variable.text in KEYWORDS | RESERVED or self._peek().text != ",":
            raise self._problem(
                f"`{name.text}` takes a variable and an expression with it, as in `list.{name.text}(x, x > 1)`", name.at
            )
        if variable.text in TYPE_NAMES:
            raise self._problem(f"`{variable.text}` is a type and cannot be a variable", variable.at)
        self._variables.append(variable.text)
        parts = []
        while self._take(","):
            parts.append(self._expression())
        self._variables.pop()
        self._close(")", opening)
        if len(parts) > (2 if name.text == "map" else 1):
            raise self._problem(f"`{name.text}` has too many arguments", name.at)
        guard = parts[0] if len(parts) == 2 else None
        return ast.Macro(name.text, operand, variable.text, parts[-1], guard, at=name.at)

    def _primary(self) -> ast.Tree:
        token = self._peek()
        self._next += 1
        if token.kind in _LITERALS:
            return self._literal(token, negative=False)
        if token.kind in ("name", "quoted name"):
            return self._named(token)
        if token.kind == "mark":
            match token.text:
                case "-" if self._peek().kind in ("int", "double"):
                    self._next += 1
                    return self._literal(self._tokens[self._next - 1], negative=True)
                case ".":
                    return self._rooted()
                case "(":
                    inner = self._expression()
                    self._close(")", token)
                    return inner
                case "[":
                    return ast.ListOf(self._arguments(token, "]"), at=token.at)
                case "{":
                    return self._map(token)
        raise self._unexpected("a value", token)

    def _literal(self, token: LexerToken, negative: bool) -> ast.Tree:
        value = token.value
        if isinstance(value, int | float) and negative:
            value = -value
        if token.kind == "int" and isinstance(value, int) and value > MAX_INT:
            raise self._problem(f"`{token.text}` is too large for an int", token.at)
        return ast.Literal(token.kind, value, at=token.at - negative)

    def _rooted(self) -> ast.Tree:
        """Parse a name after a leading `.`: always an attribute."""
        token = self._take_kind("name", "quoted name")
        if token is None or token.text in KEYWORDS | RESERVED or self._peek().text == "(":
            raise self._unexpected("the name of an attribute after `.`", token)
        return ast.Attribute(_name_of(token), at=token.at)

    def _named(self, token: LexerToken) -> ast.Tree:
        if token.text in LITERAL_WORDS:
            kind, value = LITERAL_WORDS[token.text]
            return ast.Literal(kind, value, at=token.at)
        if token.text in KEYWORDS:
            raise self._unexpected("a value", token)
        if token.text in RESERVED:
            raise self._problem(
                f"`{token.text}` is a reserved word; an attribute of that name goes in backticks", token.at
            )
        if token.kind == "name" and (opening := self._take("(")):
            return self._called(token, opening)
        if token.text in self._variables:
            return ast.Variable(token.text, at=token.at)
        if token.text in TYPE_NAMES:
            return ast.TypeLiteral(token.text, at=token.at)
        return ast.Attribute(_name_of(token), at=token.at)

    def _called(self, name: LexerToken, opening: LexerToken) -> ast.Tree:
        arguments = self._arguments(opening, ")")
        if name.text == "has":
            return self._has(name, arguments)
        if name.text == "xpath":
            match arguments:
                case (ast.Literal("string", str(expression)),):
                    return ast.XPath(expression, at=name.at)
                case _:
                    raise self._problem("`xpath` takes one string, written out", name.at)
        return ast.Call(name.text, None, arguments, at=name.at)

    def _has(self, name: LexerToken, arguments: tuple[ast.Tree, ...]) -> ast.Tree:
        match arguments:
            case (ast.Attribute(attribute),):
                return ast.Has(None, attribute, at=name.at)
            case (ast.Select(operand, field),):
                return ast.Has(operand, field, at=name.at)
            case (ast.Variable(variable),):
                raise self._problem(f"`{variable}` is a variable of a macro, which is always there", arguments[0].at)
            case _:
                raise self._problem("`has` takes one attribute or one field, as in `has(a)` or `has(a.b)`", name.at)

    def _arguments(self, opening: LexerToken, closing: str) -> tuple[ast.Tree, ...]:
        """Parse expressions with commas between them; a comma after the last is allowed in a list, as in CEL."""
        items: list[ast.Tree] = []
        while not self._take(closing):
            if items:
                self._comma(opening, closing)
                if closing == "]" and self._take(closing):
                    break
            items.append(self._expression())
        return tuple(items)

    def _map(self, opening: LexerToken) -> ast.Tree:
        entries: list[tuple[ast.Tree, ast.Tree]] = []
        while not self._take("}"):
            if entries:
                self._comma(opening, "}")
                if self._take("}"):
                    break
            key = self._expression()
            self._expect(":", "after the key of a map")
            entries.append((key, self._expression()))
        return ast.MapOf(tuple(entries), at=opening.at)

    def _comma(self, opening: LexerToken, closing: str) -> None:
        if self._peek().kind == "end":
            raise self._problem(f"this `{opening.text}` is not closed", opening.at)
        self._expect(",", f"or `{closing}`")

    def _close(self, closing: str, opening: LexerToken) -> None:
        if self._peek().kind == "end":
            raise self._problem(f"this `{opening.text}` is not closed", opening.at)
        self._expect(closing, f"to close `{opening.text}`")

    def _expect(self, mark: str, where: str) -> None:
        if not self._take(mark):
            raise self._unexpected(f"`{mark}` {where}")

    def _take(self, mark: str) -> LexerToken | None:
        token = self._peek()
        if token.kind != "mark" or token.text != mark:
            return None
        self._next += 1
        return token

    def _take_kind(self, *kinds: str) -> LexerToken | None:
        token = self._peek()
        if token.kind not in kinds:
            return None
        self._next += 1
        return token

    def _peek(self) -> LexerToken:
        return self._tokens[self._next]

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._too_deep(self._peek().at)
        yield
        self._depth -= 1

    def _too_deep(self, at: int) -> ConditionError:
        return self._problem(f"more than {MAX_DEPTH} expressions inside each other", at)

    def _unexpected(self, expected: str, token: LexerToken | None = None) -> ConditionError:
        token = token or self._peek()
        shown = "the end" if token.kind == "end" else f"`{token.text}`"
        return self._problem(f"expected {expected}, found {shown}", token.at)

    def _problem(self, what: str, at: int | None = None) -> ConditionError:
        return ConditionError(what, self._text, self._peek().at if at is None else at)


def _operation(token: LexerToken, left: ast.Tree, others: list[ast.Tree]) -> ast.Tree:
    joining = _JOINING.get(token.text)
    if joining is None:
        return ast.Binary(token.text, left, others[0], at=token.at)
    return joining(ast.flat(joining, (left, *others)), at=left.at if isinstance(left, joining) else token.at)


def _name_of(token: LexerToken) -> str:
    return token.value if isinstance(token.value, str) else token.text


def _type_or_select(operand: ast.Tree, name: str, at: int) -> ast.Tree:
    match operand:
        case ast.Select(ast.Attribute("google"), "protobuf") if f"google.protobuf.{name}" in TYPE_NAMES:
            return ast.TypeLiteral(f"google.protobuf.{name}", at=at)
        case _:
            return ast.Select(operand, name, at=at)
