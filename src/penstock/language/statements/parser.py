"""The parser of policy statements: recursive descent by hand, as for conditions (docs/decisions/0015)."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.language import limits
from penstock.language.errors import ConditionError, StatementError
from penstock.language.lexer import LexerToken, skip_space, token_at
from penstock.language.parser import parse_words
from penstock.language.printer import show
from penstock.language.statements import statement as ast
from penstock.language.statements.printer import BARE, NOT_BARE, TRUTHS, show_compact, show_statement
from penstock.language.statements.words import E, clipped, in_order, not_one_of, one_of, shown, too_many, twice
from penstock.language.tree import Tree
from penstock.language.values import MAX_INT

T = TypeVar("T")

# Characters that XML cannot carry (XML 1.0 §2.2) are refused in text too, so that all forms can say the same.
_NO_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORD = re.compile(r"@?[A-Za-z_][A-Za-z0-9_]*|[0-9]+|.", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELSE = ("Elseif", "ElseIf")
_MATCHING = ("@matching", "@match")
_QUALIFIERS = ("@matching", "@broker", "@attach", "@yield_attach")
_STRUCTURE = frozenset({"PolicyStatement", "On", "If", "Then", *_ELSE, "OnException"})
_ARGUMENT = "an argument (a name, a number, `true`, `false` or a text in quotation marks)"
_END = LexerToken("end", "", 0)


def parse_statement(text: str) -> ast.Statement:
    """Parse a statement; raises `StatementError`, which shows the place with a caret."""
    statement = _StatementParser(text).whole()
    check_canonical(statement)
    return statement


def parse_condition(text: str, of: str = "") -> Tree | None:
    """Parse the condition of a clause from its own text; errors call that text `of`."""
    return _StatementParser(text, of).only(_StatementParser.condition)


def parse_actions(text: str, of: str = "") -> tuple[ast.ElementUse, ...]:
    """Parse the actions of a clause from their own text."""
    return _StatementParser(text, of).only(_StatementParser.actions)


def parse_argument(text: str, of: str = "") -> ast.Argument:
    """Parse an argument from its own text."""
    return _StatementParser(text, of).only(_StatementParser.argument)


def check_canonical(statement: ast.Statement) -> None:
    """Raise `StatementError` if a canonical form, in which a statement is stored and shown, is too long."""
    if (length := max(len(show_statement(statement)), len(show_compact(statement)))) > limits.MAX_STATEMENT:
        raise StatementError(
            f"a policy statement has at most {limits.MAX_STATEMENT} characters, this has {length} in canonical form"
        )


class _StatementParser:
    """A parser with a method for each part of the grammar; its position is always at the beginning of a word."""

    def __init__(self, text: str, of: str = "") -> None:
        self._text = text
        self._of = of
        self._at = 0
        if len(text) > limits.MAX_STATEMENT:
            raise self._too_long("a policy statement", limits.MAX_STATEMENT, len(text), limits.MAX_STATEMENT)
        if wrong := _NO_TEXT.search(text):
            raise self._problem(f"character U+{ord(wrong[0]):04X} has no place in a policy", wrong.start())
        self._go_on(0)

    def whole(self) -> ast.Statement:
        self._keyword("PolicyStatement")
        opening = self._mark("{", "after `PolicyStatement`")
        rules: list[ast.StatementRule] = []
        while not rules or not self._closes(opening, ("On",)):
            self._count(len(rules) + 1, limits.MAX_RULES, "a policy statement", "rules")
            rules.append(self._rule())
        self._end()
        return ast.Statement(tuple(rules))

    def only(self, read: "Callable[[_StatementParser], T]") -> T:
        """Parse a part of the grammar that is the whole text."""
        part = read(self)
        self._end()
        return part

    def _end(self) -> None:
        if word := self._peek():
            extra = "; there is one `}` too many" if word == "}" else ""
            raise self._problem(f"expected the end, found {shown(word)}{extra}")

    def _rule(self) -> ast.StatementRule:
        at = self._keyword("On")
        bracket = self._mark("(", "after `On`")
        verb = self._one_of(ast.Verb)
        self._mark(",", "between what happens and the kind of message, as in `On(Forward, Publication)`")
        message = self._one_of(ast.Message)
        self._mark(")", "after the kind of message", bracket)
        opening = self._mark("{", "after `On(...)`")
        matching, points, attach, yields = self._qualifiers()
        clauses = self._chain(opening)
        on_exception: tuple[ast.StatementClause, ...] = ()
        if not self._closes(opening, ("Elseif", "OnException")):
            self._go_past()
            inner = self._mark("{", "after `OnException`")
            on_exception = self._chain(inner)
            self._closes(inner, ("Elseif",))
            if self._peek() in ("If", *_ELSE, "OnException"):
                raise self._problem("`OnException` is the last part of a rule, and there is one at most")
            self._closes(opening, ())
        return ast.StatementRule(verb, message, clauses, matching, points, attach, yields, on_exception, at=at)

    def _qualifiers(self) -> tuple[ast.Matching, tuple[ast.Point, ...], ast.Attach, bool]:
        matching, attach, yields = ast.Matching.AFTER, ast.Attach.NEVER, False
        points: tuple[ast.Point, ...] = ast.ANYWHERE
        seen: set[str] = set()
        while (word := self._peek()).startswith("@"):
            name = _MATCHING[0] if word in _MATCHING else word
            if name not in _QUALIFIERS:
                raise self._problem(not_one_of(word, _QUALIFIERS))
            if name in seen:
                raise self._problem(f"there is a second `{name}`")
            seen.add(name)
            self._go_past()
            self._mark(":", f"after `{word}`")
            match name:
                case "@matching":
                    matching = self._one_of(ast.Matching)
                case "@broker":
                    points = self._points()
                case "@attach":
                    attach = self._one_of(ast.Attach)
                case _:
                    yields = self._choice(("False", "True")) == "True"
        return matching, points, attach, yields

    def _points(self) -> tuple[ast.Point, ...]:
        """Parse points with commas between them; more of them may follow in parentheses."""
        points = self._listed_points(())
        while self._peek() == "(":
            bracket = self._go_past()
            points = self._listed_points(points)
            self._mark(")", "after the points in parentheses", bracket)
        if self._peek() in list(ast.Point):
            raise self._problem("points are separated by commas")
        return in_order(points)

    def _listed_points(self, points: tuple[ast.Point, ...]) -> tuple[ast.Point, ...]:
        while True:
            at = self._at
            point = self._one_of(ast.Point)
            if point in points:
                raise self._problem(twice(point), at)
            points = (*points, point)
            if self._peek() != ",":
                return points
            self._go_past()

    def _chain(self, around: int) -> tuple[ast.StatementClause, ...]:
        """Parse `If` and any number of `Elseif`."""
        if not self._peek():
            raise self._unclosed(around)
        clauses = [self._clause(self._keyword("If"))]
        while self._peek() in _ELSE:
            self._count(len(clauses) + 1, limits.MAX_CLAUSES, "a chain", "clauses")
            clauses.append(self._clause(self._go_past()))
        match self._peek():
            case "Else":
                raise self._problem("`Else` is not known; what is done otherwise is `Elseif {} Then {...}`")
            case "If":
                raise self._problem("a chain has one `If`, at its beginning; the others are `Elseif`")
            case qualifier if qualifier.startswith("@"):
                raise self._problem("qualifiers stand before `If`")
        return tuple(clauses)

    def _clause(self, at: int) -> ast.StatementClause:
        opening = self._mark("{", "before the condition")
        condition = self.condition(opening)
        self._mark("}", "after the condition", opening)
        self._keyword("Then")
        opening = self._mark("{", "before the actions")
        actions = self.actions()
        self._mark("}", "or `,` after an action", opening)
        return ast.StatementClause(condition, actions, at=at)

    def condition(self, opening: int | None = None) -> Tree | None:
        """Parse a condition, up to the end of the text or to the closing brace."""
        start, words, depth = self._at, list[LexerToken](), 0
        try:
            while self._at < len(self._text) and (self._text[self._at] != "}" or depth):
                word, end = token_at(self._text, self._at)
                self._go_on(end)
                if word.kind == "mark":
                    depth += (word.text == "{") - (word.text == "}")
                elif word.text in _STRUCTURE and opening is not None and self._peek() == "{":
                    raise self._unclosed(opening)
                words.append(word)
            if not words:
                return None
            if opening is not None and self._at == len(self._text):
                raise self._unclosed(opening)
            if self._at - start > limits.MAX_TEXT:
                raise self._too_long("a condition", limits.MAX_TEXT, self._at - start, start)
            tree = parse_words(self._text, [*words, LexerToken("end", "", self._at)])
        except ConditionError as error:
            raise self._problem(clipped(error.what), error.at) from None
        if (length := len(show(tree))) > limits.MAX_TEXT:
            raise self._too_long("a condition", limits.MAX_TEXT, length, start, " in canonical form")
        return tree

    def actions(self) -> tuple[ast.ElementUse, ...]:
        """Parse elements with commas between them, or none."""
        uses: list[ast.ElementUse] = []
        while uses or self._peek() not in ("", "}"):
            self._count(len(uses) + 1, limits.MAX_ACTIONS, "a clause", "actions")
            uses.append(self._use())
            if self._peek() == ";":
                raise self._problem("actions are separated by commas")
            if self._peek() != ",":
                break
            self._go_past()
        return tuple(uses)

    def _use(self) -> ast.ElementUse:
        if not _NAME.fullmatch(name := self._peek()):
            raise self._problem(f"expected an action, such as `BlockMessage()`, found {shown(name)}")
        at = self._go_past()
        bracket = self._mark("(", f"after {shown(name)}")
        arguments: list[ast.Argument] = []
        while arguments or self._peek() != ")":
            self._count(len(arguments) + 1, limits.MAX_ARGUMENTS, "an action", "arguments")
            arguments.append(self.argument(bracket))
            if self._peek() != ",":
                break
            self._go_past()
        self._mark(")", "or `,` after an argument", bracket)
        return ast.ElementUse(name, tuple(arguments), at=at)

    def argument(self, bracket: int | None = None) -> ast.Argument:
        """Parse one argument; `bracket` is the position of the opening parenthesis."""
        at = self._at
        if not (first := self._peek()) and bracket is not None:
            raise self._unclosed(bracket)
        match = BARE.match(self._text, at)
        if match and self._text[match.end() : match.end() + 1] not in ("'", '"'):  # else it is as in r'...'
            self._go_on(match.end())
            return self._bare(match[0], at)
        try:
            token, end = token_at(self._text, at + (first in ("-", "+")), over_lines=True) if first else (_END, at)
        except ConditionError as error:
            raise self._problem(clipped(error.what), error.at) from None
        if token.kind in ("int", "double"):
            value = self._number(token, negative=first == "-")
        elif token.at == at and token.kind in ("string", "quoted name"):
            value = self._string(str(token.value), at)
        else:
            raise self._problem(f"expected {_ARGUMENT}, found {shown(self._text[at:end])}")
        self._go_on(end)
        return value

    def _bare(self, word: str, at: int) -> ast.Argument:
        if word in TRUTHS:
            return TRUTHS[word]
        if word in NOT_BARE:
            raise self._problem(f"`{word}` is written `{word.lower()}`, or in quotation marks if it is a name", at)
        return self._string(word, at)

    def _number(self, token: LexerToken, negative: bool) -> ast.Argument:
        assert isinstance(token.value, int | float)
        if isinstance(token.value, int) and token.value > MAX_INT + negative:
            raise self._problem(f"`{token.text}` is too large for an int", token.at)
        return -token.value if negative else token.value

    def _string(self, value: str, at: int) -> str:
        if len(value) > limits.MAX_STRING:
            raise self._too_long("an argument", limits.MAX_STRING, len(value), at)
        return value

    def _one_of(self, kind: type[E]) -> E:
        member = one_of(kind, self._peek(), self._problem)
        self._go_past()
        return member

    def _choice(self, known: Sequence[str]) -> str:
        word = self._peek()
        if word not in known:
            raise self._problem(not_one_of(word, known))
        self._go_past()
        return word

    def _keyword(self, expected: str) -> int:
        at = self._at
        self._choice((expected,))
        return at

    def _mark(self, mark: str, where: str, opening: int | None = None) -> int:
        """Take a mark. If the text ends instead, the error names the bracket that it would close."""
        if (word := self._peek()) == mark:
            return self._go_past()
        if not word and opening is not None:
            raise self._unclosed(opening)
        raise self._problem(f"expected `{mark}` {where}, found {shown(word)}")

    def _closes(self, opening: int, otherwise: Sequence[str]) -> bool:
        """Take a closing brace and return true; return false before one of the other words, else raise."""
        word = self._peek()
        if not word:
            raise self._unclosed(opening)
        if word not in (*otherwise, "}"):
            raise self._problem(not_one_of(word, (*otherwise, "}")))
        if word == "}":
            self._go_past()
        return word == "}"

    def _peek(self) -> str:
        """Return the next word or mark, the empty text at the end."""
        match = _WORD.match(self._text, self._at)
        return match[0] if match else ""

    def _go_past(self) -> int:
        """Skip the next word, and return its position."""
        at = self._at
        self._go_on(at + len(self._peek()))
        return at

    def _go_on(self, at: int) -> None:
        self._at = skip_space(self._text, at)

    def _count(self, count: int, maximum: int, of: str, what: str) -> None:
        if count > maximum:
            raise self._problem(too_many(of, maximum, what))

    def _unclosed(self, opening: int) -> StatementError:
        return self._problem(f"this `{self._text[opening]}` is not closed", opening)

    def _too_long(self, what: str, maximum: int, length: int, at: int, how: str = "") -> StatementError:
        return self._problem(f"{what} has at most {maximum} characters, this has {length}{how}", at)

    def _problem(self, what: str, at: int | None = None) -> StatementError:
        return StatementError.in_text(what, self._text, self._at if at is None else at, self._of)
