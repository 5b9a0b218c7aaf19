"""The printer of policy statements: the canonical forms, which parse to the same statement."""

import re

from penstock.language.printer import show, show_character
from penstock.language.statements import statement as ast

BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*")
"""An argument that needs no quotation marks."""

TRUTHS = {"true": True, "false": False}
NOT_BARE = frozenset({*TRUTHS, "True", "False"})
"""Words that look like a name but are, or may be taken for, something else."""

_WIDTH = 100


def show_statement(statement: ast.Statement) -> str:
    """Return a statement on several lines, as the paper sets them; ends with a new line."""
    lines = ["PolicyStatement {"]
    for rule in statement.rules:
        lines.append(f"  {show_head(rule)} {{")
        lines += [f"    {qualifier}" for qualifier in _qualifiers(rule)]
        lines += _chain(rule.clauses, "    ")
        if rule.on_exception:
            lines += ["    OnException {", *_chain(rule.on_exception, "      "), "    }"]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def show_compact(statement: ast.Statement) -> str:
    """Return a statement on one line, for travelling."""
    return f"PolicyStatement {{{' '.join(map(_compact_rule, statement.rules))}}}"


def show_head(rule: ast.StatementRule) -> str:
    """Return the head of a rule: `On(Forward, Publication)`."""
    return f"On({rule.verb}, {rule.message})"


def show_clause(clause: ast.StatementClause, word: str = "If") -> str:
    """Return a clause on one line."""
    return f"{word} {{{_condition(clause)}}} Then {{{', '.join(map(show_use, clause.actions))}}}"


def show_use(use: ast.ElementUse, new_line: str = r"\n") -> str:
    """Return an element with its arguments."""
    return f"{use.name}({', '.join(show_argument(argument, new_line) for argument in use.arguments)})"


def show_argument(argument: ast.Argument, new_line: str = r"\n") -> str:
    """Return an argument; a text stands bare if it can. `new_line` is how a line break in it is written."""
    if isinstance(argument, bool):
        return next(word for word, value in TRUTHS.items() if value is argument)
    if not isinstance(argument, str):
        return repr(argument)
    if BARE.fullmatch(argument) and argument not in NOT_BARE:
        return argument
    quote = "'" if '"' in argument and "'" not in argument else '"'
    shown = (new_line if character == "\n" else show_character(character, quote) for character in argument)
    return f"{quote}{''.join(shown)}{quote}"


def _compact_rule(rule: ast.StatementRule) -> str:
    parts = [*_qualifiers(rule), *map(show_clause, rule.clauses, _words(rule.clauses))]
    if rule.on_exception:
        parts.append(f"OnException {{{' '.join(map(show_clause, rule.on_exception, _words(rule.on_exception)))}}}")
    return f"{show_head(rule)} {{{' '.join(parts)}}}"


def qualifiers(rule: ast.StatementRule) -> dict[str, str]:
    """Return the qualifiers of a rule that are not the default."""
    shown = {}
    if rule.matching is not ast.Matching.AFTER:
        shown["matching"] = str(rule.matching)
    if rule.points != ast.ANYWHERE:
        shown["broker"] = ", ".join(rule.points)
    if rule.attach is not ast.Attach.NEVER:
        shown["attach"] = str(rule.attach)
    if rule.yields:
        shown["yield_attach"] = "True"
    return shown


def _qualifiers(rule: ast.StatementRule) -> list[str]:
    return [f"@{name}: {value}" for name, value in qualifiers(rule).items()]


def _words(clauses: tuple[ast.StatementClause, ...]) -> list[str]:
    return ["If", *["Elseif"] * (len(clauses) - 1)]


def _chain(clauses: tuple[ast.StatementClause, ...], indent: str) -> list[str]:
    return [
        line for word, clause in zip(_words(clauses), clauses, strict=True) for line in _lines(clause, word, indent)
    ]


def _lines(clause: ast.StatementClause, word: str, indent: str) -> list[str]:
    """Return a clause on as few lines as there is room for."""
    actions = [show_use(use, "\n") for use in clause.actions]
    joined = f"{word} {{{_condition(clause)}}} Then {{{', '.join(actions)}}}"
    if len(indent + joined) <= _WIDTH and "\n" not in joined:
        return [indent + joined]
    then = f"{indent}  Then {{"
    between = ", " if len(then + ", ".join(actions)) <= _WIDTH else ",\n" + " " * len(then)
    return [f"{indent}{word} {{{_condition(clause)}}}", f"{then}{between.join(actions)}}}"]


def _condition(clause: ast.StatementClause) -> str:
    return "" if clause.condition is None else show(clause.condition)
