"""Policy statements as lists and maps: their form in YAML and JSON.

A rule is a map of `on`, the qualifiers under their names, `rules` (its clauses, each with `if` and `then`) and
`on_exception`. Conditions and actions are texts as in the language.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.language.errors import StatementError
from penstock.language.limits import MAX_ACTIONS, MAX_CLAUSES, MAX_RULES, MAX_STATEMENT
from penstock.language.printer import show
from penstock.language.statements import statement as ast
from penstock.language.statements.parser import check_canonical, parse_actions, parse_condition
from penstock.language.statements.printer import qualifiers, show_use
from penstock.language.statements.words import E, Fail, not_one_of, one_of, points_of, shown, too_many

_CLAUSE = ("if", "then")
_RULE = ("on", "matching", "broker", "attach", "yield_attach", "rules", *_CLAUSE, "on_exception")


def to_plain(statement: ast.Statement) -> list[dict[str, Any]]:
    """Return the plain form of a statement, without defaults."""
    return [_plain_rule(rule) for rule in statement.rules]


def from_plain(value: object) -> ast.Statement:
    """Return the statement of a plain form; raises `StatementError`, which names the path in the value."""
    statement = ast.Statement(_PlainReader().rules(value))
    check_canonical(statement)
    return statement


def _plain_rule(rule: ast.StatementRule) -> dict[str, Any]:
    plain: dict[str, Any] = {"on": [str(rule.verb), str(rule.message)], **qualifiers(rule)}
    if "broker" in plain:
        plain["broker"] = [str(point) for point in rule.points]
    if rule.yields:
        plain["yield_attach"] = True
    clauses = [_plain_clause(clause) for clause in rule.clauses]
    plain |= clauses[0] if len(clauses) == 1 else {"rules": clauses}
    if rule.on_exception:
        plain["on_exception"] = [_plain_clause(clause) for clause in rule.on_exception]
    return plain


def _plain_clause(clause: ast.StatementClause) -> dict[str, Any]:
    then = {"then": [show_use(use) for use in clause.actions]}
    return then if clause.condition is None else {"if": show(clause.condition), **then}


class _PlainReader:
    """A reader of one value that counts the characters of its texts."""

    def __init__(self) -> None:
        self._characters = 0

    def rules(self, value: object) -> tuple[ast.StatementRule, ...]:
        rules = _filled_list(value, "", "rules", MAX_RULES, "a policy statement")
        return tuple(self._rule(rule, f"[{index}]") for index, rule in enumerate(rules))

    def _rule(self, value: object, path: str) -> ast.StatementRule:
        rule = _map(value, path, _RULE)
        if "on" not in rule:
            raise _at(path)("there is no `on`; it says what a rule is about, as in `[Forward, Publication]`")
        verb, message = self._on(rule["on"], f"{path}.on")
        points: tuple[ast.Point, ...] = ast.ANYWHERE
        matching, attach, yields = ast.Matching.AFTER, ast.Attach.NEVER, False
        if "matching" in rule:
            matching = self._one_of(ast.Matching, rule["matching"], f"{path}.matching")
        if "broker" in rule:
            points = points_of(self._words(rule["broker"], f"{path}.broker"), _at(f"{path}.broker"))
        if "attach" in rule:
            attach = self._one_of(ast.Attach, rule["attach"], f"{path}.attach")
        if "yield_attach" in rule:
            yields = _truth(rule["yield_attach"], f"{path}.yield_attach")
        clauses = self._own_clauses(rule, path)
        on_exception: tuple[ast.StatementClause, ...] = ()
        if "on_exception" in rule:
            on_exception = self._chain(rule["on_exception"], f"{path}.on_exception")
        return ast.StatementRule(verb, message, clauses, matching, points, attach, yields, on_exception)

    def _on(self, value: object, path: str) -> tuple[ast.Verb, ast.Message]:
        words = self._words(value, path)
        if len(words) != 2:
            raise _at(path)("expected what happens and the kind of message, as in `[Forward, Publication]`")
        return one_of(ast.Verb, words[0], _at(path)), one_of(ast.Message, words[1], _at(path))

    def _own_clauses(self, rule: Mapping[str, object], path: str) -> tuple[ast.StatementClause, ...]:
        """Return the clauses of a rule: a list, or the only one."""
        if "rules" not in rule:
            return (self._clause({key: rule[key] for key in _CLAUSE if key in rule}, path),)
        if "if" in rule or "then" in rule:
            raise _at(path)("a rule has either `rules`, or `if` and `then`")
        return self._chain(rule["rules"], f"{path}.rules")

    def _chain(self, value: object, path: str) -> tuple[ast.StatementClause, ...]:
        clauses = _filled_list(value, path, "clauses", MAX_CLAUSES, "a chain")
        return tuple(self._clause(clause, f"{path}[{index}]") for index, clause in enumerate(clauses))

    def _clause(self, value: object, path: str) -> ast.StatementClause:
        clause = _map(value, path, _CLAUSE)
        if "then" not in clause:
            raise _at(path)("there is no `then`; `then: []` does nothing")
        condition = None
        if "if" in clause:
            condition = parse_condition(self._text(clause["if"], f"{path}.if"), f"`{path}.if`")
        return ast.StatementClause(condition, self._actions(clause["then"], f"{path}.then"))

    def _actions(self, value: object, path: str) -> tuple[ast.ElementUse, ...]:
        if isinstance(value, str):
            return parse_actions(self._text(value, path), f"`{path}`")
        texts = _list(value, path, "actions")
        uses: list[ast.ElementUse] = []
        for index, text in enumerate(texts):
            inner = f"{path}[{index}]"
            uses += parse_actions(self._text(text, inner), f"`{inner}`")
            if len(uses) > MAX_ACTIONS:
                raise _at(path)(too_many("a clause", MAX_ACTIONS, "actions"))
        return tuple(uses)

    def _one_of(self, kind: type[E], value: object, path: str) -> E:
        return one_of(kind, self._text(value, path), _at(path))

    def _words(self, value: object, path: str) -> list[str]:
        """Return words from a list, or from one text with commas or blanks between them."""
        if isinstance(value, str):
            return re.findall(r"[^\s,]+", self._text(value, path))
        return [self._text(word, f"{path}[{index}]") for index, word in enumerate(_list(value, path, "words")[:4])]

    def _text(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            raise _at(path)(f"expected a text, found {_kind(value)}")
        self._characters += len(value)
        if self._characters > MAX_STATEMENT:
            raise _at(path)(f"a policy statement has at most {MAX_STATEMENT} characters")
        return value


def _list(value: object, path: str, of: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _at(path)(f"expected a list of {of}, found {_kind(value)}")
    return value


def _filled_list(value: object, path: str, of: str, maximum: int, whole: str) -> Sequence[object]:
    items = _list(value, path, of)
    if not items:
        raise _at(path)(f"expected a list of {of}, it is empty")
    if len(items) > maximum:
        raise _at(path)(too_many(whole, maximum, of))
    return items


def _map(value: object, path: str, known: Sequence[str]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _at(path)(f"expected a map, found {_kind(value)}")
    result: dict[str, object] = {}
    for key, inner in value.items():
        # In YAML 1.1 an `on` without quotation marks is true.
        name = "on" if key is True and "on" in known and "on" not in value else key
        if not isinstance(name, str) or name not in known:
            raise _at(path)(not_one_of(name if isinstance(name, str) and name else str(name)[:100] or "''", known))
        result[name] = inner
    return result


def _truth(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise _at(path)(f"expected true or false, found {_kind(value)}")
    return value


def _kind(value: object) -> str:
    match value:
        case str():
            return shown(value) if value else "an empty text"
        case None:
            return "nothing"
        case bool() | int() | float():
            return shown(str(value).lower() if isinstance(value, bool) else str(value))
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _at(path: str) -> Fail:
    """Return a function that makes errors at a path; an empty path is the whole value."""

    def fail(what: str) -> StatementError:
        return StatementError(what, f"at `{path}`" if path else "")

    return fail
